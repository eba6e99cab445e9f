"""`memplane memories`: see and correct what was learned.

Its arguments stand in `memories_options`, what it prints for people in `memories_show`, and what
reads files in `memories_files`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.cli.memories_options import configure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from memplane.observations.contract import MemoryView, OperationalMemory
    from memplane.settings import Settings

__all__ = ["configure", "run"]

_DOWNWARDS: Final = frozenset({"confidence", "updated", "created"})
_GENERAL: Final = "general"
_NEVER: Final = "never"


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do what was asked, wherever the home's owner is."""
    from memplane.cli import memories_files
    from memplane.cli.opening import open_memories

    match arguments.action:
        case "guide":
            return _told(arguments, _guide(arguments))
        case "learn":
            return await memories_files.learn(arguments, settings)
        case "import":
            return await memories_files.take_in(arguments, settings)
        case "purge":
            _confirm(arguments)
        case _:
            pass
    async with open_memories(settings) as memories:
        asking = _Asking(arguments, settings, memories)
        if arguments.action == "export":
            return await _export(asking)
        answer = await _ACTIONS[arguments.action](asking)
    return _told(arguments, answer)


class _Answer(NamedTuple):
    """What is printed for machines, and how it is printed for people."""

    body: object
    show: Callable[[], None]
    done: bool = True


def _told(arguments: argparse.Namespace, answer: _Answer) -> int:
    from memplane.cli import FAILED, OK
    from memplane.cli.show import print_json

    if arguments.json:
        print_json(answer.body)
    else:
        answer.show()
    return OK if answer.done else FAILED


@dataclass(frozen=True, slots=True)
class _Asking:
    """What was asked of operational memory."""

    arguments: argparse.Namespace
    settings: Settings
    memories: OperationalMemory

    @property
    def agent(self) -> str:
        """The one agent whose memories are meant."""
        from memplane.cli.agents import agent_of

        return agent_of(self.arguments, self.settings)

    @property
    def scope(self) -> str | None:
        """Whose memories are listed; None is every agent's."""
        return None if self.arguments.all_agents else self.agent

    @property
    def owner(self) -> str | None:
        """Whose the memory with a number may be; a number alone is enough."""
        return self.arguments.agent or self.settings.agent or None

    @property
    def by(self) -> str:
        """Who asks."""
        from memplane.cli.opening import operator

        return operator()


# Seeing


async def _list(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_page
    from memplane.observations.contract import ListAsked
    from memplane.observations.model import Category

    given, scope = asking.arguments, asking.scope
    asked = ListAsked(
        service=given.service,
        category=Category(given.category) if given.category else None,
        state=given.state,
        tier=given.tier,
        contested=given.contested or None,
        pinned=given.pinned or None,
        stale=given.stale or None,
        as_of=given.as_of,
        known_at=given.known_at,
        session=given.session,
        q=given.q,
        sort=given.sort,
        descending=(given.sort in _DOWNWARDS) != given.reverse,
        limit=given.limit,
        cursor=given.cursor,
    )
    page = await asking.memories.page(scope, asked)
    return _Answer(page, lambda: print_page(page, every_agent=scope is None))


async def _show(asking: _Asking) -> _Answer:
    return _one(await asking.memories.one(asking.owner, asking.arguments.id, trash=True))


async def _history(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_history

    events = await asking.memories.history(asking.owner, asking.arguments.id)
    return _Answer({"events": events}, lambda: print_history(events))


async def _evidence(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_evidence

    evidence = await asking.memories.evidence(asking.owner, asking.arguments.id)
    return _Answer({"evidence": evidence}, lambda: print_evidence(evidence))


async def _sessions(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_sessions

    sessions = await asking.memories.sessions(asking.scope, limit=asking.arguments.limit)
    return _Answer({"sessions": sessions}, lambda: print_sessions(sessions))


async def _stats(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_stats

    stats = await asking.memories.stats(asking.scope)
    return _Answer(stats, lambda: print_stats(stats))


def _one(memory: MemoryView) -> _Answer:
    from memplane.cli.memories_show import print_memory

    return _Answer(memory, lambda: print_memory(memory))


# Correcting


async def _add(asking: _Asking) -> _Answer:
    from memplane.observations.contract import MemoryWanted

    given = asking.arguments
    wanted = MemoryWanted(
        category=given.category,
        observation=" ".join(given.text),
        service=_unless(given.service, _GENERAL),
        confidence=given.confidence,
        active=given.active is not False,
        pinned=given.pin,
        expires_at=_unless(given.expires, _NEVER),
    )
    return _one(await asking.memories.add(asking.agent, wanted, by=asking.by))


async def _edit(asking: _Asking) -> _Answer:
    from memplane.errors import InvalidRequest
    from memplane.observations.contract import MemoryChange

    given = asking.arguments
    named = {
        "observation": given.text,
        "category": given.category,
        "confidence": given.confidence,
        "active": given.active,
    }
    changes: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if given.service is not None:
        changes["service"] = _unless(given.service, _GENERAL)
    if given.expires is not None:
        changes["expires_at"] = _unless(given.expires, _NEVER)
    if not changes:
        raise InvalidRequest("say what to change, such as --text or --confidence")
    changed = await asking.memories.change(
        asking.owner, given.id, MemoryChange(**changes), by=asking.by, version=given.version
    )
    return _one(changed)


def _unless(given: str | None, nothing: str) -> str | None:
    return None if given in {None, "", nothing} else given


async def _act(asking: _Asking) -> _Answer:
    """Do the same to one memory, or to several of them, all or nothing."""
    from memplane.cli.memories_show import print_outcome
    from memplane.observations.contract import ActAsked, BulkAsked

    given = asking.arguments
    if len(given.id) == 1:
        asked = ActAsked(act=given.action, reason=given.reason)
        return _one(await asking.memories.act(asking.owner, given.id[0], asked, by=asking.by))
    several = BulkAsked(ids=tuple(given.id), action=given.action, reason=given.reason)
    outcome = await asking.memories.bulk(asking.owner, several, by=asking.by)
    return _Answer(outcome, lambda: print_outcome(outcome), outcome.done)


async def _merge(asking: _Asking) -> _Answer:
    from memplane.observations.contract import ActAsked

    given = asking.arguments
    asked = ActAsked(act="merge", into=given.into, reason=given.reason)
    return _one(await asking.memories.act(asking.owner, given.id, asked, by=asking.by))


async def _undo(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_memories, print_undone_with
    from memplane.observations.contract import ActAsked

    given = asking.arguments
    if given.batch is None:
        asked = ActAsked(act="undo", reason=given.reason)
        found = await asking.memories.act(asking.owner, given.id, asked, by=asking.by)
        last = (await asking.memories.history(asking.owner, given.id))[-1]
        print_undone_with(last.together)
        return _one(found)
    undone = await asking.memories.undo(asking.owner, given.batch, by=asking.by)
    return _Answer({"memories": undone}, lambda: print_memories(undone))


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


async def _purge(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_memory, print_still_said
    from memplane.observations.contract import ActAsked
    from memplane.observations.views import still_saying

    given, memories = asking.arguments, asking.memories
    asked = ActAsked(act="purge", reason=given.reason, confirm=given.confirm.strip())
    # Nothing tells any more, afterwards.
    turns, sessions = still_saying(await memories.evidence(asking.owner, given.id))
    found = await memories.act(asking.owner, given.id, asked, by=asking.by)
    kept = [await memories.session(asking.owner, number) for number in sessions]
    logs = {one.id: one.log_path for one in kept if one.log_path}

    def show() -> None:
        print_memory(found)
        print_still_said(found.agent, turns, logs)

    return _Answer(found, show)


async def _rebuild(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_rebuilt

    receipt = await asking.memories.rebuild()
    return _Answer(receipt, lambda: print_rebuilt(receipt), receipt.same)


# Deciding


async def _conflicts(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_conflicts

    given = asking.arguments
    conflicts = await asking.memories.conflicts(asking.scope, resolved=given.resolved)
    return _Answer({"conflicts": conflicts}, lambda: print_conflicts(conflicts))


async def _resolve(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_conflicts
    from memplane.observations.contract import ResolveAsked

    given = asking.arguments
    asked = ResolveAsked(
        resolution=given.resolution, keep=given.keep, observation=given.text, reason=given.reason
    )
    ended = await asking.memories.resolve(asking.owner, given.id, asked, by=asking.by)
    return _Answer(ended, lambda: print_conflicts([ended]))


async def _rejects(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_rejects

    rejects = await asking.memories.rejects(asking.scope, limit=asking.arguments.limit)
    return _Answer({"rejects": rejects}, lambda: print_rejects(rejects))


async def _accept(asking: _Asking) -> _Answer:
    from memplane.observations.contract import AcceptAsked

    given = asking.arguments
    asked = AcceptAsked(category=given.category, service=given.service, observation=given.text)
    return _one(await asking.memories.accept(asking.owner, given.id, asked, by=asking.by))


# Telling


async def _preview(asking: _Asking) -> _Answer:
    from memplane.cli.memories_show import print_prompt
    from memplane.observations.contract import PromptAsked

    given = asking.arguments
    asked = PromptAsked(
        agent=asking.agent,
        services=tuple(given.service),
        budget=given.budget,
        session=given.session,
        prompt=given.prompt,
    )
    prompt = await asking.memories.preview(asked)
    return _Answer(prompt, lambda: print_prompt(prompt))


def _guide(arguments: argparse.Namespace) -> _Answer:
    from memplane.observations.guide import guide, schema

    text = guide(arguments.tier, arguments.mode)
    shape = schema() if arguments.mode == "structured" else None
    return _Answer({"guide": text, "schema": shape}, lambda: print(text, end=""))


async def _export(asking: _Asking) -> int:
    from memplane.cli import OK
    from memplane.observations.contract import ListAsked
    from memplane.observations.walking import exported

    given = asking.arguments
    asked = ListAsked(service=given.service, state=given.state)
    async for piece in exported(asking.memories, asking.scope, asked, given.format):
        sys.stdout.buffer.write(piece.encode())  # as it is: a table has its own ends of lines
    sys.stdout.buffer.flush()
    return OK


_ACTIONS: Final[dict[str, Callable[[_Asking], Awaitable[_Answer]]]] = {
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
