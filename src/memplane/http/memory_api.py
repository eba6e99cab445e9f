"""The memory service: recall, retain and forget as any proxy calls them, and for operators.

The first three keep the wire format of memory services; unknown fields are ignored.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from memplane.access.agents import AGENT_RULE, is_agent_id
from memplane.access.grants import Scope
from memplane.clock import Clock
from memplane.errors import InvalidRequest, MemplaneError
from memplane.http.api import answer_json
from memplane.http.bodies import (
    DEEPEST,
    has_key_twice,
    is_deeper_than,
    parse_json,
    read_json,
    whole_body,
)
from memplane.http.endpoints import Endpoint, Needs, Open
from memplane.http.errors import status_of
from memplane.http.principals import grant_of, require_agent
from memplane.memory.contract import (
    MOST_ASKED,
    MOST_BYTES,
    MOST_BYTES_ASKED,
    Ask,
    ForgetAsked,
    ForgetReceipt,
    Rebuilt,
    Recalled,
    RetainAsked,
    RetainReceipt,
)
from memplane.plane.contract import Plane
from memplane.pod.descriptor import own_descriptor, write_descriptor
from memplane.telemetry import MemoryOp, MemoryOperation, MemoryStatus, Telemetry

_READ: Final = Needs(Scope.READ)
_WRITE: Final = Needs(Scope.WRITE)
_ADMIN: Final = Needs(Scope.ADMIN)
_OURSELVES: Final = "memplane"
_SMALL: Final = 1024 * 1024

_T = TypeVar("_T")


class RecallBody(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that wants its memories; the agent may be left out of an agent's token."""

    agent_id: str = ""
    messages: Any = None
    system: Any = None
    metadata: dict[str, Any] | None = None
    pod: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_ASKED)] | None = None
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=MOST_BYTES_ASKED)] | None = None
    explain: bool = False


class RetainBody(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was recorded."""

    agent_id: str = ""
    entry: msgspec.Raw
    metadata: dict[str, Any] | None = None
    pod: str | None = None


class ForgetBody(msgspec.Struct, frozen=True, kw_only=True):
    """Entries that are to be forgotten."""

    agent_id: str = ""
    entry_ids: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    reason: str | None = None
    metadata: dict[str, Any] | None = None
    pod: str | None = None


class _Told(msgspec.Struct, frozen=True):
    """What an operation tells about itself besides how it ended."""

    blocks: int = 0
    bytes: int = 0
    redacted: int = 0


_Work: TypeAlias = Callable[[], Awaitable[tuple[Response, _Told]]]


class Telling(msgspec.Struct, frozen=True):
    """Tells how each operation went."""

    telemetry: Telemetry
    clock: Clock

    async def told(self, operation: MemoryOperation, agent: str, work: _Work) -> Response:
        """Do the work, and tell how it went."""
        started = time.perf_counter()
        status, code, error, told = MemoryStatus.FAILED, 500, "", _Told()
        try:
            response, told = await work()
            status, code = MemoryStatus.SUCCEEDED, response.status_code
        except InvalidRequest as wrong:
            code, error = 400, type(wrong).__name__
            raise HTTPException(400, str(wrong)) from wrong
        except MemplaneError as wrong:
            code, error = status_of(wrong), type(wrong).__name__
            raise
        else:
            return response
        finally:
            seconds = time.perf_counter() - started
            event = MemoryOp(
                ts=self.clock(),
                claw_id=agent,
                latency_ms=round(seconds * 1000),
                status_code=code,
                error=error,
                memory_service=_OURSELVES,
                memory_op=operation,
                memory_status=status,
                memory_blocks=told.blocks,
                memory_bytes=told.bytes,
                memory_redacted=told.redacted,
            )
            self.telemetry.emit(event, seconds=seconds)


def service_endpoints(plane: Plane, telling: Telling) -> list[Endpoint]:
    """Make the endpoints that any proxy calls."""

    async def post_recall(request: Request) -> Response:
        body = await _read(request, RecallBody)
        agent = _agent(request, body.agent_id)
        ask = Ask(
            agent=agent,
            messages=body.messages,
            limit=body.limit,
            max_bytes=body.max_bytes or MOST_BYTES,
            explain=body.explain,
        )

        async def recall() -> tuple[Response, _Told]:
            found = await plane.recall(ask)
            size = sum(len(one.text.encode()) for one in found.memories)
            return _answer_recalled(found), _Told(blocks=len(found.memories), bytes=size)

        return await telling.told(MemoryOperation.RECALL, agent, recall)

    async def post_retain(request: Request) -> Response:
        body = await _read(request, RetainBody)
        agent = _agent(request, body.agent_id)

        async def retain() -> tuple[Response, _Told]:
            receipt = await plane.retain(agent, bytes(body.entry))
            return answer_json(receipt, 202), _Told(redacted=receipt.redacted)

        return await telling.told(MemoryOperation.RETAIN, agent, retain)

    async def post_forget(request: Request) -> Response:
        body = await _read(request, ForgetBody)
        agent = _agent(request, body.agent_id)

        async def forget() -> tuple[Response, _Told]:
            await plane.forget(
                ForgetAsked(agent=agent, ids=body.entry_ids, reason=body.reason or "")
            )
            return Response(status_code=204), _Told()

        return await telling.told(MemoryOperation.FORGET, agent, forget)

    async def get_descriptor(_request: Request) -> Response:
        return Response(write_descriptor(own_descriptor()), media_type="application/json")

    return [
        Endpoint(
            method="POST",
            path="/recall",
            handler=post_recall,
            needs=_READ,
            takes=RecallBody,
            gives=Recalled,
            summary="What an agent remembers about its conversation",
        ),
        Endpoint(
            method="POST",
            path="/retain",
            handler=post_retain,
            needs=_WRITE,
            takes=RetainBody,
            gives=RetainReceipt,
            status=202,
            summary="Keep a turn that was recorded; it is durable and searchable then",
        ),
        Endpoint(
            method="POST",
            path="/forget",
            handler=post_forget,
            needs=_WRITE,
            takes=ForgetBody,
            status=204,
            summary="Forget entries for good, also those that have not come yet",
        ),
        Endpoint(
            method="GET",
            path="/.claw-describe.json",
            handler=get_descriptor,
            needs=Open(),
            gives=dict[str, Any],
            summary="What this memory service offers",
        ),
    ]


def operator_endpoints(plane: Plane) -> list[Endpoint]:
    """Make the endpoints that operators call."""

    async def post_retain(request: Request) -> Response:
        asked = await _read(request, RetainAsked)
        require_agent(request, asked.agent)
        return answer_json(await plane.retain(asked.agent, bytes(asked.entry)))

    async def post_ask(request: Request) -> Response:
        ask = await read_json(request, Ask)
        require_agent(request, ask.agent)
        return _answer_recalled(await plane.recall(ask))

    async def post_forget_asked(request: Request) -> Response:
        asked = await read_json(request, ForgetAsked)
        return answer_json(await plane.forget(asked))

    async def post_rebuild(_request: Request) -> Response:
        return answer_json(await plane.rebuild())

    return [
        Endpoint(
            method="POST",
            path="/api/v1/memory/retain",
            handler=post_retain,
            needs=_WRITE,
            takes=RetainAsked,
            gives=RetainReceipt,
            summary="Keep a turn that was recorded",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/memory/recall",
            handler=post_ask,
            needs=_READ,
            takes=Ask,
            gives=Recalled,
            summary="What an agent remembers about a question",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/memory/forget",
            handler=post_forget_asked,
            needs=_ADMIN,
            takes=ForgetAsked,
            gives=ForgetReceipt,
            summary="Forget entries, and verify or purge them",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/memory/rebuild",
            handler=post_rebuild,
            needs=_ADMIN,
            gives=Rebuilt,
            body_limit=_SMALL,
            summary="Derive all memory again from the ledgers, and compare",
        ),
    ]


def _answer_recalled(found: Recalled) -> Response:
    # The list is there also when it is empty.
    return answer_json({"memories": found.told})


def _agent(request: Request, named: str) -> str:
    """Return the agent that a request is about: the one it names, or its token's."""
    agent = named or grant_of(request).agent or ""
    if not is_agent_id(agent):
        raise HTTPException(400, f"agent_id names no agent: {AGENT_RULE}")
    require_agent(request, agent)
    return agent


async def _read(request: Request, kind: type[_T]) -> _T:
    """Read a body of the wire format; whatever is wrong with it is answered with 400.

    An entry is opaque: a request that was recorded may have a key twice, and is kept as it is.
    """
    body = await whole_body(request)
    if is_deeper_than(DEEPEST, body):
        raise HTTPException(400, f"the body is nested more than {DEEPEST} deep")
    try:
        read, twice = msgspec.json.decode(body, type=kind), has_key_twice(body)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"the body is of another type: {error}") from error
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # half a surrogate pair, which models do write, is taken the long way
    else:
        if twice:
            raise HTTPException(400, "the body has the same key twice")
        return read
    text = json.dumps(parse_json(body), ensure_ascii=False)
    value = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.DecodeError as error:
        raise HTTPException(400, f"the body is of another type: {error}") from error
