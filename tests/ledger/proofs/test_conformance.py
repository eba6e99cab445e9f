"""The contract's list, items 24 to 28, 32 and 33: recording side by side, and reading it all."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memplane.errors import LedgerFull
from memplane.ledger import writer
from memplane.ledger.anchors import read_anchors
from memplane.ledger.chain import RecordKind
from memplane.ledger.chain_file import ChainFile
from memplane.ledger.cursor import BEGINNING, Cursor
from memplane.ledger.entry import Entry, make_entry, recompute_entry_id
from memplane.ledger.folder import (
    CHAIN_FILE_NAME,
    FOREIGN_INDEX_NAME,
    OPEN_SEGMENT_NAME,
    ROTATED_SEGMENT_NAME,
    AgentFolder,
)
from memplane.ledger.reader import open_page, read_entries
from memplane.ledger.recovery import adopt_rotated
from memplane.ledger.segments import FileModes
from memplane.ledger.writer import LedgerOptions, SyncPolicy
from tests.ledger.proofs.ledgers import (
    AGENT,
    NOON,
    a_ledger,
    always_the_same,
    append_all,
    checked,
    image_of,
    line_of,
    lines_in,
    problems_of,
    quarantined,
    record,
    record_tokens,
    token_of,
    tokens_in,
    turn_of,
    verdicts,
    write_image,
)
from tests.ledger.proofs.worker import Job
from tests.ledger.proofs.workers import Said, running_workers

LINE = len(line_of("t000")) + 1


def tokens(count: int, name: str = "t") -> list[str]:
    return [f"{name}{number:03}" for number in range(count)]


def page_after(folder: AgentFolder, cursor: Cursor, limit: int) -> tuple[list[str], Cursor, int]:
    """Read one page; returns its tokens, where to go on, and how many lines were skipped."""
    with open_page(folder, cursor=cursor, limit=limit) as page:
        return [token_of(line) for line in page.lines()], page.next, page.skipped


def pages(folder: AgentFolder, limit: int) -> Iterator[tuple[list[str], Cursor, int]]:
    cursor = BEGINNING
    while (read := page_after(folder, cursor, limit))[0]:
        yield read
        cursor = read[1]


# 24: equal turns


async def test_twenty_equal_turns_at_once_are_twenty_entries(memory: Path) -> None:
    ledger = a_ledger(memory)
    recorded = await asyncio.gather(*(ledger.append(turn_of("same")) for _ in range(20)))
    await ledger.close()
    assert len({entry.id for entry in recorded}) == 20
    assert recorded[0] == make_entry(turn_of("same"))
    lines = lines_in(memory)
    assert sorted(lines) == sorted(entry.line for entry in recorded)
    assert all(json.loads(line)["id"] == recompute_entry_id(line) for line in lines)
    assert sorted(json.loads(line).get("occurrence", 1) for line in lines) == [*range(1, 21)]


async def test_equal_turns_are_told_apart_after_a_restart_and_beside_another_process(
    memory: Path,
) -> None:
    await append_all(memory, [turn_of("same")])
    one, other = a_ledger(memory), a_ledger(memory)
    for ledger in (one, other, one, other):
        await ledger.append(turn_of("same"))
    await one.close()
    await other.close()
    assert [json.loads(line).get("occurrence", 1) for line in lines_in(memory)] == [1, 2, 3, 4, 5]
    assert verdicts(memory) == []


@pytest.mark.parametrize("trace", [b'[{"a":1}]', b'[\n  {"a": 1}\n]', b"[1", b"\xff"])
async def test_a_turn_that_was_acknowledged_is_one_line(trace: bytes, memory: Path) -> None:
    """Whatever its tool trace holds: it is recorded so that it can be read, or it is refused."""
    ledger = a_ledger(memory)
    turn = replace(turn_of("traced"), tool_trace=trace)
    answers = await asyncio.gather(
        ledger.append(turn), ledger.append(turn_of("other")), return_exceptions=True
    )
    await ledger.close()
    acked = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert "other" in tokens_in(memory)
    assert [identifier for identifier, _ in read_entries(AgentFolder(memory, AGENT))] == [
        entry.id for entry in acked
    ]
    assert verdicts(memory) == []


# 25: two processes


def test_ten_writers_in_each_of_two_processes_lose_nothing(memory: Path) -> None:
    root = memory / "ledger"
    jobs = [Job(str(root), name, writers=10, turns=20, max_bytes=20 * LINE) for name in "ab"]
    acked: list[str] = []
    with ExitStack() as stack:
        both = [(stack.enter_context(running_workers()), job) for job in jobs]
        started = [(workers, workers.start(job)) for workers, job in both]
        for workers, pid in started:
            said = Said()
            workers.hear_to_the_end(pid, said)
            assert (said.refused, said.closed) == ({}, True)
            acked += said.acked
    assert len(acked) == 400
    assert problems_of(root, acked=acked, attempted=acked) == []
    assert verdicts(root) == []
    assert checked(root).entries == 400


async def test_two_processes_may_make_an_agents_folder_at_the_same_moment(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.mkdir

    def second(self: Path, *words: Any, **more: Any) -> None:
        if self.name == AGENT:
            real(self)
        real(self, *words, **more)

    monkeypatch.setattr(Path, "mkdir", second)
    await append_all(memory / "ledger", [turn_of("first")])
    assert tokens_in(memory / "ledger") == ["first"]


async def test_a_loss_while_two_processes_record_is_noted_by_the_one_that_goes_on(
    memory: Path,
) -> None:
    """It has not heard how long the other made the chain, but the anchors have."""
    one, other = a_ledger(memory), a_ledger(memory)
    await one.append(turn_of("one"))
    for token in tokens(3):
        await other.append(turn_of(token))
    await other.close()
    for path in (memory / AGENT / OPEN_SEGMENT_NAME, memory / AGENT / CHAIN_FILE_NAME):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    assert verdicts(memory)
    for token in tokens(5, "u"):
        await one.append(turn_of(token))
    await one.close()
    assert tokens_in(memory) == ["one", "t000", *tokens(5, "u")]
    assert verdicts(memory), "the loss is forgotten"


async def test_the_anchor_is_the_end_of_the_chain_whoever_closes_last(memory: Path) -> None:
    one, other = a_ledger(memory), a_ledger(memory)
    await one.append(turn_of("one"))
    await other.append(turn_of("other"))
    await other.close()
    await one.close()
    records = AgentFolder(memory, AGENT).chain.read_bytes().count(b"\n")
    assert read_anchors(memory)[AGENT].seq == records


async def test_a_ledger_that_is_being_written_has_no_findings(memory: Path) -> None:
    ledger = a_ledger(memory, LedgerOptions(max_bytes=5 * LINE))
    await ledger.append(turn_of("first"))

    async def appended() -> None:
        for token in tokens(150):
            await ledger.append(turn_of(token))

    writing, found = asyncio.create_task(appended()), set[str]()
    while not writing.done():
        found |= set(await asyncio.to_thread(verdicts, memory))
    await writing
    await ledger.close()
    assert found == set()


# 26: rotation


def test_fifty_turns_at_a_tiny_cap_are_read_in_their_order(memory: Path) -> None:
    (memory / AGENT).mkdir()
    (memory / AGENT / FOREIGN_INDEX_NAME).write_bytes(b'{"version":1}\n')
    record_tokens(memory, *tokens(50), options=LedgerOptions(max_bytes=2 * LINE))
    assert tokens_in(memory) == tokens(50)
    assert not (memory / AGENT / FOREIGN_INDEX_NAME).exists()
    assert len(AgentFolder(memory, AGENT).list_sealed()) == 24
    assert verdicts(memory) == []


def test_another_recorders_rotated_file_is_adopted_once(memory: Path) -> None:
    folder = AgentFolder(memory, AGENT)
    older, newer = (b"".join(line_of(t) + b"\n" for t in tokens(3, name)) for name in "ab")
    write_image(
        {f"{AGENT}/{ROTATED_SEGMENT_NAME}": older, f"{AGENT}/{OPEN_SEGMENT_NAME}": newer}, memory
    )
    assert tokens_in(memory) == [*tokens(3, "a"), *tokens(3, "b")]
    record_tokens(memory, "after")
    record_tokens(memory, "again")
    assert not (folder.path / ROTATED_SEGMENT_NAME).exists()
    assert [one.path.read_bytes() for one in folder.list_sealed()] == [older]
    assert tokens_in(memory) == [*tokens(3, "a"), *tokens(3, "b"), "after", "again"]
    assert verdicts(memory) == []
    adopt_rotated(folder, FileModes())
    assert len(folder.list_sealed()) == 1


def test_another_recorders_index_is_gone_after_a_kill_during_rotation(memory: Path) -> None:
    """The segment has its new name already, and its old index is still there."""
    record_tokens(memory, "first")
    folder = AgentFolder(memory, AGENT)
    folder.sealed_path(1).parent.mkdir()
    (folder.path / OPEN_SEGMENT_NAME).rename(folder.sealed_path(1))
    (folder.path / FOREIGN_INDEX_NAME).write_bytes(b'{"version":1}\n')
    record_tokens(memory, "after")
    assert not (folder.path / FOREIGN_INDEX_NAME).exists()
    assert tokens_in(memory) == ["first", "after"]
    assert verdicts(memory) == []


# 27: torn and damaged lines


def before_ours(root: Path) -> None:
    record_tokens(root, "first")


def before_foreign(root: Path) -> None:
    write_image({f"{AGENT}/{OPEN_SEGMENT_NAME}": line_of("first") + b"\n"}, root)


@pytest.mark.parametrize("before", [before_ours, before_foreign])
@pytest.mark.parametrize(
    ("tail", "read", "kept"),
    [
        (line_of("torn")[:100], [], [line_of("torn")[:100]]),
        (line_of("whole"), ["whole"], []),
        (b"\0" * 300, [], [b"\0" * 300]),
    ],
    ids=["fragment", "no-newline", "zeros"],
)
def test_a_torn_tail_is_not_read_and_then_mended(
    tail: bytes,
    read: list[str],
    kept: list[bytes],
    before: Callable[[Path], None],
    memory: Path,
) -> None:
    before(memory)
    with (memory / AGENT / OPEN_SEGMENT_NAME).open("ab") as file:
        file.write(tail)
    folder = AgentFolder(memory, AGENT)
    assert page_after(folder, BEGINNING, 10)[::2] == (["first"], 0)
    record_tokens(memory, "after", "more")
    assert tokens_in(memory) == ["first", *read, "after", "more"]
    assert quarantined(memory) == kept
    assert verdicts(memory) == []
    assert len((folder.path / OPEN_SEGMENT_NAME).read_bytes().splitlines()) == 3 + len(read)


def test_garbage_between_lines_is_skipped_and_counted(memory: Path) -> None:
    garbage = b"\xff{not json"
    data = b"\n".join((line_of("first"), garbage, line_of("second"), b""))
    write_image({f"{AGENT}/{OPEN_SEGMENT_NAME}": data}, memory)
    folder = AgentFolder(memory, AGENT)
    assert page_after(folder, BEGINNING, 10)[::2] == (["first", "second"], 1)
    record_tokens(memory, "after")
    assert page_after(folder, BEGINNING, 10)[::2] == (["first", "second", "after"], 1)
    assert quarantined(memory) == [garbage]
    assert len(verdicts(memory)) == 1


def test_lines_that_were_skipped_are_counted_on_one_page(memory: Path) -> None:
    """A client that adds up what each page says gets the right number."""
    lines = [line_of(token) for token in tokens(6)]
    data = b"".join(line + b"\n" + b"garbage\n" for line in lines)
    write_image({f"{AGENT}/{OPEN_SEGMENT_NAME}": data}, memory)
    assert sum(read[2] for read in pages(AgentFolder(memory, AGENT), 2)) == 6


# 28: long lines, legacy lines, nothing


@pytest.mark.parametrize("size", [70 << 10, 9 << 20])
def test_a_long_line_is_read(size: int, memory: Path) -> None:
    long = replace(turn_of("long"), request_effective=b'"%s"' % (b"x" * size))
    recorded = record(memory, turn_of("first"), long, turn_of("last"))
    assert lines_in(memory) == [entry.line for entry in recorded]
    assert len(recorded[1].line) > size
    record_tokens(memory, "after")
    assert tokens_in(memory) == ["first", "long", "last", "after"]
    assert verdicts(memory) == []


@pytest.mark.parametrize(
    "legacy", [b'{"version":1,"ts":"2026-03-01T12:00:00Z"}', b'{"a":1}', b"{}"]
)
def test_a_legacy_line_gets_the_id_of_its_bytes(legacy: bytes, memory: Path) -> None:
    write_image({f"{AGENT}/{OPEN_SEGMENT_NAME}": legacy + b"\n"}, memory)
    ((identifier, line),) = read_entries(AgentFolder(memory, AGENT))
    assert identifier == recompute_entry_id(legacy)
    assert json.loads(line) == {**json.loads(legacy), "id": identifier}
    record_tokens(memory, "after")
    assert (memory / AGENT / OPEN_SEGMENT_NAME).read_bytes().startswith(legacy + b"\n")
    assert next(read_entries(AgentFolder(memory, AGENT)))[0] == identifier


def test_an_agent_without_a_ledger_has_no_entries(memory: Path) -> None:
    folder = AgentFolder(memory, AGENT)
    assert list(read_entries(folder)) == []
    assert list(read_entries(folder, after=NOON)) == []
    assert page_after(folder, BEGINNING, 10) == ([], BEGINNING, 0)
    assert image_of(memory) == {}


# 32: cursors


async def test_a_walk_by_cursor_beside_appends_and_rotations_sees_each_entry_once(
    memory: Path,
) -> None:
    folder = AgentFolder(memory, AGENT)
    await append_all(memory, [turn_of(token) for token in tokens(500)])
    ledger = a_ledger(memory, LedgerOptions(max_bytes=200 * LINE))

    async def appended() -> None:
        for token in tokens(500, "u"):
            await ledger.append(turn_of(token))

    writing = asyncio.create_task(appended())
    seen, cursor, more = list[str](), BEGINNING, True
    while more:
        finished = writing.done()
        read, cursor, _ = await asyncio.to_thread(page_after, folder, cursor, 37)
        seen += read
        more = bool(read) or not finished
    await writing
    assert seen == [*tokens(500), *tokens(500, "u")]
    assert len(folder.list_sealed()) >= 3
    await ledger.append(turn_of("new"))
    await ledger.close()
    assert page_after(folder, cursor, 37)[0] == ["new"]


def test_a_cursor_is_good_after_the_file_was_renamed(memory: Path) -> None:
    folder = AgentFolder(memory, AGENT)
    data = b"".join(line_of(token) + b"\n" for token in tokens(4))
    write_image({f"{AGENT}/{OPEN_SEGMENT_NAME}": data}, memory)
    _, cursor, _ = page_after(folder, BEGINNING, 2)
    (folder.path / OPEN_SEGMENT_NAME).rename(folder.path / ROTATED_SEGMENT_NAME)
    record_tokens(memory, "after")
    assert page_after(folder, cursor, 10)[0] == ["t002", "t003", "after"]


def test_the_cursor_of_an_empty_page_yields_only_new_entries(memory: Path) -> None:
    """A client that asks for what comes after a moment, and then goes on from the cursor."""
    folder = AgentFolder(memory, AGENT)
    record_tokens(memory, *tokens(5))
    with open_page(folder, after=NOON + timedelta(hours=1)) as page:
        assert page.entries == []
    record_tokens(memory, "new")
    assert page_after(folder, page.next, 10)[0] == ["new"]


# 33: times


def unsorted_ledger(root: Path, count: int = 1300) -> list[tuple[str, datetime]]:
    """Entries whose times are in no order, in segments of which the last is half a block."""
    rng = always_the_same()
    told = [(token, NOON + timedelta(seconds=rng.randrange(3000))) for token in tokens(count)]
    turns = [turn_of(token, ts=ts) for token, ts in told]
    record(root, *turns, options=LedgerOptions(max_bytes=450 * LINE))
    return told


def after(root: Path, moment: datetime) -> list[str]:
    return [token_of(line) for _, line in read_entries(AgentFolder(root, AGENT), after=moment)]


def expected(told: Sequence[tuple[str, datetime]], moment: datetime) -> list[str]:
    return [token for token, ts in told if ts > moment]


MOMENTS = [NOON + timedelta(seconds=seconds) for seconds in (-1, 0, 1500, 2900, 2990, 2998, 2999)]


def test_entries_after_a_moment_are_complete_when_times_are_not_sorted(memory: Path) -> None:
    told = unsorted_ledger(memory)
    for _ in range(2):  # without an index, and with one
        for moment in MOMENTS:
            assert after(memory, moment) == expected(told, moment)
    assert AgentFolder(memory, AGENT).index.exists()


def test_an_index_from_before_a_line_was_mended_misses_nothing(memory: Path) -> None:
    late = NOON + timedelta(seconds=60)
    older, newer = (b"".join(line_of(t) + b"\n" for t in tokens(n, str(n))) for n in (1000, 200))
    older += make_entry(turn_of("late", ts=late)).line
    write_image(
        {f"{AGENT}/{ROTATED_SEGMENT_NAME}": older, f"{AGENT}/{OPEN_SEGMENT_NAME}": newer}, memory
    )
    assert after(memory, NOON) == []
    assert AgentFolder(memory, AGENT).index.exists()
    record(memory, turn_of("after", ts=late))
    assert after(memory, NOON) == ["late", "after"]


def flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "cut": lambda data: data[: len(data) // 2],
    "not-utf-8": lambda data: data.replace(b"hist1_", b"hist1\xff", 1),
    "not-an-object": lambda data: b"[1]\n" + data,
    "foreign": lambda data: b'{"version":1,"history_size":9,"entry_count":1,"checkpoints":[]}\n',
    "lines-swapped": lambda data: b"".join(reversed(data.splitlines(keepends=True))),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_or_foreign_index_is_ignored(kind: str, memory: Path) -> None:
    told = unsorted_ledger(memory)
    after(memory, NOON)
    index = AgentFolder(memory, AGENT).index
    index.write_bytes(DAMAGES[kind](index.read_bytes()))
    for moment in MOMENTS:
        assert after(memory, moment) == expected(told, moment)
    index.write_bytes(DAMAGES[kind](index.read_bytes()))
    record(memory, turn_of("new", ts=MOMENTS[-1] + timedelta(seconds=9)))
    assert after(memory, MOMENTS[-1]) == ["new"]


def test_no_changed_bit_of_the_index_hides_an_entry(rng: random.Random, memory: Path) -> None:
    told = unsorted_ledger(memory)
    after(memory, NOON)
    index = AgentFolder(memory, AGENT).index
    whole = index.read_bytes()
    hidden = set[str]()
    for bit in rng.sample(range(8 * len(whole)), 250):
        index.write_bytes(flip(whole, bit))
        for moment in MOMENTS[3:5]:
            hidden |= set(expected(told, moment)) - set(after(memory, moment))
    assert hidden == set()


def test_the_index_of_another_ledger_is_ignored(memory: Path) -> None:
    told = unsorted_ledger(memory / "one")
    older = unsorted_ledger(memory / "other", 1200)
    after(memory / "one", NOON)
    after(memory / "other", NOON)
    assert told != older
    index = AgentFolder(memory / "other", AGENT).index.read_bytes()
    AgentFolder(memory / "one", AGENT).index.write_bytes(index)
    for moment in MOMENTS:
        assert after(memory / "one", moment) == expected(told, moment)


# What is refused is noted


async def test_a_gap_is_noted_even_when_noting_it_fails_at_first(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_CHECKPOINT_INTERVAL_S", {SyncPolicy.GROUP: 0.0})
    real, failed = ChainFile.add_note, list[RecordKind]()

    def add_note(
        self: ChainFile, kind: RecordKind, more: dict[str, object], *, size: int = 0
    ) -> None:
        if kind is RecordKind.GAP and not failed:
            failed.append(kind)
            raise OSError(28, "No space left on device")
        real(self, kind, more, size=size)

    monkeypatch.setattr(ChainFile, "add_note", add_note)
    ledger = a_ledger(memory, LedgerOptions(queue_bytes=600))
    acked = refused = 0
    while acked < 5 or refused < 2:
        answers = await asyncio.gather(
            *(ledger.append(turn_of(token)) for token in tokens(3)), return_exceptions=True
        )
        refused += sum(isinstance(answer, LedgerFull) for answer in answers)
        acked += sum(isinstance(answer, Entry) for answer in answers)
    await ledger.close()
    assert failed == [RecordKind.GAP]
    assert checked(memory).gaps == refused
