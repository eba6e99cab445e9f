"""Brings what was heard in a session to memory, beside the session and without holding it up.

Memory is opened for a moment only, so that others can use it while a session lasts. What does not
get there is kept, and tried again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias

import msgspec

from memplane.errors import InvalidRequest, MemplaneError, UnknownMemory
from memplane.integrations.claude_code.process_runner import SIGNAL_EXIT_BASE
from memplane.integrations.claude_code.session_listener import SessionListener
from memplane.observations.api_types import IngestReceipt
from memplane.observations.requests import Heard, SessionEnded, SessionWanted
from memplane.service.client import Client
from memplane.service.operations import sessions

OpenClient: TypeAlias = Callable[[], AbstractAsyncContextManager[Client]]

OutputSource: TypeAlias = Callable[[Callable[[bytes], None]], Awaitable[int | None]]
"""Hands output over as it comes, and returns the exit code of whoever printed it, if it knows."""

_MAX_FINAL_ATTEMPTS: Final = 2
_MIN_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 30.0


class IngestSummary(msgspec.Struct):
    """What became of all that was heard in a session; each memory counts once."""

    asserted: set[int] = msgspec.field(default_factory=set[int])
    reinforced: set[int] = msgspec.field(default_factory=set[int])
    contradicted: set[int] = msgspec.field(default_factory=set[int])
    echoed: set[int] = msgspec.field(default_factory=set[int])
    quarantined: set[int] = msgspec.field(default_factory=set[int])
    retracted: int = 0
    rejects: Counter[str] = msgspec.field(default_factory=Counter[str])

    def add(self, receipt: IngestReceipt) -> None:
        """Count what a receipt says."""
        self.asserted.update(receipt.asserted)
        self.reinforced.update(receipt.reinforced)
        self.contradicted.update(receipt.contradicted)
        self.echoed.update(receipt.echoed)
        self.quarantined.update(receipt.quarantined)
        self.retracted += receipt.retracted
        self.rejects.update(one.reason for one in receipt.rejects)

    def summary(self) -> str:
        """Say it in a few words; empty when there is nothing to say."""
        counts = {
            "learned": len(self.asserted - self.quarantined),
            "confirmed": len(self.reinforced),
            "contradicted": len(self.contradicted),
            "held back": len(self.quarantined),
            "took back": self.retracted,
        }
        told = [f"{words} {count}" for words, count in counts.items() if count]
        if self.rejects:
            told.append(f"rejected {self.rejects.total()} ({', '.join(sorted(self.rejects))})")
        return ", ".join(told)


class SessionIngest(msgspec.Struct):
    """Carries what was heard to memory, in order.

    Args:
        open_client: Opens a client; whatever it raises is tried again later.
        wanted: The session.
        session: Its number, once it has one; it is begun when there is something to tell.
        pause: Waits so many seconds.
    """

    open_client: OpenClient
    wanted: SessionWanted
    session: int | None = None
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    learned: IngestSummary = msgspec.field(default_factory=IngestSummary)
    refused: list[str] = msgspec.field(default_factory=list[str])
    trouble: MemplaneError | OSError | None = None
    _left: deque[Heard] = msgspec.field(default_factory=deque[Heard])

    @property
    def left(self) -> int:
        """How much has not reached memory."""
        return len(self._left)

    async def drain_queue(self, queue: asyncio.Queue[Heard | None]) -> None:
        """Carry what comes, until None comes; what came last is left to `finish`."""
        wait = _MIN_PAUSE_S
        while await self._take(queue, wait):
            await self._try()
            wait = min(2 * wait, _MAX_PAUSE_S) if self.trouble else _MIN_PAUSE_S

    async def finish(self, ended: SessionEnded) -> None:
        """Deliver what is left, and end the session; `trouble` says why that was not possible."""
        for attempt in range(_MAX_FINAL_ATTEMPTS):
            if attempt:
                await self.pause(_MIN_PAUSE_S)
            await self._try(ended)
            if self.trouble is None:
                return

    async def _take(self, queue: asyncio.Queue[Heard | None], wait: float) -> bool:
        """Take all that has come; False when that was the end."""
        try:
            async with asyncio.timeout(wait if self._left else None):
                taken = [await queue.get()]
        except TimeoutError:
            return True
        while not queue.empty():
            taken.append(queue.get_nowait())
        self._left += (one for one in taken if one is not None)
        return None not in taken

    async def _try(self, ended: SessionEnded | None = None) -> None:
        if not self._left and (ended is None or self.session is None):
            return
        try:
            async with self.open_client() as client:
                await self._deliver(client)
                if ended is not None and self.session is not None:
                    await client.call(sessions.end_session, self.wanted.agent, self.session, ended)
            self.trouble = None
        except (MemplaneError, OSError) as error:
            self.trouble = error

    async def _deliver(self, client: Client) -> None:
        agent = self.wanted.agent
        while self._left:
            if self.session is None:
                wanted = msgspec.structs.replace(self.wanted, tell=False)
                begun = await client.call(sessions.begin_session, agent, wanted)
                self.session = begun.session
            try:
                receipt = await client.call(
                    sessions.learn_from_session, agent, self.session, self._left[0]
                )
            except (InvalidRequest, UnknownMemory) as error:
                # It would be refused for ever, and keep all that comes after it from memory.
                self.refused.append(str(error))
            else:
                self.learned.add(receipt)
            self._left.popleft()


async def ingest_session(
    source: OutputSource, listening: SessionListener, carrier: SessionIngest
) -> int | None:
    """Listen to a session to its end and learn meanwhile; returns its exit code.

    What was heard is learned also when the source fails. Memory that fails is no failure: what
    was left is said by the carrier.
    """
    carrying = asyncio.create_task(carrier.drain_queue(listening.queue), name="carry")
    code: int | None = 1
    try:
        code = await source(listening.hear)
    finally:
        listening.end(cut=code is not None and code > SIGNAL_EXIT_BASE)
        await carrying
        await carrier.finish(listening.outcome(code))
    return code
