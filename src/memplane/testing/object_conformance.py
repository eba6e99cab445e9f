"""What every ObjectStore must do. Subclass it and provide a `store` fixture, empty at first."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC
from typing import ClassVar

import pytest

from memplane.errors import ConcurrencyError, InvalidKey
from memplane.storage.lineage import Stamp
from memplane.storage.store import Absent, Anything, Matches, ObjectStore, Version

BAD_KEYS = [
    "",
    "/etc/passwd",
    "../up.md",
    "a/../../up.md",
    "a/./b.md",
    "a//b.md",
    "a/",
    "a\\b.md",
    "C:/x.md",
    "c:x.md",
    "nul\x00.md",
    "line\nbreak.md",
    "CON",
    "a/com1.txt",
    "lpt9",
    "aux.md",
    "dot.",
    "space ",
    "cafe\u0301.md",
    "half\ud83d.md",
    "x" * 1025,
    "é" * 600,
    "/".join("a" * 255),
    ".memplane-new-1",
]
ODD_KEYS = [
    "a b&c#d?.md",
    "100%.md",
    "%2e%2e.md",
    "plus+plus.md",
    "a=b;c,d.md",
    "caf\u00e9/\u65e5\u672c.md",
    "\U0001f4be.md",
    ".project.json",
    "com10.txt",
    "console.md",
    "<&>'\".md",
    "~tilde.md",
    "a/b/c/d/e.md",
]


class ObjectStoreConformance:
    """The contract as tests."""

    keeps_metadata: ClassVar[bool] = True
    appends_can_end_in_doubt: ClassVar[bool] = True

    async def test_a_missing_key_reads_as_none(self, store: ObjectStore) -> None:
        assert await store.read("a/b.md") is None
        assert await store.stat("a/b.md") is None

    @pytest.mark.parametrize("data", [b"", b"one\r\ntwo", b"\xff\x00\xfe", b"x" * 300_000])
    async def test_bytes_are_read_back_as_written(self, store: ObjectStore, data: bytes) -> None:
        version = await store.write("a/b.bin", data, expect=Absent())
        found = await store.read("a/b.bin")
        assert found is not None
        assert (found.data, found.version) == (data, version)
        assert found.modified.utcoffset() == UTC.utcoffset(None)

    async def test_stat_and_listing_say_what_read_says(self, store: ObjectStore) -> None:
        await store.write("a/b.md", b"hello", expect=Absent())
        found, stat = await store.read("a/b.md"), await store.stat("a/b.md")
        (listed,) = (await store.listing()).entries
        assert found is not None
        assert stat is not None
        assert (stat.key, stat.version, stat.size) == ("a/b.md", found.version, 5)
        assert (listed.key, listed.version, listed.size) == ("a/b.md", found.version, 5)
        assert abs((listed.modified - found.modified).total_seconds()) < 2

    async def test_the_version_is_stable_and_changes_with_the_content(
        self, store: ObjectStore
    ) -> None:
        first = await store.write("a.md", b"1", expect=Absent())
        again = await store.stat("a.md")
        assert again is not None
        assert again.version == first
        assert await store.write("a.md", b"2", expect=Matches(first)) != first

    async def test_creating_twice_conflicts_and_keeps_the_first(self, store: ObjectStore) -> None:
        await store.write("a.md", b"first", expect=Absent())
        with pytest.raises(ConcurrencyError, match=r"a\.md"):
            await store.write("a.md", b"second", expect=Absent())
        assert await read_content(store, "a.md") == b"first"

    async def test_a_stale_version_conflicts(self, store: ObjectStore) -> None:
        stale = await store.write("a.md", b"1", expect=Absent())
        await store.write("a.md", b"2", expect=Matches(stale))
        with pytest.raises(ConcurrencyError):
            await store.write("a.md", b"3", expect=Matches(stale))
        assert await read_content(store, "a.md") == b"2"

    async def test_updating_a_missing_key_conflicts(self, store: ObjectStore) -> None:
        with pytest.raises(ConcurrencyError):
            await store.write("a.md", b"1", expect=Matches(Version('"0x8DC0000000000000"')))
        assert await store.read("a.md") is None

    async def test_of_many_creators_exactly_one_wins(self, store: ObjectStore) -> None:
        wins: list[bytes] = []

        async def create(data: bytes) -> None:
            with suppress(ConcurrencyError):
                await store.write("a.md", data, expect=Absent())
                wins.append(data)

        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(create(b"%d" % number))
        assert wins == [await read_content(store, "a.md")]

    async def test_of_many_updaters_exactly_one_wins(self, store: ObjectStore) -> None:
        start = await store.write("a.md", b"start", expect=Absent())
        wins: list[bytes] = []

        async def update(data: bytes) -> None:
            with suppress(ConcurrencyError):
                await store.write("a.md", data, expect=Matches(start))
                wins.append(data)

        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(update(b"%d" % number))
        assert wins == [await read_content(store, "a.md")]

    async def test_anything_replaces_whatever_is_there(self, store: ObjectStore) -> None:
        await store.write("a.md", b"1", expect=Anything())
        await store.write("a.md", b"2", expect=Anything())
        assert await read_content(store, "a.md") == b"2"

    async def test_delete_needs_the_current_version(self, store: ObjectStore) -> None:
        first = await store.write("a.md", b"1", expect=Absent())
        second = await store.write("a.md", b"2", expect=Matches(first))
        with pytest.raises(ConcurrencyError):
            await store.delete("a.md", expect=Matches(first))
        assert await store.delete("a.md", expect=Matches(second)) is True
        assert await store.read("a.md") is None

    async def test_deleting_what_is_absent_is_said_and_harmless(self, store: ObjectStore) -> None:
        assert await store.delete("a.md", expect=Anything()) is False
        assert await store.delete("a.md", expect=Matches(Version('"0x1"'))) is False

    async def test_what_was_deleted_can_be_created_again(self, store: ObjectStore) -> None:
        await store.write("a.md", b"1", expect=Absent())
        await store.delete("a.md", expect=Anything())
        await store.write("a.md", b"2", expect=Absent())
        assert await read_content(store, "a.md") == b"2"

    async def test_the_listing_is_sorted_and_its_prefix_is_a_string(
        self, store: ObjectStore
    ) -> None:
        for key in ("b/2.md", "a.md", "b/1.md", "b2.md", "b/c/3.md"):
            await store.write(key, b"x", expect=Absent())
        assert await list_keys(store) == ["a.md", "b/1.md", "b/2.md", "b/c/3.md", "b2.md"]
        assert await list_keys(store, "b") == ["b/1.md", "b/2.md", "b/c/3.md", "b2.md"]
        assert await list_keys(store, "b/") == ["b/1.md", "b/2.md", "b/c/3.md"]
        assert await list_keys(store, "b/c/3") == ["b/c/3.md"]
        assert await list_keys(store, "nothing") == []

    async def test_a_folder_is_not_a_key(self, store: ObjectStore) -> None:
        await store.write("a/b/c.md", b"x", expect=Absent())
        assert await store.read("a") is None
        assert await store.stat("a/b") is None
        assert await store.delete("a/b", expect=Anything()) is False

    @pytest.mark.parametrize("key", ODD_KEYS)
    async def test_odd_keys_stay_themselves(self, store: ObjectStore, key: str) -> None:
        await store.write(key, key.encode(), expect=Absent())
        assert await read_content(store, key) == key.encode()
        assert await list_keys(store) == [key]
        assert await store.delete(key, expect=Anything()) is True

    @pytest.mark.parametrize("key", BAD_KEYS)
    async def test_bad_keys_are_refused_by_every_method(
        self, store: ObjectStore, key: str
    ) -> None:
        stamp = Stamp("w", 1)
        for attempt in (
            lambda: store.read(key),
            lambda: store.stat(key),
            lambda: store.write(key, b"x", expect=Absent()),
            lambda: store.append(key, b"x", stamp=stamp),
            lambda: store.delete(key, expect=Anything()),
        ):
            with pytest.raises(InvalidKey) as refused:
                await attempt()
            assert refused.value.key == (key or "(empty)")
        assert await list_keys(store) == []

    async def test_a_key_that_differs_only_by_case_is_refused(self, store: ObjectStore) -> None:
        await store.write("Notes/Ada.md", b"first", expect=Absent())
        for rival in ("notes/ada.md", "Notes/ADA.md", "NOTES/Ada.md"):
            with pytest.raises(InvalidKey, match="only by case"):
                await store.write(rival, b"x", expect=Absent())
            with pytest.raises(InvalidKey, match="only by case"):
                await store.append(rival, b"x", stamp=Stamp("w", 1))
        assert await list_keys(store) == ["Notes/Ada.md"]
        await store.delete("Notes/Ada.md", expect=Anything())
        await store.write("notes/ada.md", b"second", expect=Absent())
        assert await read_content(store, "notes/ada.md") == b"second"

    async def test_append_creates_and_extends(self, store: ObjectStore) -> None:
        await store.append("log.jsonl", b"one\n", stamp=Stamp("w", 1))
        await store.append("log.jsonl", b"two\r\n", stamp=Stamp("w", 2))
        assert await read_content(store, "log.jsonl") == b"one\ntwo\r\n"

    async def test_append_keeps_what_was_written(self, store: ObjectStore) -> None:
        await store.write("log.jsonl", b"head\n", expect=Absent())
        await store.append("log.jsonl", b"tail\n", stamp=Stamp("w", 1))
        assert await read_content(store, "log.jsonl") == b"head\ntail\n"

    async def test_appenders_at_once_lose_no_line(self, store: ObjectStore) -> None:
        async def lines(writer: str) -> None:
            for seq in range(1, 21):
                await store.append("l.txt", f"{writer}-{seq}\n".encode(), stamp=Stamp(writer, seq))

        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(lines(f"w{number}"))
        found = (await read_content(store, "l.txt")).decode().splitlines()
        assert sorted(found) == sorted(f"w{w}-{seq}" for w in range(4) for seq in range(1, 21))

    async def test_an_append_that_landed_can_be_repeated(self, store: ObjectStore) -> None:
        if not self.appends_can_end_in_doubt:
            return
        await store.append("l.txt", b"one\n", stamp=Stamp("w", 1))
        await store.append("l.txt", b"other\n", stamp=Stamp("v", 1))
        await store.append("l.txt", b"one\n", stamp=Stamp("w", 1))
        assert await read_content(store, "l.txt") == b"one\nother\n"

    async def test_metadata_is_kept_and_listed(self, store: ObjectStore) -> None:
        if not self.keeps_metadata:
            return
        await store.write("a.md", b"x", expect=Absent(), metadata={"author": "device1"})
        found, stat = await store.read("a.md"), await store.stat("a.md")
        (listed,) = (await store.listing()).entries
        assert found is not None
        assert stat is not None
        for metadata in (found.metadata, stat.metadata, listed.metadata):
            assert metadata["author"] == "device1"


async def read_content(store: ObjectStore, key: str) -> bytes:
    """Read what must be there."""
    found = await store.read(key)
    assert found is not None, f"{key} is absent"
    return found.data


async def list_keys(store: ObjectStore, prefix: str = "") -> list[str]:
    """List the keys alone."""
    return [one.key for one in (await store.listing(prefix)).entries]
