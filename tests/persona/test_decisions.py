"""Every cell of the contract's decision table, through the real engine: what is planned, and done.

Rows are what happened here since the last sync, columns what happened in the container.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from memplane.errors import BackendUnavailable
from memplane.persona.plan import SyncAction
from memplane.persona.report import PersonaReport
from memplane.storage.store import Anything
from tests.persona.machines import Machine, machine, memory
from tests.support.faulty import FaultyStore, Quick

KEY = "reference_api.md"
BEFORE = memory("API", "one", "two", "three")
HERE = memory("API", "ONE", "two", "three")
THERE = memory("API", "one", "two", "THREE")
BOTH = memory("API", "ONE", "two", "THREE")


@dataclass(slots=True)
class World:
    """A machine to look at, another one that does things meanwhile, and their container."""

    here: Machine
    there: Machine
    store: FaultyStore

    async def plans(self) -> SyncAction:
        """What the machine would do about the document."""
        async with self.here.engine() as engine:
            view = await engine.survey()
        return next((row.action for row in view.rows if row.key == KEY), SyncAction.NOTHING)

    async def vanish(self) -> None:
        """The object goes without leaving a tombstone."""
        await self.store.memory.delete(f"claude_memory/{KEY}", expect=Anything())

    async def changed_there(self, text: str | None) -> None:
        if text is None:
            (self.there.folder / KEY).unlink()
        else:
            self.there.write(KEY, text)
        await self.there.sync()

    async def object(self) -> str | None:
        """The document in the container; None for none or a tombstone."""
        async with self.here.engine() as engine:
            found = await engine.container.read(KEY)
        return found.text.decode() if found and found.text is not None else None

    async def has_tombstone(self) -> bool:
        async with self.here.engine() as engine:
            found = await engine.container.read(KEY)
        return found is not None and found.text is None

    def change_here(self, text: str | None) -> None:
        if text is None:
            (self.here.folder / KEY).unlink()
        else:
            self.here.write(KEY, text)


@pytest.fixture
def world(tmp_path: Path) -> World:
    store = FaultyStore(Quick().pacing())
    return World(machine(tmp_path, "here", store), machine(tmp_path, "there", store), store)


@pytest.fixture
async def met(world: World) -> World:
    """Both machines have the document, and two others beside it."""
    world.here.write(KEY, BEFORE)
    world.here.write("user_role.md", memory("Role", "x", kind="user"))
    world.here.write("user_team.md", memory("Team", "x", kind="user"))
    await world.here.sync()
    await world.there.sync()
    return world


@pytest.fixture
async def strangers(world: World) -> World:
    """Both machines know the container, and neither knows the document."""
    world.here.write("user_role.md", memory("Role", "x", kind="user"))
    await world.here.sync()
    await world.there.sync()
    return world


def quiet(report: PersonaReport) -> bool:
    return not (report.errors or report.held or report.conflicts or report.waiting)


# Same here.


async def test_same_here_same_there_does_nothing(met: World) -> None:
    assert await met.plans() is SyncAction.NOTHING
    met.store.calls.clear()
    report = await met.here.sync()
    assert (report.keys, report.skipped, quiet(report)) == ([], 4, True)
    assert met.store.calls == ["listing claude_memory/"]


async def test_same_here_changed_there_is_brought(met: World) -> None:
    await met.changed_there(THERE)
    assert await met.plans() is SyncAction.PULL
    report = await met.here.sync()
    assert (met.here.read(KEY), report.pulled, report.copied) == (THERE, 1, 0)


async def test_same_here_tombstone_there_goes_to_the_trash(met: World) -> None:
    await met.changed_there(None)
    assert await met.plans() is SyncAction.REMOVE
    report = await met.here.sync()
    assert (met.here.read(KEY), report.deleted) == (None, 1)
    trash = [one.read_text() for one in met.here.state.rglob("trash/*/*.md")]
    assert trash == [BEFORE]


async def test_same_here_absent_there_is_published_again(met: World) -> None:
    await met.vanish()
    assert await met.plans() is SyncAction.REPUBLISH
    await met.here.sync()
    assert await met.object() == BEFORE
    assert met.here.read(KEY) == BEFORE


async def test_same_here_unresolved_there_is_skipped(met: World) -> None:
    met.store.offline = True
    with pytest.raises(BackendUnavailable):
        await met.here.sync()
    assert met.here.read(KEY) == BEFORE
    assert await waiting(met.here) == []


# Changed here.


async def test_changed_here_same_there_is_put(met: World) -> None:
    met.change_here(HERE)
    assert await met.plans() is SyncAction.PUT
    report = await met.here.sync()
    assert (await met.object(), report.copied, report.keys) == (HERE, 1, [KEY])


async def test_changed_here_changed_there_is_merged(met: World) -> None:
    met.change_here(HERE)
    await met.changed_there(THERE)
    assert await met.plans() is SyncAction.MERGE
    report = await met.here.sync()
    assert (met.here.read(KEY), await met.object()) == (BOTH, BOTH)
    assert (report.merged, report.conflicts) == (1, [])


async def test_changed_here_tombstone_there_keeps_the_edit(met: World) -> None:
    met.change_here(HERE)
    await met.changed_there(None)
    assert await met.plans() is SyncAction.MERGE
    await met.here.sync()
    assert (met.here.read(KEY), await met.object()) == (HERE, HERE)
    await met.there.sync()
    assert met.there.read(KEY) == HERE


async def test_changed_here_absent_there_is_published(met: World) -> None:
    met.change_here(HERE)
    await met.vanish()
    assert await met.plans() is SyncAction.REPUBLISH
    await met.here.sync()
    assert await met.object() == HERE


async def test_changed_here_unresolved_there_waits(met: World) -> None:
    met.change_here(HERE)
    met.store.offline = True
    with pytest.raises(BackendUnavailable):
        await met.here.sync()
    assert await waiting(met.here) == [KEY]
    met.store.offline = False
    await met.here.sync()
    assert await met.object() == HERE
    assert await waiting(met.here) == []


# Deleted here.


async def test_deleted_here_same_there_leaves_a_tombstone(met: World) -> None:
    met.change_here(None)
    assert await met.plans() is SyncAction.DELETE
    report = await met.here.sync()
    assert report.deleted == 1
    assert await met.has_tombstone()


async def test_deleted_here_changed_there_is_restored(met: World) -> None:
    met.change_here(None)
    await met.changed_there(THERE)
    assert await met.plans() is SyncAction.RESTORE
    await met.here.sync()
    assert (met.here.read(KEY), await met.object()) == (THERE, THERE)


async def test_deleted_here_tombstone_there_is_settled(met: World) -> None:
    met.change_here(None)
    await met.changed_there(None)
    assert await met.plans() is SyncAction.SETTLE
    assert quiet(await met.here.sync())
    assert await met.plans() is SyncAction.NOTHING


async def test_deleted_here_absent_there_does_nothing(met: World) -> None:
    """The memory of it stays: absence may be a lie, and then the deletion must still be known."""
    met.change_here(None)
    await met.vanish()
    assert await met.plans() is SyncAction.NOTHING
    assert quiet(await met.here.sync())
    assert met.here.read(KEY) is None
    assert await met.object() is None


async def test_deleted_here_unresolved_there_waits(met: World) -> None:
    met.change_here(None)
    met.store.offline = True
    with pytest.raises(BackendUnavailable):
        await met.here.sync()
    assert await waiting(met.here) == [KEY]
    met.store.offline = False
    await met.here.sync()
    assert await met.has_tombstone()
    assert await waiting(met.here) == []


# New here.


async def test_new_here_equal_there_is_adopted(strangers: World) -> None:
    strangers.change_here(BEFORE)
    await strangers.changed_there(BEFORE)
    assert await strangers.plans() is SyncAction.SAME
    report = await strangers.here.sync()
    assert KEY in report.skipped_keys
    assert quiet(report)
    assert await strangers.plans() is SyncAction.NOTHING


async def test_new_here_other_there_merges_and_keeps_a_copy(strangers: World) -> None:
    strangers.change_here(HERE)
    await strangers.changed_there(THERE)
    assert await strangers.plans() is SyncAction.MERGE
    report = await strangers.here.sync()
    kept = strangers.here.read(KEY)
    assert kept in {HERE, THERE}
    assert await strangers.object() == kept
    (copy,) = report.conflicts
    assert {kept, Path(copy).read_text()} == {HERE, THERE}


async def test_new_here_absent_there_is_put(strangers: World) -> None:
    strangers.change_here(HERE)
    assert await strangers.plans() is SyncAction.CREATE
    await strangers.here.sync()
    assert await strangers.object() == HERE


async def test_new_here_the_very_text_deleted_there_stays_deleted(strangers: World) -> None:
    """A copy or a backup brought it back, and not somebody who knew of the deletion."""
    await strangers.changed_there(BEFORE)
    await strangers.changed_there(None)
    strangers.change_here(BEFORE)
    assert await strangers.plans() is SyncAction.REMOVE
    await strangers.here.sync()
    assert strangers.here.read(KEY) is None
    assert await strangers.has_tombstone()


async def test_new_here_another_text_deleted_there_is_put(strangers: World) -> None:
    await strangers.changed_there(BEFORE)
    await strangers.changed_there(None)
    strangers.change_here(HERE)
    assert await strangers.plans() is SyncAction.MERGE
    await strangers.here.sync()
    assert await strangers.object() == HERE


async def test_new_here_unresolved_there_waits(strangers: World) -> None:
    strangers.change_here(HERE)
    strangers.store.offline = True
    with pytest.raises(BackendUnavailable):
        await strangers.here.sync()
    assert await waiting(strangers.here) == [KEY]


# Not here, and never was.


async def test_none_here_new_there_is_brought(strangers: World) -> None:
    await strangers.changed_there(THERE)
    assert await strangers.plans() is SyncAction.PULL
    await strangers.here.sync()
    assert strangers.here.read(KEY) == THERE


async def test_none_here_tombstone_there_creates_nothing(strangers: World) -> None:
    await strangers.changed_there(THERE)
    await strangers.changed_there(None)
    assert await strangers.plans() is SyncAction.SETTLE
    await strangers.here.sync()
    assert strangers.here.read(KEY) is None
    assert await strangers.plans() is SyncAction.NOTHING


async def test_none_here_unresolved_there_is_skipped(strangers: World) -> None:
    await strangers.changed_there(THERE)
    strangers.store.offline = True
    with pytest.raises(BackendUnavailable):
        await strangers.here.sync()
    assert strangers.here.read(KEY) is None
    assert await waiting(strangers.here) == []


async def waiting(one: Machine) -> list[str]:
    async with one.engine() as engine:
        return [row.key for row in engine.baseline.waiting()]
