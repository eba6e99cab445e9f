"""The way back to whoever asked: an answer as it comes, a refusal, a failure."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from memplane.errors import UpstreamError, UpstreamStalled
from memplane.proxy.headers import Headers, response_headers
from memplane.proxy.routing import Refused
from memplane.proxy.upstream import Answer
from memplane.secret import Secret

_MOST_SCRUBBED: Final = 1 << 20


class Client(Protocol):
    """Whoever asked. An answer that was begun and not ended is cut off."""

    begun: bool

    async def begin(self, status: int, headers: Headers) -> None:
        """Send the head of the answer."""
        ...

    async def send(self, data: bytes) -> None:
        """Send a piece of it."""
        ...

    async def end(self) -> None:
        """Say that it is whole."""
        ...


async def refuse(client: Client, why: Refused) -> None:
    """Refuse as providers do, so that their clients show the reason."""
    error = {"type": "error", "error": {"type": "memplane", "message": why.text}}
    body = msgspec.json.encode(error)
    length = str(len(body)).encode()
    await client.begin(
        why.status, [(b"content-type", b"application/json"), (b"content-length", length)]
    )
    await client.send(body)
    await client.end()


async def pass_answer(answer: Answer, client: Client) -> None:
    """Pass an answer on as it comes; our own key, should an error show it, is taken out."""
    key = answer.candidate.key
    if key is not None and answer.status >= HTTPStatus.BAD_REQUEST:
        await _pass_scrubbed(answer, client, key)
        return
    await client.begin(answer.status, response_headers(answer.headers))
    async for chunk in answer.chunks():
        await client.send(chunk)
    await client.end()


async def _pass_scrubbed(answer: Answer, client: Client, key: Secret) -> None:
    body = bytearray()
    async for chunk in answer.chunks():
        if len(body) < _MOST_SCRUBBED:
            body += chunk
    scrubbed = bytes(body).replace(key.reveal().encode(), b"[redacted]")
    await client.begin(answer.status, response_headers(answer.headers, unchanged=False))
    await client.send(scrubbed)
    await client.end()


async def tell_failure(client: Client, error: UpstreamError) -> None:
    """Tell a client that its provider failed; an answer that was begun stays cut."""
    if not client.begun:
        late = isinstance(error, UpstreamStalled)
        status = HTTPStatus.GATEWAY_TIMEOUT if late else HTTPStatus.BAD_GATEWAY
        await refuse(client, Refused(status, str(error)))
    elif isinstance(error, UpstreamStalled):
        said = msgspec.json.encode({"type": "error", "error": {"message": str(error)}})
        await client.send(b"event: error\ndata: " + said + b"\n\n")
