"""What stands in conversations already, so that it goes on standing there with the same bytes.

A text is written in the background, a moment after its turn has gone on; until then it is found
here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Protocol, TypeAlias

from memplane.auth.memory_scope import MemoryScope
from memplane.episodes.injection_store import Injection, TurnPlace
from memplane.errors import MemplaneError
from memplane.exchange.dialect import Conversation
from memplane.proxy.conversation_position import ConversationPosition, find_answer_places

_SAME_TURN_US: Final = 600 * 1_000_000
"""Microseconds within which a prompt that comes again can be the same turn."""

_PlaceKey: TypeAlias = tuple[MemoryScope, str, str]
"""Whose conversation it is, and two parts of a place in it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """A turn that is recorded.

    Args:
        scope: Whose it is.
        session: In which it was said; empty where clients do not tell.
        prompt: The place of the prompt that it answers.
        entry: Its id.
        at: When it was recorded, in microseconds.
        stood: Works out where it stands, which takes a while, once.
    """

    scope: MemoryScope
    session: str
    prompt: str
    entry: str
    at: int
    stood: Callable[[], ConversationPosition]


class InjectionStore(Protocol):
    """Where texts are kept for good."""

    async def injected(self, scope: MemoryScope, places: Sequence[str]) -> list[Injection]:
        """Return what stands at places, the newest first."""
        ...

    async def any_forgotten(self, agent: str, entries: Collection[str]) -> bool:
        """Say whether any of an agent's entries was forgotten."""
        ...

    async def save_injections(self, texts: Sequence[Injection]) -> None:
        """Keep texts."""
        ...

    async def save_turn_places(self, turns: Sequence[TurnPlace]) -> None:
        """Keep where turns were said."""
        ...


class StickyInjections:
    """Finds and keeps what stands in conversations. `run` writes; `end` lets it return.

    `since` is when it began, in microseconds; it does not know what was answered before. So many
    seconds `later` it writes: whoever writes at once shares the interpreter with the turn that is
    being sent, and that takes longer for it.
    """

    def __init__(self, kept: InjectionStore, since: int = 0, *, later: float = 0.05) -> None:
        self._kept = kept
        self._since = since
        self._later = later
        self._unwritten: dict[_PlaceKey, Injection] = {}
        self._answered: list[AnsweredTurn] = []
        self._latest: dict[_PlaceKey, int] = {}
        """When prompts were answered, and scopes, the newest last; what is too old goes."""
        self._woken = asyncio.Event()
        self._ending = asyncio.Event()

    async def find(
        self, scope: MemoryScope, places: Sequence[str], session: str
    ) -> dict[str, Injection]:
        """Return the text at each place that has one: this session's, or else the newest."""
        if not places:
            return {}
        there = {*places}
        mine = [one for one in self._unwritten.values() if one.scope == scope]
        written = await self._kept.injected(scope, places)
        new = [
            one
            for one in mine
            if one.place in there and not await self._kept.any_forgotten(scope.agent, one.cited)
        ]
        return _choose_nearest([*new, *written], session)

    def keep(self, text: Injection) -> None:
        """Keep a text at its place."""
        self._unwritten[text.scope, text.place, text.session] = text
        self._woken.set()

    def answered(self, turn: AnsweredTurn) -> None:
        """Keep where a turn was said, and that its prompt is answered."""
        self._answered.append(turn)
        self._woken.set()
        for key in ((turn.scope, turn.session, turn.prompt), _any_session_key(turn.scope)):
            self._latest.pop(key, None)
            self._latest[key] = turn.at
        self._forget_before(turn.at - _SAME_TURN_US)

    def standing(
        self, conversation: Conversation, scope: MemoryScope
    ) -> tuple[list[str], list[str]]:
        """Say which turns stand in a conversation that are not written down yet.

        Returns their entries, and all places of answers in it.
        """
        places = list(find_answer_places(conversation))
        entries: list[str] = []
        prompts = {one.place for one in conversation.prompts}
        for one in reversed(self._answered):
            # Where a turn stands is worked out only if it may stand here.
            if one.scope != scope or not (one.prompt in prompts or conversation.after):
                continue
            stood = one.stood()
            if not {stood.place, *stood.names}.isdisjoint(places):
                entries.append(one.entry)
                places += stood.after
        return entries, places

    def is_same_turn(self, text: Injection, session: str, now: int) -> bool:
        """Say whether a prompt at which this text stands is being sent again, and not said anew.

        It is the same turn until it was answered. Without a session nobody knows which prompt was
        sent again: then any turn of the agent ends it, so that what was said since is recalled.
        """
        if session != text.session or now - text.at >= _SAME_TURN_US:
            return False
        if session:
            answered = self._latest.get((text.scope, session, text.place), -1)
        else:
            answered = self._latest.get(_any_session_key(text.scope), self._since)
        return answered < text.at

    def _forget_before(self, at: int) -> None:
        for key in list(takewhile(lambda one: self._latest[one] < at, self._latest)):
            del self._latest[key]

    async def run(self) -> None:
        """Write what is to be kept, until the end; what cannot be written is given up."""
        while not self.is_written or not self._ending.is_set():
            await self._woken.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), self._later)
            self._woken.clear()
            written: Mapping[_PlaceKey, Injection] = dict(self._unwritten)
            answered = list(self._answered)
            try:
                if written:
                    await self._kept.save_injections(list(written.values()))
                if answered:
                    await self._kept.save_turn_places(
                        await asyncio.to_thread(_list_positions, answered)
                    )
            except MemplaneError as error:
                # The provider's cache misses once: no turn is worth less for it.
                _log.warning("what was put into %d prompts is not kept: %s", len(written), error)
            except Exception:  # noqa: BLE001 - see below
                # What nobody thought of must not end this for everybody.
                _log.exception("what was put into %d prompts is not kept", len(written))
            del self._answered[: len(answered)]
            for key, text in written.items():
                if self._unwritten.get(key) is text:
                    del self._unwritten[key]

    @property
    def is_written(self) -> bool:
        """Whether nothing waits to be kept."""
        return not self._unwritten and not self._answered

    def end(self) -> None:
        """Let `run` return once everything is written."""
        self._ending.set()
        self._woken.set()


def _any_session_key(scope: MemoryScope) -> _PlaceKey:
    return scope, "", ""


def _list_positions(turns: Iterable[AnsweredTurn]) -> list[TurnPlace]:
    said: list[TurnPlace] = []
    for one in turns:
        stood = one.stood()
        said.append(TurnPlace(one.scope, stood.place, one.entry, one.at))
        said += (
            TurnPlace(one.scope, name, one.entry, one.at, stood.after) for name in stood.names
        )
    return said


def _choose_nearest(texts: Iterable[Injection], session: str) -> dict[str, Injection]:
    """Choose for each place. That nothing stands there counts for its own session only."""
    nearest: dict[str, Injection] = {}
    for one in texts:
        if not one.text and one.session != session:
            continue
        known = nearest.get(one.place)
        if known is None or (one.session == session and known.session != session):
            nearest[one.place] = one
    return nearest
