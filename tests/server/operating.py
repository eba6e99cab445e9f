"""A client of operational memory: whole requests to a real process."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tests.server.door import Reply, post_json
from tests.support.running import Running

_AGENTS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Api:
    """Asks below `/api/v1`."""

    running: Running
    token: str
    agent: str = ""

    def ask(
        self,
        line: str,
        body: object = None,
        *,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
        **query: Any,
    ) -> Reply:
        method, _, path = line.partition(" ")
        sent = raw if raw is not None else json.dumps(body).encode() if body is not None else None
        given = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        if sent is not None:
            given.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=60)
        try:
            connection.request(method, _address(path, query), sent, given)
            reply = connection.getresponse()
            told = {name.lower(): value for name, value in reply.getheaders()}
            return Reply(reply.status, told, reply.read())
        finally:
            connection.close()

    def get(self, path: str, **query: Any) -> Any:
        """Ask for something that is there."""
        reply = self.ask(f"GET {path}", **query)
        assert reply.status == 200, reply.body
        return reply.json()

    def post(self, path: str, body: object = None, **query: Any) -> Any:
        """Do something that works."""
        reply = self.ask(f"POST {path}", body, **query)
        assert reply.status in {200, 201}, reply.body
        return reply.json()

    def add(self, observation: str, **more: object) -> Any:
        """Write a memory down."""
        return self.post("/memories", {"category": "behavior", "observation": observation, **more})

    def say(self, *said: str, agent: str = "", **more: object) -> Any:
        """Let a session of its own say something, and return what became of it."""
        named = {"agent": agent} if agent else {}
        begun = self.post("/sessions", {"tier": 2, "tell": False, **more}, **named)
        texts = [{"text": one} for one in said]
        return self.post(f"/sessions/{begun['session']}/heard", {"texts": texts}, **named)

    @contextmanager
    def watching(self, last: str | None = None, **query: Any) -> Iterator[Stream]:
        """Open the stream of events; what is asked after this has begun is told."""
        connection = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=60)
        given = {"Authorization": f"Bearer {self.token}"}
        if last is not None:
            given["Last-Event-ID"] = last
        try:
            connection.request("GET", _address("/events", query), headers=given)
            reply = connection.getresponse()
            assert reply.status == 200, reply.read()
            yield Stream(reply)
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Stream:
    reply: http.client.HTTPResponse

    def block(self) -> dict[str, str]:
        """Wait for the next block of lines, and return its fields; nothing at the end."""
        fields: dict[str, str] = {}
        while line := self.reply.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        return fields

    def event(self) -> Any:
        """Wait for the next event."""
        while "data" not in (block := self.block()):
            assert block, "the stream has ended"
        data = json.loads(block["data"])
        assert block["id"] == str(data["seq"])
        return data


def _address(path: str, query: dict[str, Any]) -> str:
    given = f"?{urlencode(query, doseq=True)}" if query else ""
    return f"/api/v1{path}{given}"


def admin(running: Running) -> Api:
    return Api(running, running.token)


def new_agent(running: Running, *scopes: str) -> Api:
    """A token for an agent that nobody has heard of yet."""
    agent = f"agent-{next(_AGENTS)}"
    return Api(running, token_for(running, agent, *scopes), agent)


def token_for(running: Running, agent: str, *scopes: str) -> str:
    wanted = {"agent": agent, "scopes": scopes or ("read", "write"), "name": f"{agent}'s"}
    made = post_json(running, "/api/v1/tokens", wanted)
    assert made.status == 201, made.text
    return str(made.json()["token"])
