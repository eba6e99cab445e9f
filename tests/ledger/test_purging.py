"""Purging: the payload is gone, the chain still verifies, and nothing else changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from memplane.errors import LedgerError
from memplane.kit.clock import system_clock
from memplane.ledger import chain_verification, purge
from memplane.ledger.agent_writer import AgentWriter
from memplane.ledger.anchors import read_anchors
from memplane.ledger.chain import (
    ERASED_SALT,
    ChainRecord,
    LedgerPosition,
    RecordKind,
    decode_record,
    encode_record,
    make_note_record,
)
from memplane.ledger.chain_verification import LedgerReport, verify_ledger
from memplane.ledger.cursor import BEGINNING
from memplane.ledger.entry import Entry, compute_entry_id
from memplane.ledger.entry_head import is_erased_line, make_erased_line, read_entry_head
from memplane.ledger.file_verification import LedgerProblem, verify_lines
from memplane.ledger.folder import AgentFolder, encode_end
from memplane.ledger.line_reader import read_lines
from memplane.ledger.purge import PurgeReport, purge_ledger, purge_open_ledger
from memplane.ledger.reader import open_entries_by_id, open_last_entries, open_page, read_entries
from memplane.ledger.segments import FileModes, quarantine_bytes
from memplane.ledger.writer import LedgerOptions, open_ledger
from tests.support.turns import NOON, record, turn

TURNS = 9
SHORT = LedgerOptions(max_bytes=2500)


def canary(number: int) -> str:
    return f"canary-{number}-of-the-payload"


async def filled(root: Path) -> tuple[AgentFolder, list[Entry]]:
    """Nine turns, in two sealed segments and the open one."""
    made = await record(root, [turn(canary(n)) for n in range(TURNS)], SHORT)
    folder = AgentFolder(root, "analyst")
    assert [one.number for one in folder.segments()] == [1, 2, 3]
    return folder, made


def purged(folder: AgentFolder, *ids: str) -> PurgeReport:
    return purge_ledger(folder, ids, modes=FileModes(), clock=system_clock)


def checked(folder: AgentFolder) -> LedgerReport:
    return verify_ledger(folder, read_anchors(folder.root).get(folder.agent))


def problems(folder: AgentFolder) -> list[LedgerProblem]:
    return [one.problem for one in checked(folder).findings]


def ids_in(folder: AgentFolder) -> list[str]:
    return [identifier for identifier, _ in read_entries(folder)]


def files_with(folder: AgentFolder, text: str) -> list[str]:
    """Name every file below the ledger's root that has a text in it."""
    return [
        path.name
        for path in sorted(folder.root.rglob("*"))
        if path.is_file() and text.encode() in path.read_bytes()
    ]


def image_of(folder: AgentFolder) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in folder.root.rglob("*") if one.is_file()}


def records_in(folder: AgentFolder) -> list[ChainRecord]:
    found = (decode_record(line) for line in folder.chain.read_bytes().splitlines())
    return [record for record in found if record is not None]


def line_at(folder: AgentFolder, number: int) -> tuple[Path, int, int]:
    """Return where a turn lies: its file, its first byte, and its length with the newline."""
    lines = [one for one in records_in(folder) if one.kind in {RecordKind.ENTRY, RecordKind.FOUND}]
    place = lines[number].place
    paths = {one.number: one.path for one in folder.segments()}
    return paths[place.segment], place.offset, lines[number].size


def overwrite(path: Path, offset: int, data: bytes) -> None:
    mode = path.stat().st_mode
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    path.chmod(mode)


# What is left


@pytest.mark.parametrize("number", range(TURNS))
async def test_a_purged_turn_is_gone_and_every_other_is_as_it_was(
    number: int, tmp_path: Path
) -> None:
    folder, made = await filled(tmp_path)
    sizes = {one.path: one.path.stat().st_size for one in folder.segments()}
    modes = {one.path: one.path.stat().st_mode for one in folder.segments()}
    assert problems(folder) == []
    assert files_with(folder, canary(number))

    assert purged(folder, made[number].id) == PurgeReport(erased=1)

    report = checked(folder)
    assert (report.entries, report.erased, report.findings) == (TURNS - 1, 1, [])
    assert files_with(folder, canary(number)) == []
    assert all(files_with(folder, canary(n)) for n in range(TURNS) if n != number)
    others = [(one.id, one.line) for one in made if one is not made[number]]
    assert list(read_entries(folder)) == others
    assert {one.path: one.path.stat().st_size for one in folder.segments()} == sizes
    assert {one.path: one.path.stat().st_mode for one in folder.segments()} == modes


async def test_all_at_once_and_one_by_one_leave_the_same_segments(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    other = AgentFolder(tmp_path / "other", "analyst")
    assert purged(folder, *(one.id for one in made)).erased == TURNS
    for one in made:
        assert purged(other, one.id).erased == 1
    for here, there in zip(folder.segments(), other.segments(), strict=True):
        assert here.path.read_bytes() == there.path.read_bytes()
    for each in (folder, other):
        assert (checked(each).entries, checked(each).erased, problems(each)) == (0, TURNS, [])
        assert list(read_entries(each)) == []
        assert files_with(each, "canary-") == []


async def test_whose_when_and_which_is_left_as_json_that_others_read(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    purged(folder, made[4].id)
    path, offset, size = line_at(folder, 4)
    line = path.read_bytes()[offset : offset + size]
    assert json.loads(line) == {
        "version": 1,
        "id": made[4].id,
        "status": "erased",
        "ts": "2026-03-01T12:00:00Z",
        "claw_id": "analyst",
    }
    assert line.endswith(b"} " + b" " * (size - len(line.rstrip()) - 2) + b"\n")
    for segment in folder.segments():
        assert all(json.loads(one) for one in segment.path.read_bytes().splitlines())


async def test_the_salt_goes_and_the_rest_of_the_chain_stays(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    before = folder.chain.read_bytes()
    purged(folder, made[4].id)
    after = folder.chain.read_bytes()
    salt = next(one.salt for one in records_in(folder) if one.salt == ERASED_SALT)
    assert len([one for one in records_in(folder) if one.salt == salt]) == 1
    original = next(
        one.salt
        for one in map(decode_record, before.splitlines())
        if one is not None and one.salt not in {r.salt for r in records_in(folder)}
    )
    assert original.hex().encode() not in after
    assert after.startswith(before.replace(original.hex().encode(), salt.hex().encode()))
    assert [one.kind for one in records_in(folder)][-1] == "erased"


async def test_a_purge_again_changes_nothing(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    purged(folder, made[1].id, made[8].id)
    before = image_of(folder)
    assert purged(folder, made[1].id, made[8].id, "nobody's") == PurgeReport(missing=("nobody's",))
    assert image_of(folder) == before


async def test_an_agent_without_a_ledger_is_given_none(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path / "ledger", "analyst")
    assert purged(folder, "b", "a", "a") == PurgeReport(missing=("a", "b"))
    assert not folder.root.exists()


async def test_a_line_of_eight_mebibytes(tmp_path: Path) -> None:
    large = "x" * (4 << 20) + "canary"
    made = await record(tmp_path, [turn("before"), turn(large), turn("after")])
    folder = AgentFolder(tmp_path, "analyst")
    assert len(made[1].line) > 8 << 20
    assert purged(folder, made[1].id).erased == 1
    assert (checked(folder).erased, problems(folder)) == (1, [])
    assert files_with(folder, "x" * 16) == files_with(folder, "canary") == []
    assert ids_in(folder) == [made[0].id, made[2].id]


# Lines of other recorders


LEGACY = [
    b'{"version":1,"ts":"2026-01-02T03:04:05Z","claw_id":"analyst","note":"%s"}' % (b"y" * 200),
    b'{"version":1,"ts":"2026-01-02T03:04:05Z","note":"%s"}' % (b"y" * 50),
    b'{"note":"yyyyyyyyyyyyyyyyyyy"}',
    b'{"note":"yyyyyyyy"}',
    b'{"a":"yyyyyyyy"}',
    b'{"yy":1}',
]


@pytest.mark.parametrize("line", LEGACY)
async def test_a_short_line_keeps_what_there_is_room_for(line: bytes, tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path, "analyst")
    folder.path.mkdir()
    whole = b'{"version":1,"ts":"2026-01-02T03:04:05Z","which":"%s"}\n'
    data = whole % b"first" + line + b"\n" + whole % b"last"
    (folder.path / "history.jsonl").write_bytes(data)
    with open_page(folder) as page:
        cursors = [one.cursor for one in page.entries]
        first, erased, last = [identifier for identifier, _ in page.with_ids()]
    assert purged(folder, erased).erased == 1
    assert purged(folder, erased) == PurgeReport()
    assert (checked(folder).erased, problems(folder)) == (1, [])
    assert files_with(folder, "yy") == []
    assert (folder.path / "history.jsonl").stat().st_size == len(data)
    assert ids_in(folder) == [first, last]
    with open_page(folder, cursor=cursors[1]) as page:
        assert [identifier for identifier, _ in page.with_ids()] == [last]


async def test_an_adopted_file_and_the_open_one_of_another_recorder(tmp_path: Path) -> None:
    made = await record(tmp_path / "ours", [turn(canary(n)) for n in range(4)])
    folder = AgentFolder(tmp_path / "other", "analyst")
    folder.path.mkdir(parents=True)
    lines = [one.line + b"\n" for one in made]
    (folder.path / "history.jsonl.1").write_bytes(b"".join(lines[:2]))
    (folder.path / "history.jsonl").write_bytes(b"".join(lines[2:]) + lines[0])
    index = b'{"version":1,"history_size":9,"entry_count":1,"checkpoints":[]}\n'
    (folder.path / "history.index.json").write_bytes(index)

    assert purged(folder, made[0].id, made[3].id) == PurgeReport(erased=3)

    assert folder.sealed_path(1).exists()
    assert (checked(folder).entries, checked(folder).erased, problems(folder)) == (2, 3, [])
    assert files_with(folder, canary(0)) == files_with(folder, canary(3)) == []
    assert ids_in(folder) == [made[1].id, made[2].id]


@pytest.mark.parametrize(
    "opaque", ["x", "a b/c:7", "n" * 300, 'quote"d', "back\\slash", "\u00e9", "\ud83d", "<&>"]
)
async def test_ids_may_be_anything(opaque: str, tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path, "analyst")
    folder.path.mkdir()
    bodies = [{"id": one, "ts": "2026-01-02T03:04:05Z", "x": "canary"} for one in (opaque, "kept")]
    data = b"".join(json.dumps(one).encode() + b"\n" for one in bodies)
    (folder.path / "history.jsonl").write_bytes(data)
    await record(tmp_path, [turn("after")])
    with open_page(folder) as page:
        cursor = page.entries[0].cursor
    assert purged(folder, opaque) == PurgeReport(erased=1)
    report = checked(folder)
    assert (report.entries, report.erased, report.findings) == (2, 1, [])
    assert (folder.path / "history.jsonl").read_bytes().count(b"canary") == 1
    with open_page(folder, cursor=cursor) as page:
        assert next(page.with_ids())[0] == "kept"
    await record(tmp_path, [turn("still")])
    assert problems(folder) == []


async def test_an_entry_that_says_erased_and_more_is_an_entry(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path, "analyst")
    folder.path.mkdir()
    body = {"version": 1, "id": "mine", "status": "erased", "ts": "2026-01-02T03:04:05Z"}
    line = json.dumps(body | {"request_original": {"messages": []}}).encode()
    (folder.path / "history.jsonl").write_bytes(line + b"\n")
    assert list(read_entries(folder)) == [("mine", line)]


async def test_what_a_time_could_hide_is_not_kept(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path, "analyst")
    folder.path.mkdir()
    lines = [
        json.dumps({"id": f"{n}", "ts": ts, "x": "y" * 200}).encode()
        for n, ts in enumerate(["canary", "2026-01-02T03:04:05.%sZ" % ("8" * 60)])
    ]
    (folder.path / "history.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    assert purged(folder, "0", "1").erased == 2
    assert files_with(folder, "canary") == files_with(folder, "8888") == []
    assert problems(folder) == []


# Changes after a purge


def changed_remains(folder: AgentFolder) -> None:
    path, offset, size = line_at(folder, 4)
    overwrite(path, offset + size - 3, b"x")


def changed_id_of_remains(folder: AgentFolder) -> None:
    path, offset, _ = line_at(folder, 4)
    overwrite(path, offset + 30, b"zz")


def original_put_back(folder: AgentFolder) -> None:
    path, offset, size = line_at(folder, 4)
    line = make_erased_line("analyst", "hist1_x", "", size - 1).replace(b"erased", b"revive")
    overwrite(path, offset, line)


def changed_neighbour(folder: AgentFolder) -> None:
    path, offset, _ = line_at(folder, 5)
    overwrite(path, offset + 200, b"zz")


def changed_neighbour_without_its_salt(folder: AgentFolder) -> None:
    changed_neighbour(folder)
    salts(folder, 5)


def salts(folder: AgentFolder, number: int) -> None:
    lines = folder.chain.read_bytes().splitlines(keepends=True)
    at = [n for n, line in enumerate(lines) if b'"salt"' in line][number]
    found = decode_record(lines[at])
    assert found is not None
    lines[at] = encode_record(replace(found, salt=ERASED_SALT))
    folder.chain.write_bytes(b"".join(lines))


def forged_remains(folder: AgentFolder) -> None:
    """A line is made to look erased, and nothing says that it was."""
    path, offset, size = line_at(folder, 5)
    data = path.read_bytes()[offset : offset + size]
    overwrite(path, offset, make_erased_line("analyst", json.loads(data)["id"], "", size - 1))


def forged_remains_without_salt(folder: AgentFolder) -> None:
    forged_remains(folder)
    salts(folder, 5)


def forged_record_in_between(folder: AgentFolder) -> None:
    """A record that names another line takes the place of the true one."""
    forged_remains_without_salt(folder)
    data = folder.chain.read_bytes()
    last = records_in(folder)[-1]
    fifth = [one for one in records_in(folder) if one.salt][5]
    place = {"segment": fifth.place.segment, "offset": fifth.place.offset}
    forged = replace(last, more={**last.more, **place, "record": fifth.seq})
    folder.chain.write_bytes(data.replace(encode_record(last), encode_record(forged)))


def record_taken_away(folder: AgentFolder) -> None:
    lines = folder.chain.read_bytes().splitlines(keepends=True)
    folder.chain.write_bytes(b"".join(lines[:-1]))


def sealed_segment_extended(folder: AgentFolder) -> None:
    path, _, _ = line_at(folder, 4)
    size = path.stat().st_size
    overwrite(path, size, b'{"more":1}\n')


TAMPERING: list[Callable[[AgentFolder], None]] = [
    changed_remains,
    changed_id_of_remains,
    original_put_back,
    changed_neighbour,
    changed_neighbour_without_its_salt,
    forged_remains,
    forged_remains_without_salt,
    forged_record_in_between,
    record_taken_away,
    sealed_segment_extended,
]


@pytest.mark.parametrize("tamper", TAMPERING)
async def test_any_other_change_is_still_found(
    tamper: Callable[[AgentFolder], None], tmp_path: Path
) -> None:
    folder, made = await filled(tmp_path)
    purged(folder, made[4].id)
    assert problems(folder) == []
    tamper(folder)
    assert {*problems(folder)} & {LedgerProblem.CHANGED, LedgerProblem.MISSING}
    await record(tmp_path, [turn("after")])
    assert problems(folder), "the change is forgotten once the ledger is open"


async def test_every_byte_of_what_is_left_is_checked(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    purged(folder, made[8].id)
    path, offset, size = line_at(folder, 8)
    data = path.read_bytes()
    for at in range(offset, offset + size):
        changed = bytes([data[at] ^ 1])
        overwrite(path, at, changed)
        assert problems(folder), f"byte {at}"
        overwrite(path, at, data[at : at + 1])
    assert problems(folder) == []


async def test_an_erased_record_that_names_what_comes_later_counts_for_nothing(
    tmp_path: Path,
) -> None:
    """Otherwise a line could be excused before it was ever written."""
    folder, _ = await filled(tmp_path)
    end = records_in(folder)[-1].link
    ahead = {"record": end.seq + 2, "segment": 3, "offset": end.place.offset}
    with folder.chain.open("ab") as file:
        file.write(encode_record(make_note_record(end, RecordKind.ERASED, ahead)))
    [made] = await record(tmp_path, [turn("later")])
    assert problems(folder) == []
    forged = make_erased_line("analyst", made.id, "", len(made.line))
    overwrite(folder.path / "history.jsonl", end.place.offset, forged)
    assert LedgerProblem.CHANGED in problems(folder)


async def test_an_erased_record_that_names_another_place_counts_for_nothing(
    tmp_path: Path,
) -> None:
    folder, made = await filled(tmp_path)
    end, fifth = records_in(folder)[-1].link, records_in(folder)[5]
    more = {"record": fifth.seq, "segment": fifth.place.segment, "offset": fifth.place.offset + 1}
    with folder.chain.open("ab") as file:
        file.write(encode_record(make_note_record(end, RecordKind.ERASED, more)))
    report = checked(folder)
    assert (report.entries, report.erased) == (TURNS, 0)
    assert [one.problem for one in report.findings] == [LedgerProblem.MISSING]
    assert ids_in(folder) == [one.id for one in made]


async def test_lines_that_look_erased_and_were_never_chained_are_found(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    forged = (
        make_erased_line("analyst", compute_entry_id(b"x"), "2026-03-01T12:00:00Z", 400) + b"\n"
    )
    with (folder.path / "history.jsonl").open("ab") as file:
        file.write(forged)
    report = checked(folder)
    assert [one.problem for one in report.findings] == [LedgerProblem.CHANGED]
    assert report.unchained == 0
    await record(tmp_path, [turn("after")])
    assert LedgerProblem.CHANGED in problems(folder)
    assert len(ids_in(folder)) == len(made) + 1


async def test_a_file_by_itself_counts_lines_that_say_they_are_erased(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    purged(folder, made[0].id)
    with folder.sealed_path(1).open("rb") as file:
        report = verify_lines(read_lines(file))
    assert report.erased == 1
    assert report.findings == []


# What another purge began with


async def begun(folder: AgentFolder, identifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Purge, and fail when the chain says so and no line is overwritten yet."""

    def gone(*_given: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(purge, "_erase_lines", gone)
        with pytest.raises(OSError, match="Input/output"):
            purged(folder, identifier)


async def test_an_erasure_that_was_begun_is_told_and_completed_by_any_purge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, made = await filled(tmp_path)
    await begun(folder, made[4].id, monkeypatch)
    [finding] = checked(folder).findings
    assert finding.problem is LedgerProblem.UNFINISHED
    assert "forget --purge" in finding.found
    path, offset, size = line_at(folder, 4)
    overwrite(path, offset, b"\0" * (size // 2))  # what a power loss may leave of it
    assert problems(folder) == [LedgerProblem.UNFINISHED]
    assert purged(folder) == PurgeReport(completed=1)
    assert (checked(folder).erased, problems(folder)) == (1, [])
    assert made[4].id in path.read_bytes().decode()
    assert files_with(folder, canary(4)) == []


async def test_a_segment_that_was_sealed_before_an_erasure_in_it_was_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, made = await filled(tmp_path)
    await begun(folder, made[8].id, monkeypatch)
    await record(tmp_path, [turn(f"more {n}") for n in range(6)], SHORT)
    assert folder.sealed_path(3).exists()
    assert problems(folder) == [LedgerProblem.UNFINISHED]
    assert purged(folder, made[8].id) == PurgeReport(erased=1)
    assert (checked(folder).erased, problems(folder)) == (1, [])


async def test_a_line_that_a_backup_brought_back_is_erased_again(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    path, offset, _ = line_at(folder, 4)
    purged(folder, made[4].id)
    overwrite(path, offset, made[4].line)
    assert LedgerProblem.CHANGED in problems(folder)
    assert purged(folder, made[4].id) == PurgeReport(erased=1)
    assert problems(folder) == []
    assert files_with(folder, canary(4)) == []


async def test_a_file_that_was_moved_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, made = await filled(tmp_path)
    path = folder.path / "history.jsonl"
    really = purge._erase_fragments

    def moving(folder: AgentFolder, ids: frozenset[str], positions: set[LedgerPosition]) -> int:
        shutil.copy(path, tmp_path / "copy")
        path.unlink()
        shutil.copy(tmp_path / "copy", path)
        return really(folder, ids, positions)

    monkeypatch.setattr(purge, "_erase_fragments", moving)
    with pytest.raises(LedgerError, match="moved meanwhile"):
        purged(folder, made[8].id)
    monkeypatch.undo()
    (tmp_path / "copy").unlink()
    assert purged(folder, made[8].id).erased == 1
    assert problems(folder) == []


# Quarantine, damage, doubtful ends


async def test_fragments_in_quarantine_go_with_their_line(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    fourth = [line for line in folder.chain.read_bytes().splitlines() if b'"salt"' in line][4]
    salt = json.loads(fourth)["salt"]
    line = made[4].line
    quarantine_bytes(folder, line[:-40], "torn")
    quarantine_bytes(folder, b"\xff" + line, "damaged")
    quarantine_bytes(folder, made[3].line + b"\n" + line + b"\n", "doubtful")
    quarantine_bytes(folder, fourth[:-60], "chain")
    assert len(files_with(folder, canary(4))) == 4
    assert purged(folder, made[4].id) == PurgeReport(erased=1, fragments=4)
    assert files_with(folder, canary(4)) == []
    assert files_with(folder, salt) == []
    assert len(files_with(folder, canary(3))) == 2
    assert problems(folder) == []


async def test_a_damaged_line_that_still_names_its_id_is_erased(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    damaged = made[8].line.replace(b'"claw_id":"', b'"claw_id":\xff\x00"')
    other = damaged.replace(made[8].id.encode(), made[7].id.encode()[:-1] + b"f")
    with (folder.path / "history.jsonl").open("ab") as file:
        file.write(damaged + b"\n" + other + b"\n")
    await record(tmp_path, [turn("after")])
    assert problems(folder) == [LedgerProblem.DAMAGED] * 2
    assert purged(folder, made[8].id) == PurgeReport(erased=2, fragments=1)
    assert purged(folder, made[8].id) == PurgeReport()
    assert problems(folder) == [LedgerProblem.DAMAGED] * 2
    data = (folder.path / "history.jsonl").read_bytes()
    assert data.count(canary(8).encode()) == other.count(canary(8).encode())


async def test_what_lies_behind_a_doubtful_end_goes_too(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    size = folder.sealed_path(1).stat().st_size
    folder.end_path(1).write_bytes(encode_end(size))
    folder.sealed_path(1).chmod(0o600)
    with folder.sealed_path(1).open("ab") as file:
        file.write(made[5].line + b"\n")
    log = AgentWriter(folder, modes=FileModes(), max_bytes=1)
    with log.open_locked(lambda: None, system_clock):
        # The disk did not let the end be cut off.
        with folder.sealed_path(1).open("ab") as file:
            file.write(made[5].line + b"\n")
        purge_open_ledger(log, [made[5].id], modes=FileModes())
    log.close()
    assert files_with(folder, canary(5)) == []
    assert files_with(folder, canary(4))


# Readers


async def test_a_walk_loses_and_repeats_nothing_whatever_is_purged_meanwhile(
    tmp_path: Path,
) -> None:
    made = await record(tmp_path, [turn(canary(n)) for n in range(40)], SHORT)
    folder = AgentFolder(tmp_path, "analyst")
    seen: list[str] = []
    erased: list[str] = []
    cursor, more = BEGINNING, True
    while more:
        with open_page(folder, cursor=cursor, limit=3) as page:
            seen += [identifier for identifier, _ in page.with_ids()]
        cursor, more = page.next, page.has_more
        # The last one that was read, one before it, and the next one but one.
        at = len(seen) + len(erased)
        chosen = [made[n].id for n in (at - 1, at - 3, at + 1) if 0 <= n < len(made)]
        purged(folder, *chosen)
        erased += [one for one in chosen if one not in seen and one not in erased]
    assert seen == [one.id for one in made if one.id not in erased]
    assert problems(folder) == []


async def test_erased_lines_are_counted_beside_damaged_ones(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    with (folder.path / "history.jsonl").open("ab") as file:
        file.write(b"garbage\n")
    purged(folder, made[0].id, made[4].id, made[8].id)
    with open_page(folder) as page:
        assert (len(page.entries), page.skipped, page.erased) == (TURNS - 3, 1, 3)
    walked = [0, 0]
    cursor, more = BEGINNING, True
    while more:
        with open_page(folder, cursor=cursor, limit=1) as page:
            walked = [walked[0] + page.skipped, walked[1] + page.erased]
        cursor, more = page.next, page.has_more
    assert walked == [1, 3]
    with open_last_entries(folder, 100) as page:
        assert len(page.entries) == TURNS - 3
    with open_entries_by_id(folder, made[4].id) as page:
        assert page.entries == []


async def test_a_page_that_was_found_before_a_purge_does_not_show_it(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    with open_page(folder) as page:
        purged(folder, made[2].id, made[8].id)
        assert [identifier for identifier, _ in page.with_ids()] == [
            one.id for n, one in enumerate(made) if n not in {2, 8}
        ]


async def test_times_and_the_index_still_lead_to_the_right_place(tmp_path: Path) -> None:
    turns = [turn(f"turn {n}", ts=NOON + timedelta(seconds=n)) for n in range(1300)]
    made = await record(tmp_path, turns, LedgerOptions(max_bytes=300_000))
    folder = AgentFolder(tmp_path, "analyst")
    moments = [NOON + timedelta(seconds=n) for n in (0, 127, 128, 600, 1298)]

    def after(number: int) -> list[str]:
        return [one for one, _ in read_entries(folder, after=moments[number])]

    assert after(0) == [one.id for one in made[1:]]
    index = folder.index.read_bytes()
    chosen = {0, 1, 127, 128, 129, 256, 601, 1299}
    purged(folder, *(made[n].id for n in chosen))
    for number, first in enumerate((1, 128, 129, 601, 1299)):
        left = [one.id for n, one in enumerate(made) if n >= first and n not in chosen]
        assert after(number) == left
    assert folder.index.read_bytes() == index
    folder.index.unlink()
    assert after(3) == [one.id for n, one in enumerate(made) if n > 601 and n not in chosen]


async def test_a_check_that_a_purge_overtakes_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, made = await filled(tmp_path)
    really = chain_verification._check_chain
    left = [made[1].id, made[8].id]

    def overtaken(*given: object) -> object:
        if left:
            purged(folder, left.pop())
        return really(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(chain_verification, "_check_chain", overtaken)
    report = checked(folder)
    assert (report.erased, report.findings) == (2, [])


# Recording goes on


async def test_an_equal_turn_gets_another_id_than_the_erased_one(tmp_path: Path) -> None:
    now = system_clock().replace(microsecond=0)
    made = await record(tmp_path, [turn("same", ts=now)] * 3)
    folder = AgentFolder(tmp_path, "analyst")
    purged(folder, made[0].id, made[2].id)
    again = await record(tmp_path, [turn("same", ts=now)] * 3)
    assert len({one.id for one in made + again}) == 6
    assert problems(folder) == []
    assert ids_in(folder) == [made[1].id, *(one.id for one in again)]


async def test_a_ledger_that_is_open_goes_on_after_a_purge(tmp_path: Path) -> None:
    now = system_clock().replace(microsecond=0)
    folder = AgentFolder(tmp_path, "analyst")
    async with open_ledger(
        tmp_path, scrub=lambda one: one, clock=system_clock, options=SHORT
    ) as ledger:
        made = [await ledger.append(turn(canary(n), ts=now)) for n in range(TURNS)]
        for one in made[::2]:
            purged(folder, one.id)
            made.append(await ledger.append(turn(canary(0), ts=now)))
        assert ledger.figures.broken == ledger.figures.found == 0
    assert len({one.id for one in made}) == len(made)
    report = checked(folder)
    assert (report.erased, report.entries, report.findings) == (5, len(made) - 5, [])
    assert read_anchors(tmp_path)["analyst"].seq == records_in(folder)[-1].seq


async def test_who_holds_the_lock_purges_through_the_same_log(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    log = AgentWriter(folder, modes=FileModes(), max_bytes=2500)
    with log.open_locked(lambda: read_anchors(tmp_path)["analyst"], system_clock):
        assert purge_open_ledger(log, [made[8].id, made[0].id], modes=FileModes()).erased == 2
        log.write([made[0].line])
        log.sync()
        log.chain([made[0].line])
    with log.open_locked(lambda: None, system_clock) as recovered:
        assert recovered is None
    assert log.sync_chain() is not None
    log.close()
    assert (checked(folder).erased, problems(folder)) == (2, [])


async def test_an_anchor_knows_of_the_erasure(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    purged(folder, made[4].id)
    assert read_anchors(tmp_path)["analyst"] == records_in(folder)[-1].link


async def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    folder, made = await filled(tmp_path)
    victim = tmp_path / "victim"
    victim.write_bytes(made[4].line + b"\n")
    quarantine_bytes(folder, b"x", "torn")
    (folder.quarantine / "link").symlink_to(victim)
    path = folder.sealed_path(2)
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    purged(folder, made[4].id)
    assert victim.read_bytes() == made[4].line + b"\n"
    assert canary(4).encode() in (tmp_path / "moved").read_bytes()


def test_what_is_left_has_the_length_it_had() -> None:
    for size in range(200):
        line = make_erased_line("analyst", compute_entry_id(b"x"), "2026-03-01T12:00:00Z", size)
        assert len(line) == size
        assert b"\n" not in line
        assert not line.strip() or is_erased_line(line, read_entry_head(line))
