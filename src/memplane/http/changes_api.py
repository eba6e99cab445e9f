"""`GET /api/v1/events`: what happens to memories, told as it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memplane.access.tokens import TokenStore
from memplane.clock import Clock
from memplane.errors import InvalidRequest
from memplane.http.endpoints import Endpoint
from memplane.http.memories_api import READ
from memplane.http.memories_wire import ScopeQuery
from memplane.http.principals import token_given
from memplane.http.reaching import reached_agent
from memplane.http.relaying import STOPPING, Client, Relay
from memplane.observations.contract import ChangeTold, OperationalMemory
from memplane.plane.contract import Plane

BEAT: Final = 15.0
MEDIA_TYPE: Final = "text/event-stream"
_RETRY: Final = 2000
_MOST_DIGITS: Final = 19
_HEADERS: Final = (
    (b"content-type", f"{MEDIA_TYPE}; charset=utf-8".encode()),
    (b"x-accel-buffering", b"no"),
)


def changes_endpoints(
    plane: Plane, tokens: TokenStore, clock: Clock, *, beat: float = BEAT
) -> list[Endpoint]:
    """Make the endpoint; a comment is sent every `beat` seconds in which nothing happens."""

    async def get_events(request: Request) -> Response:
        given = token_given(request.scope)

        def may_hear() -> bool:
            # A token that was revoked since is good for nothing, in the middle of an answer too.
            return not given or tokens.find(given, clock()) is not None

        agent, memories = reached_agent(request), await plane.memories()
        return await stream_of(memories, request, agent, may_hear, beat=beat)

    return [
        Endpoint(
            method="GET",
            path="/api/v1/events",
            handler=get_events,
            needs=READ,
            query=ScopeQuery,
            headers={"Last-Event-ID": "Go on after that event; without it, from now on."},
            media_type=MEDIA_TYPE,
            summary="What happens to memories, as server-sent events, as it happens",
        )
    ]


async def stream_of(
    memories: OperationalMemory,
    request: Request,
    agent: str | None,
    may_hear: Callable[[], bool],
    *,
    beat: float = BEAT,
) -> Response:
    """Answer with what happens, until the server stops or whoever asks may hear it no longer."""
    after = await _start(memories, request)
    if request.method == "HEAD":
        return Response(media_type=MEDIA_TYPE)
    stopping: asyncio.Event = request.scope.get(STOPPING) or asyncio.Event()

    def goes_on() -> bool:
        return not stopping.is_set() and may_hear()

    async def work(client: Client) -> None:
        await client.begin(200, _HEADERS)
        # The place comes first: whoever is cut off before anything happens goes on from it.
        await client.send(f"retry: {_RETRY}\nid: {after}\n\n".encode())
        changes = memories.changes(agent, after)
        async with aclosing(_pieces(changes, goes_on, stopping, beat)) as pieces:
            async for piece in pieces:
                await client.send(piece)
        await client.end()

    return Relay(work)


async def _start(memories: OperationalMemory, request: Request) -> int:
    """Return the place after which a stream begins; what has not happened yet is not skipped."""
    latest = await memories.latest()
    last = request.headers.get("Last-Event-ID", "").strip()
    if not last:
        return latest
    if not (last.isascii() and last.isdigit()):
        why = "is the number of an event of this stream"
        raise InvalidRequest(f"Last-Event-ID {why}", fields={"Last-Event-ID": why})
    return min(int(last), latest) if len(last) < _MOST_DIGITS else latest


async def _pieces(
    changes: AsyncIterator[ChangeTold],
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


async def _next(changes: AsyncIterator[ChangeTold]) -> ChangeTold | None:
    return await anext(changes, None)


def _event(one: ChangeTold) -> bytes:
    return f"id: {one.seq}\nevent: change\ndata: ".encode() + msgspec.json.encode(one) + b"\n\n"
