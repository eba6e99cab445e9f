"""The memory service: recall, retain and forget as any proxy calls them, and for operators.

The first three keep the wire format of memory services; unknown fields are ignored.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from memplane.auth.agent_id import AGENT_ID_RULE, is_agent_id
from memplane.auth.grants import Scope
from memplane.auth.memory_scope import check_user, is_valid_user
from memplane.episodes.api_types import (
    DEFAULT_RECALL_BYTES,
    MAX_RECALL_BYTES,
    MAX_RECALL_LIMIT,
    Asker,
    ForgetRequest,
    RecallRequest,
    RecallResponse,
    RetainReceipt,
    RetainRequest,
)
from memplane.errors import InvalidRequest, MemplaneError
from memplane.integrations.clawdapus.pod.descriptor import own_descriptor, write_descriptor
from memplane.kit.clock import Clock
from memplane.server.endpoints import Endpoint, NoAuth, ScopeAuth
from memplane.server.errors import status_of
from memplane.server.request_auth import require_agent, require_grant
from memplane.server.request_body import read_opaque
from memplane.server.system_api import json_response
from memplane.service.client import Client
from memplane.service.operations import memory
from memplane.telemetry import MemoryEvent, MemoryOperation, OperationStatus, Telemetry

_READ: Final = ScopeAuth(Scope.READ)
_WRITE: Final = ScopeAuth(Scope.WRITE)
_ADMIN: Final = ScopeAuth(Scope.ADMIN)
_SERVICE_NAME: Final = "memplane"
_SMALL: Final = 1024 * 1024


class RecallBody(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that wants its memories; the agent may be left out of an agent's token.

    With a `user` or a `view`, those are told what is theirs and what is shared; else only that.
    """

    agent_id: str = ""
    user: str | None = None
    view: str | None = None
    messages: Any = None
    system: Any = None
    metadata: dict[str, Any] | None = None
    pod: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_RECALL_LIMIT)] | None = None
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=MAX_RECALL_BYTES)] | None = None
    explain: bool = False


class RetainBody(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was recorded, of the `user` and the `view` that are named.

    Without a user it is that of the user that the entry's own request names.
    """

    agent_id: str = ""
    user: str | None = None
    view: str | None = None
    entry: msgspec.Raw
    metadata: dict[str, Any] | None = None
    pod: str | None = None


class ForgetBody(msgspec.Struct, frozen=True, kw_only=True):
    """Entries that are to be forgotten; with a `user`, only if they are that user's."""

    agent_id: str = ""
    user: str | None = None
    entry_ids: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    reason: str | None = None
    metadata: dict[str, Any] | None = None
    pod: str | None = None


class _OperationCounts(msgspec.Struct, frozen=True):
    """What an operation tells about itself besides how it ended."""

    blocks: int = 0
    bytes: int = 0
    redacted: int = 0


_OperationWork: TypeAlias = Callable[[], Awaitable[tuple[Response, _OperationCounts]]]


class OperationTelemetry(msgspec.Struct, frozen=True):
    """Tells how each operation went."""

    telemetry: Telemetry
    clock: Clock

    async def told(self, operation: MemoryOperation, agent: str, work: _OperationWork) -> Response:
        """Do the work, and tell how it went."""
        started = time.perf_counter()
        status, code, error, told = OperationStatus.FAILED, 500, "", _OperationCounts()
        try:
            response, told = await work()
            status, code = OperationStatus.SUCCEEDED, response.status_code
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
            event = MemoryEvent(
                ts=self.clock(),
                claw_id=agent,
                latency_ms=round(seconds * 1000),
                status_code=code,
                error=error,
                memory_service=_SERVICE_NAME,
                memory_op=operation,
                memory_status=status,
                memory_blocks=told.blocks,
                memory_bytes=told.bytes,
                memory_redacted=told.redacted,
            )
            self.telemetry.emit(event, seconds=seconds)


def memory_service_endpoints(client: Client, telling: OperationTelemetry) -> list[Endpoint]:
    """Make the endpoints that any proxy calls."""

    async def post_recall(request: Request) -> Response:
        body = await read_opaque(request, RecallBody)
        agent = _resolve_request_agent(request, body.agent_id)
        asker = read_asker(body.metadata)
        ask = RecallRequest(
            agent=agent,
            user=body.user,
            view=asker.view if body.view is None else body.view,
            messages=body.messages,
            limit=body.limit,
            max_bytes=body.max_bytes or DEFAULT_RECALL_BYTES,
            explain=body.explain,
        )

        async def recall() -> tuple[Response, _OperationCounts]:
            found = await client.call(memory.recall, ask)
            size = sum(len(one.text.encode()) for one in found.memories)
            return _answer_recalled(found), _OperationCounts(
                blocks=len(found.memories), bytes=size
            )

        return await telling.told(MemoryOperation.RECALL, agent, recall)

    async def post_retain(request: Request) -> Response:
        body = await read_opaque(request, RetainBody)
        agent = _resolve_request_agent(request, body.agent_id)

        asker = read_asker(body.metadata)
        asked = RetainRequest(
            agent=agent,
            entry=body.entry,
            user=body.user,
            view=asker.view if body.view is None else body.view,
            asker=asker,
            holds_token=require_grant(request).agent == agent,
        )

        async def retain() -> tuple[Response, _OperationCounts]:
            receipt = await client.call(memory.retain, asked)
            return json_response(receipt, 202), _OperationCounts(redacted=receipt.redacted)

        return await telling.told(MemoryOperation.RETAIN, agent, retain)

    async def post_forget(request: Request) -> Response:
        body = await read_opaque(request, ForgetBody)
        agent = _resolve_request_agent(request, body.agent_id)

        async def forget() -> tuple[Response, _OperationCounts]:
            asked = ForgetRequest(
                agent=agent, user=body.user, ids=body.entry_ids, reason=body.reason or ""
            )
            await client.call(memory.forget, asked)
            return Response(status_code=204), _OperationCounts()

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
            gives=RecallResponse,
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
            needs=NoAuth(),
            gives=dict[str, Any],
            summary="What this memory service offers",
        ),
    ]


def _answer_recalled(found: RecallResponse) -> Response:
    # The list is there also when it is empty.
    return json_response({"memories": found.told})


def read_asker(metadata: dict[str, Any] | None) -> Asker:
    """Return what a pod says of who asks; what is of another type or too long says nothing."""
    said: dict[str, str] = {}
    for name in Asker.__struct_fields__:
        value = (metadata or {}).get(name)
        if isinstance(value, str) and is_valid_user(value):
            said[name] = check_user(value)
    return Asker(**said)


def _resolve_request_agent(request: Request, named: str) -> str:
    """Return the agent that a request is about: the one it names, or its token's."""
    agent = named or require_grant(request).agent or ""
    if not is_agent_id(agent):
        raise HTTPException(400, f"agent_id names no agent: {AGENT_ID_RULE}")
    require_agent(request, agent)
    return agent
