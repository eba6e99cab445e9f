"""P6: an accident deletes nothing, here or there, while it lasts and after it is over.

The same accidents befall a container in memory and the emulator behind a proxy that lies.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from memplane.errors import (
    BackendUnavailable,
    ContainerMissing,
    MemplaneError,
    PermissionDenied,
    TokenExpiredError,
)
from memplane.persona import engine as engines
from memplane.persona import open_sync
from memplane.persona.container import DocumentContainer
from memplane.persona.project_match import Project
from memplane.service.composition.storage import _access
from memplane.storage.azure import open_azure_store
from memplane.storage.retry import RetryStore
from memplane.storage.store import Anything, ObjectListing, ObjectStore, StoredObject
from tests.persona.machines import NOW, Machine, machine, memory
from tests.persona.mutants import MUTANTS
from tests.support.azurite import Azurite
from tests.support.blob_proxy import BlobProxy, running_blob_proxy
from tests.support.faulty import FaultyStore, Quick

NAMES = [f"reference_{number}.md" for number in range(10)]


class Lying(FaultyStore):
    """A container in memory with the troubles of the proxy, as the store's contract tells them."""

    def __init__(self) -> None:
        super().__init__(Quick().pacing())
        self.trouble = ""

    async def read(self, key: str) -> StoredObject | None:
        return None if self.trouble == "404" else await super().read(key)

    async def listing(self, prefix: str = "") -> ObjectListing:
        found = await super().listing(prefix)
        match self.trouble:
            case "empty listing":
                return ObjectListing(())
            case "half a listing":
                return ObjectListing(found.entries[: len(found.entries) // 2])
            case "listing cut short" | "404":
                raise BackendUnavailable("half an answer")
            case _:
                return found

    def _asked(self, what: str) -> None:
        super()._asked(what)
        errors: dict[str, MemplaneError] = {
            "401": TokenExpiredError("401"),
            "403": PermissionDenied("403"),
            "container missing": ContainerMissing("there is none"),
            "500": BackendUnavailable("500"),
            "unreachable": BackendUnavailable("no route"),
            "captive portal": BackendUnavailable("not Azure"),
        }
        if self.trouble in errors:
            raise errors[self.trouble]


@dataclass(slots=True)
class Box:
    """A container: through trouble, and as it really is."""

    store: ObjectStore
    real: ObjectStore
    lie: Callable[[str], None]
    other: ObjectStore
    """Another container."""


@dataclass(slots=True)
class World:
    """Two machines and their container, which all have the same documents."""

    laptop: Machine
    desktop: Machine
    box: Box
    needs_force: bool = False

    async def documents(self) -> set[tuple[str, str]]:
        """Every document that is somewhere, with the place."""
        container = DocumentContainer(self.box.real, "claude_memory")
        listed = (await container.survey()).listed
        there = {("container", key) for key, one in listed.items() if not one.tombstone}
        here = {
            (one.folder.parent.name, key)
            for one in (self.laptop, self.desktop)
            for key in one.files()
        }
        return there | here

    async def try_to_sync(self) -> None:
        """Both sync as the user does who does not read what is printed."""
        for one in (self.laptop, self.desktop):
            try:
                await one.sync()
            except (MemplaneError, OSError) as error:
                print(f"{one.folder.parent.name}: {error}")


@pytest.fixture(params=["memory", "azurite"])
async def box(request: pytest.FixtureRequest, container: str) -> AsyncIterator[Box]:
    if request.param == "memory":
        lying = Lying()

        def lie(trouble: str) -> None:
            lying.trouble = trouble

        other = Lying()
        for _ in range(99):  # no version of one container is one of another's
            await other.memory.write("x", b"", expect=Anything())
        yield Box(lying, lying.memory, lie, other)
        return
    azurite: Azurite = request.getfixturevalue("azurite")
    async with running_blob_proxy(azurite) as proxy:
        async for one in _emulated(azurite, proxy, container):
            yield one


async def _emulated(azurite: Azurite, proxy: BlobProxy, name: str) -> AsyncIterator[Box]:
    pacing = Quick().pacing()
    ids = iter(map(str, range(10**6)))
    async with (
        open_azure_store(_access(proxy.azurite.by_key(name)), pacing=pacing) as lying,
        open_azure_store(_access(azurite.by_key(name)), pacing=pacing) as real,
        open_azure_store(_access(azurite.by_key(f"{name}-b")), pacing=pacing) as other,
    ):
        retrying = RetryStore(lying, pacing=pacing, new_write_id=ids.__next__)
        yield Box(retrying, real, lambda trouble: setattr(proxy, "trouble", trouble), other)


@pytest.fixture
async def world(box: Box, tmp_path: Path) -> World:
    laptop, desktop = (machine(tmp_path, name, box.store) for name in ("laptop", "desktop"))
    for name in NAMES:
        laptop.write(name, memory(name, name))
    laptop.write("sub/reference_s.md", memory("S", "s"))
    await laptop.sync()
    await desktop.sync()
    return World(laptop, desktop, box)


Accident = Callable[[World], Awaitable[Callable[[], None]]]
"""Makes it happen; returns what ends it."""

ACCIDENTS: dict[str, Accident] = {}


def accident(make: Accident) -> Accident:
    ACCIDENTS[make.__name__.replace("_", " ")] = make
    return make


def _nothing() -> None:
    return


def _trouble(name: str) -> Accident:
    async def make(world: World) -> Callable[[], None]:
        world.box.lie(name)
        return lambda: world.box.lie("")

    make.__name__ = name
    return make


for _name in (
    "empty listing",
    "half a listing",
    "listing cut short",
    "401",
    "403",
    "404",
    "container missing",
    "500",
    "captive portal",
    "unreachable",
):
    accident(_trouble(_name))


@accident
async def container_made_anew(world: World) -> Callable[[], None]:
    for one in (await world.box.real.listing()).entries:
        await world.box.real.delete(one.key, expect=Anything())
    world.needs_force = True
    return _nothing


@accident
async def half_of_the_container_lost(world: World) -> Callable[[], None]:
    for one in (await world.box.real.listing("claude_memory/reference_")).entries[::2]:
        await world.box.real.delete(one.key, expect=Anything())
    return _nothing


@accident
async def container_of_another_project(world: World) -> Callable[[], None]:
    other = Machine(world.laptop.folder.parent / "other", world.box.other, world.laptop.state)
    other.mine = Project("", "other", "another-origin")
    other.write(NAMES[0], memory("Other", "other"))
    await other.sync()
    world.laptop.store = world.desktop.store = world.box.other

    def end() -> None:
        world.laptop.store = world.desktop.store = world.box.store

    return end


@accident
async def another_empty_container(world: World) -> Callable[[], None]:
    world.laptop.store, world.laptop.box = world.box.other, "other"

    def end() -> None:
        world.laptop.store, world.laptop.box = world.box.store, "box"

    return end


def _away(one: Machine) -> Path:
    away = one.folder.with_name("unmounted")
    one.folder.rename(away)
    return away


@accident
async def disk_not_mounted(world: World) -> Callable[[], None]:
    away = _away(world.laptop)
    world.laptop.folder.mkdir()

    def end() -> None:
        shutil.rmtree(world.laptop.folder)
        away.rename(world.laptop.folder)

    return end


@accident
async def folder_missing(world: World) -> Callable[[], None]:
    away = _away(world.laptop)

    def end() -> None:
        shutil.rmtree(world.laptop.folder, ignore_errors=True)
        away.rename(world.laptop.folder)

    return end


@accident
async def documents_vanish_and_the_marker_stays(world: World) -> Callable[[], None]:
    away = world.laptop.folder.with_name("away")
    shutil.copytree(world.laptop.folder, away)
    for name in NAMES:
        (world.laptop.folder / name).unlink()

    def end() -> None:
        shutil.copytree(away, world.laptop.folder, dirs_exist_ok=True)

    return end


@accident
async def sub_folder_becomes_a_link(world: World) -> Callable[[], None]:
    sub, away = world.laptop.folder / "sub", world.laptop.folder.with_name("sub away")
    sub.rename(away)
    sub.symlink_to(away)

    def end() -> None:
        sub.unlink()
        away.rename(sub)

    return end


@accident
async def all_file_times_changed(world: World) -> Callable[[], None]:
    for number, path in enumerate(sorted(world.laptop.folder.rglob("*.md"))):
        os.utime(path, (number * 10**9, number * 10**9))
    return _nothing


@accident
async def clock_wrong_by_years(world: World) -> Callable[[], None]:
    world.laptop.clock = lambda: NOW - timedelta(days=9_000)
    world.desktop.clock = lambda: NOW + timedelta(days=9_000)
    return _nothing


@accident
async def memory_of_syncs_lost(world: World) -> Callable[[], None]:
    shutil.rmtree(world.laptop.state)
    return _nothing


async def survives(world: World, make: Accident, *, edit: bool = True) -> set[tuple[str, str]]:
    """Let an accident happen and end, syncing all the while; return what was deleted."""
    before = await world.documents()
    if edit:
        world.desktop.write("reference_new.md", memory("New", "typed meanwhile"))
    end = await make(world)
    # What the accident itself takes away is not what we look for.
    left = before & await world.documents()
    await world.try_to_sync()
    await world.try_to_sync()
    deleted = left - await world.documents()
    end()
    if world.needs_force:
        await world.laptop.sync(force=True)
    await world.try_to_sync()
    await world.try_to_sync()
    if edit:
        assert world.laptop.read("reference_new.md") == memory("New", "typed meanwhile")
    return deleted | (before - await world.documents())


def test_there_are_twelve_accidents_and_more() -> None:
    assert len(ACCIDENTS) >= 12


@pytest.mark.parametrize("name", ACCIDENTS)
async def test_no_accident_deletes_anything(world: World, name: str) -> None:
    assert await survives(world, ACCIDENTS[name]) == set()
    await asyncio.sleep(0)


# The same checker must find what a careless engine would do.


def _read_absence_as_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    (mutant,) = [one for one in MUTANTS if one.name == "absence means deleted"]
    monkeypatch.setattr(engines, "sync_document", mutant.build().sync_document)


def _without_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    def unconcerned(self: object, view: object, *, force: bool) -> None:
        return

    monkeypatch.setattr(engines.SyncEngine, "refuse_accidents", unconcerned)


def _without_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_guards(monkeypatch)
    monkeypatch.setattr(open_sync, "_check_and_mark", lambda *_, **__: None)


@pytest.mark.parametrize("name", ["half a listing", "half of the container lost"])
async def test_absence_read_as_deletion_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _read_absence_as_deletion(monkeypatch)
    assert await survives(world, ACCIDENTS[name], edit=False)


async def test_guards_switched_off_are_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without_guards(monkeypatch)
    assert await survives(world, documents_vanish_and_the_marker_stays, edit=False)


@pytest.mark.parametrize("name", ["disk not mounted"])
async def test_a_marker_nobody_looks_for_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _without_marker(monkeypatch)
    assert await survives(world, ACCIDENTS[name], edit=False)
