"""Filling a memory service from the ledgers that a proxy keeps, as far as it has not been yet."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import aiohttp
import msgspec

from memplane.auth.agent_id import AGENT_ID_RULE, is_agent_id
from memplane.errors import EntryTooLarge, HomeError, InvalidRequest, MemplaneError
from memplane.integrations.clawdapus.memory_service.history_client import (
    HISTORY_TIMEOUT,
    PageOutcome,
    PageReceived,
    PermanentFailure,
    TemporaryFailure,
    UnknownCursor,
    build_history_url,
    fetch_page,
)
from memplane.integrations.clawdapus.memory_service.history_pagination import (
    PAGE_OVERLAP,
    EndOfHistory,
    HistoryPage,
    NextPage,
    NoProgress,
    PageStart,
    decide_next_page,
    is_out_of_order,
)
from memplane.kit.private_files import make_private_folder, read_private_file, replace_private_file
from memplane.kit.retry_clock import RetryAttempts, RetryClock
from memplane.ledger.canonical_json import reencode_json
from memplane.ledger.entry_head import add_missing_id, parse_rfc3339, read_entry_head
from memplane.secret import Secret

RetainEntry: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[object]]
"""Takes an entry of an agent; it is durable when this returns."""

_MAX_IN_FLIGHT_ENTRIES: Final = 16
_MAX_IN_FLIGHT_BYTES: Final = 8 * 1024 * 1024
_RETRY_DEADLINE_S: Final = 900.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HistorySource:
    """What a proxy gave us to read: its address, our token for it, and whose ledgers."""

    url: str
    token: Secret
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HistoryImportReport:
    """How far the filling from one agent's ledger came.

    `skipped` lines are no entries, or were refused for good. `errors` are turns that failed,
    which nobody retains. `problem` says what is to be known, also where all was read.
    """

    agent: str
    entries: int = 0
    pages: int = 0
    skipped: int = 0
    complete: bool = False
    problem: str = ""
    errors: int = 0


async def import_history(
    history: HistorySource,
    retain: RetainEntry,
    *,
    checkpoints: Path,
    pacing: RetryClock | None = None,
) -> list[HistoryImportReport]:
    """Hand every entry of the agents' ledgers on that was not handed on before.

    How far it came is kept in the folder, for each address and agent. A proxy that does not
    answer is waited for, a quarter of an hour; what goes wrong with one agent is in its report.
    """
    reports: list[HistoryImportReport] = []
    async with aiohttp.ClientSession(
        timeout=HISTORY_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        for agent in history.agents:
            walk = _LedgerImport(history, agent, retain, session, pacing or RetryClock())
            reports.append(await walk.run_to_end(checkpoints))
    return reports


@dataclass(frozen=True, slots=True)
class _ImportedEntry:
    id: str
    at: datetime | None
    failed: bool
    body: Mapping[str, Any]
    size: int


@dataclass(slots=True)
class _LedgerImport:
    """The walk through one agent's ledger, from where it was left to its end."""

    history: HistorySource
    agent: str
    retain: RetainEntry
    session: aiohttp.ClientSession
    pacing: RetryClock
    place: PageStart = field(default_factory=PageStart)
    # What was handed on and can come again, with its time.
    met: dict[str, datetime | None] = field(default_factory=dict[str, datetime | None])
    entries: int = 0
    pages: int = 0
    skipped: int = 0
    errors: int = 0
    doubt: str = ""

    async def run_to_end(self, checkpoints: Path) -> HistoryImportReport:
        """Walk page by page, and note after each how far it came."""
        if not is_agent_id(self.agent):
            return self._report(AGENT_ID_RULE)
        url = build_history_url(self.history.url, self.agent)
        if url is None or not self.history.token.reveal().isprintable():
            return self._report("the proxy's address or token cannot be used")
        file = _checkpoint_file(checkpoints, self.history.url, self.agent)
        self.place, self.met = await asyncio.to_thread(_read_checkpoint, file)
        while True:
            page = await self._page(url)
            if isinstance(page, str):
                return self._report(page)
            decided = decide_next_page(self.place, page)
            if isinstance(decided, NoProgress):
                return self._report(f"{decided.why}: the rest cannot be read")
            self._note_doubts(decided, page)
            self._move_to(decided.place)
            try:
                await asyncio.to_thread(_write_checkpoint, file, self.place, list(self.met))
            except (HomeError, OSError) as error:
                return self._report(f"how far it came cannot be kept: {error}")
            if isinstance(decided, EndOfHistory):
                return self._report(self.doubt, complete=True)

    def _report(self, problem: str, *, complete: bool = False) -> HistoryImportReport:
        return HistoryImportReport(
            agent=self.agent,
            entries=self.entries,
            pages=self.pages,
            skipped=self.skipped,
            complete=complete,
            problem=problem,
            errors=self.errors,
        )

    def _note_doubts(self, decided: NextPage | EndOfHistory, page: HistoryPage) -> None:
        if page.next_cursor:
            return
        if isinstance(decided, NextPage) and decided.overlap < PAGE_OVERLAP:
            late = int(decided.overlap.total_seconds())
            self.doubt = f"so many turns at once that any recorded {late} s late may be missing"
        elif is_out_of_order(page.times) and not self.doubt:
            late = int(PAGE_OVERLAP.total_seconds())
            self.doubt = f"turns are out of order by more than {late} s: some may be missing"

    def _move_to(self, place: PageStart) -> None:
        self.place = place
        after = place.after
        if place.cursor:
            self.met.clear()
        elif after is not None:
            self.met = {
                entry_id: at for entry_id, at in self.met.items() if at is not None and at > after
            }

    async def _page(self, url: str) -> HistoryPage | str:
        """Read a page, however often that takes; why there is none comes back as words."""
        until = self.pacing.elapsed() + _RETRY_DEADLINE_S
        attempts = RetryAttempts(self.pacing, until=until, wait=0.5, max_wait_s=30.0)
        while True:
            reading = _PageAttempt(self)
            match await reading.fetch(url):
                case PageReceived(next_cursor, has_more, skipped):
                    self.pages += 1
                    self.skipped += skipped + reading.skipped
                    reading.page.next_cursor, reading.page.has_more = next_cursor, has_more
                    return reading.page
                case UnknownCursor():
                    _log.warning("%s does not know our cursor; it is read from its start", url)
                    self._move_to(PageStart())
                case PermanentFailure(why):
                    return why
                case TemporaryFailure(why, at_least):
                    if not await attempts.wait_for_next(at_least=at_least):
                        return why


@dataclass(slots=True)
class _PageAttempt:
    """One attempt at a page. What it hands on counts, also where the page is cut off."""

    walk: _LedgerImport
    page: HistoryPage = field(default_factory=HistoryPage)
    skipped: int = 0
    batch: dict[str, _ImportedEntry] = field(default_factory=dict[str, _ImportedEntry])
    size: int = 0

    async def fetch(self, url: str) -> PageOutcome:
        """Ask, and wait until what came is retained."""
        walk = self.walk
        try:
            outcome = await fetch_page(
                walk.session, url, walk.place, token=walk.history.token, take=self._add_line
            )
            await self._store_batch()
        except MemplaneError as error:
            return TemporaryFailure(f"an entry could not be kept: {error}")
        return outcome

    async def _add_line(self, line: bytes | None) -> None:
        if line is not None and not line.strip():
            return
        self.page.lines += 1
        entry = None if line is None else _read_entry(line)
        if entry is None:
            self.skipped += 1
            return
        if entry.at is not None:
            self.page.times.append(entry.at)
        if entry.id in self.walk.met:
            self.walk.met[entry.id] = entry.at
            return
        self.page.new += 1
        self.batch[entry.id] = entry
        self.size += entry.size
        if len(self.batch) == _MAX_IN_FLIGHT_ENTRIES or self.size >= _MAX_IN_FLIGHT_BYTES:
            await self._store_batch()

    async def _store_batch(self) -> None:
        """Retain the batch side by side, and wait for all of it.

        Raises:
            MemplaneError: An entry could not be kept now; the others were.
        """
        batch, self.batch, self.size = self.batch, {}, 0
        kept = [entry for entry in batch.values() if not entry.failed]
        outcomes = await asyncio.gather(
            *(self.walk.retain(self.walk.agent, entry.body) for entry in kept),
            return_exceptions=True,
        )
        failure: BaseException | None = None
        for entry, outcome in zip(kept, outcomes, strict=True):
            if isinstance(outcome, InvalidRequest | EntryTooLarge):
                _log.warning("an entry of %s is refused: %s", self.walk.agent, outcome)
                self.walk.skipped += 1
            elif isinstance(outcome, BaseException):
                del batch[entry.id]
                failure = outcome
            else:
                self.walk.entries += 1
        self.walk.errors += sum(entry.failed for entry in batch.values())
        self.walk.met |= {entry.id: entry.at for entry in batch.values()}
        if failure is not None:
            raise failure


def _read_entry(line: bytes) -> _ImportedEntry | None:
    """Read a line; None when it is no entry. One without an id gets the one its bytes have."""
    head = read_entry_head(line)
    if head is None:
        return None
    identifier, whole = add_missing_id(line, head)
    for attempt in (bytes, _make_readable):
        try:
            body: object = msgspec.json.decode(attempt(whole))
        except (ValueError, RecursionError):
            continue
        if isinstance(body, dict):
            failed = head.status == "error"
            entry = cast("dict[str, Any]", body)
            return _ImportedEntry(identifier, parse_rfc3339(head.ts), failed, entry, len(line))
    return None


def _make_readable(line: bytes) -> bytes:
    """Write a line anew that has half a surrogate pair in it, or bytes that are not UTF-8."""
    return reencode_json(line.decode("utf-8", "replace").encode())


# How far it came


class _ImportCheckpoint(msgspec.Struct):
    cursor: str = ""
    after: datetime | None = None
    met: list[str] = []


def _checkpoint_file(folder: Path, url: str, agent: str) -> Path:
    return folder / f"{agent}-{hashlib.sha256(url.rstrip('/').encode()).hexdigest()[:16]}.json"


def _read_checkpoint(file: Path) -> tuple[PageStart, dict[str, datetime | None]]:
    """Read how far it came; without that it begins anew, which only takes longer."""
    try:
        data = read_private_file(file)
        kept = msgspec.json.decode(data, type=_ImportCheckpoint) if data else _ImportCheckpoint()
    except (HomeError, ValueError) as error:
        _log.warning("%s is not used: %s", file, error)
        kept = _ImportCheckpoint()
    return PageStart(kept.cursor, kept.after), dict.fromkeys(kept.met)


def _write_checkpoint(file: Path, place: PageStart, met: list[str]) -> None:
    make_private_folder(file.parent)
    body = _ImportCheckpoint(place.cursor, place.after, met)
    replace_private_file(file, msgspec.json.encode(body) + b"\n")
