"""The table of security probes at the proxy's routes. Each case is named after its probe."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.requests import Request

from memplane.auth.grants import Scope
from memplane.errors import SettingsError
from memplane.home import Home
from memplane.proxy import dns_resolver
from memplane.server import proxy_api
from memplane.server.proxy_api import _is_nearby
from memplane.server.request_auth import find_possible_tokens
from tests.proxy.proxied import Answered, Proxied, proxied
from tests.proxy.test_governed import (
    ASKED,
    CHAT,
    HIDDEN,
    KEY,
    SAID,
    SECRET,
    token_of,
    write_context,
    write_providers,
)
from tests.server.test_probes import HOSTS, case
from tests.support.answers import chat_events, chat_json, openai_error, streamed, whole
from tests.support.upstream import Answer, Upstream, running_upstream

BODY = json.dumps({"model": "openai/m", "messages": ASKED}).encode()


async def ask(door: Proxied, line: str, *headers: str, body: bytes = b"") -> bytes:
    """Send a request as it is written, and its host unless it names one; returns what comes."""
    host = f"Host: {door.address.removeprefix('http://')}"
    named = any(one.lower().lstrip("x-").startswith("host") for one in headers)
    length = [f"Content-Length: {len(body)}"] if body else []
    lines = [f"{line} HTTP/1.1", *([] if named else [host]), "Connection: close", *headers]
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(door))
    try:
        writer.write("\r\n".join([*lines, *length, "", ""]).encode("latin-1") + body)
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def port_of(door: Proxied) -> int:
    return int(door.address.rpartition(":")[2])


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# S1, nobody but the operator says who is asked

CHOOSING = ("base_url", "api_base", "baseURL", "endpoint", "custom_llm_provider", "proxies")
HEADERS = (
    "X-Portkey-Custom-Host",
    "X-Memplane-Custom-Host",
    "Helicone-Target-URL",
    "X-Base-Url",
    "Api-Base",
    "X-Forwarded-Host",
    "X-Forwarded-Server",
    "X-Original-Url",
    "X-Rewrite-Url",
    "Forwarded",
)


@pytest.mark.parametrize("governed", [False, True])
async def test_a_request_cannot_say_who_is_asked(tmp_path: Path, *, governed: bool) -> None:
    async with proxied(tmp_path) as door, running_upstream() as evil:
        write_providers(door.settings.home, door)
        own = await token_of(door, "bob", Scope.PROXY) if governed else {}
        agent = "bob" if governed else "ada"
        door.upstream.at(CHAT, chat_json(SAID))
        said = dict.fromkeys(CHOOSING, evil.address)
        body = {"model": "gpt-4o", "messages": ASKED, **said, "extra_body": said}
        headers = {**own, **dict.fromkeys(HEADERS, evil.address), "Forwarded": "host=evil"}
        query = "&".join(f"{name}={quote(evil.address)}" for name in CHOOSING)
        answered = await door.post(f"{CHAT}?{query}", body, agent=agent, headers=headers)
        assert answered.status == 200
        (received,) = door.upstream.received
        assert received.header("host") == door.upstream.address.removeprefix("http://")
        assert evil.connections == []


@pytest.mark.parametrize("model", ["http://evil.example/m", "//evil.example/m", "openai@evil/m"])
async def test_a_model_cannot_say_who_is_asked(model: str, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        own = await token_of(door, "ada", Scope.PROXY)
        body = {"model": model, "messages": ASKED}
        assert (await door.post(CHAT, body, agent="", headers=own)).status == 502
        assert door.upstream.connections == []


# S2, where nobody is asked

FORBIDDEN = [
    case("S2-metadata", "http://169.254.169.254/latest"),
    case("S2-mapped", "http://[::ffff:a9fe:a9fe]/v1"),
    case("S2-hex", "http://0x7f.1/v1"),
    case("S2-number", "http://2852039166/v1"),
    case("S2-file", "file:///etc/passwd"),
    case("S2-gopher", "gopher://127.0.0.1/"),
    case("S2-user", "https://user:hunter2@api.example.com/v1"),
    case("S2-crlf", "https://api.example.com/v1\r\nX: y"),
]


@pytest.mark.parametrize("address", FORBIDDEN)
async def test_it_does_not_start_with_a_forbidden_upstream(address: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        async with proxied(tmp_path, proxy__upstream_openai=address):
            pass
    assert "hunter2" not in str(caught.value)


async def test_listing_a_metadata_service_does_not_let_it_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = "169.254.169.254, api.example.com"
    metadata = "http://169.254.169.254/latest"
    with pytest.raises(SettingsError, match=r"never asked, also where proxy\.allowed_private"):
        async with proxied(
            tmp_path, proxy__upstream_openai=metadata, proxy__allowed_private=listed
        ):
            pass
    async with proxied(tmp_path, proxy__allowed_private=listed) as door:
        write_providers(door.settings.home, door, bad={"base_url": metadata, "api_key": KEY})
        own = await token_of(door, "bob", Scope.PROXY)
        body = {"model": "bad/m", "messages": ASKED}
        answered = await door.post(CHAT, body, agent="", headers=own)
        assert (answered.status, b"never asked" in answered.body) == (502, True)
    names(monkeypatch, "169.254.169.254")
    async with running_upstream() as upstream:
        answered = await named(tmp_path, upstream, proxy__allowed_private=listed)
        assert (answered.status, b"never asked" in answered.body) == (502, True)


@pytest.mark.parametrize("address", FORBIDDEN)
async def test_a_forbidden_provider_is_not_asked(address: str, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door, bad={"base_url": address, "api_key": KEY})
        own = await token_of(door, "ada", Scope.PROXY)
        body = {"model": "bad/m", "messages": ASKED}
        answered = await door.post(CHAT, body, agent="", headers=own)
        assert answered.status == 502
        assert b"hunter2" not in answered.body
        assert KEY.encode() not in answered.body


# S3, redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door, running_upstream() as evil:
        write_providers(door.settings.home, door)
        own = await token_of(door, "bob", Scope.PROXY)
        for target in (f"{evil.address}/x", "http://169.254.169.254/latest/meta-data", "/other"):
            for path in (CHAT, "/v1/embeddings"):
                door.upstream.at(path, whole(b"", status, {"Location": target}))
                for agent, headers in (("ada", {}), ("bob", own)):
                    body = {"model": "gpt-4o", "messages": ASKED}
                    answered = await door.post(path, body, agent=agent, headers=headers)
                    assert answered.status == 502
                    assert "location" not in answered.headers
        assert evil.connections == []
        assert door.upstream.asked("/other") == []
        assert await door.recorded() == []


# S4, names


def names(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Let api.example.com lead there, one after the other; returns what was looked up."""
    left, asked, resolve = list(addresses), list[str](), socket.getaddrinfo

    def answer(host: Any, port: Any, *args: Any, **more: Any) -> Sequence[Any]:
        if host != "api.example.com":
            return resolve(host, port, *args, **more)
        asked.append(host)
        address = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


async def named(folder: Path, upstream: Upstream, **settings: str) -> Answered:
    url = f"http://api.example.com:{upstream.port}"
    async with proxied(folder, proxy__upstream_openai=url, **settings) as door:
        return await door.chat("hello")


async def test_a_public_name_that_leads_here_is_not_asked_unless_it_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(monkeypatch, "127.0.0.1")
    async with running_upstream() as private:
        private.at(CHAT, chat_json(SAID))
        answered = await named(tmp_path, private)
        assert (answered.status, private.connections) == (502, [])
        assert b"private address" in answered.body
        listed = await named(tmp_path, private, proxy__allowed_private="api.example.com")
        assert listed.status == 200


async def test_an_address_is_asked_that_was_checked_whatever_the_name_means_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = names(monkeypatch, "127.0.0.1", "127.0.0.9")
    monkeypatch.setattr(
        dns_resolver, "is_allowed_address", lambda _host, found, _: found == "127.0.0.1"
    )
    async with running_upstream() as public:
        public.at(CHAT, chat_json(SAID))
        assert (await named(tmp_path, public)).status == 200
        assert (len(looked_up), len(public.received)) == (1, 1)
        # The next time it means something else.
        assert (await named(tmp_path, public)).status == 502
        assert len(public.received) == 1


# S5 and H, what is asked for, and of whom

FRAMINGS = [
    case("S5", ("Content-Length: 5", "Transfer-Encoding: chunked")),
    case("S5-other-order", ("Transfer-Encoding: chunked", "Content-Length: 5")),
    case("S5-twice", ("Content-Length: 5", "Content-Length: 6")),
    case("S5-hidden", ("Transfer-Encoding: xchunked",)),
]
ROUTES = ("/v1/chat/completions", "/agent/ada/v1/chat/completions", "/v1/files")


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_a_body_with_two_lengths_is_not_passed_on(
    framing: Sequence[str], tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        for route in ROUTES:
            assert status_of(await ask(door, f"POST {route}", *framing)) == 400
        assert door.upstream.connections == []


async def test_for_another_host_nothing_is_passed_on(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        own = f"Authorization: {(await token_of(door, 'bob', Scope.PROXY))['Authorization']}"
        hosts: list[Any] = list(HOSTS)
        for one in hosts:
            host = str(one.values[0]).format(port=port_of(door))
            for route in ROUTES:
                for who in (own, "Authorization: Bearer sk-own"):
                    answer = await ask(door, f"POST {route}", host, who, body=BODY)
                    assert status_of(answer) in {400, 421}, (one.id, route)
        assert door.upstream.connections == []


@pytest.mark.parametrize(
    "target",
    [
        case("H8", "http://evil.example/v1/models"),
        case("H8-own", "http://127.0.0.1:{port}/v1/models"),
        case("H8-authority", "evil.example:443"),
        case("encoded", "/%761/models"),
        case("encoded-slash", "/v1%2fmodels"),
        case("encoded-agent", "/agent/ada%2fv1%2fmodels"),
        case("other-agent", "/agent/ada%2fv1/v1/models"),
        case("upwards", "/v1/../admin"),
        case("upwards-encoded", "/v1/%2e%2e/admin"),
        case("upwards-twice", "/v1/x/%252e%252e/admin"),
        case("backslash", "/v1/..%5cadmin"),
        case("double-slash", "//evil.example/v1/models"),
        case("user", "/v1/@evil.example/models"),
    ],
)
async def test_a_path_leads_nowhere_else(target: str, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        answer = await ask(
            door, f"GET {target.format(port=port_of(door))}", "Authorization: Bearer sk-own"
        )
        assert status_of(answer) in {400, 401, 404}
        assert all(one.path == "/v1/@evil.example/models" for one in door.upstream.received)


async def test_an_agent_may_be_called_as_a_path_begins(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(SAID))
        assert (await door.chat("hello", agent="v1")).status == 200
        assert len(await door.recorded("v1")) == 1


@pytest.mark.parametrize(
    "origin", [case("O1", "https://evil.example"), case("O2", "null"), case("O2-empty", "")]
)
async def test_a_page_of_somebody_else_is_not_passed_on(origin: str, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        for line in ("POST /v1/chat/completions", "OPTIONS /agent/ada/v1/messages"):
            answer = await ask(door, line, f"Origin: {origin}", body=BODY)
            assert status_of(answer) == 403
            assert b"access-control" not in answer.lower()
        assert door.upstream.connections == []


# A, whose turn it is

WRONG = [
    case("A1-missing", ()),
    case("A1-wrong", ("Authorization: Bearer wrong",)),
    case("A1-empty", ("Authorization:",)),
    case("A1-bearer", ("Authorization: Bearer",)),
    case("A1-sql", ("Authorization: Bearer ada:' OR 1=1--",)),
    case("A1-non-ascii", ("Authorization: Bearer ada:\xe9\xff",)),
    case("A1-prefix", (f"Authorization: Bearer ada:{SECRET[:-1]}",)),
    case("A1-other", (f"Authorization: Bearer bob:{SECRET}",)),
    case("A1-upwards", (f"Authorization: Bearer ../ada:{SECRET}",)),
    case("A1-twice", (f"Authorization: Bearer ada:{SECRET}",) * 2),
    case("A1-basic", (f"Authorization: Basic ada:{SECRET}",)),
    case("A2", ()),
]


@pytest.mark.parametrize("shown", WRONG)
async def test_a_wrong_token_passes_nothing_on(shown: Sequence[str], tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        write_context(root)
        for line in (f"POST {CHAT}?token=ada:{SECRET}&key=ada:{SECRET}", "GET /v1/models"):
            answer = await ask(door, line, *shown, body=BODY)
            assert status_of(answer) in {401, 403}
            assert SECRET.encode() not in answer
        assert door.upstream.connections == []


async def test_a_thousand_wrong_tokens_do_not_keep_the_right_one_out(tmp_path: Path) -> None:
    root = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        own = write_context(root)
        door.upstream.at(CHAT, chat_json(SAID))
        statuses: list[int] = []
        for number in range(1000):
            wrong = {"Authorization": f"Bearer ada:{number}"}
            async with door.http.get(f"{door.address}/v1/models", headers=wrong) as reply:
                statuses.append(reply.status)
        assert statuses[:100] == [403] * 100
        assert set(statuses) == {403, 429}
        assert door.upstream.connections == []
        assert (await door.post(CHAT, BODY, agent="", headers=own)).status == 200


@pytest.mark.parametrize(
    ("client", "nearby"),
    [
        (("127.0.0.1", 1), True),
        (("127.8.8.8", 1), True),
        (("::1", 1), True),
        (None, True),
        (("10.0.0.7", 1), False),
        (("172.17.0.1", 1), False),
        (("169.254.1.1", 1), False),
        (("::ffff:10.0.0.7", 1), False),
        (("fe80::1", 1), False),
    ],
)
def test_only_who_is_on_this_machine_may_bring_a_key_of_his_own(
    client: tuple[str, int] | None,
    nearby: bool,  # noqa: FBT001
) -> None:
    scope = {"type": "http", "client": client, "headers": [(b"x-forwarded-for", b"127.0.0.1")]}
    assert _is_nearby(Request(scope)) is nearby


async def test_who_comes_from_elsewhere_is_not_passed_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_api, "_is_nearby", lambda _: False)
    async with proxied(tmp_path) as door:
        headers = {"Authorization": "Bearer sk-own"}
        for route in (CHAT, "/v1/models"):
            assert (await door.post(route, BODY, agent="bob", headers=headers)).status == 401
        assert door.upstream.connections == []


async def test_an_agent_with_a_token_is_never_passed_through(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        own = await token_of(door, "ada", Scope.PROXY)
        secret = own["Authorization"].removeprefix("Bearer ")
        for shown in ({}, {"Authorization": "Bearer sk-own"}, {"x-api-key": "sk-own"}):
            for route in (CHAT, "/v1/messages", "/v1/models", "/v1/files"):
                answered = await door.post(route, BODY, agent="ada", headers=shown)
                assert answered.status == 401
        # And what looks like a token of ours, and is none, does not go to a provider.
        for wrong in (secret[:-1], f"bob:{secret}"):
            headers = {"Authorization": f"Bearer {wrong}"}
            assert (await door.post(CHAT, BODY, agent="bob", headers=headers)).status == 401
        assert door.upstream.connections == []


@pytest.mark.parametrize(
    "shown",
    [
        case("beside-a-key", ("Authorization: Bearer sk-own", "x-api-key: {}")),
        case("twice", ("Authorization: Bearer {}", "Authorization: Bearer {}")),
        case("no-scheme", ("Authorization: {}",)),
        case("basic", ("Authorization: Basic {}",)),
        case("basic-beside", ("Authorization: Basic x", "x-api-key: {}")),
        case("azure", ("api-key: {}",)),
        case("google", ("x-goog-api-key: {}",)),
        case("quoted", ('Authorization: Bearer "{}"',)),
        case("listed", ("X-Keys: {}, sk-own",)),
        case("gateway", ("Helicone-Auth: Bearer {}",)),
        case("named", ("X-Auth: token:{}",)),
        case("address", ()),
    ],
)
async def test_a_token_that_is_shown_elsewhere_does_not_go_on_as_a_providers_key(
    shown: Sequence[str], tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        given = (await token_of(door, "ada", Scope.PROXY))["Authorization"]
        issued = given.removeprefix("Bearer ")
        admin = Home(door.settings.home).token().reveal()
        for token in (issued, admin):
            query = "" if shown else f"?beta=true&key={quote(token, safe='')}"
            for line in (f"POST /agent/bob{CHAT}{query}", f"POST /v1/files{query}"):
                answer = await ask(door, line, *(one.format(token) for one in shown), body=BODY)
                assert status_of(answer) == 401
                assert b"as Authorization: Bearer" in answer
        assert door.upstream.connections == []


@pytest.mark.parametrize(
    "form",
    [
        "POST /agent/bob/v1/files?{0}",
        "POST /agent/bob/v1/files?a=1;key={0}",
        "POST /agent/bob/v1/files?authorization=Bearer%20{0}",
        "GET /agent/bob/v1/models/{0}",
    ],
)
async def test_a_token_in_the_address_does_not_go_on(form: str, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        own = (await token_of(door, "bob", Scope.PROXY))["Authorization"]
        other = await token_of(door, "ada", Scope.READ)
        token = other["Authorization"].removeprefix("Bearer ")
        assert status_of(await ask(door, form.format(token), body=BODY)) == 401
        # Nor does another token go on with the operator's key, or the agent's own in the path.
        governed = await ask(door, form.format(token), f"Authorization: {own}", body=BODY)
        assert status_of(governed) == 401
        mine = f"GET /agent/bob/v1/models/{own.removeprefix('Bearer ')}"
        assert status_of(await ask(door, mine, f"Authorization: {own}")) == 401
        assert door.upstream.connections == []


def test_a_header_full_of_colons_is_not_looked_at_from_each_of_them() -> None:
    """Each word is hashed on the loop, so that all of them together must stay as long as it is."""
    scope = {"headers": [(b"x", b"a:" * 30_000)], "path": "/v1/files", "query_string": b""}
    assert sum(map(len, find_possible_tokens(scope))) < 3 * 60_000


async def test_a_token_as_a_password_in_an_address_does_not_go_on(tmp_path: Path) -> None:
    """So do clients whose base URL is http://ada:secret@127.0.0.1."""
    async with proxied(tmp_path) as door:
        given = await token_of(door, "ada", Scope.READ)
        encoded = base64.b64encode(given["Authorization"].removeprefix("Bearer ").encode())
        line = f"Authorization: Basic {encoded.decode()}"
        answer = await ask(door, f"POST /agent/bob{CHAT}", line, body=BODY)
        assert status_of(answer) == 401
        assert door.upstream.connections == []


# Secrets stay here


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings", "/v1/messages/count_tokens"])
@pytest.mark.parametrize("form", ["whole", "bare"])
async def test_an_agents_token_goes_to_no_provider_wherever_it_stands(
    path: str, form: str, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        own = await token_of(door, "ada", Scope.PROXY)
        token = own["Authorization"].removeprefix("Bearer ")
        shown = token if form == "whole" else token.partition(":")[2]
        door.upstream.at(path, chat_json(SAID))
        model = "claude-x" if "messages" in path else "gpt-4o"
        said = [{"role": "user", "content": f"My token is {shown}, is it?"}]
        query = f"beta=true&key={shown}&t={quote(shown, safe='')}&x={shown.replace(':', '%3a')}"
        answered = await door.post(
            f"{path}?{query}",
            {"model": model, "messages": said, "user": shown},
            agent="",
            headers={**own, "X-Trace": f"a {shown} b", "Cookie": f"t={shown}"},
        )
        assert answered.status == 200
        (received,) = door.upstream.received
        seen = received.head + received.body
        assert token.partition(":")[2].encode() not in seen
        assert received.target == f"{path}?beta=true"
        sent = received.json()["messages"]
        assert sent == [{"role": "user", "content": "My token is [redacted], is it?"}]


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings"])
async def test_an_agents_token_is_found_in_a_compressed_body_too(
    path: str, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        own = await token_of(door, "ada", Scope.PROXY)
        token = own["Authorization"].removeprefix("Bearer ")
        door.upstream.at(path, chat_json(SAID))
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": token}]}
        packed = gzip.compress(json.dumps(body).encode())
        headers = {**own, "Content-Encoding": "gzip"}
        assert (await door.post(path, packed, agent="", headers=headers)).status == 200
        (received,) = door.upstream.received
        assert received.header("content-encoding") is None
        assert received.json()["messages"] == [{"role": "user", "content": "[redacted]"}]


def split(text: bytes, at: int) -> Answer:
    head, *rest = streamed([text[:at], text[at:]], {"Content-Type": "application/json"})
    assert isinstance(head, bytes)
    return (head.replace(b"200 OK", b"401 Unauthorized"), *rest)


def shown_keys() -> list[tuple[str, Answer]]:
    told = f'{{"error":{{"message":"Incorrect API key: {KEY}, {KEY}."}}}}'.encode()
    inside = told.index(KEY.encode())
    long = b" " * (3 << 20) + told
    return [
        ("whole", openai_error(401, "auth", f"Incorrect API key: {KEY}, {KEY}.")),
        ("header", openai_error(403, "auth", "no", {"www-authenticate": f"Bearer {KEY}"})),
        ("long", whole(long, 500)),
        *((f"cut-{at}", split(told, inside + at)) for at in (0, 1, 9, len(KEY) - 1, len(KEY))),
    ]


@pytest.mark.parametrize("answer", [case(name, answer) for name, answer in shown_keys()])
async def test_our_key_is_in_no_error(answer: Answer, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        own = await token_of(door, "ada", Scope.PROXY)
        for path in (CHAT, "/v1/embeddings"):
            door.upstream.at(path, answer)
            answered = await door.post(path, BODY, agent="", headers=own)
            assert answered.status >= 400
            assert KEY not in str(answered.headers)
            # Nothing else is lost.
            sent = b"".join(step for step in answer if isinstance(step, bytes))
            body = sent.partition(b"\r\n\r\n")[2]
            if b"chunked" not in sent:
                assert answered.body == masked(body)
            else:
                message = json.loads(answered.body)["error"]["message"]
                assert message == f"Incorrect API key: {HIDDEN}, {HIDDEN}."
        assert KEY not in door.told.read_text()


@pytest.mark.parametrize("at", [0, 1, 9, len(KEY) - 1, len(KEY)])
async def test_our_key_is_in_no_stream(at: int, tmp_path: Path) -> None:
    """A provider may fail after it began, and say with which key."""
    failed = f'data: {{"error":{{"message":"Incorrect API key: {KEY}."}}}}\n\n'.encode()
    cut_at = failed.index(KEY.encode()) + at
    events = [*chat_events(SAID)[:2], failed[:cut_at], failed[cut_at:]]
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        own = await token_of(door, "ada", Scope.PROXY)
        door.upstream.at(CHAT, streamed(events))
        asked = {"model": "openai/m", "messages": ASKED, "stream": True}
        answered = await door.post(CHAT, asked, agent="", headers=own)
        sent = b"".join(events)
        assert (answered.status, answered.body) == (200, masked(sent))
        assert len(answered.body) == len(sent)
        (entry,) = await door.recorded()
        assert KEY not in json.dumps(entry)


async def test_our_key_is_in_no_whole_answer_and_its_length_holds(tmp_path: Path) -> None:
    body = json.dumps({"data": [], "note": f"asked with {KEY}"}).encode()
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        own = await token_of(door, "ada", Scope.PROXY)
        door.upstream.at("/v1/embeddings", whole(body, headers={"X-Key": KEY}))
        answered = await door.post("/v1/embeddings", BODY, agent="", headers=own)
        assert (answered.status, answered.body) == (200, masked(body))
        assert answered.headers["content-length"] == str(len(body))
        assert answered.headers["x-key"] == HIDDEN


def masked(text: bytes) -> bytes:
    return text.replace(KEY.encode(), HIDDEN.encode())


@pytest.mark.parametrize(
    ("encoding", "body", "expected"),
    [
        ("gzip", gzip.compress(KEY.encode(), mtime=0), HIDDEN.encode()),
        ("odd", KEY.encode(), None),
        ("gzip", gzip.compress(KEY.encode() * (1 << 17), mtime=0), None),
    ],
    ids=["gzip", "an unknown encoding", "very long"],
)
async def test_our_key_is_in_no_compressed_error(
    encoding: str, body: bytes, expected: bytes | None, tmp_path: Path
) -> None:
    """Nobody asked for a compressed one, and it may come all the same."""
    async with proxied(tmp_path) as door:
        write_providers(door.settings.home, door)
        own = await token_of(door, "ada", Scope.PROXY)
        door.upstream.at(CHAT, whole(body, 401, {"Content-Encoding": encoding}))
        answered = await door.post(CHAT, BODY, agent="", headers=own)
        assert (answered.status, answered.headers.get("content-encoding")) == (401, None)
        if expected is None:
            assert "cannot be read" in json.loads(answered.body)["error"]["message"]
        else:
            assert answered.body == expected
