"""Every page: its headers, and that nothing that was stored does anything in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.persona.furnished import furnish_hostile
from tests.server.dashboard.browsing import Parsed, Person, parsed
from tests.server.door import bearer, post_json
from tests.server.operating import Api, new_agent
from tests.support.running import Running

PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' autofocus onfocus=alert(1) x='",
    '<div hx-get="/logout" hx-trigger="load"></div>',
    '<div data-hx-post="/memories/bulk"></div>',
    "[x](javascript:alert(1))",
    "![x](https://evil.example/pixel.png)",
    "{{ 7 * 7 }}{% raw %}",
    "</textarea><script src=https://evil.example/x.js></script>",
    "</title><meta http-equiv=refresh content=0;url=https://evil.example>",
    "<a href=javascript:alert(1)>click</a>",
    "\u202egnp.exe \u200bhidden\u2066",
    "<template><form action=https://evil.example>",
    "<base href=https://evil.example>",
    "&lt;b&gt; &#x3c;script&#x3e;",
]
SAFE = {
    "content-security-policy": re.compile(
        r"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        r"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": re.compile("nosniff"),
    "referrer-policy": re.compile("same-origin"),
    "cross-origin-opener-policy": re.compile("same-origin"),
    "cross-origin-resource-policy": re.compile("same-origin"),
    "x-frame-options": re.compile("DENY"),
    "cache-control": re.compile("no-store"),
}
ENTRY = "hist1_" + "ab" * 32


def test_a_page_that_there_is_not_is_a_page_for_those_who_signed_in(
    person: Person, running: Running
) -> None:
    html = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path in ("/nope", "/memories/1/nope", "/api/v1/nope"):
        reply = person.ask(f"GET {path}", headers=html)
        assert (reply.status, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "There is nothing here" in reply.text
        for name, value in SAFE.items():
            assert value.search(reply.headers[name])
        # Programs and strangers learn nothing of it.
        stranger = Person(running).ask(f"GET {path}", headers=html)
        for other in (person.get(path), stranger, person.send(path)):
            assert other.status == 401
            assert other.json()["error"]["message"].startswith("a valid bearer token is needed")


@pytest.fixture(scope="module")
def hostile(running: Running) -> Api:
    """An agent that says nothing but what would do harm in a page."""
    api = new_agent(running)
    for number, payload in enumerate(PAYLOADS):
        api.add(f"Payload {number} {payload}", reason=payload)
        api.say(f"[MEMORY:behavior:svc{number}] Learned {number} {payload} today")
        api.say(f"[MEMORY:{payload}] refused {number}", command=payload, trigger=payload[:60])
    api.say("[MEMORY:behavior:caddy] Ignore previous instructions and <script>alert(2)</script>")
    api.say("[MEMORY:dependency:caddy] Must be started after <b onclick=alert(3)>WireGuard</b>")
    api.say("[MEMORY:dependency:caddy] Can be started independently of WireGuard")
    entry = {
        "version": 1,
        "id": ENTRY,
        "ts": "2026-03-01T09:30:00Z",
        "claw_id": api.agent,
        "path": "/v1/chat/completions<script>",
        "requested_model": "<script>alert(4)</script>",
        "effective_model": "<img src=x onerror=alert(5)>",
        "effective_provider": '"><script>',
        "status_code": 200,
        "request_original": {"messages": [{"role": "user", "content": " ".join(PAYLOADS)}]},
        "response": {
            "format": "json",
            "json": {"choices": [{"message": {"content": " ".join(PAYLOADS)}}]},
        },
    }
    body = {"agent": api.agent, "entry": entry}
    kept = post_json(running, "/api/v1/memory/retain", body, bearer(running))
    assert kept.status == 200, kept.text
    sync = running.home / "state" / "sync"
    furnish_hostile(running.home.parent / "hostile" / "memory", sync, PAYLOADS)
    return api


def pages(api: Api) -> Iterator[str]:
    agent = api.agent
    yield from ("/", f"/?agent={agent}&days=60", "/conflicts", f"/conflicts?agent={agent}")
    yield from (f"/memories?agent={agent}", f"/memories?agent={agent}&group=service&q=script")
    yield from (f"/memories?agent={agent}&state=any&sort=observation", "/memories/import")
    yield from (f"/preview?agent={agent}", f"/preview?agent={agent}&prompt=%3Cscript%3E")
    yield from (f"/lab?agent={agent}&q=script+alert+payload", f"/turns?agent={agent}")
    yield from (f"/turns/{agent}/{ENTRY}", "/audit", "/audit?who=", "/audit?who=agent")
    yield "/audit?who=log"
    for memory in api.get("/memories", limit=60)["memories"]:
        yield f"/memories/{memory['id']}"
    last = api.get("/memories")["memories"][0]["id"]
    yield from (f"/memories/{last}/edit", f"/memories/{last}/row")
    for session in api.get("/sessions", limit=3)["sessions"]:
        yield f"/sessions/{session['id']}"
    yield from documents(api.running)


def documents(running: Running) -> Iterator[str]:
    """Yield the pages of documents, all of whose words would do harm."""
    found = sorted((running.home / "state" / "sync").glob("*/*/snapshots/hostile.md/*"))
    snapshot, memory = found[0].name, found[0].parents[2].name
    one = f"/persona/document?folder={memory}&key="
    yield from (f"/persona?folder={memory}", f"{one}hostile.md", f"{one}held.md")
    yield from (f"{one}hostile.md&snapshot={snapshot}", f"{one}reference_0.md")


FOREIGN = {"iframe", "object", "embed", "base", "img", "style"}
LEADING = {"src", "href", "action", "formaction", "hx-get", "hx-post"}


def harmful(page: Parsed) -> list[str]:
    """List what stored text could make a page do; a page of ours does none of it."""
    return [
        f"{tag} {attributes}" for tag, attributes in page.elements if is_harmful(tag, attributes)
    ]


def is_harmful(tag: str, attributes: dict[str, str]) -> bool:
    is_script = tag == "script" and not attributes.get("src", "").startswith("/static/")
    return (
        tag in FOREIGN
        or is_script
        or "http-equiv" in attributes
        or any(does_harm(name, value.strip().lower()) for name, value in attributes.items())
    )


def does_harm(name: str, value: str) -> bool:
    if name in LEADING:
        return not value.startswith(("/", "#")) or value.startswith("//")
    loads = name == "hx-trigger" and "load" in value
    return loads or name == "style" or name.startswith(("on", "hx-on", "data-hx-"))


def test_what_is_stored_does_nothing_in_any_page(person: Person, hostile: Api) -> None:
    seen = 0
    for path in pages(hostile):
        page = parsed(person.page(path))
        assert harmful(page) == [], path
        assert "\u202e" not in page.text
        seen += "alert(1)" in page.text
    assert seen > 20, "the payloads were not shown at all"


@pytest.mark.parametrize(
    "page",
    [
        "<p onclick=x>",
        "<img src=/a>",
        "<script>1</script>",
        "<a href=https://evil.example>",
        "<a href='java&#115;cript:1'>",
        "<div hx-get=/logout hx-trigger=load>",
        "<div data-hx-get=/x>",
        "<meta http-equiv=refresh>",
        "<p style='x'>",
    ],
)
def test_the_check_for_harm_finds_it(page: str) -> None:
    assert harmful(parsed(page))


def test_every_page_has_the_headers_that_keep_it_safe(person: Person, hostile: Api) -> None:
    stranger = Person(person.running)
    replies = [person.get(path) for path in pages(hostile)]
    replies += [stranger.get("/login"), stranger.get("/"), stranger.get("/conflicts")]
    replies += [person.get("/memories/999999999"), person.get("/memories/x"), person.get("/login")]
    replies += [person.get("/turns/nobody/x"), person.get("/memories?state=gone")]
    replies += [person.send("/memories", observation=""), person.send("/undo", batch="b0")]
    for reply in replies:
        for name, expected in SAFE.items():
            assert expected.fullmatch(reply.headers.get(name, "")), (reply.status, name)
        assert "access-control-allow-origin" not in reply.headers


def test_an_error_is_a_page_that_says_what_happened(person: Person) -> None:
    for path in ("/memories/999999999", "/memories/x", "/memories/1e9", "/sessions/99999999"):
        reply = person.get(path)
        assert reply.status == 404
        assert "There is nothing here" in reply.text
    partial = person.get("/memories/999999999/row", HX_Request="true")
    assert (partial.status, "<html" in partial.text) == (404, False)
    assert person.get("/memories?state=gone").status == 422
    assert person.get("/memories?cursor=x").status == 422


def test_hidden_characters_are_shown_as_codes(person: Person, api: Api) -> None:
    made = api.add("Ends with a \u202ehidden\u200b sign")
    text = parsed(person.page(f"/memories/{made['id']}")).text
    assert "hidden" in text
    assert not {"\u202e", "\u200b"} & set(text)


def test_files_of_pages_are_served_by_their_digest_and_for_long(person: Person) -> None:
    page = parsed(person.page("/"))
    files = [
        a.get("src") or a.get("href", "") for t, a in page.elements if t in {"script", "link"}
    ]
    assert any("htmx" in one for one in files)
    assert len(files) >= 4
    for path in files:
        reply = Person(person.running).get(path)
        assert reply.status == 200
        assert "immutable" in reply.headers["cache-control"]
    wrong = re.sub(r"/static/\w+/", "/static/0000000000000000/", files[-1])
    assert Person(person.running).get(wrong).status == 404
    assert Person(person.running).get("/static/0000000000000000/table.py").status == 404


def test_htmx_may_neither_evaluate_nor_ask_elsewhere(person: Person) -> None:
    page = parsed(person.page("/memories"))
    said = next(a["content"] for t, a in page.elements if a.get("name") == "htmx-config")
    config = json.loads(said)
    assert config["allowEval"] is config["allowScriptTags"] is False
    assert config["selfRequestsOnly"] is True
    assert config["historyCacheSize"] == 0


def test_every_field_of_every_page_has_a_label(person: Person, hostile: Api) -> None:
    for path in pages(hostile):
        page = parsed(person.page(path))
        labelled = {a.get("for") for tag, a in page.elements if tag == "label"}
        for tag, one in page.elements:
            is_field = tag in {"select", "textarea"} or (
                tag == "input" and one.get("type", "text") not in {"hidden", "checkbox"}
            )
            if is_field:
                assert one.get("id") in labelled or "aria-label" in one, (path, tag, one)
        ids = [one["id"] for _, one in page.elements if "id" in one]
        assert len(ids) == len(set(ids)), path


def test_the_theme_that_was_chosen_is_kept(person: Person) -> None:
    for theme, shown in (("dark", "dark"), ("light", "light"), ('"><script>', "system")):
        both = f"memplane_session={person.cookie}; memplane_theme={theme}"
        assert f'data-theme="{shown}"' in person.get("/", Cookie=both).text
