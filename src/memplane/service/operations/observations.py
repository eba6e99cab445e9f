"""Observations: list, read, correct, import and export what was learned."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Concatenate, Final, ParamSpec, TypeVar, Unpack

import msgspec

from memplane.auth.grants import Scope
from memplane.errors import ConcurrencyError, InvalidRequest, UnknownMemory
from memplane.observations.api_types import (
    BulkOutcome,
    ConfidenceHistory,
    EventList,
    EvidenceList,
    ImportReceipt,
    InjectionList,
    MemoryList,
    MemoryPage,
    MemoryView,
    RebuildReceipt,
)
from memplane.observations.export import stream_export
from memplane.observations.export_format import parse_jsonl
from memplane.observations.model import ObservationState
from memplane.observations.operator_events import REMOVED_STATES
from memplane.observations.requests import (
    NO_REASON,
    Act,
    ActAsked,
    BulkRequest,
    ExportQuery,
    Format,
    ImportAsked,
    ImportQuery,
    MemoryCreate,
    MemoryPatch,
    MemoryPut,
    MemoryQuery,
    MergeBody,
    PurgeBody,
    ReasonBody,
    StateQuery,
    UndoBody,
)
from memplane.service.operation import (
    MAX_BODY_BYTES,
    SMALL_BODY_BYTES,
    AnyAgent,
    Context,
    ExpectedVersions,
    Header,
    OneAgent,
    Operation,
    OperationOptions,
    TextStream,
    operation,
)

if TYPE_CHECKING:
    from memplane.observations.service import ObservationService

P = ParamSpec("P")
R = TypeVar("R")

_MAX_KEY_LENGTH: Final = 255
_MEDIA_TYPES: Final[Mapping[Format, str]] = {
    "jsonl": "application/x-ndjson",
    "md": "text/markdown; charset=utf-8",
    "csv": "text/csv; charset=utf-8; header=present",
}
_ALL: Final = MemoryQuery()
_ACTIVE_ONLY: Final = StateQuery()
_AS_JSONL: Final = ExportQuery()
_NO_SOURCE: Final = ImportQuery()


def correction(
    method: str, path: str, *, scope: Scope = Scope.WRITE, **options: Unpack[OperationOptions]
) -> Callable[[Callable[Concatenate[Context, P], Awaitable[R]]], Operation[P, R]]:
    """Make a row of a function that changes memories for an operator."""
    defaults: OperationOptions = {
        "max_body_bytes": SMALL_BODY_BYTES,
        "is_slow": True,
        "is_attributed": True,
        "replaces_half_characters": True,
    }
    merged: OperationOptions = {**defaults, **options}
    return operation(method, path, scope=scope, **merged)


@operation("GET", "/api/v1/memories", scope=Scope.READ)
async def list_memories(
    context: Context, agent: AnyAgent = None, query: MemoryQuery = _ALL
) -> MemoryPage:
    """List memories, the most confident first."""
    return await (await context.services.memories()).page(agent, query)


@operation(
    "GET",
    "/api/v1/memories/{id:int}",
    scope=Scope.READ,
    has_version=True,
)
async def get_memory(
    context: Context, agent: AnyAgent, id: int, query: StateQuery = _ACTIVE_ONLY
) -> MemoryView:
    """Return a memory."""
    memories = await context.services.memories()
    return await memories.one(agent, id, trash=query.state is not None)


@correction("POST", "/api/v1/memories", status=201, has_version=True, needs_all_fields=True)
async def add_memory(
    context: Context,
    agent: OneAgent,
    body: MemoryCreate,
    *,
    key: Annotated[
        str, Header("Idempotency-Key", "The same key again makes no second memory.")
    ] = "",
) -> MemoryView:
    """Write a memory down."""
    if len(key) > _MAX_KEY_LENGTH:
        why = f"has more than {_MAX_KEY_LENGTH} characters"
        raise InvalidRequest(f"the Idempotency-Key {why}", fields={"Idempotency-Key": why})
    memories = await context.services.memories()
    return await memories.add(agent, body, by=context.operator, key=key)


@correction("PUT", "/api/v1/memories/{id:int}", has_version=True, needs_all_fields=True)
async def replace_memory(
    context: Context, agent: AnyAgent, id: int, body: MemoryPut, *, versions: ExpectedVersions = ()
) -> MemoryView:
    """Change all that a memory says."""
    change = MemoryPatch(**msgspec.structs.asdict(body))
    return await _update(context, agent, id, change, versions=versions)


@correction("PATCH", "/api/v1/memories/{id:int}", has_version=True)
async def update_memory(
    context: Context,
    agent: AnyAgent,
    id: int,
    body: MemoryPatch,
    *,
    versions: ExpectedVersions = (),
) -> MemoryView:
    """Change some of what a memory says."""
    return await _update(context, agent, id, body, versions=versions)


async def _update(
    context: Context,
    agent: str | None,
    number: int,
    change: MemoryPatch,
    *,
    versions: tuple[int, ...],
) -> MemoryView:
    memories = await context.services.memories()
    now = await _get_present(memories, agent, number)
    if versions and now.version not in versions:
        raise ConcurrencyError(
            f"memory {number} was changed meanwhile: it has version {now.version} by now. Read it "
            "again, then change it"
        )
    expected = now.version if versions else None
    return await memories.change(agent, number, change, by=context.operator, version=expected)


@correction("DELETE", "/api/v1/memories/{id:int}", status=204)
async def delete_memory(context: Context, agent: AnyAgent, id: int) -> None:
    """Put a memory into the trash, from which it can be restored."""
    memories = await context.services.memories()
    await _get_present(memories, agent, id)
    await memories.act(agent, id, ActAsked(act="retire"), by=context.operator)


async def _get_present(memories: ObservationService, agent: str | None, number: int) -> MemoryView:
    """Return a memory that is not in the trash; one that is counts as absent here.

    Raises:
        UnknownMemory: There is none, or it is in the trash, or it was purged.
    """
    found = await memories.one(agent, number, trash=True)
    if found.state is ObservationState.PURGED:
        raise UnknownMemory(f"memory {number} was purged: its words are gone for good")
    if found.state in REMOVED_STATES:
        raise UnknownMemory(f"memory {number} is in the trash. Restore it first")
    return found


# Actions.


def _action(
    name: str, *, scope: Scope = Scope.WRITE, is_body_optional: bool = True
) -> Callable[[Callable[Concatenate[Context, P], Awaitable[R]]], Operation[P, R]]:
    return correction(
        "POST",
        f"/api/v1/memories/{{id:int}}/{name}",
        scope=scope,
        has_version=True,
        may_conflict=True,
        is_body_optional=is_body_optional,
    )


@_action("retire")
async def retire_memory(
    context: Context, agent: AnyAgent, id: int, body: ReasonBody = NO_REASON
) -> MemoryView:
    """Put a memory into the trash."""
    return await _act(context, agent, id, ActAsked(act="retire", reason=body.reason))


@_action("restore")
async def restore_memory(
    context: Context, agent: AnyAgent, id: int, body: ReasonBody = NO_REASON
) -> MemoryView:
    """Take a memory out of the trash, or activate it again."""
    return await _act(context, agent, id, ActAsked(act="restore", reason=body.reason))


@_action("pin")
async def pin_memory(
    context: Context, agent: AnyAgent, id: int, body: ReasonBody = NO_REASON
) -> MemoryView:
    """Keep a memory from fading, and include it in prompts first."""
    return await _act(context, agent, id, ActAsked(act="pin", reason=body.reason))


@_action("unpin")
async def unpin_memory(
    context: Context, agent: AnyAgent, id: int, body: ReasonBody = NO_REASON
) -> MemoryView:
    """Let a memory fade again."""
    return await _act(context, agent, id, ActAsked(act="unpin", reason=body.reason))


@_action("approve")
async def approve_memory(
    context: Context, agent: AnyAgent, id: int, body: ReasonBody = NO_REASON
) -> MemoryView:
    """Release a memory from quarantine."""
    return await _act(context, agent, id, ActAsked(act="approve", reason=body.reason))


@_action("share")
async def share_memory(
    context: Context, agent: AnyAgent, id: int, body: ReasonBody = NO_REASON
) -> MemoryView:
    """Let all users and views of its agent be told a memory."""
    return await _act(context, agent, id, ActAsked(act="share", reason=body.reason))


@_action("undo")
async def undo_memory(
    context: Context, agent: AnyAgent, id: int, body: ReasonBody = NO_REASON
) -> MemoryView:
    """Undo the last change of a memory."""
    return await _act(context, agent, id, ActAsked(act="undo", reason=body.reason))


@_action("merge", is_body_optional=False)
async def merge_memory(context: Context, agent: AnyAgent, id: int, body: MergeBody) -> MemoryView:
    """Merge a memory into another one, which stays."""
    asked = ActAsked(act="merge", reason=body.reason, into=body.into)
    return await _act(context, agent, id, asked)


@_action("purge", scope=Scope.ADMIN, is_body_optional=False)
async def purge_memory(context: Context, agent: AnyAgent, id: int, body: PurgeBody) -> MemoryView:
    """Erase a memory's words for good."""
    asked = ActAsked(act="purge", reason=body.reason, confirm=body.confirm)
    return await _act(context, agent, id, asked)


async def _act(context: Context, agent: str | None, number: int, asked: ActAsked) -> MemoryView:
    memories = await context.services.memories()
    return await memories.act(agent, number, asked, by=context.operator)


ACTIONS: Final[Mapping[Act, Operation[[AnyAgent, int, ReasonBody], MemoryView]]] = {
    "retire": retire_memory,
    "restore": restore_memory,
    "pin": pin_memory,
    "unpin": unpin_memory,
    "approve": approve_memory,
    "share": share_memory,
    "undo": undo_memory,
}
"""The actions that need nothing but a reason."""


# Several.


@correction("POST", "/api/v1/memories/bulk")
async def apply_bulk(context: Context, agent: AnyAgent, body: BulkRequest) -> BulkOutcome:
    """Apply an action to several memories, all or nothing; `batch` undoes it."""
    memories = await context.services.memories()
    return await memories.bulk(agent, body, by=context.operator)


@correction(
    "POST",
    "/api/v1/undo",
    may_conflict=True,
    refusals={404: "There is none for whoever asks."},
)
async def undo_batch(context: Context, agent: AnyAgent, body: UndoBody) -> MemoryList:
    """Undo all that was done in one go; undoing that does it again."""
    memories = await context.services.memories()
    undone = await memories.undo(agent, body.batch, by=context.operator)
    return MemoryList(memories=tuple(undone))


@operation(
    "POST",
    "/api/v1/memories/rebuild",
    scope=Scope.ADMIN,
    max_body_bytes=SMALL_BODY_BYTES,
    is_slow=True,
)
async def rebuild_memories(context: Context) -> RebuildReceipt:
    """Derive every memory again from its events, and compare."""
    return await (await context.services.memories()).rebuild()


# One memory over time.


@operation("GET", "/api/v1/memories/{id:int}/history", scope=Scope.READ)
async def get_history(context: Context, agent: AnyAgent, id: int) -> EventList:
    """Return all that happened to a memory."""
    memories = await context.services.memories()
    return EventList(events=tuple(await memories.history(agent, id)))


@operation("GET", "/api/v1/memories/{id:int}/course", scope=Scope.READ)
async def get_confidence_history(context: Context, agent: AnyAgent, id: int) -> ConfidenceHistory:
    """Return the confidence of a memory over time, and its forecast."""
    return await (await context.services.memories()).course(agent, id)


@operation("GET", "/api/v1/memories/{id:int}/evidence", scope=Scope.READ)
async def list_evidence(context: Context, agent: AnyAgent, id: int) -> EvidenceList:
    """List what speaks for a memory and against it."""
    memories = await context.services.memories()
    return EvidenceList(evidence=tuple(await memories.evidence(agent, id)))


@operation("GET", "/api/v1/memories/{id:int}/injections", scope=Scope.READ)
async def list_injections(context: Context, agent: AnyAgent, id: int) -> InjectionList:
    """List the prompts that included a memory."""
    memories = await context.services.memories()
    return InjectionList(injections=tuple(await memories.injections(agent, id)))


# Files.


@operation(
    "GET",
    "/api/v1/export",
    scope=Scope.READ,
    media_types=tuple(media_type.partition(";")[0] for media_type in _MEDIA_TYPES.values()),
)
async def export_memories(
    context: Context, agent: AnyAgent = None, query: ExportQuery = _AS_JSONL
) -> TextStream:
    """Export all memories: lines that an import reads, Markdown, or a table."""
    pieces = stream_export(await context.services.memories(), agent, query)
    # A query that is not possible is refused before the response begins.
    first = await anext(pieces, "")
    return TextStream(
        media_type=_MEDIA_TYPES[query.format],
        filename=f"memories.{query.format}",
        pieces=_chain(first, pieces),
    )


async def _chain(first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for piece in rest:
        yield piece


def _read_lines(lines: Iterable[bytes]) -> ImportAsked:
    return ImportAsked(memories=tuple(parse_jsonl(lines)))


@correction("POST", "/api/v1/import", max_body_bytes=MAX_BODY_BYTES, line_reader=_read_lines)
async def import_memories(
    context: Context, agent: OneAgent, body: ImportAsked, query: ImportQuery = _NO_SOURCE
) -> ImportReceipt:
    """Import memories from elsewhere; those that are known already are not added again."""
    asked = msgspec.structs.replace(body, source=body.source or query.source)
    memories = await context.services.memories()
    return await memories.take_in(agent, asked, by=context.operator)
