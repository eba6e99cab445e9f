"""A server that answers as a test tells it, over TLS, and remembers what it was asked."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.support.azurite import Certificate

Answer = web.StreamResponse | Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Asked:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Stub:
    """Gives the answers in turn, and the last one for ever."""

    answers: list[Answer] = field(default_factory=list[Answer])
    asked: list[Asked] = field(default_factory=list[Asked])
    endpoint: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append(
            Asked(
                request.method,
                request.raw_path,
                request.query_string,
                headers,
                await request.read(),
            )
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, web.StreamResponse):
            return _fresh(answer)
        return await answer(request)


def _fresh(answer: web.StreamResponse) -> web.StreamResponse:
    assert isinstance(answer, web.Response)
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


def azure(status: int, body: str = "", **headers: str) -> web.Response:
    """An answer that is recognisably Azure's; header names are given with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(status=status, text=body, headers={"x-ms-request-id": "1", **named})


def refusal(status: int, code: str) -> web.Response:
    """An error of Azure's, with its code in header and body."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"
    return azure(status, body, x_ms_error_code=code, Content_Type="application/xml")


@asynccontextmanager
async def running_stub(certificate: Certificate) -> AsyncIterator[Stub]:
    stub = Stub()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.chain, certificate.key)
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_route("*", "/{path:.*}", stub.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    stub.endpoint = f"https://127.0.0.1:{port}"
    try:
        yield stub
    finally:
        await runner.cleanup()
