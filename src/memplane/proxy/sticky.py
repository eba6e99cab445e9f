"""What stands in conversations already, so that it goes on standing there with the same bytes.

A text is written in the background; until it is, it is found here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from memplane.errors import MemplaneError
from memplane.memory.injections import Injection, Said

_SAME_TURN: Final = 600 * 1_000_000
"""Microseconds within which a prompt that comes again without a session is the same turn."""

_log = logging.getLogger(__name__)


class Kept(Protocol):
    """Where texts are kept for good."""

    async def injected(self, agent: str, places: Sequence[str]) -> list[Injection]:
        """Return what stands at places, the newest first."""
        ...

    async def keep_injected(self, texts: Sequence[Injection]) -> None:
        """Keep texts."""
        ...

    async def keep_said(self, turns: Sequence[Said]) -> None:
        """Keep where turns were said."""
        ...


class Sticky:
    """Finds and keeps what stands in conversations. `run` writes; `end` lets it return."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._unwritten: dict[tuple[str, str, str], Injection] = {}
        self._said: list[Said] = []
        self._woken = asyncio.Event()
        self._ending = False

    async def find(self, agent: str, places: Sequence[str], session: str) -> dict[str, Injection]:
        """Return the text at each place that has one: this session's, or else the newest."""
        if not places:
            return {}
        new = [one for one in self._unwritten.values() if one.agent == agent]
        there = {*places}
        held = [*(one for one in new if one.place in there)]
        held += await self._kept.injected(agent, places)
        return _nearest(held, session)

    def keep(self, text: Injection) -> None:
        """Keep a text at its place."""
        self._unwritten[text.agent, text.place, text.session] = text
        self._woken.set()

    def said(self, turn: Said) -> None:
        """Keep where a turn was said."""
        self._said.append(turn)
        self._woken.set()

    async def run(self) -> None:
        """Write what is to be kept, until the end; what cannot be written is given up."""
        while self._unwritten or self._said or not self._ending:
            await self._woken.wait()
            self._woken.clear()
            written: Mapping[tuple[str, str, str], Injection] = dict(self._unwritten)
            said, self._said = self._said, []
            try:
                if written:
                    await self._kept.keep_injected(list(written.values()))
                if said:
                    await self._kept.keep_said(said)
            except MemplaneError as error:
                # The provider's cache misses once: no turn is worth less for it.
                _log.warning("what was put into %d prompts is not kept: %s", len(written), error)
            for key, text in written.items():
                if self._unwritten.get(key) is text:
                    del self._unwritten[key]

    def end(self) -> None:
        """Let `run` return once everything is written."""
        self._ending = True
        self._woken.set()


def is_same_turn(text: Injection, session: str, now: int) -> bool:
    """Say whether a prompt at which this text stands is being sent again, and not said anew."""
    if session or text.session:
        return session == text.session
    return now - text.at < _SAME_TURN


def _nearest(texts: Iterable[Injection], session: str) -> dict[str, Injection]:
    """Choose for each place. That nothing stands there counts for its own session only."""
    nearest: dict[str, Injection] = {}
    for one in texts:
        if not one.text and one.session != session:
            continue
        known = nearest.get(one.place)
        if known is None or (one.session == session and known.session != session):
            nearest[one.place] = one
    return nearest
