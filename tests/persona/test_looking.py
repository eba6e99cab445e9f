"""A look at a folder changes nothing, waits for nobody, and tells how each document is."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from memplane.errors import InvalidKey, PersonaError
from memplane.persona.api_types import DocumentCondition
from memplane.persona.baseline_reader import BaselineContents, read_baseline, read_facts
from memplane.persona.inspection import inspect_document, inspect_folder
from tests.persona.furnished import ADDRESS, Furnished, furnish_persona


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Furnished:
    home = tmp_path_factory.mktemp("looking")
    return furnish_persona(home / "memory", home / "state" / "sync")


def test_every_document_is_seen_in_its_state(furnished: Furnished) -> None:
    look = inspect_folder(furnished.folder, furnished.memory)
    assert {one.key: one.condition for one in look.documents} == {
        "MEMORY.md": DocumentCondition.IN_STEP,
        "feedback_tone.md": DocumentCondition.CHANGED,
        "notes.md": DocumentCondition.HELD,
        "project_roadmap.md": DocumentCondition.NEW,
        "reference_backups.md": DocumentCondition.IN_STEP,
        "reference_door.md": DocumentCondition.HELD,
        "reference_later.md": DocumentCondition.WAITING,
        "reference_old.md": DocumentCondition.DELETED,
        "user_role.md": DocumentCondition.IN_STEP,
    }
    assert look.count(DocumentCondition.HELD) == 2
    assert (look.ignored, list(look.refused)) == (2, ["link.md"])


def test_what_waits_and_what_is_held_say_why(furnished: Furnished) -> None:
    seen = {one.key: one for one in inspect_folder(furnished.folder, furnished.memory).documents}
    assert "tried once: " in seen["reference_later.md"].reason
    assert seen["reference_later.md"].next_try
    assert "frontmatter" in seen["notes.md"].reason
    assert "--allow-secrets" in seen["reference_door.md"].reason


def test_a_held_document_that_was_mended_is_a_change(furnished: Furnished, tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "notes.md").write_text("---\nname: Notes\n---\n")
    seen = inspect_folder(folder, furnished.memory).documents
    assert next(one for one in seen if one.key == "notes.md").condition is DocumentCondition.NEW


def test_one_document_comes_with_its_copies_and_earlier_texts(furnished: Furnished) -> None:
    role = inspect_document(furnished.folder, furnished.memory, "user_role.md")
    assert role is not None
    assert ("name", "Role") in role.fields
    ((copy, text),) = role.copies
    assert copy.label == "merge"
    assert b"with reasons" in text
    backups = inspect_document(furnished.folder, furnished.memory, "reference_backups.md")
    assert backups is not None
    assert [one.size for one in backups.snapshots]


def test_what_never_was_is_not_there_and_what_cannot_be_is_refused(furnished: Furnished) -> None:
    assert inspect_document(furnished.folder, furnished.memory, "reference_never.md") is None
    for key in ("../state/x.md", "/etc/passwd", ".memplane-persona.json", "link.md", ""):
        with pytest.raises(InvalidKey):
            inspect_document(furnished.folder, furnished.memory, key)


def test_a_folder_that_was_never_synced_has_only_new_documents(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "user_role.md").write_text("---\nname: Role\n---\n")
    look = inspect_folder(folder, tmp_path / "nothing")
    assert [one.condition for one in look.documents] == [DocumentCondition.NEW]
    assert inspect_folder(tmp_path / "gone", tmp_path / "nothing").missing
    assert read_baseline(tmp_path / "nothing") == BaselineContents()
    assert read_facts(tmp_path / "nothing") == {}


def test_a_look_leaves_a_running_sync_alone(furnished: Furnished) -> None:
    before = {path: path.stat().st_mtime_ns for path in furnished.folder.iterdir()}
    lock = os.open(furnished.memory / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        inspect_folder(furnished.folder, furnished.memory)
        assert read_facts(furnished.memory)["address"] == ADDRESS
    finally:
        os.close(lock)
    left = {path: path.lstat().st_mtime_ns for path in furnished.folder.iterdir()}
    assert {path: left[path] for path in before if not path.is_symlink()} == {
        path: at for path, at in before.items() if not path.is_symlink()
    }


async def test_a_look_between_two_commits_sees_the_first(furnished: Furnished) -> None:
    async with furnished.machine.engine() as engine:
        engine.baseline.note("mood", "one")
        assert read_baseline(furnished.memory).facts["mood"] == "one"
        engine.baseline.note("mood", "two")
        assert read_facts(furnished.memory)["mood"] == "two"


def test_a_memory_that_is_damaged_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "baseline.db").write_bytes(b"no database at all" * 100)
    for look in (read_baseline, read_facts):
        with pytest.raises(PersonaError, match="cannot be read"):
            look(tmp_path)
