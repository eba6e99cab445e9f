"""The way back to whoever asked: an answer as it comes, a refusal, a failure."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from memplane.errors import InvalidRequest, UpstreamError, UpstreamStalled, code_of_status
from memplane.exchange.content_encoding import decode_content
from memplane.proxy.headers import Headers, header_value, response_headers
from memplane.proxy.provider_key_mask import ProviderKeyMask
from memplane.proxy.route_selection import RequestRefusal
from memplane.proxy.upstream import UpstreamResponse

_CONTENT_ENCODING: Final = b"content-encoding"
_MAX_ERROR_BYTES: Final = 1 << 20


class ResponseWriter(Protocol):
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


def error_body(status: int, text: str) -> dict[str, object]:
    """Make the body of an error in the form that providers use, with memplane's code."""
    error = {"code": code_of_status(status), "type": "memplane", "message": text}
    return {"type": "error", "error": error}


async def send_refusal(client: ResponseWriter, why: RequestRefusal) -> None:
    """Refuse as providers do, so that their clients show the reason."""
    body = msgspec.json.encode(error_body(why.status, why.text))
    length = str(len(body)).encode()
    await client.begin(
        why.status, [(b"content-type", b"application/json"), (b"content-length", length)]
    )
    await client.send(body)
    await client.end()


async def forward_response(answer: UpstreamResponse, client: ResponseWriter) -> None:
    """Pass an answer on as it comes."""
    encoding = header_value(answer.headers, _CONTENT_ENCODING)
    if encoding and answer.candidate.key and answer.status >= HTTPStatus.BAD_REQUEST:
        await _forward_decoded_error(answer, client, encoding)  # it may show our key
        return
    await client.begin(answer.status, response_headers(answer.headers))
    async for chunk in answer.chunks():
        await client.send(chunk)
    await client.end()


async def _forward_decoded_error(
    answer: UpstreamResponse, client: ResponseWriter, encoding: str
) -> None:
    """Pass an error on that came compressed, although nobody asked for that."""
    body = b""
    async for chunk in answer.chunks():
        body += chunk
        if len(body) > _MAX_ERROR_BYTES:
            break
    plain = _decoded(body, encoding)
    if plain is None:
        await send_refusal(
            client, RequestRefusal(answer.status, "what the provider says cannot be read")
        )
        return
    headers = response_headers(answer.headers, unchanged=False)
    await client.begin(
        answer.status, [one for one in headers if one[0].lower() != _CONTENT_ENCODING]
    )
    await client.send(ProviderKeyMask(answer.candidate.key, in_error=True).whole(plain))
    await client.end()


def _decoded(body: bytes, encoding: str) -> bytes | None:
    try:
        plain = decode_content(body, encoding, max_bytes=_MAX_ERROR_BYTES)
    except InvalidRequest:
        return None
    return plain if len(body) <= _MAX_ERROR_BYTES else None


async def send_upstream_failure(client: ResponseWriter, error: UpstreamError) -> None:
    """Tell a client that its provider failed; an answer that was begun stays cut."""
    if not client.begun:
        late = isinstance(error, UpstreamStalled)
        status = HTTPStatus.GATEWAY_TIMEOUT if late else HTTPStatus.BAD_GATEWAY
        await send_refusal(client, RequestRefusal(status, str(error)))
    elif isinstance(error, UpstreamStalled) and client.takes_events:
        said = msgspec.json.encode(error_body(HTTPStatus.GATEWAY_TIMEOUT, str(error)))
        # An event may be unfinished; empty lines after one that is not mean nothing.
        await client.send(b"\n\nevent: error\ndata: " + said + b"\n\n")
