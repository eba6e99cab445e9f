"""A browser without scripts: it signs in, reads pages and sends forms."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

from tests.server.door import Reply, bearer, post_json
from tests.support.running import Running

FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at a browser."""

    running: Running
    cookie: str = ""
    csrf: str = ""

    def ask(
        self, line: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        method, _, path = line.partition(" ")
        given = {"Cookie": f"memplane_session={self.cookie}"} if self.cookie else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=60)
        try:
            connection.request(method, path, body, {**given, **(headers or {})})
            reply = connection.getresponse()
            told = {name.lower(): value for name, value in reply.getheaders()}
            content = reply.read()
            return Reply(reply.status, told, content, content.decode("utf-8", "replace"))
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(f"GET {path}", headers=given)

    def page(self, path: str) -> str:
        """Read a page that is there."""
        reply = self.get(path)
        assert reply.status == 200, (path, reply.status, reply.text[:500])
        return reply.text

    def send(
        self, path: str, headers: Mapping[str, str] | None = None, /, **fields: str | Iterable[str]
    ) -> Reply:
        """Send a form out of one of this browser's pages."""
        body = urlencode({"csrf": self.csrf, **fields}, doseq=True).encode()
        return self.ask(f"POST {path}", body, {"Content-Type": FORM, **(headers or {})})

    def follow(self, reply: Reply) -> str:
        """Go where a form leads."""
        assert reply.status == 303, (reply.status, reply.text[:2000])
        return self.page(reply.headers["location"])


def signed_in(running: Running) -> Person:
    made = post_json(running, "/api/v1/dashboard/codes", b"", bearer(running))
    assert made.status == 201, made.text
    let_in = Person(running).send("/login", code=made.json()["code"])
    assert let_in.status == 303
    cookie = re.search(r"memplane_session=([^;]+)", let_in.headers["set-cookie"])
    assert cookie is not None
    person = Person(running, cookie[1])
    csrf = re.search(r'name="csrf" value="([^"]+)"', person.page("/memories"))
    assert csrf is not None
    return Person(running, cookie[1], csrf[1])


@dataclass(slots=True)
class Parsed(HTMLParser):
    """A page as a browser reads it: its elements, and the words between them."""

    elements: list[tuple[str, dict[str, str]]] = field(
        default_factory=list[tuple[str, dict[str, str]]]
    )
    words: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def parsed(page: str) -> Parsed:
    found = Parsed()
    found.feed(page)
    return found
