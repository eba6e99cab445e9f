"""A proxy before the storage emulator that gives wrong answers, or none, as a test tells it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from tests.support.azurite import Azurite
from tests.support.stub import azure, refusal

_NOT_PASSED_ON = {"host", "connection", "transfer-encoding", "content-length", "content-encoding"}
_NOT_SIGNED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that must not be added: the sender signed the request without them."""
_BLOB = re.compile(rb"<Blob>.*?</Blob>", re.DOTALL)


@dataclass(slots=True)
class BlobProxy:
    """Passes requests on while `trouble` is empty; `azurite` is its own address."""

    azurite: Azurite
    upstream: Azurite
    session: aiohttp.ClientSession
    trouble: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.trouble in _ANSWERS:
            return _ANSWERS[self.trouble]()
        if self.trouble == "answers lost":
            await self._passed_on(request)
        if self.trouble in {"unreachable", "answers lost"}:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()  # it goes nowhere
        listing = request.query.get("comp") == "list"
        if listing and self.trouble in _LISTINGS:
            return await self._listing(request)
        return await self._passed_on(request)

    async def _passed_on(self, request: web.Request) -> web.Response:
        url = URL(f"http://127.0.0.1:{self.upstream.port}{request.raw_path}", encoded=True)
        headers = _without(request.headers)
        body = await request.read()
        async with self.session.request(
            request.method,
            url,
            headers=headers,
            data=body or None,
            allow_redirects=False,
            skip_auto_headers=_NOT_SIGNED,
        ) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), headers=_without(answer.headers)
            )

    async def _listing(self, request: web.Request) -> web.Response:
        answer = await self._passed_on(request)
        assert isinstance(answer.body, bytes)
        return web.Response(
            status=200, body=_LISTINGS[self.trouble](answer.body), headers=_without(answer.headers)
        )


def _without(headers: Mapping[str, str]) -> CIMultiDict[str]:
    kept = CIMultiDict(headers)
    for name in _NOT_PASSED_ON:
        kept.popall(name, None)
    return kept


def _emptied(body: bytes) -> bytes:
    return _BLOB.sub(b"", body)


def _halved(body: bytes) -> bytes:
    blobs = _BLOB.findall(body)
    for blob in blobs[len(blobs) // 2 :]:
        body = body.replace(blob, b"")
    return body


def _cut(body: bytes) -> bytes:
    return body[: len(body) // 2]


_LISTINGS: dict[str, Callable[[bytes], bytes]] = {
    "empty listing": _emptied,
    "half a listing": _halved,
    "listing cut short": _cut,
}
_ANSWERS: dict[str, Callable[[], web.StreamResponse]] = {
    "401": lambda: refusal(401, "InvalidAuthenticationInfo"),
    "403": lambda: refusal(403, "AuthorizationPermissionMismatch"),
    "404": lambda: refusal(404, "BlobNotFound"),
    "container missing": lambda: refusal(404, "ContainerNotFound"),
    "500": lambda: azure(500, "oops"),
    "captive portal": lambda: web.Response(text="<html>log in</html>", content_type="text/html"),
}


@asynccontextmanager
async def running_blob_proxy(upstream: Azurite) -> AsyncIterator[BlobProxy]:
    """Run one on a free port, over plain HTTP."""
    app = web.Application(client_max_size=64 * 2**20)
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        proxy = BlobProxy(upstream, upstream, session)
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        proxy.azurite = replace(upstream, port=runner.addresses[0][1])
        try:
            yield proxy
        finally:
            await runner.cleanup()
