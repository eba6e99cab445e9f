"""`memplane memories`: see and correct what was learned.

Its arguments stand in `memories_options`, what it prints for people in `memories_show`, and what
reads files in `memories_files`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.cli.memories_arguments import configure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from memplane.observations.api_types import ActionView, EventView, MemoryView
    from memplane.service.client import Client
    from memplane.settings import Settings

__all__ = ["configure", "run"]

_DESCENDING_SORTS: Final = frozenset({"confidence", "updated", "created"})
_GENERAL_SERVICE: Final = "general"
_NEVER_EXPIRES: Final = "never"
_ACTIONS_WITHOUT_AGENT: Final = frozenset({"add", "rebuild"})
"""What makes an agent that is new, or is about none."""


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do what was asked, wherever the home's owner is."""
    from memplane.cli import memories_input
    from memplane.cli.agent_argument import expect_agent
    from memplane.cli.memories_session import open_client

    match arguments.action:
        case "guide":
            return _print_result(arguments, _guide(arguments))
        case "learn":
            return await memories_input.learn_from_output(arguments, settings)
        case "import":
            return await memories_input.import_memories(arguments, settings)
        case "purge":
            _confirm(arguments)
        case _:
            pass
    async with open_client(settings) as client:
        asking = _MemoriesRequest(arguments, settings, client)
        if asking.is_about_an_agent and asking.owner:
            await expect_agent(asking.owner, client, settings)
        if arguments.action == "export":
            return await _export(asking)
        answer = await _ACTIONS[arguments.action](asking)
    return _print_result(arguments, answer)


class _ActionResult(NamedTuple):
    """What is printed for machines, and how it is printed for people."""

    body: object
    show: Callable[[], None]
    done: bool = True


def _print_result(arguments: argparse.Namespace, answer: _ActionResult) -> int:
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.output import print_json

    if arguments.json:
        print_json(answer.body)
    else:
        answer.show()
    return EXIT_OK if answer.done else EXIT_FAILED


@dataclass(frozen=True, slots=True)
class _MemoriesRequest:
    """What was asked of operational memory."""

    arguments: argparse.Namespace
    settings: Settings
    client: Client

    @property
    def agent(self) -> str:
        """The one agent whose memories are meant."""
        from memplane.cli.agent_argument import resolve_agent

        return resolve_agent(self.arguments, self.settings)

    @property
    def scope(self) -> str | None:
        """Whose memories are listed; None is every agent's."""
        return None if self.arguments.all_agents else self.agent

    @property
    def owner(self) -> str | None:
        """Whose the memory with a number may be; a number alone is enough."""
        return self.arguments.agent or self.settings.agent or None

    @property
    def is_about_an_agent(self) -> bool:
        """Whether an agent that is named has to be there."""
        every = getattr(self.arguments, "all_agents", False)
        return not every and self.arguments.action not in _ACTIONS_WITHOUT_AGENT


# Seeing


async def _list(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.cli.memories_output import print_page
    from memplane.observations.model import Category
    from memplane.observations.requests import MemoryQuery
    from memplane.service.operations import observations, sessions

    given, scope = asking.arguments, asking.scope
    asked = MemoryQuery(
        service=given.service or "",
        category=Category(given.category) if given.category else None,
        state=given.state,
        tier=given.tier,
        contested=given.contested or None,
        pinned=given.pinned or None,
        stale=given.stale or None,
        as_of=given.as_of,
        known_at=given.known_at,
        session=given.session,
        user=given.user,
        q=given.q,
        sort=given.sort,
        order="desc" if (given.sort in _DESCENDING_SORTS) != given.reverse else "asc",
        limit=given.limit,
        cursor=given.cursor,
        forgotten="include" if given.include_forgotten else None,
    )
    if given.session is not None:
        # One that is unknown has no list.
        await asking.client.call(sessions.get_session, scope, given.session)
    page = await asking.client.call(observations.list_memories, scope, asked)
    return _ActionResult(page, lambda: print_page(page, every_agent=scope is None))


async def _show(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.observations.requests import WITH_TRASH
    from memplane.service.operations.observations import get_memory

    number = asking.arguments.id
    return _one(await asking.client.call(get_memory, asking.owner, number, WITH_TRASH))


async def _history(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.cli.memories_output import print_history
    from memplane.service.operations.observations import get_history

    found = await asking.client.call(get_history, asking.owner, asking.arguments.id)
    return _ActionResult(found, lambda: print_history(found.events))


async def _evidence(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.cli.memories_output import print_evidence
    from memplane.service.operations.observations import list_evidence

    found = await asking.client.call(list_evidence, asking.owner, asking.arguments.id)
    return _ActionResult(found, lambda: print_evidence(found.evidence))


async def _sessions(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.cli.memories_output import print_sessions
    from memplane.observations.requests import LimitQuery
    from memplane.service.operations.sessions import list_sessions

    query = LimitQuery(limit=asking.arguments.limit)
    found = await asking.client.call(list_sessions, asking.scope, query)
    return _ActionResult(found, lambda: print_sessions(found.sessions))


async def _stats(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.cli.memories_output import print_stats
    from memplane.service.operations.stats import get_stats

    stats = await asking.client.call(get_stats, asking.scope)
    return _ActionResult(stats, lambda: print_stats(stats))


def _one(memory: MemoryView) -> _ActionResult:
    from memplane.cli.memories_output import print_memory

    return _ActionResult(memory, lambda: print_memory(memory))


# Correcting


async def _add(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.observations.requests import MemoryCreate
    from memplane.service.operations.observations import add_memory

    given = asking.arguments
    wanted = MemoryCreate(
        category=given.category,
        observation=" ".join(given.text),
        service=_none_if(given.service, _GENERAL_SERVICE),
        confidence=given.confidence,
        active=given.active is not False,
        pinned=given.pin,
        expires_at=_none_if(given.expires, _NEVER_EXPIRES),
        user=given.user,
    )
    return _one(await asking.client.call(add_memory, asking.agent, wanted))


async def _edit(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.errors import InvalidRequest
    from memplane.observations.requests import MemoryPatch
    from memplane.service.operations.observations import update_memory

    given = asking.arguments
    named = {
        "observation": given.text,
        "category": given.category,
        "confidence": given.confidence,
        "active": given.active,
    }
    changes: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if given.service is not None:
        changes["service"] = _none_if(given.service, _GENERAL_SERVICE)
    if given.expires is not None:
        changes["expires_at"] = _none_if(given.expires, _NEVER_EXPIRES)
    if not changes:
        raise InvalidRequest("say what to change, such as --text or --confidence")
    versions = () if given.version is None else (given.version,)
    body = MemoryPatch(**changes)
    return _one(
        await asking.client.call(update_memory, asking.owner, given.id, body, versions=versions)
    )


def _none_if(given: str | None, nothing: str) -> str | None:
    return None if given in {None, "", nothing} else given


async def _act(asking: _MemoriesRequest) -> _ActionResult:
    """Do the same to one memory, or to several of them, all or nothing."""
    from memplane.cli.memories_output import print_outcome
    from memplane.observations.requests import BulkRequest, ReasonBody
    from memplane.service.operations.observations import ACTIONS, apply_bulk

    given = asking.arguments
    if len(given.id) == 1:
        action, body = ACTIONS[given.action], ReasonBody(reason=given.reason)
        return _one(await asking.client.call(action, asking.owner, given.id[0], body))
    several = BulkRequest(ids=tuple(given.id), action=given.action, reason=given.reason)
    outcome = await asking.client.call(apply_bulk, asking.owner, several)
    return _ActionResult(outcome, lambda: print_outcome(outcome), outcome.done)


async def _merge(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.observations.requests import MergeBody
    from memplane.service.operations.observations import merge_memory

    given = asking.arguments
    body = MergeBody(into=given.into, reason=given.reason)
    return _one(await asking.client.call(merge_memory, asking.owner, given.id, body))


async def _undo(asking: _MemoriesRequest) -> _ActionResult:
    """Take back the last change of a memory, a change by its name, or the last one of all."""
    from memplane.cli.memories_output import print_also_undone, print_change, print_memories
    from memplane.observations.requests import ReasonBody, UndoBody
    from memplane.service.operations.observations import get_history, undo_batch, undo_memory

    given, call, owner = asking.arguments, asking.client.call, asking.owner
    if given.id is not None:
        found = await call(undo_memory, owner, given.id, ReasonBody(reason=given.reason))
        print_also_undone((await call(get_history, owner, given.id)).events[-1].together)
        return _one(found)
    if given.batch is not None:
        undone = await call(undo_batch, owner, UndoBody(batch=given.batch))
    else:
        change = await _last_change(asking)
        undone = await call(undo_batch, owner, UndoBody(batch=change.event.batch))
        print_change(change)
    return _ActionResult(undone, lambda: print_memories(undone.memories))


async def _last_change(asking: _MemoriesRequest) -> ActionView:
    """Find the last thing that a person did to memories and that stands.

    Raises:
        UnknownMemory: There is none.
    """
    from memplane.errors import UnknownMemory
    from memplane.observations.requests import ActQuery
    from memplane.service.operations.stats import list_acts

    before = 0
    while True:
        asked = ActQuery(actor="operator", before=before)
        acts = (await asking.client.call(list_acts, asking.owner, asked)).acts
        for act in acts:
            if await _is_in_effect(asking.client, act.event):
                return act
        if not acts:
            raise UnknownMemory("nothing was changed that could be undone")
        before = acts[-1].seq


async def _is_in_effect(client: Client, event: EventView) -> bool:
    """Tell whether a person's change counts; an undo is none, and neither is what it undid."""
    from memplane.errors import UnknownMemory
    from memplane.service.operations.observations import get_history

    if event.kind == "undone" or not event.batch or event.memory_id is None:
        return False
    try:
        history = (await client.call(get_history, None, event.memory_id)).events
    except UnknownMemory:  # that it was written down was undone
        return False
    return any(one.id == event.id and not one.undone for one in history)


def _confirm(arguments: argparse.Namespace) -> None:
    """Let the words be typed before anything is erased."""
    from memplane.errors import InvalidRequest

    words = f"purge {arguments.id}"
    if arguments.confirm is None and sys.stdin.isatty():
        print(
            f"The words of memory {arguments.id} will be erased from memory for good. Turns and "
            "logs of sessions that said them stay, and are named then.",
            file=sys.stderr,
        )
        arguments.confirm = input(f"Type {words} to go on: ")
    if arguments.confirm is None or arguments.confirm.strip() != words:
        raise InvalidRequest(f'nothing was erased. Add --confirm "{words}"')


async def _purge(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.cli.memories_output import print_memory, print_remaining_copies
    from memplane.observations.requests import PurgeBody
    from memplane.observations.views import list_remaining_sources
    from memplane.service.operations.observations import list_evidence, purge_memory
    from memplane.service.operations.sessions import get_session

    given, call, owner = asking.arguments, asking.client.call, asking.owner
    body = PurgeBody(reason=given.reason, confirm=given.confirm.strip())
    # Nothing tells any more, afterwards.
    turns, sessions = list_remaining_sources((await call(list_evidence, owner, given.id)).evidence)
    found = await call(purge_memory, owner, given.id, body)
    kept = [await call(get_session, owner, number) for number in sessions]
    logs = {one.id: one.log_path for one in kept if one.log_path}

    def show() -> None:
        print_memory(found)
        print_remaining_copies(found.agent, turns, logs)

    return _ActionResult(found, show)


async def _rebuild(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.cli.memories_output import print_rebuild
    from memplane.service.operations.observations import rebuild_memories

    receipt = await asking.client.call(rebuild_memories)
    return _ActionResult(receipt, lambda: print_rebuild(receipt), receipt.same)


# Deciding


async def _conflicts(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.cli.memories_output import print_conflicts
    from memplane.observations.requests import ConflictQuery
    from memplane.service.operations.review import list_conflicts

    query = ConflictQuery(resolved=asking.arguments.resolved)
    found = await asking.client.call(list_conflicts, asking.scope, query)
    return _ActionResult(found, lambda: print_conflicts(found.conflicts))


async def _resolve(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.cli.memories_output import print_conflicts
    from memplane.observations.requests import ResolveAsked
    from memplane.service.operations.review import resolve_conflict

    given = asking.arguments
    asked = ResolveAsked(
        resolution=given.resolution, keep=given.keep, observation=given.text, reason=given.reason
    )
    ended = await asking.client.call(resolve_conflict, asking.owner, given.id, asked)
    return _ActionResult(ended, lambda: print_conflicts([ended]))


async def _rejects(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.cli.memories_output import print_rejects
    from memplane.observations.requests import LimitQuery
    from memplane.service.operations.review import list_rejects

    query = LimitQuery(limit=asking.arguments.limit)
    found = await asking.client.call(list_rejects, asking.scope, query)
    return _ActionResult(found, lambda: print_rejects(found.rejects))


async def _accept(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.observations.requests import AcceptAsked
    from memplane.service.operations.review import accept_reject

    given = asking.arguments
    asked = AcceptAsked(category=given.category, service=given.service, observation=given.text)
    return _one(await asking.client.call(accept_reject, asking.owner, given.id, asked))


# Telling


async def _preview(asking: _MemoriesRequest) -> _ActionResult:
    from memplane.cli.memories_output import print_prompt
    from memplane.observations.requests import PromptQuery
    from memplane.service.operations.sessions import preview_prompt

    given = asking.arguments
    query = PromptQuery(
        services=tuple(given.service),
        budget=given.budget,
        session=given.session,
        prompt=given.prompt,
        user=given.user,
    )
    prompt = await asking.client.call(preview_prompt, asking.agent, query)
    return _ActionResult(prompt, lambda: print_prompt(prompt))


def _guide(arguments: argparse.Namespace) -> _ActionResult:
    from memplane.observations.agent_guide import build_guide, build_output_schema

    text = build_guide(arguments.tier, arguments.mode)
    shape = build_output_schema() if arguments.mode == "structured" else None
    return _ActionResult({"guide": text, "schema": shape}, lambda: print(text, end=""))


async def _export(asking: _MemoriesRequest) -> int:
    from memplane.cli import EXIT_OK
    from memplane.observations.requests import ExportQuery
    from memplane.service.operations.observations import export_memories

    given = asking.arguments
    query = ExportQuery(
        service=given.service or "",
        state=given.state,
        user=given.user,
        forgotten="include" if given.include_forgotten else None,
        format=given.format,
    )
    text = await asking.client.call(export_memories, asking.scope, query)
    async for piece in text.pieces:
        sys.stdout.buffer.write(piece.encode())  # as it is: a table has its own ends of lines
    sys.stdout.buffer.flush()
    return EXIT_OK


_ACTIONS: Final[dict[str, Callable[[_MemoriesRequest], Awaitable[_ActionResult]]]] = {
    "list": _list,
    "show": _show,
    "history": _history,
    "evidence": _evidence,
    "sessions": _sessions,
    "stats": _stats,
    "add": _add,
    "edit": _edit,
    "retire": _act,
    "restore": _act,
    "pin": _act,
    "unpin": _act,
    "approve": _act,
    "share": _act,
    "merge": _merge,
    "undo": _undo,
    "purge": _purge,
    "rebuild": _rebuild,
    "conflicts": _conflicts,
    "resolve": _resolve,
    "rejects": _rejects,
    "accept": _accept,
    "preview": _preview,
}
