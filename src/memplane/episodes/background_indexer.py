"""The work behind the verbs: following ledgers, deriving, indexing, embedding.

It waits while entries are retained, goes on after a failure, and keeps nothing of its own: what
is left to do stands in the database.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from memplane.database.interface import RecordStore
from memplane.episodes.derivation import derive_pending
from memplane.episodes.episode_embeddings import EpisodeEmbeddings
from memplane.episodes.episode_index import EpisodeIndex
from memplane.episodes.ledger_follower import (
    OWN_LEDGER,
    RECEIVED_LEDGER,
    MemorySources,
    follow_ledger,
    list_ledgers,
)
from memplane.ledger.reader import MAX_PAGE_ENTRIES

_log = logging.getLogger(__name__)

_FOLLOW_AFTER_ENTRIES: Final = 5000
_INDEX_AFTER_ENTRIES: Final = 4000
_FOLLOW_INTERVAL_S: Final = 1.0
_QUIET_PERIOD_S: Final = 0.2
_YIELD_FACTOR: Final = 4
"""For a piece of work that others had to wait for, they have so many times as long."""
_SMALL_STEP_ENTRIES: Final = 2
_MAX_SMALL_STEPS: Final = 32
_MAX_DELAY_S: Final = 300.0
_RETRY_DELAY_S: Final = 5.0
_BUSY_WRITES_PER_S: Final = 50
_BUSY_PAUSE_FACTOR: Final = 9


class BackgroundIndexer:
    """Does the work that is left, whenever there is some."""

    def __init__(
        self, records: RecordStore, places: MemorySources, indexing: EpisodeIndex
    ) -> None:
        self.unreadable = 0
        """How many lines of ledgers could not be read."""
        self.working = asyncio.Lock()
        """Held by whoever does the work."""
        self.told: Callable[[], None] = lambda: None
        """Called whenever entries were taken in."""
        self.remembered: Callable[[str, int], None] | None = None
        """Called in a thread with an agent, and how many turns of our own ledger were taken in.

        What was taken in before somebody wants to know is told then.
        """
        self.unanswered = ""
        """What became of processes that should have answered questions."""
        self._records = records
        self._places = places
        self._indexing = indexing
        self._underived = ""
        self._unembedded = ""
        self._is_warm = False
        self._untold: Counter[str] = Counter()
        self._to_follow: dict[tuple[str, str], None] = {}
        self._received_by: dict[str, None] = {}
        self._since_followed = 0
        self._written = 0
        self._since_indexed = 0
        self._busy_at = 0.0
        self._followed_at = 0.0
        self._closed = asyncio.Event()
        self._woken = asyncio.Event()
        self._to_embed = asyncio.Event()

    @property
    def degraded(self) -> str:
        """What an operator should know, although retaining and recalling go on."""
        return self._underived or self._unembedded or self.unanswered

    @property
    def is_busy(self) -> bool:
        """Whether it works, or has something to follow."""
        return self.working.locked() or bool(self._to_follow)

    def wake(self) -> None:
        """Let it look for work."""
        self._woken.set()

    def end(self) -> None:
        """Let `run` and `run_embedding` return; what is left is done after the next start."""
        self._closed.set()
        self._woken.set()
        self._to_embed.set()

    # What it is told.

    def recorded(self, agent: str) -> None:
        """Be told that our own ledger has a new turn of an agent."""
        self._to_follow[OWN_LEDGER, agent] = None
        self._busy_at = asyncio.get_running_loop().time()
        self._woken.set()

    def on_ledger_write(self, agents: Iterable[str]) -> None:
        """Be told that the ledger of received entries has some that the database may not have."""
        self._to_follow.update(((RECEIVED_LEDGER, agent), None) for agent in agents)

    def on_database_write(self, agents: Sequence[str]) -> None:
        """Be told that these entries need not be followed."""
        self._received_by.update(dict.fromkeys(agents))
        self._since_followed += len(agents)
        self._written += len(agents)
        self._since_indexed += len(agents)
        self._busy_at = asyncio.get_running_loop().time()
        if self._since_followed >= _FOLLOW_AFTER_ENTRIES:
            self._follow_received()
        if agents:
            self._woken.set()
            self.told()

    def _follow_received(self) -> None:
        """Move on with the cursors of received entries, so that the next start is short."""
        self.on_ledger_write(self._received_by)
        self._received_by.clear()
        self._since_followed = 0

    # What it does.

    async def run(self) -> None:
        """Follow, derive and index, until the end."""
        while not self._closed.is_set():
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._let_others_go_first()
                async with self.working:
                    await self.work(politely=True)
            except Exception as error:  # noqa: BLE001 - the work is kept, and tried again
                self._underived = f"what was retained is not derived: {error}"
                _log.warning("%s", self._underived, exc_info=True)
                await self._pause(_RETRY_DELAY_S)
                self._woken.set()
                continue
            self._underived = ""

    async def _let_others_go_first(self) -> None:
        """Wait until nothing is retained or recorded, but not for ever.

        What was recorded is followed and indexed meanwhile, together and once a second: each time
        costs those who wait for an answer a little.
        """
        loop = asyncio.get_running_loop()
        latest = loop.time() + _MAX_DELAY_S
        while not self._closed.is_set() and loop.time() < min(
            self._busy_at + _QUIET_PERIOD_S, latest
        ):
            if self._to_follow and loop.time() >= self._followed_at + _FOLLOW_INTERVAL_S:
                async with self.working:
                    await self.follow_all(politely=True)
                    await self._index_all()
            if self._since_indexed >= _INDEX_AFTER_ENTRIES:
                await self._index_all()
            await self._pause(_QUIET_PERIOD_S / 4)

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until `end`: closing never waits for a pause."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    async def work(self, *, politely: bool = False) -> None:
        """Do all that is left now. Whoever calls it holds `working`.

        Politely, most of the time is left to those who retain and record meanwhile.
        """
        await self.follow_all()
        await self._index_all()
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not self._closed.is_set() and await self._records.write(derive_pending):
            spent = loop.time() - began
            if politely and loop.time() < self._busy_at + _QUIET_PERIOD_S:
                await asyncio.sleep(_YIELD_FACTOR * spent)
            began = loop.time()
        await self._index_all()
        self._to_embed.set()

    async def look_again(self) -> None:
        """Follow every ledger when there is work next, as at the start."""
        self._to_follow.update(dict.fromkeys(await list_ledgers(self._places)))

    async def follow_all(self, *, politely: bool = False) -> None:
        """Take in what ledgers have and the database does not.

        Politely, it begins with small steps and lets others go on between them: streams that begin
        would all wait for what was recorded in a second. Where more was, that is done at once.
        """
        loop = asyncio.get_running_loop()
        self._followed_at = loop.time()
        small_steps = _MAX_SMALL_STEPS if politely else 0
        while self._to_follow:
            # Taken off first: what is recorded meanwhile puts it there again.
            ledger, agent = one = self._to_follow.popitem()[0]
            limit = _SMALL_STEP_ENTRIES if small_steps else MAX_PAGE_ENTRIES
            began = loop.time()
            try:
                followed = await follow_ledger(
                    self._records, self._places, ledger, agent, limit=limit
                )
            except BaseException:
                self._to_follow[one] = None
                raise
            if followed.has_more:
                self._to_follow[one] = None
            self.unreadable += followed.unreadable
            if followed.entries:
                self.told()
            if ledger == OWN_LEDGER:
                self._untold[agent] += followed.remembered
            if small_steps:
                small_steps -= 1
                await asyncio.sleep(_YIELD_FACTOR * (loop.time() - began))
        await self._tell_remembered()

    async def _tell_remembered(self) -> None:
        if self.remembered is None:
            return
        untold, self._untold = self._untold, Counter()
        for agent, turns in untold.items():
            if turns:
                await asyncio.to_thread(self.remembered, agent, turns)

    async def follow_received(self) -> None:
        """At the end: move on with the cursors of what was received, and do no more."""
        self._to_follow.clear()
        self._follow_received()
        await self.follow_all()

    async def _index_all(self) -> None:
        self._since_indexed = 0
        await self._indexing.catch_up()
        if self._indexing.is_broken:
            self._woken.set()

    async def run_embedding(self, meaning: EpisodeEmbeddings) -> None:
        """Give episodes vectors, until the end; what cannot be had now is tried again later."""
        while not self._closed.is_set():
            await self._to_embed.wait()
            self._to_embed.clear()
            try:
                await self._embed_all(meaning)
                self._unembedded = ""
            except Exception as error:  # noqa: BLE001 - a model may raise anything; tried again
                self._unembedded = f"episodes wait for their vectors: {error}"
                _log.warning("%s", self._unembedded)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_DELAY_S):
                        await self._to_embed.wait()
                self._to_embed.set()

    async def _embed_all(self, meaning: EpisodeEmbeddings) -> None:
        if not self._is_warm:
            await meaning.warm()
            self._is_warm = True
        clock = asyncio.get_running_loop().time
        while not self._closed.is_set():
            started, written = clock(), self._written
            if not await meaning.embed_pending():
                return
            elapsed = clock() - started
            if self._written - written > elapsed * _BUSY_WRITES_PER_S:
                # Whoever retains many turns at once is not to wait for their vectors.
                await self._pause(elapsed * _BUSY_PAUSE_FACTOR)
