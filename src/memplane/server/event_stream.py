"""Responses of server-sent events: what happens to memories, as it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memplane.observations.api_types import ChangeEvent
from memplane.server.response_stream import STOPPING_KEY, HttpResponseWriter, StreamedResponse
from memplane.service.operation import EventStream

HEARTBEAT_S: Final = 15.0
MEDIA_TYPE: Final = "text/event-stream"
_RETRY: Final = 2000
_HEADERS: Final = (
    (b"content-type", f"{MEDIA_TYPE}; charset=utf-8".encode()),
    (b"x-accel-buffering", b"no"),
)


def stream_events(
    stream: EventStream[ChangeEvent],
    request: Request,
    is_allowed: Callable[[], bool],
    *,
    interval_s: float = HEARTBEAT_S,
) -> Response:
    """Answer with events as they happen, until the server stops or they are allowed no longer.

    A comment is sent every `interval_s` seconds in which nothing happens.
    """
    if request.method == "HEAD":
        return Response(media_type=MEDIA_TYPE)
    stopping: asyncio.Event = request.scope.get(STOPPING_KEY) or asyncio.Event()

    def goes_on() -> bool:
        return not stopping.is_set() and is_allowed()

    async def work(client: HttpResponseWriter) -> None:
        await client.begin(200, _HEADERS)
        # The place comes first: whoever is cut off before anything happens goes on from it.
        await client.send(f"retry: {_RETRY}\nid: {stream.after}\n\n".encode())
        async with aclosing(_pieces(stream.events, goes_on, stopping, interval_s)) as pieces:
            async for piece in pieces:
                await client.send(piece)
        await client.end()

    return StreamedResponse(work)


async def _pieces(
    changes: AsyncIterator[ChangeEvent],
    goes_on: Callable[[], bool],
    stopping: asyncio.Event,
    beat: float,
) -> AsyncGenerator[bytes]:
    """Yield events as they come, and a comment now and then, until it does not go on."""
    stopped = asyncio.ensure_future(stopping.wait())
    coming = asyncio.ensure_future(_next(changes))
    try:
        while goes_on():
            await asyncio.wait(
                (coming, stopped), timeout=beat, return_when=asyncio.FIRST_COMPLETED
            )
            if not goes_on():
                return
            if not coming.done():
                yield b": nothing happens\n\n"
                continue
            told = coming.result()
            if told is None:
                return
            yield _event(told)
            coming = asyncio.ensure_future(_next(changes))
    finally:
        stopped.cancel()
        coming.cancel()
        with suppress(asyncio.CancelledError):
            await coming
        if isinstance(changes, AsyncGenerator):
            await changes.aclose()


async def _next(changes: AsyncIterator[ChangeEvent]) -> ChangeEvent | None:
    return await anext(changes, None)


def _event(one: ChangeEvent) -> bytes:
    return f"id: {one.seq}\nevent: change\ndata: ".encode() + msgspec.json.encode(one) + b"\n\n"
