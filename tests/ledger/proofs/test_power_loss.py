"""P1c: whatever a power loss leaves on the disk, what was acknowledged is there, once."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from memplane.errors import NotRecorded
from memplane.kit.durable_files import sync_folder
from memplane.ledger import agent_writer, segments, writer
from memplane.ledger.agent_writer import AgentWriter
from memplane.ledger.folder import OPEN_SEGMENT_NAME, AgentFolder
from memplane.ledger.writer import Ledger, LedgerOptions, SyncPolicy
from tests.ledger.proofs.ledgers import (
    a_ledger,
    always_the_same,
    append_all,
    line_of,
    problems_of,
    token_of,
    turn_of,
    verdicts,
)
from tests.support.crash_states import Recorder, State, state_at

# The machine may be busy; a hang shows all the same.
pytestmark = pytest.mark.timeout(600)

AGENTS = ("analyst", "builder")
OPTIONS = LedgerOptions(max_bytes=2500)


@dataclass(slots=True)
class Session:
    """A ledger below a folder, its recorder, and the turns in the order they were acknowledged."""

    folder: Path
    recorder: Recorder
    acked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    attempted: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    orderly: bool = True

    @property
    def root(self) -> Path:
        return self.folder / "ledger"

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow the disk, and every acknowledgement at the moment the writer gives it."""
        told = writer._notify_waiters

        def tell(waiting: Sequence[writer._PendingTurn], error: NotRecorded | None = None) -> None:
            for one in waiting:
                if error is None and not one.settled:
                    self.acked.append((one.turn.agent, token_of(one.entry.line)))
                    self.recorder.promise()
            told(waiting, error)

        with self.recorder.following(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer, "_notify_waiters", tell)
            yield

    def append(self, name: str, *, writers: int, turns: int, options: LedgerOptions) -> None:
        """Let writers append turns at the same time; one that is refused goes on with its next."""

        async def one_writer(ledger: Ledger, number: int) -> None:
            agent = AGENTS[number % len(AGENTS)]
            for turn in range(turns):
                token = f"{name}-{number}-{turn}"
                self.attempted.append((agent, token))
                try:
                    await ledger.append(turn_of(token, agent))
                except NotRecorded:
                    continue

        async def all_writers() -> None:
            ledger = a_ledger(self.root, options)
            await asyncio.gather(*(one_writer(ledger, number) for number in range(writers)))
            await ledger.close()

        asyncio.run(all_writers())


def a_session(folder: Path, *, honest: bool = True) -> Session:
    folder.mkdir(parents=True, exist_ok=True)
    return Session(folder, Recorder(folder, honest=honest))


def recorded(folder: Path, rng: random.Random, *, honest: bool = True) -> Session:
    """A ledger that was opened three times, with rotations."""
    session = a_session(folder, honest=honest)
    with session.followed():
        for number in range(3):
            writers, turns = rng.randint(1, 5), rng.randint(3, 8)
            session.append(f"s{number}", writers=writers, turns=turns, options=OPTIONS)
    return session


def problems_in(
    state: State,
    scratch: Path,
    acked: Collection[tuple[str, str]],
    attempted: Collection[tuple[str, str]],
    loop: asyncio.Runner,
) -> list[str]:
    """Go on recording where a power loss left the ledger, and say what is wrong then."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    state.write_to(scratch)
    root = scratch / "ledger"
    found: list[str] = []
    loop.run(append_all(root, [turn_of("after", agent) for agent in AGENTS], OPTIONS))
    for agent in AGENTS:
        promised = [token for one, token in acked if one == agent]
        tried = [token for one, token in attempted if one == agent]
        found += problems_of(root, agent, acked=[*promised, "after"], attempted=[*tried, "after"])
        if state.orderly:
            found += verdicts(root, agent)
    return found


def first_problem(
    session: Session, rng: random.Random, scratch: Path, states: int
) -> tuple[str, list[str], State] | None:
    """Look at states at points chosen at random; returns the first that is wrong."""
    with asyncio.Runner() as loop:  # one for all: it takes longer to make than a state to look at
        for _ in range(states):
            number = rng.randrange(len(session.recorder.points))
            point = session.recorder.points[number]
            state = state_at(point, rng)
            state = replace(state, orderly=state.orderly and session.orderly)
            acked = session.acked[: point.promised]
            found = problems_in(state, scratch, acked, session.attempted, loop)
            if found:
                return f"point {number} after {point.after}", found, state
    return None


@pytest.mark.parametrize(
    ("ledgers", "states"),
    [(20, 60), pytest.param(250, 200, marks=[pytest.mark.long, pytest.mark.timeout(1800)])],
)
def test_a_power_loss_loses_doubles_and_invents_nothing(
    ledgers: int, states: int, rng: random.Random, memory: Path
) -> None:
    for number in range(ledgers):
        session = recorded(memory / f"disk{number}", rng)
        assert first_problem(session, rng, memory / "after", states) is None, f"ledger {number}"


@pytest.mark.parametrize(
    ("ledgers", "states"),
    [(15, 30), pytest.param(200, 100, marks=[pytest.mark.long, pytest.mark.timeout(1800)])],
)
def test_a_power_loss_while_a_ledger_is_mended_loses_nothing(
    ledgers: int, states: int, rng: random.Random, memory: Path
) -> None:
    """The power fails, the next recorder mends what is left, and the power fails again."""
    for number in range(ledgers):
        first = recorded(memory / f"disk{number}", rng)
        point = rng.choice(first.recorder.points)
        left = state_at(point, rng)
        left.write_to(memory / f"left{number}")
        second = a_session(memory / f"left{number}")
        second.orderly = left.orderly
        known = first.acked[: point.promised]
        second.acked, second.attempted = list(known), list(first.attempted)
        second.recorder.promised = len(known)
        with second.followed():
            second.append("again", writers=2, turns=3, options=OPTIONS)
        assert first_problem(second, rng, memory / "after", states) is None, f"ledger {number}"


@pytest.mark.parametrize(
    ("ledgers", "states"),
    [(20, 30), pytest.param(300, 100, marks=[pytest.mark.long, pytest.mark.timeout(1800)])],
)
def test_a_power_loss_after_a_kill_loses_nothing(
    ledgers: int, states: int, rng: random.Random, memory: Path
) -> None:
    """A killed process leaves files that nobody synced; the next one promises on top of them."""
    for number in range(ledgers):
        session = a_session(memory / f"disk{number}")
        with session.followed():
            session.recorder.fail_after(rng.randint(0, 60))
            session.append("killed", writers=3, turns=5, options=OPTIONS)
            session.recorder.fail_after(-1)
            session.append("again", writers=2, turns=5, options=OPTIONS)
        assert first_problem(session, rng, memory / "after", states) is None, f"ledger {number}"


def test_folders_that_a_killed_process_made_are_durable_before_the_first_promise(
    memory: Path,
) -> None:
    session = a_session(memory / "disk")
    with session.followed():
        session.root.mkdir()
        (session.root / "analyst").mkdir()
        session.append("again", writers=1, turns=2, options=OPTIONS)
    assert first_problem(session, always_the_same(), memory / "after", 50) is None


def test_lines_that_a_killed_process_wrote_are_durable_before_they_are_chained(
    memory: Path,
) -> None:
    """Otherwise the chain knows of lines that the disk never had, and calls that damage."""
    session = a_session(memory / "disk")
    with session.followed():
        session.append("before", writers=1, turns=2, options=OPTIONS)
        session.attempted.append(("analyst", "killed"))
        descriptor = os.open(
            session.root / "analyst" / OPEN_SEGMENT_NAME, os.O_WRONLY | os.O_APPEND
        )
        os.write(descriptor, line_of("killed") + b"\n")
        os.close(descriptor)
        session.append("again", writers=1, turns=1, options=OPTIONS)
    assert first_problem(session, always_the_same(), memory / "after", 100) is None


def test_a_segment_that_a_killed_process_renamed_has_its_name_before_it_is_chained(
    memory: Path,
) -> None:
    """Otherwise a power loss undoes the rename, and the chain misses a segment."""
    session = a_session(memory / "disk")
    with session.followed():
        session.append("before", writers=1, turns=2, options=OPTIONS)
        folder = AgentFolder(session.root, "analyst")
        folder.sealed_path(1).parent.mkdir()
        sync_folder(folder.path)
        (folder.path / OPEN_SEGMENT_NAME).rename(folder.sealed_path(1))
        session.append("again", writers=1, turns=1, options=OPTIONS)
    assert first_problem(session, always_the_same(), memory / "after", 200) is None


@pytest.mark.parametrize("syncing", [SyncPolicy.GROUP, SyncPolicy.INTERVAL])
def test_a_ledger_that_was_closed_is_durable(syncing: SyncPolicy, memory: Path) -> None:
    options = LedgerOptions(max_bytes=1000, syncing=syncing)
    session = a_session(memory / "disk")
    with session.followed():
        session.append("closed", writers=1, turns=10, options=options)
        session.recorder.promise()
    del session.recorder.points[:-1]
    assert first_problem(session, always_the_same(), memory / "after", 50) is None


# Controls


def test_a_sync_that_lies_is_noticed(memory: Path) -> None:
    rng = always_the_same()
    session = recorded(memory / "disk", rng, honest=False)
    noticed = first_problem(session, rng, memory / "after", 50)
    assert noticed is not None
    assert any("was acknowledged and is lost" in problem for problem in noticed[1])


def test_an_acknowledgement_before_the_sync_is_noticed(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = Ledger._sync_logs

    def too_late(
        self: Ledger, written: Sequence[tuple[AgentWriter, list[writer._PendingTurn]]]
    ) -> Sequence[OSError | None]:
        for _, waiting in written:
            writer._notify_waiters(waiting)
        return synced(self, written)

    monkeypatch.setattr(Ledger, "_sync_logs", too_late)
    rng = always_the_same()
    session = recorded(memory / "disk", rng)
    noticed = first_problem(session, rng, memory / "after", 200)
    assert noticed is not None
    assert any("was acknowledged and is lost" in problem for problem in noticed[1])


def test_a_name_that_is_not_made_durable_is_noticed(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "sync_folder", lambda folder: None)
    monkeypatch.setattr(agent_writer, "sync_folder", lambda folder: None)
    rng = always_the_same()
    session = recorded(memory / "disk", rng)
    assert first_problem(session, rng, memory / "after", 50) is not None


def test_a_sealed_segment_whose_doubtful_end_came_back_is_noticed(memory: Path) -> None:
    """A line twice, in two segments, is what a wrong answer to a failed sync would leave."""
    session = a_session(memory / "disk")
    with session.followed():
        session.append("twice", writers=1, turns=8, options=OPTIONS)
    state = state_at(session.recorder.points[-1], always_the_same())
    sealed = "ledger/analyst/segments/00000001.jsonl"
    doubled = {
        **state.files,
        sealed: state.files[sealed] + state.files["ledger/analyst/history.jsonl"],
    }
    with asyncio.Runner() as loop:
        found = problems_in(
            State(doubled, state.folders, orderly=False),
            memory / "after",
            session.acked,
            session.attempted,
            loop,
        )
    assert any("is there 2 times" in problem for problem in found)
