"""P11, the ledger's part: a purge that was cut off anywhere is recognised and completed.

Whatever is left, no entry but the purged ones is touched; a check finds nothing worse than an
erasure that is not finished; and the same purge again leaves no byte of the payload.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from memplane.ledger import purge
from memplane.ledger.agent_writer import AgentWriter
from memplane.ledger.entry import recompute_entry_id
from memplane.ledger.file_verification import LedgerProblem
from memplane.ledger.folder import OPEN_SEGMENT_NAME, AgentFolder
from memplane.ledger.purge import PurgeReport, purge_ledger
from memplane.ledger.reader import read_entries
from memplane.ledger.segments import FileModes, quarantine_bytes
from memplane.ledger.writer import LedgerOptions
from tests.ledger.proofs.ledgers import (
    AGENT,
    always_the_same,
    checked,
    image_of,
    line_of,
    lines_in,
    noon,
    record,
    record_tokens,
    tokens_in,
    turn_of,
    write_image,
)
from tests.support import crash_states
from tests.support.crash_states import Point, Recorder, State

# The machine may be busy; a hang shows all the same.
pytestmark = pytest.mark.timeout(600)
LONG: Final = (pytest.mark.long, pytest.mark.timeout(1800))

TOKENS: Final = [f"canary{number}." for number in range(10)]
PURGED: Final = [TOKENS[1], TOKENS[2], TOKENS[5], TOKENS[8], TOKENS[9]]
KEPT: Final = [token for token in TOKENS if token not in PURGED]
OPTIONS: Final = LedgerOptions(max_bytes=4 * (len(line_of(TOKENS[0])) + 1))
OLD: Final = b'{"ts":"2026-03-01T12:00:00Z","request_original":{"more":"%s","token":"%s"}}' % (
    b"x" * 600,
    TOKENS[9].encode(),
)
"""A line without an id: whatever happens to a byte of it, nobody knows which one it was."""
IDS: Final = [*(line_of(token)[19:89].decode() for token in PURGED[:-1]), recompute_entry_id(OLD)]
_CALLS: Final = (
    *("write", "pwrite", "fsync", "fdatasync", "ftruncate", "fchmod", "open"),
    *("rename", "mkdir", "unlink"),
)


def whole(scratch: Path) -> Path:
    """A ledger of ten turns in three segments, with something in quarantine."""
    record_tokens(scratch, *TOKENS[:-1], options=OPTIONS)
    folder = AgentFolder(scratch, AGENT)
    with (folder.path / OPEN_SEGMENT_NAME).open("ab") as file:
        file.write(OLD + b"\n")
    purge_ledger(folder, (), modes=FileModes(), clock=noon)
    quarantine_bytes(folder, line_of(PURGED[0])[:-30], "torn")
    quarantine_bytes(folder, line_of(KEPT[0]) + b"\n" + line_of(PURGED[3]) + b"\n", "doubtful")
    quarantine_bytes(folder, OLD + b"\n", "doubtful")
    return scratch


def purged(root: Path) -> PurgeReport:
    return purge_ledger(AgentFolder(root, AGENT), IDS, modes=FileModes(), clock=noon)


def left_of(root: Path, tokens: Sequence[str]) -> list[str]:
    return [
        f"{token} is in {name}"
        for name, data in image_of(root).items()
        for token in tokens
        if token.encode() in data
    ]


def problems_after(root: Path, *, opened_before: bool) -> list[str]:
    """Say what is wrong with what a purge left that was cut off, and with completing it."""
    found = [f"{token} is lost" for token in KEPT if token not in tokens_in(root)]
    found += _damage(root, allowed={LedgerProblem.UNFINISHED, LedgerProblem.TORN})
    if checked(root).erased == len(PURGED):
        found += left_of(root, PURGED)
    more: list[str] = []
    if opened_before:
        record(root, turn_of("after"), options=OPTIONS)
        found += _damage(root, allowed={LedgerProblem.UNFINISHED})
        more = ["after"]
    purged(root)
    found += _damage(root, allowed=set())
    found += left_of(root, PURGED)
    if tokens_in(root) != [*KEPT, *more]:
        found.append(f"the turns are {tokens_in(root)}")
    if (erased := checked(root).erased) != len(PURGED):
        found.append(f"{erased} are erased")
    if purged(root) != PurgeReport():
        found.append("another purge finds more to do")
    return found


def _damage(root: Path, *, allowed: set[LedgerProblem]) -> list[str]:
    return [
        f"{one.file} at {one.offset}: {one.problem} {one.found}"
        for one in checked(root).findings
        if one.problem not in allowed
    ]


# The process dies


class Gone(BaseException):
    """The process is no more: nothing that it would do to clean up happens either."""


@contextmanager
def counted(before: Callable[[str, int], None]) -> Iterator[None]:
    """Say each call's name and number before it is made; as often as not half is written."""
    numbers = count()

    def called(name: str, call: Callable[..., Any], *words: Any, **more: Any) -> Any:
        number = next(numbers)
        before(name, number)
        if name == "pwrite" and number % 2:
            descriptor, data, offset = words
            return call(descriptor, bytes(data)[: 1 + len(data) // 2], offset)
        return call(*words, **more)

    with pytest.MonkeyPatch.context() as patch:
        for name in _CALLS:
            patch.setattr(os, name, partial(called, name, getattr(os, name)))
        yield


def dying_at(last: int, root: Path) -> bool:
    """Purge in a process that dies before that call; says whether it came that far."""

    def die(_name: str, number: int) -> None:
        if number >= last:
            raise Gone

    try:
        with counted(die):
            purged(root)
    except Gone:
        return True
    return False


@pytest.mark.parametrize("ways", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_purge_that_dies_at_any_call_is_completed_by_the_next(ways: int, memory: Path) -> None:
    """Half of the ledgers that it leaves are opened by a recorder before the next purge."""
    image = image_of(whole(memory / "whole"))
    calls, found = 0, dict[tuple[int, int], list[str]]()
    died = True
    while died:
        for way in range(ways):
            root = memory / f"at{calls}-{way}"
            write_image(image, root)
            died = dying_at(calls, root)
            if told := problems_after(root, opened_before=(calls + way) % 2 == 0):
                found[calls, way] = told
            shutil.rmtree(root)
        calls += 1
    assert calls > 40
    assert found == {}


# A call fails


def failing_at(which: int, root: Path) -> bool:
    """Purge while that call fails, once; says whether it came that far."""
    failed: list[str] = []

    def fail(name: str, number: int) -> None:
        if number == which:
            failed.append(name)
            raise OSError(errno.ENOSPC, "No space left on device")

    try:
        with counted(fail):
            purged(root)
    except OSError:
        return True
    assert not failed, f"{failed} failed, and nobody was told"
    return False


def test_a_purge_in_which_any_call_fails_says_so_and_is_completed_by_the_next(
    memory: Path,
) -> None:
    image = image_of(whole(memory / "whole"))
    calls, found = 0, dict[int, list[str]]()
    failed = True
    while failed:
        root = memory / f"at{calls}"
        write_image(image, root)
        failed = failing_at(calls, root)
        if told := problems_after(root, opened_before=calls % 2 == 0):
            found[calls] = told
        shutil.rmtree(root)
        calls += 1
    assert calls > 40
    assert found == {}


# The power fails


class _Overwriting(Recorder):
    """Follows bytes that are put in the place of others, too.

    Two of them in one tick of the clock leave a file with the same size and time, so it looks at
    the bytes.
    """

    @contextmanager
    def following(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(crash_states, "_CHANGING", (*crash_states._CHANGING, "pwrite"))
            with super().following():
                yield

    def _look_at(self, path: Path, seen: set[int]) -> int:
        self._stamps.clear()
        return super()._look_at(path, seen)


class _Loss(crash_states._Loss):
    """Bytes in the place of others are there or not, block by block; none of them are lost."""

    def _choose_bytes(self, file: crash_states._File) -> bytes:
        durable, now = file.durable, file.now
        if len(now) < len(durable):
            return self.rng.choice((durable, now))
        block = self.rng.choice((16, 512, len(now) or 1))
        pieces = [
            self.rng.choice((durable, now))[at : min(at + block, len(durable))]
            for at in range(0, len(durable), block)
        ]
        appended = super()._choose_bytes(crash_states._File(b"", now[len(durable) :]))
        return b"".join(pieces) + appended


def state_at(point: Point, rng: random.Random) -> State:
    return _Loss(point, rng).state()


def followed_purge(root: Path, *, honest: bool = True) -> list[Point]:
    recorder = _Overwriting(root, honest=honest)
    with recorder.following():
        purged(root)
        recorder.promise()
    return recorder.points


def first_problem(
    points: Sequence[Point], rng: random.Random, scratch: Path, states: int
) -> tuple[str, list[str]] | None:
    """Look at states of every point, in any order; returns the first that is wrong."""
    chosen = list(range(len(points))) * states
    rng.shuffle(chosen)
    for number in chosen:
        state = state_at(points[number], rng)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        state.write_to(scratch)
        found = left_of(scratch, PURGED) if points[number].promised else []
        # What a power loss does to the end of a chain is another proof's matter.
        if state.orderly:
            found += problems_after(scratch, opened_before=rng.random() < 0.5)
        if found:
            return f"point {number} after {points[number].after}", found
    return None


@pytest.mark.parametrize("states", [4, pytest.param(100, marks=LONG)])
def test_a_purge_that_the_power_cuts_off_is_completed_by_the_next(
    states: int, rng: random.Random, memory: Path
) -> None:
    points = followed_purge(whole(memory / "disk"))
    assert len(points) > 30
    assert first_problem(points, rng, memory / "after", states) is None


@pytest.mark.parametrize("states", [1, pytest.param(25, marks=LONG)])
def test_a_purge_that_completes_another_may_be_cut_off_too(
    states: int, rng: random.Random, memory: Path
) -> None:
    first = followed_purge(whole(memory / "disk"))
    for number in range(3):
        root = memory / f"left{number}"
        root.mkdir()
        state = state_at(rng.choice(first), rng)
        while not state.orderly:
            state = state_at(rng.choice(first), rng)
        state.write_to(root)
        assert first_problem(followed_purge(root), rng, memory / "after", states) is None


# Controls


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a purge, to be put into another order."""

    note: Any = purge._record_erasures
    lines: Any = purge._erase_lines
    salts: Any = purge._erase_salts


def salts_before_lines(patch: pytest.MonkeyPatch) -> None:
    """The salt goes while the line is there, which nobody can check then."""
    steps = Steps()

    def both(*given: Any) -> None:
        steps.salts(*given)
        steps.lines(*given)

    patch.setattr(purge, "_erase_lines", both)
    patch.setattr(purge, "_erase_salts", lambda *given: None)


def lines_before_note(patch: pytest.MonkeyPatch) -> None:
    """A line is overwritten before the chain says so."""
    steps = Steps()

    def note(log: AgentWriter, doomed: Any, chained: Any) -> None:
        steps.lines(log.folder, doomed)
        steps.note(log, doomed, chained)

    patch.setattr(purge, "_record_erasures", note)


def no_note(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(purge, "_record_erasures", lambda *given: None)


def lines_not_synced(patch: pytest.MonkeyPatch) -> None:
    """Salts go while the disk may still have the lines."""
    patch.setattr(purge, "sync_file", lambda descriptor: None)


def note_not_synced(patch: pytest.MonkeyPatch) -> None:
    """The disk may have lines that are gone and no record that says so."""

    def note(log: AgentWriter, erasures: Any) -> None:
        assert log._chain is not None
        log._chain.add_notes("erased", (one.to_note() for one in erasures))  # type: ignore[arg-type]

    patch.setattr(AgentWriter, "note_erased", note)


def no_quarantine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(purge, "_erase_fragments", lambda *given, **more: 0)


def by_id_alone(patch: pytest.MonkeyPatch) -> None:
    """What a crash left of a line has no id, so an unfinished erasure is never completed."""
    patch.setattr(purge, "_find_unfinished", lambda *given: iter(()))


MUTANTS: Final = (
    *(salts_before_lines, lines_before_note, no_note, lines_not_synced, note_not_synced),
    *(no_quarantine, by_id_alone),
)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_purge_with_a_mistake_in_it_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole(memory / "disk")
    mutant(monkeypatch)
    points = followed_purge(memory / "disk")
    assert first_problem(points, always_the_same(), memory / "after", 30) is not None


def test_a_sync_that_lies_is_noticed(memory: Path) -> None:
    points = followed_purge(whole(memory / "disk"), honest=False)
    assert first_problem(points, always_the_same(), memory / "after", 30) is not None


def test_the_ledger_is_whole_before_it_is_purged(memory: Path) -> None:
    whole(memory)
    assert tokens_in(memory) == TOKENS
    assert checked(memory).findings == []
    assert [line.count(b"canary") for line in lines_in(memory)] == [1] * len(TOKENS)
    assert len(left_of(memory, PURGED)) == len(PURGED) + 3
    assert [one for one, _ in read_entries(AgentFolder(memory, AGENT)) if one in IDS] == IDS
