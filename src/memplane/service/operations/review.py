"""Review: what waits for an operator's decision, which is conflicts, quarantine and rejects."""

from __future__ import annotations

from typing import Final

import msgspec

from memplane.auth.grants import Scope
from memplane.observations.api_types import (
    ConflictList,
    ConflictView,
    MemoryPage,
    MemoryView,
    RejectList,
)
from memplane.observations.requests import (
    AS_IT_WAS_SAID,
    AcceptAsked,
    ConflictQuery,
    LimitQuery,
    MemoryQuery,
    QuarantineQuery,
    ResolveAsked,
)
from memplane.service.operation import AnyAgent, Context, operation
from memplane.service.operations.observations import correction

_OPEN: Final = ConflictQuery()
_LAST: Final = LimitQuery()
_ALL: Final = QuarantineQuery()


@operation("GET", "/api/v1/conflicts", scope=Scope.READ)
async def list_conflicts(
    context: Context, agent: AnyAgent = None, query: ConflictQuery = _OPEN
) -> ConflictList:
    """List conflicts between memories, the oldest first."""
    memories = await context.services.memories()
    found = await memories.conflicts(agent, resolved=query.resolved)
    return ConflictList(conflicts=tuple(found))


@correction("POST", "/api/v1/conflicts/{id}/resolve", may_conflict=True)
async def resolve_conflict(
    context: Context, agent: AnyAgent, id: str, body: ResolveAsked
) -> ConflictView:
    """Resolve a conflict."""
    memories = await context.services.memories()
    return await memories.resolve(agent, id, body, by=context.operator)


@operation("GET", "/api/v1/rejects", scope=Scope.READ)
async def list_rejects(
    context: Context, agent: AnyAgent = None, query: LimitQuery = _LAST
) -> RejectList:
    """List statements that were rejected, the newest first."""
    memories = await context.services.memories()
    return RejectList(rejects=tuple(await memories.rejects(agent, limit=query.limit)))


@correction("POST", "/api/v1/rejects/{id}/accept", has_version=True, is_body_optional=True)
async def accept_reject(
    context: Context, agent: AnyAgent, id: str, body: AcceptAsked = AS_IT_WAS_SAID
) -> MemoryView:
    """Make a memory of a rejected statement."""
    memories = await context.services.memories()
    return await memories.accept(agent, id, body, by=context.operator)


@operation("GET", "/api/v1/quarantine", scope=Scope.READ)
async def list_quarantine(
    context: Context, agent: AnyAgent = None, query: QuarantineQuery = _ALL
) -> MemoryPage:
    """List memories in quarantine, which no prompt includes until they are approved."""
    asked = MemoryQuery(**msgspec.structs.asdict(query), state="quarantined")
    return await (await context.services.memories()).page(agent, asked)
