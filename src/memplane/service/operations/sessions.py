"""Sessions: what a run of an agent gets in its prompt, and what is learned from what it says."""

from __future__ import annotations

from typing import Final

import msgspec

from memplane.auth.grants import Scope
from memplane.observations.api_types import (
    AttestedSession,
    IngestReceipt,
    PromptView,
    SessionList,
    SessionView,
    StartedSession,
)
from memplane.observations.requests import (
    ENDED,
    Heard,
    LimitQuery,
    ObservationStatement,
    PromptQuery,
    SessionAttested,
    SessionEnded,
    SessionWanted,
)
from memplane.service.operation import (
    SMALL_BODY_BYTES,
    AnyAgent,
    Context,
    OneAgent,
    operation,
)

_NEXT_PROMPT: Final = PromptQuery()
_LAST: Final = LimitQuery()


@operation("GET", "/api/v1/preview", scope=Scope.READ)
async def preview_prompt(
    context: Context, agent: OneAgent, query: PromptQuery = _NEXT_PROMPT
) -> PromptView:
    """Return what the next prompt would include, what it would leave out, and why."""
    return await (await context.services.memories()).preview(agent, query)


@operation("GET", "/api/v1/sessions", scope=Scope.READ)
async def list_sessions(
    context: Context, agent: AnyAgent = None, query: LimitQuery = _LAST
) -> SessionList:
    """List the last sessions, the newest first."""
    memories = await context.services.memories()
    return SessionList(sessions=tuple(await memories.sessions(agent, limit=query.limit)))


@operation("GET", "/api/v1/sessions/{id:int}", scope=Scope.READ)
async def get_session(context: Context, agent: AnyAgent, id: int) -> SessionView:
    """Return a session."""
    return await (await context.services.memories()).session(agent, id)


@operation(
    "POST",
    "/api/v1/sessions",
    scope=Scope.WRITE,
    status=201,
    is_slow=True,
    replaces_half_characters=True,
)
async def begin_session(context: Context, agent: OneAgent, body: SessionWanted) -> StartedSession:
    """Begin a session, and keep what its prompt includes."""
    wanted = msgspec.structs.replace(body, agent=agent)
    return await (await context.services.memories()).begin(wanted)


@operation(
    "POST",
    "/api/v1/sessions/attest",
    scope=Scope.WRITE,
    max_body_bytes=SMALL_BODY_BYTES,
    replaces_half_characters=True,
)
async def attest_session(
    context: Context, agent: OneAgent, body: SessionAttested
) -> AttestedSession:
    """Say that a client's session is real, as its hook does: its turns have a vote of their own.

    It belongs before the first turn of the session. The same again changes nothing.
    """
    memories = await context.services.memories()
    return AttestedSession(session=await memories.attest_session(agent, body.cli_session))


@operation(
    "POST",
    "/api/v1/sessions/{id:int}/heard",
    scope=Scope.WRITE,
    is_slow=True,
    replaces_half_characters=True,
)
async def learn_from_session(
    context: Context, agent: AnyAgent, id: int, body: Heard
) -> IngestReceipt:
    """Learn from what happened in a session; it is durable on return."""
    memories = await context.services.memories()
    owner = agent or (await memories.session(None, id)).agent
    return await memories.hear(owner, id, body)


@operation(
    "POST",
    "/api/v1/observe",
    scope=Scope.WRITE,
    max_body_bytes=SMALL_BODY_BYTES,
    is_slow=True,
    replaces_half_characters=True,
)
async def observe(context: Context, agent: OneAgent, body: ObservationStatement) -> IngestReceipt:
    """Learn an observation that an agent makes outside of any session."""
    return await (await context.services.memories()).observe(agent, body)


@operation(
    "POST",
    "/api/v1/sessions/{id:int}/end",
    scope=Scope.WRITE,
    max_body_bytes=SMALL_BODY_BYTES,
    is_body_optional=True,
    is_slow=True,
    replaces_half_characters=True,
)
async def end_session(
    context: Context, agent: AnyAgent, id: int, body: SessionEnded = ENDED
) -> SessionView:
    """End a session."""
    memories = await context.services.memories()
    owner = agent or (await memories.session(None, id)).agent
    return await memories.end(owner, id, body)
