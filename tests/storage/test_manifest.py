"""The manifest: kept current, rebuildable, and never in the way."""

from __future__ import annotations

import asyncio
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import InvalidKey
from memplane.kit.clock import system_clock
from memplane.storage.manifest import (
    MANIFEST_KEY,
    ManifestEntry,
    ManifestStore,
    apply_changes,
    parse_manifest,
    render_manifest,
)
from memplane.storage.store import Absent, Anything
from memplane.testing.object_conformance import list_keys, read_content
from tests.support.faulty import FaultyStore, Quick, overwrite


@pytest.fixture
def quick() -> Quick:
    return Quick()


@pytest.fixture
def remote(quick: Quick) -> FaultyStore:
    return FaultyStore(quick.pacing())


@pytest.fixture
def store(remote: FaultyStore, quick: Quick) -> ManifestStore:
    return ManifestStore(remote, clock=system_clock, pacing=quick.pacing())


async def entries_of(remote: FaultyStore) -> dict[str, ManifestEntry]:
    known = parse_manifest(await read_content(remote.memory, MANIFEST_KEY))
    assert known is not None
    return known


async def test_it_says_what_is_there(store: ManifestStore, remote: FaultyStore) -> None:
    version = await store.write("a b.md", b"hello", expect=Absent())
    await store.close()
    body = json.loads(await read_content(remote.memory, MANIFEST_KEY))
    assert body["schema_version"] == 1
    assert body["updated_at"].endswith("Z")
    entry = body["entries"]["a b.md"]
    assert entry["size"] == 5
    assert entry["etag"] == version
    assert entry["sha256"] == hashlib.sha256(b"hello").hexdigest()
    assert entry["mtime"].endswith("Z")


async def test_a_burst_of_writes_is_one_manifest_write(
    store: ManifestStore, remote: FaultyStore
) -> None:
    for number in range(50):
        await store.write(f"{number}.md", b"x", expect=Absent())
    await store.close()
    assert remote.calls.count(f"write {MANIFEST_KEY}") == 1
    assert len(await entries_of(remote)) == 50


async def test_it_is_not_among_the_objects(store: ManifestStore) -> None:
    await store.write("a.md", b"x", expect=Absent())
    await store.flush()
    assert await list_keys(store) == ["a.md"]
    assert await store.stat(MANIFEST_KEY) is not None
    for attempt in (
        lambda: store.write(MANIFEST_KEY, b"", expect=Anything()),
        lambda: store.delete(MANIFEST_KEY, expect=Anything()),
    ):
        with pytest.raises(InvalidKey, match="keeps this object itself"):
            await attempt()
    await store.close()


async def test_deleted_objects_leave_it(store: ManifestStore, remote: FaultyStore) -> None:
    await store.write("a.md", b"x", expect=Absent())
    await store.write("b.md", b"x", expect=Absent())
    await store.flush()
    await store.delete("a.md", expect=Anything())
    await store.close()
    assert sorted(await entries_of(remote)) == ["b.md"]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"schema_version": 2, "entries": {}}'])
async def test_a_damaged_manifest_is_made_anew(
    damage: bytes, store: ManifestStore, remote: FaultyStore
) -> None:
    await overwrite(remote, "old.md", b"was there")
    await overwrite(remote, MANIFEST_KEY, damage)
    await store.write("new.md", b"x", expect=Absent())
    await store.close()
    assert sorted(await entries_of(remote)) == ["new.md", "old.md"]


async def test_verify_finds_every_difference_and_rebuild_repairs_it(
    store: ManifestStore, remote: FaultyStore
) -> None:
    for key in ("same.md", "changed.md", "deleted.md"):
        await store.write(key, b"x", expect=Absent())
    await store.flush()
    await overwrite(remote, "changed.md", b"elsewhere")
    await overwrite(remote, "added.md", b"elsewhere")
    await remote.memory.delete("deleted.md", expect=Anything())
    found = await store.verify()
    assert (found.missing, found.extra, found.stale) == (
        ("added.md",),
        ("deleted.md",),
        ("changed.md",),
    )
    remote.calls.clear()
    await store.rebuild()
    assert not await store.verify()
    assert "read same.md" not in remote.calls
    await store.close()


async def test_writers_at_once_each_bring_their_own(remote: FaultyStore, quick: Quick) -> None:
    stores = [ManifestStore(remote, clock=system_clock, pacing=quick.pacing()) for _ in range(4)]

    async def write(number: int, store: ManifestStore) -> None:
        for item in range(10):
            await store.write(f"{number}/{item}.md", b"x", expect=Absent())
        await store.close()

    async with asyncio.TaskGroup() as group:
        for number, store in enumerate(stores):
            group.create_task(write(number, store))
    assert len(await entries_of(remote)) == 40
    assert not await stores[0].verify()


async def test_a_failed_update_is_not_forgotten(store: ManifestStore, remote: FaultyStore) -> None:
    await store.write("a.md", b"x", expect=Absent())
    remote.offline = True
    with pytest.raises(Exception, match="nobody answers"):
        await store.flush()
    remote.offline = False
    await store.close()
    assert sorted(await entries_of(remote)) == ["a.md"]


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1)
entries = st.builds(ManifestEntry, st.integers(0), texts, texts, texts)


@given(st.dictionaries(st.sampled_from(["a.md", "b/c.md", "é.md"]), entries))
def test_parse_and_render_are_inverse(known: dict[str, ManifestEntry]) -> None:
    assert parse_manifest(render_manifest(known, "now")) == known


@given(st.binary())
def test_no_bytes_break_the_parser(data: bytes) -> None:
    parse_manifest(data)


def test_of_two_writes_to_a_key_the_later_one_stays() -> None:
    older = ManifestEntry(1, "2026-01-01T00:00:00.000000Z", "e1", "s1")
    newer = ManifestEntry(2, "2026-01-02T00:00:00.000000Z", "e2", "s2")
    assert apply_changes({"a": newer}, {"a": older}) == {"a": newer}
    assert apply_changes({"a": older}, {"a": newer}) == {"a": newer}
    assert apply_changes({"a": older}, {"a": None}) == {}
