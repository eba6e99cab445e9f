"""Retain into other people's memory services: what ledgers have, delivered until it is taken.

The ledger is the outbox and each agent has its own place in it, so a crash loses nothing: the
next start goes on behind the last entry that was acknowledged. Within an agent the order is
kept, and an agent whose service is slow holds up nobody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from memplane.clock import Clock, stamp
from memplane.errors import InvalidCursor, MemplaneError
from memplane.ledger.cursor import BEGINNING, Cursor, decode_cursor, encode_cursor
from memplane.ledger.folder import AgentFolder
from memplane.ledger.heads import instant
from memplane.ledger.reader import LARGEST_PAGE, Found, open_entry, open_last, open_page
from memplane.ledger.tombstones import Forgotten
from memplane.objects.pacing import Attempts, Pacing
from memplane.pod.contexts import AgentContext, ProxiedAgent
from memplane.pod.manifest import MemoryManifest
from memplane.proxy.outbox import (
    DeadLetter,
    Progress,
    Route,
    bury_letter,
    dead_letters,
    keep_progress,
    read_progress,
    settle_letters,
)
from memplane.redaction.redactor import Redacted
from memplane.services.client import (
    Address,
    Answered,
    Outcome,
    ServiceClient,
    Unanswered,
    asked_pause,
    explained,
)
from memplane.services.wire import retain_body
from memplane.telemetry import MemoryOp, MemoryOperation, MemoryStatus

FIRST_SECONDS: Final = 2.0
LATER_SECONDS: Final = 10.0
PATIENCE: Final = timedelta(days=7)
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 300.0
_FAILED_TURN: Final = "error"
_LONGEST_REASON: Final = 300

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivering:
    """Everything that a delivery needs.

    `agent_of` reads what the pod says of an agent, anew each time; None when it has no context.
    `is_left_out` names turns that are nobody's memory, and `removed_of` says how many secrets
    were taken out of a turn before it was recorded.
    """

    folder: Path
    ledgers: Path
    tombstones: tuple[Path, ...]
    client: ServiceClient
    redact: Callable[[bytes], Redacted[bytes]]
    agent_of: Callable[[str], ProxiedAgent | None]
    emit: Callable[[MemoryOp], None]
    clock: Clock
    pacing: Pacing = field(default_factory=Pacing)
    is_left_out: Callable[[str, str], bool] = lambda _agent, _entry: False
    removed_of: Callable[[str, str], int] = lambda _agent, _entry: 0


@dataclass(frozen=True, slots=True)
class _Ready:
    """The next entry of a route; `before` is where it is found again."""

    id: str
    body: bytes
    removed: int
    told: datetime | None
    cursor: Cursor
    before: Cursor


@dataclass(frozen=True, slots=True)
class Redriven:
    """What came of trying dead letters again; those that are no entries any more are dropped."""

    delivered: int = 0
    dropped: int = 0
    left: tuple[DeadLetter, ...] = ()


class Deliveries:
    """Delivers what is recorded. `recorded` may be called for any agent, also one without a pod.

    Everything runs on one event loop.
    """

    def __init__(self, needs: Delivering) -> None:
        self._needs = needs
        self._agents: dict[str, _Agent] = {}
        self._known: set[Route] = set()
        self._draining = False

    @property
    def waiting(self) -> int:
        """How many entries are still to be delivered, as far as is known."""
        return sum(one.waiting for one in self._agents.values())

    async def start(self, contexts: Iterable[AgentContext]) -> None:
        """Go on with every agent that has a service; a new one begins with what is to come."""
        for context in contexts:
            try:
                if await self.expect(context):
                    agent = self._agent(context.agent)
                    agent.waiting = await asyncio.to_thread(self._count, _route(context))
                    agent.wake()
            except (MemplaneError, OSError) as error:
                _log.warning("nothing is delivered for %s yet: %s", context.agent, error)

    async def expect(self, context: AgentContext) -> bool:
        """Make durable where an agent's delivery begins, before a turn of it is recorded.

        False when it has no service that retains. It costs nothing from the second time on.

        Raises:
            LedgerError: It cannot be kept.
        """
        if context.memory is None or context.memory.retain is None:
            return False
        route = _route(context)
        if route not in self._known:
            await asyncio.to_thread(progress_of, self._needs, route)
            self._known.add(route)
        return True

    def recorded(self, agent: str) -> None:
        """Say that a turn of an agent was recorded; it is delivered soon."""
        if not self._draining:
            one = self._agent(agent)
            one.waiting += 1
            one.wake()

    async def drain(self, seconds: float) -> int:
        """Deliver what can be at once, for so long at most, and end; returns how many wait.

        What waits stays in the ledger, and the next start goes on with it.
        """
        self._draining = True
        for one in self._agents.values():
            one.hurry()
        tasks = [one.task for one in self._agents.values() if one.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self.waiting

    def _agent(self, agent: str) -> _Agent:
        if agent not in self._agents:
            self._agents[agent] = _Agent(self._needs, agent, lambda: self.waiting)
        return self._agents[agent]

    def _count(self, route: Route) -> int:
        folder = AgentFolder(self._needs.ledgers, route.agent)
        cursor, more, count = progress_of(self._needs, route).cursor, True, 0
        try:
            while more:
                with open_page(folder, cursor=cursor, limit=LARGEST_PAGE) as page:
                    count += len(page.entries)
                cursor, more = page.next, page.has_more
        except InvalidCursor:
            return count
        return count


class _Agent:
    """Delivers one agent's entries, one after the other, whenever it is woken."""

    def __init__(self, needs: Delivering, agent: str, depth: Callable[[], int]) -> None:
        self.waiting = 0
        self.task: asyncio.Task[None] | None = None
        self._needs = needs
        self._agent = agent
        self._depth = depth
        self._forgotten = Forgotten(needs.tombstones, agent)
        self._again = False
        self._resting = False
        self._hurried = False

    def wake(self) -> None:
        """Deliver what there is; what comes meanwhile is delivered too."""
        self._again = True
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._run())

    def hurry(self) -> None:
        """Do not wait for anything any more."""
        self._hurried = True
        if self._resting and self.task is not None:
            self.task.cancel()

    async def _run(self) -> None:
        pauses = self._attempts(float("inf"))
        while self._again:
            self._again = False
            try:
                await self._deliver_all()
                pauses = self._attempts(float("inf"))
            except Exception as error:  # noqa: BLE001 - it is kept, and tried again
                _log.warning("nothing is delivered for %s now: %s", self._agent, error)
                if not self._hurried:
                    self._again = await self._rested(pauses)

    async def _deliver_all(self) -> None:
        while (found := await self._target()) is not None:
            context, manifest = found
            ready = await asyncio.to_thread(self._next, context)
            if ready is None:
                self.waiting = 0
                return
            if not await self._settled(manifest, _route(context), ready):
                return

    async def _target(self) -> tuple[AgentContext, MemoryManifest] | None:
        """Say where to deliver to now; None, and told so, when there is no such place."""
        found = await asyncio.to_thread(self._needs.agent_of, self._agent)
        manifest = found.context.memory if found else None
        if found is not None and manifest is not None and manifest.retain is not None:
            return found.context, manifest
        if found is not None and self.waiting:
            if found.broken:
                self._tell("", MemoryStatus.FAILED, error=found.broken)
            elif manifest is not None:
                self._tell(manifest.service, MemoryStatus.SKIPPED)
        self.waiting = 0
        return None

    def _next(self, context: AgentContext) -> _Ready | None:
        """Read on to the next entry that is to be delivered."""
        needs, route = self._needs, _route(context)
        folder = AgentFolder(needs.ledgers, self._agent)
        # Without a place it is the entry that was recorded just now.
        progress = progress_of(needs, route, without_last=1)
        cursor = start = progress.cursor
        while True:
            self._forgotten.refresh()
            found = _entry_behind(folder, cursor)
            if found is None:
                if cursor != start:
                    keep_progress(needs.folder, route, Progress(cursor))
                return None
            before, cursor = cursor, found.cursor
            if found.line is not None and self._is_wanted(found):
                return _ready(needs, context, found, before)
            self.waiting = max(self.waiting - 1, 0)

    def _is_wanted(self, found: _Line) -> bool:
        is_failed = found.head_status == _FAILED_TURN
        return not (
            is_failed
            or found.cursor.id in self._forgotten
            or self._needs.is_left_out(self._agent, found.cursor.id)
        )

    async def _settled(self, manifest: MemoryManifest, route: Route, ready: _Ready) -> bool:
        """Deliver an entry, or give it up; False when that has to wait."""
        needs = self._needs
        progress = await asyncio.to_thread(progress_of, needs, route)
        attempts = self._attempts(self._patience(progress, ready))
        while True:
            if await asyncio.to_thread(self._was_forgotten, ready.id):
                break
            outcome = await self._post(manifest, ready, progress.attempts + 1)
            if outcome.ok:
                break
            progress = Progress(
                progress.cursor, progress.since or needs.clock(), progress.attempts + 1
            )
            if outcome.may_pass:
                await asyncio.to_thread(keep_progress, needs.folder, route, progress)
                if self._hurried:
                    return False
                if await self._rested(attempts, _asked(outcome, needs.clock())):
                    fresh = await self._target()
                    if fresh is None or fresh[1].service != route.service:
                        return fresh is not None
                    manifest = fresh[1]
                    continue
            letter = _letter(route, ready, outcome, manifest, needs.clock())
            await asyncio.to_thread(bury_letter, needs.folder, letter)
            break
        # Only now: whatever happened before, the entry would have been sent again.
        await asyncio.to_thread(keep_progress, needs.folder, route, Progress(ready.cursor))
        self.waiting = max(self.waiting - 1, 0)
        return True

    def _was_forgotten(self, entry_id: str) -> bool:
        self._forgotten.refresh()
        return entry_id in self._forgotten

    async def _post(self, manifest: MemoryManifest, ready: _Ready, attempt: int) -> Outcome:
        return await _posted(
            self._needs, self._agent, manifest, ready, attempt=attempt, depth=self._depth()
        )

    def _patience(self, progress: Progress, ready: _Ready) -> float:
        """Say until when an entry is tried: a week from its first failure, or from its turn."""
        now = self._needs.clock()
        since = max(progress.since or now, ready.told or datetime.min.replace(tzinfo=UTC))
        return (min(since, now) + PATIENCE - now).total_seconds()

    def _attempts(self, seconds: float) -> Attempts:
        pacing = self._needs.pacing
        # Twenty per cent more or less, where others take fifty.
        narrow = replace(pacing, chance=lambda: 0.3 + 0.4 * pacing.chance())
        until = pacing.elapsed() + seconds
        return Attempts(narrow, until=until, wait=_FIRST_PAUSE, longest=_LONGEST_PAUSE)

    async def _rested(self, attempts: Attempts, at_least: float = 0.0) -> bool:
        self._resting = True
        try:
            return await attempts.another(at_least=at_least)
        finally:
            self._resting = False

    def _tell(self, service: str, status: MemoryStatus, *, error: str = "") -> None:
        self._needs.emit(
            MemoryOp(
                ts=self._needs.clock(),
                claw_id=self._agent,
                error=error,
                memory_service=service,
                memory_op=MemoryOperation.RETAIN,
                memory_status=status,
            )
        )


@dataclass(frozen=True, slots=True)
class _Line:
    """An entry of a ledger; without a line it was erased just now."""

    cursor: Cursor
    head_status: str
    told: datetime | None
    line: bytes | None


def progress_of(needs: Delivering, route: Route, *, without_last: int = 0) -> Progress:
    """Return where a delivery is; a new one begins at the ledger's end, and that is kept.

    `without_last` entries before the end are to be delivered too.

    Raises:
        LedgerError: It cannot be read or kept.
    """
    progress = read_progress(needs.folder, route)
    if progress is not None:
        return progress
    with open_last(AgentFolder(needs.ledgers, route.agent), without_last + 1) as page:
        is_enough = len(page.entries) > without_last
        progress = Progress(page.entries[0].cursor if is_enough else BEGINNING)
    keep_progress(needs.folder, route, progress)
    return progress


async def redrive(needs: Delivering, *, agents: Iterable[str] = ()) -> Redriven:
    """Try dead letters again, once each; of these agents only, if any are named.

    Raises:
        LedgerError: A file cannot be read or written.
    """
    wanted = frozenset(agents)
    letters = await asyncio.to_thread(dead_letters, needs.folder)
    delivered = dropped = 0
    left: list[DeadLetter] = []
    for letter in letters:
        if wanted and letter.agent not in wanted:
            continue
        came = await _redriven(needs, letter)
        if isinstance(came, DeadLetter):
            left.append(came)
            await asyncio.to_thread(bury_letter, needs.folder, came)
            continue
        delivered, dropped = delivered + came, dropped + (not came)
        await asyncio.to_thread(
            settle_letters, needs.folder, letter.route, _is_about(letter.entry_id)
        )
    return Redriven(delivered, dropped, tuple(left))


def _is_about(entry_id: str) -> Callable[[DeadLetter], bool]:
    return lambda one: one.entry_id == entry_id


async def _redriven(needs: Delivering, letter: DeadLetter) -> DeadLetter | bool:
    """Try a letter: whether it was delivered or is nobody's any more, or why it is left."""
    found = await asyncio.to_thread(needs.agent_of, letter.agent)
    manifest = found.context.memory if found else None
    if found is None or manifest is None or manifest.service != letter.service:
        return replace(letter, reason=f"{letter.agent} does not use this service any more")
    if manifest.retain is None:
        return replace(letter, reason="this service does not retain any more")
    ready = await asyncio.to_thread(_found_again, needs, found.context, letter)
    if ready is None:
        return False
    outcome = await _posted(needs, letter.agent, manifest, ready, attempt=2)
    if outcome.ok:
        return True
    return _letter(letter.route, ready, outcome, manifest, needs.clock())


def _found_again(needs: Delivering, context: AgentContext, letter: DeadLetter) -> _Ready | None:
    """Read the entry of a letter; None when it was forgotten or erased."""
    forgotten = Forgotten(needs.tombstones, letter.agent)
    forgotten.refresh()
    if letter.entry_id in forgotten:
        return None
    folder = AgentFolder(needs.ledgers, letter.agent)
    before = BEGINNING
    try:
        before = decode_cursor(letter.before)
        found = _entry_behind(folder, before, again=False)
    except InvalidCursor:
        found = None
    if found is None or found.cursor.id != letter.entry_id:
        # The ledger was moved or mended since: it may lie anywhere in it.
        with open_entry(folder, letter.entry_id) as page:
            found = next((_line(one) for one in page.entries), None)
    if found is None or found.line is None:
        return None
    return _ready(needs, context, found, before)


def _entry_behind(folder: AgentFolder, cursor: Cursor, *, again: bool = True) -> _Line | None:
    try:
        with open_page(folder, cursor=cursor, limit=1) as page:
            return _line(page.entries[0]) if page.entries else None
    except InvalidCursor:
        if not again:
            raise
        # Another ledger lies there now. What it shares with the old one is known by its ids.
        _log.warning("the ledger of %s is delivered from its beginning again", folder.agent)
        return _entry_behind(folder, BEGINNING, again=False)


def _line(found: Found) -> _Line:
    cursor = found.cursor
    with found.source.opened() as file:
        file.seek(found.offset)
        line = file.read(found.size).rstrip(b"\n")
    return _Line(cursor, found.head.status, instant(found.head.ts), line)


def _ready(needs: Delivering, context: AgentContext, found: _Line, before: Cursor) -> _Ready:
    entry_id = found.cursor.id
    redacted = needs.redact(found.line or b"")
    removed = needs.removed_of(context.agent, entry_id)
    body = retain_body(context, redacted, removed=removed)
    removed += sum(redacted.counts.values())
    return _Ready(entry_id, body, removed, found.told, found.cursor, before)


async def _posted(
    needs: Delivering,
    agent: str,
    manifest: MemoryManifest,
    ready: _Ready,
    *,
    attempt: int,
    depth: int | None = None,
) -> Outcome:
    """Send an entry once, and tell how that went."""
    if manifest.retain is None:
        raise ValueError("the service does not retain")
    least = FIRST_SECONDS if attempt == 1 else LATER_SECONDS
    seconds = max(least, (manifest.retain.timeout_ms or 0) / 1000)
    address = Address(manifest.url_of(manifest.retain), manifest.token, seconds)
    started = needs.pacing.elapsed()
    outcome = await needs.client.post(address, ready.body)
    took = needs.pacing.elapsed() - started
    needs.emit(
        MemoryOp(
            ts=needs.clock(),
            claw_id=agent,
            latency_ms=round(took * 1000),
            status_code=outcome.status if isinstance(outcome, Answered) else 0,
            error=_error(outcome, manifest),
            memory_service=manifest.service,
            memory_op=MemoryOperation.RETAIN,
            memory_status=_status(outcome),
            memory_removed=ready.removed,
            memory_attempt=attempt,
            memory_queue=depth,
        )
    )
    return outcome


def _status(outcome: Outcome) -> MemoryStatus:
    match outcome:
        case Answered():
            return MemoryStatus.SUCCEEDED if outcome.ok else MemoryStatus.FAILED
        case Unanswered(late=late):
            return MemoryStatus.TIMED_OUT if late else MemoryStatus.FAILED


def _error(outcome: Outcome, manifest: MemoryManifest) -> str:
    match outcome:
        case Answered(status):
            return "" if outcome.ok else f"retain returned status {status}"
        case Unanswered():
            return explained("retain", outcome, manifest.token)


def _asked(outcome: Outcome, now: datetime) -> float:
    return asked_pause(outcome.retry_after, now) if isinstance(outcome, Answered) else 0.0


def _letter(
    route: Route, ready: _Ready, outcome: Outcome, manifest: MemoryManifest, now: datetime
) -> DeadLetter:
    # The words of the service stay out of it: they may quote what it was sent.
    return DeadLetter(
        service=route.service,
        agent=route.agent,
        entry_id=ready.id,
        ts=stamp(now),
        status=outcome.status if isinstance(outcome, Answered) else 0,
        reason=_error(outcome, manifest)[:_LONGEST_REASON],
        before=encode_cursor(ready.before),
    )


def _route(context: AgentContext) -> Route:
    return Route(context.memory.service if context.memory else "", context.agent)
