"""Two machines and one container: what a person sees on each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.persona.machines import Machine, machine, memory, new_store


@pytest.fixture
def two(tmp_path: Path) -> tuple[Machine, Machine]:
    store = new_store()
    return machine(tmp_path, "laptop", store), machine(tmp_path, "desktop", store)


async def test_what_is_written_on_one_is_on_the_other(two: tuple[Machine, Machine]) -> None:
    laptop, desktop = two
    laptop.write("user_role.md", memory("Role", "Works on sync.", kind="user"))
    sent = await laptop.sync()
    assert (sent.copied, sent.keys) == (2, ["MEMORY.md", "user_role.md"])
    brought = await desktop.sync()
    assert brought.pulled == 2
    assert desktop.files() == laptop.files()
    assert "[Role](user_role.md)" in (desktop.read("MEMORY.md") or "")


async def test_a_second_sync_does_nothing(two: tuple[Machine, Machine]) -> None:
    laptop, _ = two
    laptop.write("user_role.md", memory("Role", "Works on sync.", kind="user"))
    await laptop.sync()
    again = await laptop.sync()
    assert (again.copied, again.pulled, again.skipped) == (0, 0, 2)


async def test_edits_on_both_meet(two: tuple[Machine, Machine]) -> None:
    laptop, desktop = two
    laptop.write("feedback_tests.md", memory("Tests", "one", "two", "three", kind="feedback"))
    await laptop.sync()
    await desktop.sync()
    text = laptop.read("feedback_tests.md") or ""
    laptop.write("feedback_tests.md", text.replace("one", "ONE"))
    desktop.write("feedback_tests.md", text.replace("three", "THREE"))
    await laptop.sync()
    assert (await desktop.sync()).merged == 1
    await laptop.sync()
    assert laptop.files() == desktop.files()
    assert (laptop.read("feedback_tests.md") or "").endswith("ONE\ntwo\nTHREE\n")


async def test_what_is_deleted_stays_deleted(two: tuple[Machine, Machine]) -> None:
    laptop, desktop = two
    laptop.write("reference_old.md", memory("Old", "x"))
    laptop.write("reference_new.md", memory("New", "y"))
    await laptop.sync()
    await desktop.sync()
    (laptop.folder / "reference_old.md").unlink()
    await laptop.sync()
    report = await desktop.sync()
    assert desktop.read("reference_old.md") is None
    assert report.deleted == 1
    for one in (desktop, laptop, desktop):
        await one.sync()
    assert laptop.read("reference_old.md") is None
    assert desktop.read("reference_old.md") is None


async def test_another_project_has_a_prefix_of_its_own(
    two: tuple[Machine, Machine], tmp_path: Path
) -> None:
    laptop, _ = two
    laptop.write("user_role.md", memory("Role", "Works on sync.", kind="user"))
    await laptop.sync()
    other = machine(tmp_path, "other", laptop.store)
    other.mine = type(other.mine)("", "elsewhere", "0123456789" * 4)
    other.write("user_role.md", memory("Role", "Somebody else.", kind="user"))
    await other.sync()
    await laptop.sync()
    assert "Somebody" not in (laptop.read("user_role.md") or "")
    async with other.engine() as engine:
        assert engine.container.prefix == "claude_memory.elsewhere-01234567"


@pytest.fixture
async def both(two: tuple[Machine, Machine]) -> tuple[Machine, Machine]:
    """Two machines that share two documents."""
    laptop, desktop = two
    laptop.write("feedback_tests.md", memory("Tests", "one", kind="feedback"))
    laptop.write("reference_new.md", memory("New", "y"))
    await laptop.sync()
    await desktop.sync()
    return two


async def test_a_document_whose_edit_wins_over_a_deletion_is_found_in_the_index_again(
    both: tuple[Machine, Machine],
) -> None:
    laptop, desktop = both
    laptop.delete("feedback_tests.md")
    await laptop.sync()
    assert "feedback_tests.md" not in (laptop.read("MEMORY.md") or "")
    desktop.write("feedback_tests.md", memory("Tests", "one", "two", kind="feedback"))
    report = await desktop.sync()
    assert report.keys == ["MEMORY.md", "feedback_tests.md"]
    assert "[Tests](feedback_tests.md)" in (desktop.read("MEMORY.md") or "")
    await laptop.sync()
    assert laptop.files() == desktop.files()
    assert not (await desktop.sync()).keys
    assert not (await laptop.sync()).keys


async def test_a_document_that_was_edited_while_it_was_renamed_is_found_under_both_names(
    both: tuple[Machine, Machine],
) -> None:
    laptop, desktop = both
    laptop.write("reference_moved.md", laptop.read("reference_new.md") or "")
    laptop.delete("reference_new.md")
    await laptop.sync()
    desktop.write("reference_new.md", memory("New", "y", "z"))
    await desktop.sync()
    index = desktop.read("MEMORY.md") or ""
    assert "(reference_moved.md)" in index
    assert "(reference_new.md)" in index
    await laptop.sync()
    assert laptop.files() == desktop.files()


async def test_a_document_that_is_new_where_the_memory_of_syncs_is_lost_is_in_the_index(
    both: tuple[Machine, Machine],
) -> None:
    laptop, desktop = both
    shutil.rmtree(desktop.state)
    desktop.write("user_new.md", memory("Mine", "x", kind="user"))
    await desktop.sync()
    assert "[Mine](user_new.md)" in (desktop.read("MEMORY.md") or "")
    await laptop.sync()
    assert laptop.files() == desktop.files()


async def test_a_line_that_somebody_took_out_of_the_index_stays_out(
    both: tuple[Machine, Machine],
) -> None:
    laptop, desktop = both
    laptop.write("MEMORY.md", "- [New](reference_new.md)\n")
    desktop.write("feedback_tests.md", memory("Tests", "one", "two", kind="feedback"))
    await laptop.sync()
    await desktop.sync()
    await laptop.sync()
    assert laptop.read("MEMORY.md") == desktop.read("MEMORY.md") == "- [New](reference_new.md)\n"
