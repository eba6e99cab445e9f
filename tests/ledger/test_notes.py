"""What is said about turns beside the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from memplane.ledger.agent_writer import AgentWriter
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_reader import NoteReader, find_note
from memplane.ledger.reader import read_entries
from memplane.ledger.turn_note import (
    DroppedBlock,
    InjectedBlock,
    MessageInjection,
    TurnNote,
    encode_note,
)
from memplane.ledger.writer import LedgerOptions
from tests.support.turns import record, turn

NOTE = TurnNote(
    session="s1",
    recall="succeeded",
    injected=(
        MessageInjection(
            message=2,
            service="memplane",
            bytes=120,
            blocks=(InjectedBlock(id="b1", entry_ids=("hist1_aa",), kind="turn", score=0.5),),
        ),
    ),
    dropped=(DroppedBlock(why="over 8 blocks", id="b9"),),
)


async def test_what_is_said_about_a_turn_is_found_by_its_id(tmp_path: Path) -> None:
    first, second = await record(
        tmp_path, [turn("one", note=encode_note(NOTE)), turn("two", note=encode_note(TurnNote()))]
    )
    folder = AgentFolder(tmp_path, "analyst")
    assert find_note(folder, first.id) == replace(NOTE, id=first.id)
    assert find_note(folder, second.id) is None
    assert folder.notes.stat().st_mode & 0o777 == 0o600


async def test_a_note_changes_nothing_of_its_entry(tmp_path: Path) -> None:
    with_note = await record(tmp_path / "a", [turn("one", note=encode_note(NOTE))])
    without = await record(tmp_path / "b", [turn("one")])
    assert with_note == without
    assert not AgentFolder(tmp_path / "b", "analyst").notes.exists()


async def test_equal_turns_have_notes_of_their_own(tmp_path: Path) -> None:
    notes = [TurnNote(left_out="title"), TurnNote(session="s")]
    made = await record(tmp_path, [turn("same", note=encode_note(one)) for one in notes])
    folder = AgentFolder(tmp_path, "analyst")
    expected = [replace(note, id=one.id) for one, note in zip(made, notes, strict=True)]
    assert [find_note(folder, one.id) for one in made] == expected


async def test_reading_goes_on_where_it_ended(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path, "analyst")
    notes = NoteReader(folder)
    assert not notes.omits_response("hist1_unknown")
    for number in range(3):
        (kept,) = await record(tmp_path, [turn(f"kept {number}")])
        (left,) = await record(
            tmp_path, [turn(f"left {number}", note=encode_note(TurnNote(left_out="title")))]
        )
        assert notes.omits_response(left.id)
        assert not notes.omits_response(kept.id)


async def test_a_torn_note_does_not_swallow_the_next(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path, "analyst")
    await record(tmp_path, [turn("one", note=encode_note(NOTE))])
    with folder.notes.open("ab") as handle:
        handle.write(b'{"id":"hist1_torn","left_')
    (made,) = await record(tmp_path, [turn("two", note=encode_note(TurnNote(left_out="title")))])
    assert NoteReader(folder).omits_response(made.id)


async def test_notes_outlive_a_sealed_segment(tmp_path: Path) -> None:
    turns = [turn(f"turn {n}", note=encode_note(TurnNote(session=f"s{n}"))) for n in range(20)]
    made = await record(tmp_path, turns, LedgerOptions(max_bytes=2000))
    folder = AgentFolder(tmp_path, "analyst")
    assert len(folder.list_sealed()) > 2
    found = [find_note(folder, one.id) for one in made]
    assert [one.session for one in found if one] == [f"s{n}" for n in range(20)]


async def test_the_note_is_there_before_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = AgentFolder(tmp_path, "analyst")
    seen: list[tuple[int, int]] = []
    write = AgentWriter.write

    def watched(self: AgentWriter, lines: list[bytes]) -> None:
        written = len(list(read_entries(folder)))
        seen.append((len(folder.notes.read_bytes().splitlines()), written))
        write(self, lines)

    monkeypatch.setattr(AgentWriter, "write", watched)
    await record(tmp_path, [turn("one", note=encode_note(NOTE))])
    assert seen == [(1, 0)]
