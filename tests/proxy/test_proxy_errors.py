"""Errors that the proxy answers have the form that `/openapi.json` says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema_rs import validator_for
from yarl import URL

from memplane.auth.grants import Scope, TokenRequest
from memplane.server.protocol import StrictProtocol
from memplane.service.client import local_client
from memplane.service.operations.tokens import issue_token
from tests.proxy.proxied import Proxied, proxied
from tests.support.answers import Said, chat_stream
from tests.support.upstream import End

CHAT: Final = "/v1/chat/completions"


async def described_error(proxy: Proxied) -> Any:
    token = (proxy.settings.home / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    async with proxy.http.get(f"{proxy.address}/openapi.json", headers=headers) as reply:
        document = await reply.json()
    operation = document["paths"]["/agent/{agent}/v1/{rest}"]["post"]
    schema = operation["responses"]["default"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/Error"}
    return document["components"]["schemas"]["Error"]


async def test_every_error_of_the_proxy_has_the_form_that_is_described(tmp_path: Path) -> None:
    async with proxied(tmp_path) as proxy:
        schema = await described_error(proxy)
        token = (proxy.settings.home / "token").read_text().strip()
        ours = {"Authorization": f"Bearer {token}"}
        upgrade = {"Connection": "upgrade", "Upgrade": "websocket"}
        asked: list[tuple[str, str, dict[str, str]]] = [
            ("POST", "/agent/ada/v1/chat/completions", ours),
            ("POST", "/agent/ada/v1/files", ours),
            ("POST", "/agent/ada/v1/v1/messages", proxy.headers),
            ("POST", "/chat/completions", {}),
            ("POST", "/agent/%61da/v1/messages", proxy.headers),
            ("GET", "/agent/ada/v1/models", {**proxy.headers, **upgrade}),
            ("GET", "/agent/ada/v1/models", {**proxy.headers, "api-key": token}),
        ]
        seen = set[int]()
        for method, path, headers in asked:
            url = URL(proxy.address + path, encoded=True)
            data = b"{}" if method == "POST" else None
            async with proxy.http.request(method, url, headers=headers, data=data) as reply:
                assert reply.status >= 400, path
                body = await reply.read()
                assert body.startswith(b"{"), (path, reply.status, body)
                validator_for(schema).validate(json.loads(body))
                seen.add(reply.status)
        assert len(seen) >= 3


async def test_a_provider_that_cannot_be_reached_is_an_error_of_the_form_that_is_described(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path, proxy__upstream_openai="http://127.0.0.1:1") as proxy:
        schema = await described_error(proxy)
        reply = await proxy.chat("Is anybody there?")
        assert reply.status == 502
        body = json.loads(reply.body)
        validator_for(schema).validate(body)
        assert body["error"]["code"] == "bad_gateway"


async def raw_answer(proxy: Proxied, sent: bytes) -> tuple[int, Any]:
    """Send bytes as they are, and read the answer until the connection is closed."""
    where = URL(proxy.address)
    reader, writer = await asyncio.open_connection(where.host, where.port)
    writer.write(sent.replace(b"HOST", where.authority.encode()))
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), json.loads(body)


async def test_errors_of_every_layer_have_the_form_that_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the connection on, which knows no path yet, to a provider that falls silent."""
    monkeypatch.setattr(StrictProtocol, "BODY_TIMEOUT_S", 0.1)
    head = b"POST /agent/ada/v1/chat/completions HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n"
    raw = {
        b"nonsense\r\n\r\n": 400,
        head + b"X: " + b"x" * 70_000 + b"\r\n\r\n": 431,
        head + b"Content-Length: 9\r\n\r\n{": 408,
        head + b"Content-Length: 999999999\r\n\r\n": 413,
        head.replace(b"HOST", b"evil.example") + b"\r\n": 421,
        head + b"Origin: https://evil.example\r\n\r\n": 403,
    }
    async with proxied(tmp_path, proxy__first_byte_timeout_ms="200") as proxy:
        schema = validator_for(await described_error(proxy))
        for sent, status in raw.items():
            answered, error = await raw_answer(proxy, sent)
            assert answered == status
            schema.validate(error)

        wanted = TokenRequest(agent="bob", scopes=(Scope.PROXY,))
        token = (await local_client(proxy.services).call(issue_token, wanted)).token
        governed = {"Authorization": f"Bearer {token}"}
        proxy.upstream.at(CHAT, [End.STALL])
        asked: list[tuple[str, str, dict[str, str], bytes, int]] = [
            ("ada", CHAT, proxy.headers, b"{}", 504),
            ("bob", CHAT, proxy.headers, b"{}", 401),
            ("bob", CHAT, {"Authorization": "Bearer bob:wrong"}, b"{}", 401),
            ("bob", CHAT, governed, b"no JSON", 400),
            ("bob", CHAT, governed, b'{"model":"nobody/m"}', 502),
            ("bob", "/v1/files", governed, b"{}", 403),
            ("bob", "/v1//messages", governed, b"{}", 400),
        ]
        for agent, path, headers, body, status in asked:
            answer = await proxy.post(path, body, agent=agent, headers=headers)
            assert answer.status == status, (path, answer.body)
            schema.validate(json.loads(answer.body))


async def test_an_error_inside_a_stream_has_the_form_that_is_described(tmp_path: Path) -> None:
    async with proxied(tmp_path, proxy__idle_timeout_ms="200") as proxy:
        schema = validator_for(await described_error(proxy))
        proxy.upstream.at(CHAT, [*chat_stream(Said("Peanuts."))[:3], End.STALL])
        url = f"{proxy.address}/agent/ada{CHAT}"
        said = b'{"model":"m","stream":true,"messages":[]}'
        came = b""
        async with proxy.http.post(url, data=said, headers=proxy.headers) as reply:
            while b"event: error" not in came or not came.endswith(b"\n\n"):
                came += await reply.content.readany()
        error = json.loads(came.rpartition(b"event: error\ndata: ")[2])
        schema.validate(error)
        assert error["error"]["code"] == "gateway_timeout"
