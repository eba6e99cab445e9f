"""The way back to whoever asked: an answer as it comes, a refusal, a failure."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from memplane.errors import InvalidRequest, UpstreamError, UpstreamStalled
from memplane.proxy.encodings import undone
from memplane.proxy.headers import Headers, response_headers, value_of
from memplane.proxy.hiding import Hiding
from memplane.proxy.routing import Refused
from memplane.proxy.upstream import Answer

_ENCODING: Final = b"content-encoding"
_LONGEST_ERROR: Final = 1 << 20


class Client(Protocol):
    """Whoever asked. An answer that was begun and not ended is cut off."""

    begun: bool
    takes_events: bool
    """What was begun is a stream to which an event can be added."""

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
    """Pass an answer on as it comes."""
    encoding = value_of(answer.headers, _ENCODING)
    if encoding and answer.candidate.key and answer.status >= HTTPStatus.BAD_REQUEST:
        await _pass_decoded(answer, client, encoding)  # it may show our key
        return
    await client.begin(answer.status, response_headers(answer.headers))
    async for chunk in answer.chunks():
        await client.send(chunk)
    await client.end()


async def _pass_decoded(answer: Answer, client: Client, encoding: str) -> None:
    """Pass an error on that came compressed, although nobody asked for that."""
    body = b""
    async for chunk in answer.chunks():
        body += chunk
        if len(body) > _LONGEST_ERROR:
            break
    plain = _decoded(body, encoding)
    if plain is None:
        await refuse(client, Refused(answer.status, "what the provider says cannot be read"))
        return
    headers = response_headers(answer.headers, unchanged=False)
    await client.begin(answer.status, [one for one in headers if one[0].lower() != _ENCODING])
    await client.send(Hiding(answer.candidate.key, in_error=True).whole(plain))
    await client.end()


def _decoded(body: bytes, encoding: str) -> bytes | None:
    try:
        plain = undone(body, encoding, most=_LONGEST_ERROR)
    except InvalidRequest:
        return None
    return plain if len(body) <= _LONGEST_ERROR else None


async def tell_failure(client: Client, error: UpstreamError) -> None:
    """Tell a client that its provider failed; an answer that was begun stays cut."""
    if not client.begun:
        late = isinstance(error, UpstreamStalled)
        status = HTTPStatus.GATEWAY_TIMEOUT if late else HTTPStatus.BAD_GATEWAY
        await refuse(client, Refused(status, str(error)))
    elif isinstance(error, UpstreamStalled) and client.takes_events:
        said = msgspec.json.encode({"type": "error", "error": {"message": str(error)}})
        # An event may be unfinished; empty lines after one that is not mean nothing.
        await client.send(b"\n\nevent: error\ndata: " + said + b"\n\n")
