"""End users of agents: who there is, what is theirs, and a request to delete or to see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Final

import msgspec

from memplane.auth.grants import Scope
from memplane.auth.memory_scope import check_user
from memplane.episodes.user_deletion import UserForgetReceipt
from memplane.episodes.user_export import ExportReceipt, add_receipt, iterate_turn_lines
from memplane.errors import InvalidRequest
from memplane.kit.clock import format_timestamp, system_clock
from memplane.service.operation import (
    SMALL_BODY_BYTES,
    Context,
    OneAgent,
    TextStream,
    operation,
)

_MAX_IDS: Final = 1000


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    """A user or a view of an agent that has turns; without both it is what all share.

    `noise` of its turns say nothing new.
    """

    user: str
    view: str
    turns: int
    noise: int


class UserList(msgspec.Struct, frozen=True):
    """The users and the views of an agent."""

    users: tuple[UserView, ...]


class ShareRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Turns that all users of an agent may be told about from now on."""

    agent: str
    ids: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=_MAX_IDS)]


class ShareReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The turns that were somebody's and are shared now."""

    shared: tuple[str, ...]


class UserForgetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A user of an agent who is to be deleted; `confirm` is the user's name again."""

    agent: str
    user: str
    confirm: str
    reason: str = ""


class UserQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which user."""

    user: Annotated[str, msgspec.Meta(description="The end user, as requests name them.")]


@operation("GET", "/api/v1/users", scope=Scope.READ)
async def list_users(context: Context, agent: OneAgent) -> UserList:
    """List the users and the views of an agent, with how many turns each has."""
    memory = await context.services.lazy_memory.memory()
    found = await memory.users.list_scopes(agent)
    return UserList(
        tuple(
            UserView(user=one.user, view=one.view, turns=one.episodes, noise=one.noise)
            for one in found
        )
    )


@operation(
    "POST",
    "/api/v1/memory/share",
    scope=Scope.ADMIN,
    max_body_bytes=SMALL_BODY_BYTES,
    is_slow=True,
    refusals={404: "An entry is in no ledger of that agent's."},
)
async def share_turns(context: Context, body: ShareRequest) -> ShareReceipt:
    """Let all users of an agent be told about turns of one of them."""
    memory = await context.services.lazy_memory.memory()
    return ShareReceipt(shared=tuple(await memory.users.share(body.agent, body.ids)))


@operation(
    "POST",
    "/api/v1/memory/forget-user",
    scope=Scope.ADMIN,
    max_body_bytes=SMALL_BODY_BYTES,
    is_slow=True,
)
async def forget_user(context: Context, body: UserForgetRequest) -> UserForgetReceipt:
    """Delete everything of a user from every place, and say what was deleted where."""
    user = check_user(body.user)
    if body.confirm.strip() != user:
        raise InvalidRequest(f"all of {user} will be gone for good: confirm with their name")
    memory = await context.services.lazy_memory.memory()
    curator = await context.services.lazy_memory.curator()
    return await memory.users.forget(body.agent, user, curator.forget_user, reason=body.reason)


@operation(
    "GET",
    "/api/v1/memory/export-user",
    scope=Scope.READ,
    media_types=("application/x-ndjson",),
)
async def export_user(context: Context, agent: OneAgent, query: UserQuery) -> TextStream:
    """Export everything of a user: turns, what was learned from them, and a receipt."""
    user = check_user(query.user)
    memory = await context.services.lazy_memory.memory()
    curator = await context.services.lazy_memory.curator()
    ids = await memory.users.list_turns(agent, user)
    forgotten = [one for one in ids if await memory.any_forgotten(agent, [one])]
    observations, events = await curator.list_of_user(agent, user)
    receipt = ExportReceipt(
        agent=agent,
        user=user,
        at=format_timestamp(system_clock()),
        turns=0,
        observations=0,
        events=0,
        sha256="",
    )
    lines = add_receipt(
        iterate_turn_lines(memory.places, agent, ids, forgotten),
        [_line("observation", "memory", one) for one in observations],
        [_line("event", "event", one) for one in events],
        receipt,
    )
    return TextStream(
        media_type="application/x-ndjson", filename="user.jsonl", pieces=_read_in_thread(lines)
    )


def _line(kind: str, member: str, value: object) -> str:
    return msgspec.json.encode({"kind": kind, member: value}).decode() + "\n"


async def _read_in_thread(lines: Iterator[str]) -> AsyncIterator[str]:
    while (line := await asyncio.to_thread(next, lines, None)) is not None:
        yield line
