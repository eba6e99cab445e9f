"""What the engine does beside bringing documents into step: hold, push, refuse, resume."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

import apsw
import pytest

from memplane.errors import BackendUnavailable, ConcurrencyError, PersonaError, StorageError
from memplane.kit.retry_clock import RetryClock
from memplane.persona import baseline as baselines
from memplane.persona.baseline import open_baseline
from memplane.persona.plan import PULL_ACTIONS, PUSH_ACTIONS
from memplane.persona.report import PersonaReport
from tests.persona.machines import Machine, machine, memory
from tests.support.faulty import FaultyStore, Quick

KEY = "reference_api.md"
TEXT = memory("API", "one", "two", "three")
BARE = "no frontmatter at all\n"


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(Quick().pacing())


@pytest.fixture
def laptop(tmp_path: Path, store: FaultyStore) -> Machine:
    return machine(tmp_path, "laptop", store)


@pytest.fixture
def desktop(tmp_path: Path, store: FaultyStore) -> Machine:
    return machine(tmp_path, "desktop", store)


@pytest.fixture
async def met(laptop: Machine, desktop: Machine) -> None:
    for name in (KEY, "reference_a.md", "reference_b.md", "reference_c.md"):
        laptop.write(name, TEXT)
    await laptop.sync()
    await desktop.sync()


async def objects(store: FaultyStore) -> Mapping[str, bytes]:
    found = [await store.memory.read(one.key) for one in (await store.memory.listing()).entries]
    keys = [one.key for one in (await store.memory.listing()).entries]
    return {key: one.data for key, one in zip(keys, found, strict=True) if one is not None}


# Documents that may not be published.


@pytest.mark.usefixtures("met")
async def test_a_held_document_is_saved_shown_and_published_once_it_is_mended(
    laptop: Machine, desktop: Machine, store: FaultyStore
) -> None:
    laptop.write("user_x.md", BARE)
    report = await laptop.sync()
    assert [key for key, _ in report.held] == ["user_x.md"]
    assert (await objects(store))["held/claude_memory/user_x.md"] == BARE.encode()
    assert await laptop.held() == ["user_x.md"]
    assert "user_x.md" not in (laptop.read("MEMORY.md") or "")
    laptop.write("user_x.md", memory("X", "now with it", kind="user"))
    report = await laptop.sync()
    assert "user_x.md" in report.keys
    assert await laptop.held() == []
    assert "held/claude_memory/user_x.md" not in await objects(store)
    await desktop.sync()
    assert desktop.read("user_x.md") == memory("X", "now with it", kind="user")
    assert "(user_x.md)" in (desktop.read("MEMORY.md") or "")


@pytest.mark.usefixtures("met")
async def test_a_held_document_is_not_overwritten(laptop: Machine, desktop: Machine) -> None:
    laptop.write(KEY, BARE)
    desktop.write(KEY, TEXT + "four\n")
    await desktop.sync()
    async with laptop.engine() as engine:
        report = await engine.sync(PULL_ACTIONS)
    assert laptop.read(KEY) == BARE
    assert [key for key, _ in report.held] == [KEY]
    laptop.write(KEY, TEXT.replace("one", "ONE"))
    await laptop.sync()
    assert laptop.read(KEY) == TEXT.replace("one", "ONE") + "four\n"


@pytest.mark.usefixtures("met")
async def test_a_held_document_outlives_its_deletion_elsewhere(
    laptop: Machine, desktop: Machine
) -> None:
    laptop.write(KEY, BARE)
    desktop.delete(KEY)
    await desktop.sync()
    await laptop.sync()
    assert laptop.read(KEY) == BARE


@pytest.mark.usefixtures("met")
async def test_a_held_document_that_is_deleted_or_reverted_is_forgotten(laptop: Machine) -> None:
    laptop.write("user_x.md", BARE)
    laptop.write(KEY, BARE)
    await laptop.sync()
    assert await laptop.held() == [KEY, "user_x.md"]
    laptop.delete("user_x.md")
    laptop.write(KEY, TEXT)
    await laptop.sync()
    assert await laptop.held() == []


@pytest.mark.usefixtures("met")
async def test_two_machines_hold_the_same_name(
    laptop: Machine, desktop: Machine, store: FaultyStore
) -> None:
    laptop.write("user_x.md", BARE)
    desktop.write("user_x.md", BARE + "and more\n")
    for one in (laptop, desktop, laptop, desktop):
        await one.sync()
    saved = [text for key, text in (await objects(store)).items() if key.startswith("held/")]
    assert sorted(saved) == [BARE.encode(), (BARE + "and more\n").encode()]
    assert laptop.read("user_x.md") == BARE


@pytest.mark.usefixtures("met")
async def test_what_could_not_be_saved_is_saved_later(
    laptop: Machine, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop.write("user_x.md", BARE)
    write = store.write

    async def refusing(key: str, *words: object, **more: object) -> object:
        if key.startswith("held/"):
            raise BackendUnavailable("not now", key=key)
        return await write(key, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "write", refusing)
    report = await laptop.sync()
    assert "put into safety" in dict(report.errors)["user_x.md"]
    monkeypatch.undo()
    await laptop.sync()
    assert "held/claude_memory/user_x.md" in await objects(store)


@pytest.mark.usefixtures("met")
async def test_a_text_that_became_secret_meanwhile_is_not_saved(
    laptop: Machine, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop.write("user_x.md", BARE)
    async with laptop.engine() as engine:
        judge = engine.gate.refusal

        def slow(key: str, text: bytes) -> object:
            answer = judge(key, text)
            if key == "user_x.md":
                laptop.write("user_x.md", "hunter2\n")
            return answer

        monkeypatch.setattr(engine.gate, "refusal", slow)
        await engine.sync()
    assert all(b"hunter2" not in text for text in (await objects(store)).values())


@pytest.mark.usefixtures("met")
async def test_a_held_document_waits_in_no_queue(laptop: Machine, store: FaultyStore) -> None:
    laptop.write("user_x.md", BARE)
    store.offline = True
    with pytest.raises(BackendUnavailable):
        await laptop.sync()
    store.offline = False
    await laptop.sync()
    assert await laptop.waiting() == []
    assert await laptop.held() == ["user_x.md"]


@pytest.mark.usefixtures("met")
async def test_an_index_that_may_not_be_published_holds_back_only_itself(
    laptop: Machine, desktop: Machine
) -> None:
    laptop.write("MEMORY.md", (laptop.read("MEMORY.md") or "") + "the password is hunter2\n")
    laptop.write("user_x.md", memory("X", "x", kind="user"))
    report = await laptop.sync()
    assert [key for key, _ in report.held] == ["MEMORY.md"]
    await desktop.sync()
    assert desktop.read("user_x.md") is not None
    assert "hunter2" not in (desktop.read("MEMORY.md") or "")


# The index.


@pytest.mark.usefixtures("met")
async def test_the_line_of_a_deleted_document_goes_with_it(
    laptop: Machine, desktop: Machine
) -> None:
    laptop.delete(KEY)
    await laptop.sync()
    await desktop.sync()
    assert KEY not in (desktop.read("MEMORY.md") or "")
    assert "(reference_a.md)" in (desktop.read("MEMORY.md") or "")


@pytest.mark.usefixtures("met")
async def test_a_deleted_index_is_not_written_again_unasked(
    laptop: Machine, desktop: Machine
) -> None:
    laptop.delete("MEMORY.md")
    await laptop.sync()
    await desktop.sync()
    assert laptop.read("MEMORY.md") is None
    assert desktop.read("MEMORY.md") is None


# Single documents.


@pytest.mark.usefixtures("met")
async def test_a_push_of_a_changed_document_takes_one_request(
    laptop: Machine, store: FaultyStore
) -> None:
    laptop.write(KEY, TEXT + "four\n")
    store.calls.clear()
    async with laptop.engine() as engine:
        report = await engine.push([KEY])
    assert store.calls == [f"write claude_memory/{KEY}"]
    assert report.copied == 1


@pytest.mark.usefixtures("met")
async def test_several_documents_are_pushed_new_ones_and_conflicting_ones_too(
    laptop: Machine, desktop: Machine
) -> None:
    desktop.write("reference_a.md", TEXT.replace("three", "THREE"))
    await desktop.sync()
    laptop.write("reference_a.md", TEXT.replace("one", "ONE"))
    laptop.write("reference_b.md", TEXT + "four\n")
    laptop.write("user_new.md", memory("New", "x", kind="user"))
    laptop.write("user_bare.md", BARE)
    keys = ["reference_a.md", "reference_b.md", "reference_c.md", "user_new.md", "user_bare.md"]
    async with laptop.engine() as engine:
        report = await engine.push([*keys, "missing.md"])
    assert (report.copied, report.merged, report.skipped) == (2, 1, 1)
    assert [key for key, _ in report.held] == ["user_bare.md"]
    await desktop.sync()
    assert desktop.read("reference_a.md") == memory("API", "ONE", "two", "THREE")
    assert desktop.read("user_new.md") == memory("New", "x", kind="user")


@pytest.mark.usefixtures("met")
async def test_a_push_that_fails_waits_for_the_next_sync(
    laptop: Machine, desktop: Machine, store: FaultyStore
) -> None:
    laptop.write(KEY, TEXT + "four\n")
    laptop.write("reference_a.md", TEXT + "five\n")
    store.offline = True
    async with laptop.engine() as engine:
        report = await engine.push([KEY, "reference_a.md"])
        assert report.waiting == ["reference_a.md", KEY]
    store.offline = False
    await laptop.sync()
    await desktop.sync()
    assert desktop.read(KEY) == TEXT + "four\n"
    assert desktop.read("reference_a.md") == TEXT + "five\n"
    assert await laptop.waiting() == []


@pytest.mark.usefixtures("met")
async def test_a_document_is_written_by_its_version(laptop: Machine, desktop: Machine) -> None:
    async with laptop.engine() as engine:
        there = await engine.container.read(KEY)
        assert there is not None
        new = await engine.put_if(KEY, (TEXT + "four\n").encode(), there.etag)
        with pytest.raises(ConcurrencyError):
            await engine.put_if(KEY, TEXT.encode(), there.etag)
        assert new != there.etag
    await desktop.sync()
    assert desktop.read(KEY) == TEXT + "four\n"
    desktop.delete(KEY)
    await desktop.sync()
    async with laptop.engine() as engine:  # what was deleted is not there, and can be made again
        await engine.put_if(KEY, TEXT.encode(), None)
    await desktop.sync()
    assert desktop.read(KEY) == TEXT


# What waits goes before anything is brought.


async def offline(laptop: Machine, store: FaultyStore) -> None:
    """Let the laptop try to sync without a network."""
    store.offline = True
    with pytest.raises(BackendUnavailable):
        await laptop.sync()
    store.offline = False
    store.calls.clear()


async def pull(laptop: Machine) -> PersonaReport:
    async with laptop.engine() as engine:
        return await engine.sync(PULL_ACTIONS)


@pytest.mark.usefixtures("met")
async def test_a_pull_sends_what_waits_before_it_brings_anything(
    laptop: Machine, desktop: Machine, store: FaultyStore
) -> None:
    laptop.write("reference_a.md", TEXT + "written offline\n")
    laptop.write("user_new.md", memory("New", "written offline", kind="user"))
    laptop.delete("reference_b.md")
    await offline(laptop, store)
    laptop.write("reference_c.md", TEXT + "not asked to go\n")
    desktop.write(KEY, TEXT + "from the desktop\n")
    await desktop.sync()
    store.calls.clear()
    report = await pull(laptop)
    assert laptop.read(KEY) == TEXT + "from the desktop\n"
    brought = store.calls.index(f"read claude_memory/{KEY}")
    sent = [call for call in store.calls[:brought] if call.startswith("write ")]
    keys = ["MEMORY.md", "reference_a.md", "reference_b.md", "user_new.md"]
    assert sorted(sent) == [f"write claude_memory/{key}" for key in keys]
    assert report.keys == sorted([*keys, KEY])
    assert await laptop.waiting() == []
    await desktop.sync()
    assert desktop.read("reference_a.md") == TEXT + "written offline\n"
    assert desktop.read("reference_b.md") is None
    assert "user_new.md" in (desktop.read("MEMORY.md") or "")
    assert desktop.read("reference_c.md") == TEXT, "a pull sends nothing else"


@pytest.mark.usefixtures("met")
async def test_a_pull_without_anything_that_waits_only_brings(
    laptop: Machine, desktop: Machine, store: FaultyStore
) -> None:
    laptop.write("reference_a.md", TEXT + "mine\n")
    laptop.write("user_new.md", memory("New", "x", kind="user"))
    desktop.write(KEY, TEXT + "from the desktop\n")
    await desktop.sync()
    store.calls.clear()
    assert (await pull(laptop)).keys == [KEY]
    assert not [call for call in store.calls if call.startswith("write ")]


@pytest.mark.usefixtures("met")
async def test_a_push_of_what_waits_brings_nothing(
    laptop: Machine, desktop: Machine, store: FaultyStore
) -> None:
    laptop.write("reference_a.md", TEXT + "written offline\n")
    await offline(laptop, store)
    laptop.write("reference_a.md", TEXT)  # taken back: only the other side changed by now
    desktop.write("reference_a.md", TEXT + "from the desktop\n")
    await desktop.sync()
    async with laptop.engine() as engine:
        assert (await engine.sync(PUSH_ACTIONS)).keys == []
    assert laptop.read("reference_a.md") == TEXT


# Folders and memories that are not what they were.


async def test_two_first_syncs_of_a_folder_at_once_both_succeed(laptop: Machine) -> None:
    laptop.write(KEY, TEXT)
    first, second = await asyncio.gather(laptop.sync(), laptop.sync())
    assert sorted((first.copied, second.copied)) == [0, 2]


@pytest.mark.usefixtures("met")
async def test_a_folder_without_its_marker_loses_nothing_even_when_forced(
    laptop: Machine, desktop: Machine
) -> None:
    for path in laptop.folder.rglob("*"):
        path.unlink()
    with pytest.raises(PersonaError, match="--force"):
        await laptop.sync()
    await laptop.sync(force=True)
    await desktop.sync()
    assert len(desktop.files()) == 5
    assert laptop.files() == desktop.files()


@pytest.mark.usefixtures("met")
async def test_a_damaged_marker_is_said(laptop: Machine) -> None:
    (laptop.folder / ".memplane-persona.json").write_text("{")
    with pytest.raises(StorageError, match="marker is damaged"):
        await laptop.sync()
    assert len(laptop.files()) == 5


@pytest.mark.usefixtures("met")
@pytest.mark.parametrize("how", ["garbage", "row"])
async def test_a_damaged_memory_is_said_and_can_be_moved_away(
    laptop: Machine, desktop: Machine, how: str
) -> None:
    (path,) = laptop.state.rglob("baseline.db")
    if how == "garbage":
        path.write_bytes(b"not a database" * 1_000)
    else:
        database = apsw.Connection(str(path))
        database.execute("UPDATE documents SET state = x'c1'")
        database.close()
    with pytest.raises(PersonaError, match="Move the file away"):
        await laptop.sync()
    for one in path.parent.glob("baseline.db*"):
        one.unlink()
    desktop.write(KEY, TEXT + "four\n")
    await desktop.sync()
    report = await laptop.sync()
    assert laptop.read(KEY) == TEXT + "four\n"
    assert len(report.conflicts) == 1


@pytest.mark.usefixtures("met")
async def test_a_copied_folder_loses_what_was_deleted_meanwhile(
    laptop: Machine, desktop: Machine, tmp_path: Path, store: FaultyStore
) -> None:
    """A copy without a marker never met the container; yet what was deleted stays deleted."""
    copy = machine(tmp_path, "copy", store)
    shutil.copytree(laptop.folder, copy.folder, ignore=shutil.ignore_patterns(".*"))
    laptop.delete(KEY)
    await laptop.sync()
    await copy.sync()
    await desktop.sync()
    assert copy.files() == desktop.files()
    assert copy.read(KEY) is None
    assert copy.trash() == [TEXT]


@pytest.mark.usefixtures("met")
async def test_a_forgetful_machine_asks_before_it_deletes_much(
    laptop: Machine, desktop: Machine
) -> None:
    desktop.delete(KEY, "reference_a.md", "reference_b.md")
    await desktop.sync(force=True)
    shutil.rmtree(laptop.state)
    with pytest.raises(PersonaError, match="3 of 5 documents would be deleted in the folder"):
        await laptop.sync()
    assert len(laptop.files()) == 5


async def test_a_first_sync_that_was_cut_short_begins_again(
    laptop: Machine, desktop: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not be taken for a memory that was lost: these documents were never common."""
    head = "---\nname: S\ndescription: d\ntype: self_observations\n---\n\n## Open questions\n\n"
    laptop.write("self_observations.md", head + "- why?\n")
    await laptop.sync()
    desktop.write("self_observations.md", head + "- when?\n")
    note = baselines.Baseline.note

    def dying(self: baselines.Baseline, name: str, value: str) -> None:
        if name == "project":
            raise KeyboardInterrupt
        note(self, name, value)

    monkeypatch.setattr(baselines.Baseline, "note", dying)
    with pytest.raises(KeyboardInterrupt):
        await desktop.sync()
    monkeypatch.undo()
    await desktop.sync()
    text = desktop.read("self_observations.md") or ""
    assert "- why?" in text
    assert "- when?" in text
    assert desktop.conflicts() == []


@pytest.mark.usefixtures("met")
async def test_who_waits_too_long_for_another_sync_is_told(laptop: Machine) -> None:
    (path,) = laptop.state.rglob("baseline.db")
    async with open_baseline(path.parent, pacing=RetryClock()):
        with pytest.raises(PersonaError, match="another process"):
            async with open_baseline(path.parent, pacing=Quick().pacing(), patience=5):
                pytest.fail("two at once")


@pytest.mark.usefixtures("met")
async def test_a_full_disk_under_the_memory_stops_the_document_and_nothing_else(
    laptop: Machine, store: FaultyStore
) -> None:
    laptop.write(KEY, TEXT + "four\n")
    async with laptop.engine() as engine:
        pages = next(iter(engine.baseline._database.execute("PRAGMA page_count")))[0]
        engine.baseline._database.execute(f"PRAGMA max_page_count = {pages}")
        laptop.write("user_long.md", memory("Long", "x" * 100_000, kind="user"))
        report = await engine.push(["user_long.md"])
        assert "disk full" in dict(report.errors)["user_long.md"]
    assert "claude_memory/user_long.md" not in await objects(store)
    await laptop.sync()
    assert "claude_memory/user_long.md" in await objects(store)


@pytest.mark.usefixtures("met")
async def test_the_same_text_is_set_aside_once(
    laptop: Machine, desktop: Machine, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    desktop.write(KEY, TEXT.replace("two", "ZWEI"))
    await desktop.sync()
    laptop.write(KEY, TEXT.replace("two", "DEUX"))
    write = store.write

    async def refusing(key: str, *words: object, **more: object) -> object:
        if key.endswith(KEY):
            raise BackendUnavailable("not now", key=key)
        return await write(key, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "write", refusing)
    for _ in range(3):
        await laptop.sync()
    monkeypatch.undo()
    await laptop.sync()
    assert len(laptop.conflicts()) <= 1


@pytest.mark.usefixtures("met")
async def test_nothing_is_left_lying_in_the_folder(laptop: Machine, desktop: Machine) -> None:
    for number in range(3):
        laptop.write(KEY, TEXT + f"{number}\n")
        laptop.write("sub/reference_s.md", memory("S", str(number)))
        await asyncio.gather(laptop.sync(), desktop.sync())
    laptop.delete("sub/reference_s.md")
    await laptop.sync()
    await desktop.sync()
    for one in (laptop, desktop):
        hidden = sorted(path.name for path in one.folder.rglob(".*"))
        assert hidden == [".memplane-persona.json"]
