"""What is kept of documents, where no agent takes it for one."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from pathlib import Path

import pytest

from memplane.errors import BackendUnavailable, InvalidKey
from memplane.persona.document_names import explain_invalid_name
from memplane.persona.local_history import MAX_SNAPSHOTS, ConflictCopy, LocalHistory

NOW = datetime(2026, 3, 1, 9, 30, 0, 123_000, tzinfo=UTC)
LONGEST = "x" * 201 + ".md"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def keeping(state: Path) -> LocalHistory:
    return LocalHistory(state)


# Snapshots


def test_the_ten_newest_snapshots_of_each_document_are_kept(keeping: LocalHistory) -> None:
    for number in range(MAX_SNAPSHOTS + 5):
        keeping.keep_snapshot("a.md", b"%d" % number)
    keeping.keep_snapshot("b.md", b"other")
    kept = keeping.snapshots("a.md")
    assert [keeping.read_snapshot("a.md", one.name) for one in kept] == [
        b"%d" % number for number in range(MAX_SNAPSHOTS + 4, 4, -1)
    ]
    assert [one.size for one in kept] == [2] * 5 + [1] * 5
    assert len(keeping.snapshots("b.md")) == 1
    assert keeping.snapshots("c.md") == ()


def test_a_snapshot_says_when_it_was_taken(keeping: LocalHistory) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    keeping.keep_snapshot("a.md", b"x")
    assert before <= keeping.snapshots("a.md")[0].at <= datetime.now(UTC) + timedelta(seconds=1)


def test_a_swap_that_is_tried_again_takes_one_snapshot(keeping: LocalHistory) -> None:
    for data in (b"x", b"x", b"y", b"x"):
        keeping.keep_snapshot("a.md", data)
    names = [one.name for one in keeping.snapshots("a.md")]
    assert [keeping.read_snapshot("a.md", name) for name in names] == [b"x", b"y", b"x"]


@pytest.mark.parametrize("name", ["", "..", "../a.md", "00000002-x.md", "/etc/passwd"])
def test_only_snapshots_can_be_read_back(keeping: LocalHistory, state: Path, name: str) -> None:
    keeping.keep_snapshot("a.md", b"x")
    (state / "snapshots" / "a.md" / "other").write_text("x")
    assert keeping.read_snapshot("a.md", name) is None
    assert keeping.read_snapshot("b.md", name) is None


def test_numbers_go_on_when_ids_repeat(state: Path) -> None:
    keeping = LocalHistory(state, new_id=lambda: "same")
    for number in range(30):
        keeping.keep_snapshot("a.md", b"%d" % number)
    assert keeping.read_snapshot("a.md", keeping.snapshots("a.md")[0].name) == b"29"


# Conflict copies


def test_a_copy_says_whose_it_was_when_and_why(keeping: LocalHistory, state: Path) -> None:
    path = keeping.keep_copy("sub/a.md", b"lost", label="theirs", now=NOW)
    assert path.is_relative_to(state / "conflicts")
    assert path.read_bytes() == b"lost"
    assert keeping.conflicts() == (ConflictCopy(path, "sub/a.md", NOW, "theirs"),)


def test_copies_are_listed_by_age_and_dropped_one_by_one(keeping: LocalHistory) -> None:
    moments = count()
    paths = [
        keeping.keep_copy(key, b"x", label=label, now=NOW + timedelta(milliseconds=next(moments)))
        for key in ("b.md", "a/z.md", "a.md")
        for label in ("ours", "theirs")
    ]
    assert [copy.path for copy in keeping.conflicts()] == paths
    assert keeping.drop_copy(paths[2])
    assert not keeping.drop_copy(paths[2])
    assert [copy.path for copy in keeping.conflicts()] == [*paths[:2], *paths[3:]]


def test_two_texts_kept_in_the_same_moment_are_two_copies(keeping: LocalHistory) -> None:
    paths = {keeping.keep_copy("a.md", data, label="x", now=NOW) for data in (b"1", b"2", b"1")}
    assert {path.read_bytes() for path in paths} == {b"1", b"2"}
    assert len(keeping.conflicts()) == 2


def test_a_text_that_is_left_out_again_is_kept_once(keeping: LocalHistory) -> None:
    later = NOW + timedelta(days=1)
    first = keeping.keep_copy("sub/a.md", b"x", label="import", now=NOW)
    assert keeping.keep_copy("sub/a.md", b"x", label="import", now=later) == first
    others = {
        keeping.keep_copy("sub/a.md", b"y", label="import", now=later),
        keeping.keep_copy("sub/a.md", b"x", label="merge", now=later),
        keeping.keep_copy("sub/b.md", b"x", label="import", now=later),
        keeping.keep_copy("a.md", b"x", label="import", now=later),
    }
    assert len({first, *others}) == len(keeping.conflicts()) == 5


@pytest.mark.parametrize(
    ("label", "listed"),
    [
        ("Before adoption", "before-adoption"),
        ("../../etc/passwd", "etc-passwd"),
        ("", "copy"),
        ("é", "copy"),
        ("a" * 40, "a" * 16),
        ("theirs.md", "theirs-md"),
    ],
)
def test_a_label_cannot_leave_the_folder(keeping: LocalHistory, label: str, listed: str) -> None:
    path = keeping.keep_copy("a.md", b"x", label=label, now=NOW)
    assert [(copy.path, copy.label) for copy in keeping.conflicts()] == [(path, listed)]


def test_the_longest_key_has_room_for_everything_kept_of_it(keeping: LocalHistory) -> None:
    key = f"{'d' * 201}/{LONGEST}"
    assert explain_invalid_name(key) is None
    path = keeping.keep_copy(key, b"x", label="l" * 99, now=NOW)
    assert [(copy.path, copy.key) for copy in keeping.conflicts()] == [(path, key)]
    keeping.keep_snapshot(key, b"x")
    assert len(keeping.snapshots(key)) == 1


def test_a_moment_of_another_zone_is_told_in_utc(keeping: LocalHistory) -> None:
    there = NOW.astimezone(timezone(timedelta(hours=-7)))
    keeping.keep_copy("a.md", b"x", label="x", now=there)
    assert [copy.at for copy in keeping.conflicts()] == [NOW]


def test_what_is_no_copy_is_neither_listed_nor_dropped(
    keeping: LocalHistory, state: Path, tmp_path: Path
) -> None:
    kept = keeping.keep_copy("a.md", b"x", label="x", now=NOW)
    outside = tmp_path / kept.name
    outside.write_text("mine")
    strangers = [
        kept.with_name("notes.md"),
        kept.with_name(".memplane-new-0a1b2c"),
        kept.with_name("CLAUDE.md.20260301T093000123Z.x.00000000.md"),
        kept.with_name("a.md.20269999T999999999Z.x.00000000.md"),
    ]
    for stranger in strangers:
        stranger.write_text("x")
    link = kept.with_name("links")
    link.symlink_to(tmp_path)
    for path in (
        *strangers,
        outside,
        state / "conflicts" / ".." / ".." / kept.name,
        link / kept.name,
    ):
        try:
            assert not keeping.drop_copy(path)
        except InvalidKey:
            assert path == link / kept.name
    assert [copy.path for copy in keeping.conflicts()] == [kept]
    assert outside.read_text() == "mine"
    assert all(stranger.exists() for stranger in strangers)


def test_nothing_was_kept_yet(keeping: LocalHistory, state: Path) -> None:
    assert keeping.conflicts() == ()
    assert keeping.snapshots("a.md") == ()
    assert not keeping.drop_copy(state / "conflicts" / "a.md.20260301T093000123Z.x.00000000.md")
    assert not keeping.is_purged("a.md", "id")
    assert not state.exists()


def test_what_is_kept_is_for_this_user_alone(keeping: LocalHistory, state: Path) -> None:
    before = os.umask(0)
    try:
        keeping.keep_copy("sub/a.md", b"x", label="x", now=NOW)
        keeping.keep_snapshot("sub/a.md", b"x")
    finally:
        os.umask(before)
    for path in (state, *state.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_copy_that_cannot_be_written_leaves_no_half(
    keeping: LocalHistory, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", failing)
    with pytest.raises(BackendUnavailable, match="full"):
        keeping.keep_copy("a.md", b"x", label="x", now=NOW)
    with pytest.raises(BackendUnavailable, match="full"):
        keeping.keep_snapshot("a.md", b"x")
    monkeypatch.undo()
    assert [path for path in state.rglob("*") if path.is_file()] == []
