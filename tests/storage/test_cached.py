"""The cache: how little it asks, and what it does when nobody answers."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memplane.errors import AuthError, BackendUnavailable, ConcurrencyError
from memplane.kit.clock import system_clock
from memplane.storage.cached_store import CachedStore
from memplane.storage.conflict_copies import ConflictCopyStore
from memplane.storage.lineage import Stamp
from memplane.storage.manifest import ManifestStore
from memplane.storage.mirror import ObjectMirror
from memplane.storage.outbox import Outbox, count_waiting, read_all_items
from memplane.storage.store import Absent, Anything, Matches
from memplane.testing.object_conformance import list_keys, read_content
from tests.support.faulty import FaultyStore, Quick, overwrite

STAMP = Stamp("unused", 1)


@pytest.fixture
def quick() -> Quick:
    return Quick()


@pytest.fixture
def remote(quick: Quick) -> FaultyStore:
    return FaultyStore(quick.pacing())


def cached(remote: FaultyStore, folder: Path, quick: Quick, writer: str = "w1") -> CachedStore:
    pacing = quick.pacing()
    keeping = ConflictCopyStore(remote, folder / "conflicts", clock=system_clock, pacing=pacing)
    return CachedStore(
        keeping,
        ObjectMirror(folder / "mirror"),
        Outbox(folder / "outbox", writer, clock=system_clock),
        clock=system_clock,
        pacing=pacing,
    )


@pytest.fixture
async def store(remote: FaultyStore, tmp_path: Path, quick: Quick) -> AsyncIterator[CachedStore]:
    opened = cached(remote, tmp_path, quick)
    await opened.open()
    yield opened
    remote.offline = False
    await opened.close()


async def test_what_was_read_once_is_not_read_again(
    store: CachedStore, remote: FaultyStore
) -> None:
    await overwrite(remote, "a.md", b"x")
    for _ in range(5):
        assert await read_content(store, "a.md") == b"x"
    assert remote.calls == ["listing", "read a.md"]


async def test_a_change_elsewhere_is_seen_with_the_next_listing(
    store: CachedStore, remote: FaultyStore, quick: Quick
) -> None:
    await overwrite(remote, "a.md", b"1")
    assert await read_content(store, "a.md") == b"1"
    await overwrite(remote, "a.md", b"2")
    quick.now += 6
    assert await read_content(store, "a.md") == b"2"


async def test_a_mirror_survives_the_process(
    remote: FaultyStore, tmp_path: Path, quick: Quick
) -> None:
    await overwrite(remote, "a.md", b"x")
    first = cached(remote, tmp_path, quick)
    await read_content(first, "a.md")
    await first.close()
    remote.calls.clear()
    second = cached(remote, tmp_path, quick, "w2")
    assert await read_content(second, "a.md") == b"x"
    assert remote.calls == ["listing"]
    await second.close()


async def test_a_damaged_mirror_is_read_anew(
    store: CachedStore, remote: FaultyStore, tmp_path: Path
) -> None:
    await overwrite(remote, "a.md", b"right")
    await read_content(store, "a.md")
    (copy,) = (path for path in (tmp_path / "mirror" / "objects").rglob("*") if path.is_file())
    copy.write_bytes(copy.read_bytes().replace(b"right", b"wrong"))
    assert await read_content(store, "a.md") == b"right"


async def test_pull_asks_for_one_listing_and_what_changed(
    store: CachedStore, remote: FaultyStore
) -> None:
    for number in range(40):
        await overwrite(remote, f"n/{number:02d}.md", b"1")
    pulled = await store.pull("n/")
    assert len(pulled.changed) == 40
    await overwrite(remote, "n/07.md", b"2")
    remote.calls.clear()
    pulled = await store.pull("n/")
    assert (pulled.changed, pulled.unchanged) == (("n/07.md",), 39)
    assert remote.calls == ["listing", "read n/07.md"]
    remote.calls.clear()
    await store.pull()
    assert remote.calls == ["listing"]


async def test_a_pull_that_fails_says_so(store: CachedStore, remote: FaultyStore) -> None:
    remote.offline = True
    with pytest.raises(BackendUnavailable):
        await store.pull()


async def test_appends_wait_for_each_other(store: CachedStore, remote: FaultyStore) -> None:
    for number in range(30):
        await store.append("log.txt", b"line %d\n" % number, stamp=STAMP)
    assert [call for call in remote.calls if call.startswith("write")] == []
    await store.flush()
    assert [one for one in remote.calls if "log.txt" in one] == ["read log.txt", "write log.txt"]
    assert (await read_content(remote.memory, "log.txt")).count(b"\n") == 30


async def test_a_large_batch_does_not_wait(store: CachedStore, remote: FaultyStore) -> None:
    await store.append("log.txt", b"x" * 5000, stamp=STAMP)
    while "write log.txt" not in remote.calls:  # noqa: ASYNC110 - the suite's timeout ends it
        await asyncio.sleep(0)


async def test_a_reader_here_sees_what_was_appended_here(
    store: CachedStore, remote: FaultyStore
) -> None:
    await overwrite(remote, "log.txt", b"head\n")
    await store.append("log.txt", b"tail\n", stamp=STAMP)
    assert await read_content(store, "log.txt") == b"head\ntail\n"
    assert await read_content(remote.memory, "log.txt") == b"head\ntail\n"


async def test_offline_reads_serve_what_was_last_known_and_say_so_once(
    store: CachedStore, remote: FaultyStore, quick: Quick, caplog: pytest.LogCaptureFixture
) -> None:
    await overwrite(remote, "a.md", b"known")
    await overwrite(remote, "b.md", b"never read here")
    await read_content(store, "a.md")
    remote.offline = True
    for _ in range(3):
        quick.now += 100
        assert await read_content(store, "a.md") == b"known"
        assert await list_keys(store) == ["a.md", "b.md"]
    with pytest.raises(BackendUnavailable, match=r"b\.md.*no copy"):
        await store.read("b.md")
    with pytest.raises(BackendUnavailable):
        await store.read("unknown.md")
    assert caplog.text.count("working from what this machine last knew") == 1
    remote.offline = False
    quick.now += 100
    assert await read_content(store, "b.md") == b"never read here"
    assert "answers again" in caplog.text


async def test_offline_listing_without_any_knowledge_is_refused(
    store: CachedStore, remote: FaultyStore
) -> None:
    remote.offline = True
    with pytest.raises(BackendUnavailable, match="never listed"):
        await store.listing()


async def test_offline_from_the_start_the_last_listing_is_known(
    remote: FaultyStore, tmp_path: Path, quick: Quick
) -> None:
    await overwrite(remote, "a.md", b"x")
    first = cached(remote, tmp_path, quick)
    await read_content(first, "a.md")
    await first.close()
    remote.offline = True
    second = cached(remote, tmp_path, quick, "w2")
    assert await list_keys(second) == ["a.md"]
    assert await read_content(second, "a.md") == b"x"
    await second.close()


async def test_offline_writes_wait_and_are_read_here(
    store: CachedStore, remote: FaultyStore, quick: Quick, tmp_path: Path
) -> None:
    await overwrite(remote, "log.txt", b"head\n")
    await read_content(store, "log.txt")
    remote.offline = True
    quick.now += 10
    await store.append("log.txt", b"one\n", stamp=STAMP)
    await store.write("new.md", b"first", expect=Anything())
    await store.write("new.md", b"second", expect=Anything())
    await store.append("new.md", b" and more", stamp=STAMP)
    assert await read_content(store, "log.txt") == b"head\none\n"
    assert await read_content(store, "new.md") == b"second and more"
    assert await list_keys(store) == ["log.txt", "new.md"]
    assert count_waiting(tmp_path / "outbox") == 3
    remote.offline = False
    await store.flush()
    assert await read_content(remote.memory, "log.txt") == b"head\none\n"
    assert await read_content(remote.memory, "new.md") == b"second and more"
    assert count_waiting(tmp_path / "outbox") == 0


async def test_offline_conditions_cannot_be_checked_and_fail(
    store: CachedStore, remote: FaultyStore, tmp_path: Path
) -> None:
    version = await store.write("a.md", b"1", expect=Absent())
    remote.offline = True
    for attempt in (
        lambda: store.write("a.md", b"2", expect=Matches(version)),
        lambda: store.write("b.md", b"2", expect=Absent()),
        lambda: store.delete("a.md", expect=Anything()),
    ):
        with pytest.raises(BackendUnavailable):
            await attempt()
    assert count_waiting(tmp_path / "outbox") == 0
    remote.offline = False
    assert await read_content(remote.memory, "a.md") == b"1"


async def test_a_condition_waits_for_earlier_writes(
    store: CachedStore, remote: FaultyStore
) -> None:
    remote.offline = True
    await store.append("a.md", b"1", stamp=STAMP)
    with pytest.raises(BackendUnavailable, match=r"a\.md"):
        await store.write("a.md", b"2", expect=Absent())
    remote.offline = False
    await store.flush()
    with pytest.raises(ConcurrencyError):
        await store.write("a.md", b"2", expect=Absent())


async def test_a_write_offline_that_meets_a_change_elsewhere_keeps_both(
    store: CachedStore, remote: FaultyStore, quick: Quick, tmp_path: Path
) -> None:
    await overwrite(remote, "a.md", b"base")
    await read_content(store, "a.md")
    remote.offline = True
    quick.now += 10
    await store.write("a.md", b"ours", expect=Anything())
    await overwrite(remote, "a.md", b"theirs")
    remote.offline = False
    await store.flush()
    assert await read_content(remote.memory, "a.md") == b"ours"
    (kept,) = (tmp_path / "conflicts").iterdir()
    assert kept.read_bytes() == b"theirs"


async def test_what_a_dead_process_left_is_sent_by_the_next(
    remote: FaultyStore, tmp_path: Path, quick: Quick
) -> None:
    dead = Outbox(tmp_path / "outbox", "dead", clock=system_clock)
    dead.append("log.txt", b"one\n")
    dead.append("log.txt", b"two\n")
    dead.close()
    heir = cached(remote, tmp_path, quick, "heir")
    await heir.open()
    await heir.flush()
    assert await read_content(remote.memory, "log.txt") == b"one\ntwo\n"
    await heir.close()
    assert list((tmp_path / "outbox").iterdir()) == []


async def test_a_batch_that_landed_before_the_crash_is_not_doubled(
    remote: FaultyStore, tmp_path: Path, quick: Quick
) -> None:
    first = cached(remote, tmp_path, quick, "first")
    await first.append("log.txt", b"one\n", stamp=STAMP)
    remote.lose_answers = 10**6
    with pytest.raises(BackendUnavailable):
        await first.flush()
    assert await read_content(remote.memory, "log.txt") == b"one\n"
    first._outbox.close()  # the process dies here
    await overwrite_appending(remote, "log.txt", b"theirs\n")
    remote.lose_answers = 0
    heir = cached(remote, tmp_path, quick, "heir")
    await heir.open()
    assert await read_content(heir, "log.txt") == b"one\ntheirs\n"
    await heir.flush()
    assert await read_content(remote.memory, "log.txt") == b"one\ntheirs\n"
    await heir.close()


async def overwrite_appending(remote: FaultyStore, key: str, data: bytes) -> None:
    await remote.memory.append(key, data, stamp=Stamp("another-machine", 1))


async def test_a_parcel_the_container_never_takes_is_put_aside(
    store: CachedStore, remote: FaultyStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    remote.offline = True
    await store.append("Notes.md", b"ours\n", stamp=STAMP)
    await store.append("other.md", b"fine\n", stamp=STAMP)
    await overwrite(remote, "notes.md", b"theirs")
    remote.offline = False
    with caplog.at_level(logging.ERROR):
        await store.flush()
    assert await read_content(remote.memory, "other.md") == b"fine\n"
    assert "will not take" in caplog.text
    (rejected,) = read_all_items(tmp_path / "rejected")
    assert (rejected.key, rejected.data) == ("Notes.md", b"ours\n")


async def test_two_processes_with_one_cache_lose_nothing(
    remote: FaultyStore, tmp_path: Path, quick: Quick
) -> None:
    stores = [cached(remote, tmp_path, quick, f"w{number}") for number in range(3)]
    for one in stores:
        await one.open()

    async def lines(one: CachedStore, name: str) -> None:
        for number in range(40):
            await one.append("log.txt", f"{name}-{number}\n".encode(), stamp=STAMP)
            if number % 7 == 0:
                await one.flush()

    async with asyncio.TaskGroup() as group:
        for number, one in enumerate(stores):
            group.create_task(lines(one, f"w{number}"))
    for one in stores:
        await one.close()
    found = (await read_content(remote.memory, "log.txt")).decode().splitlines()
    assert sorted(found) == sorted(f"w{w}-{n}" for w in range(3) for n in range(40))


async def test_the_stack_of_a_container_keeps_its_manifest(
    remote: FaultyStore, tmp_path: Path, quick: Quick
) -> None:
    pacing = quick.pacing()
    manifested = ManifestStore(remote, clock=system_clock, pacing=pacing)
    store = CachedStore(
        manifested,
        ObjectMirror(tmp_path / "mirror"),
        Outbox(tmp_path / "outbox", "w", clock=system_clock),
        clock=system_clock,
        pacing=pacing,
    )
    await store.append("log.txt", b"one\n", stamp=STAMP)
    await store.write("a.md", b"x", expect=Absent())
    await store.close()
    await manifested.close()
    assert not await manifested.verify()


async def test_what_an_earlier_process_left_goes_before_what_was_written_since(
    remote: FaultyStore, tmp_path: Path, quick: Quick
) -> None:
    dead = Outbox(tmp_path / "outbox", "zz-sorts-last", clock=system_clock)
    dead.replace("a.md", b"old", None, dead.next_stamp())
    dead.replace("b.md", b"old", None, dead.next_stamp())
    dead.close()
    remote.offline = True
    heir = cached(remote, tmp_path, quick, "aa-sorts-first")
    await heir.open()
    await heir.write("a.md", b"new", expect=Anything())
    await heir.append("b.md", b" and new", stamp=STAMP)
    assert await read_content(heir, "a.md") == b"new"
    assert await read_content(heir, "b.md") == b"old and new"
    remote.offline = False
    await heir.flush()
    assert await read_content(remote.memory, "a.md") == b"new"
    assert await read_content(remote.memory, "b.md") == b"old and new"
    await heir.close()


async def test_a_write_offline_after_an_append_still_keeps_what_it_replaces(
    store: CachedStore, remote: FaultyStore, quick: Quick, tmp_path: Path
) -> None:
    await overwrite(remote, "a.md", b"base")
    await read_content(store, "a.md")
    remote.offline = True
    quick.now += 10
    await store.append("a.md", b" more", stamp=STAMP)
    await store.write("a.md", b"ours", expect=Anything())
    await overwrite(remote, "a.md", b"theirs")
    remote.offline = False
    await store.flush()
    assert await read_content(remote.memory, "a.md") == b"ours"
    assert [path.read_bytes() for path in (tmp_path / "conflicts").iterdir()] == [b"theirs"]


async def test_a_long_name_is_kept_as_a_conflict_copy_too(
    store: CachedStore, remote: FaultyStore, tmp_path: Path
) -> None:
    key = "notes/" + "é" * 120 + ".md"
    await overwrite(remote, key, b"base")
    await read_content(store, key)
    await overwrite(remote, key, b"theirs")
    await store.write(key, b"ours", expect=Anything())
    (kept,) = (tmp_path / "conflicts" / "notes").iterdir()
    assert kept.read_bytes() == b"theirs"
    assert kept.name.startswith("20")
    assert kept.name.endswith("é.md")


async def test_while_it_is_away_the_container_is_not_asked_again_and_again(
    store: CachedStore, remote: FaultyStore, quick: Quick
) -> None:
    await overwrite(remote, "a.md", b"x")
    await read_content(store, "a.md")
    remote.offline = True
    quick.now += 10
    await store.append("a.md", b"y", stamp=STAMP)
    await read_content(store, "a.md")
    remote.calls.clear()
    for _ in range(10):
        await read_content(store, "a.md")
        await list_keys(store)
        await store.write("b.md", b"z", expect=Anything())
    assert remote.calls == []


async def test_an_empty_container_is_known_to_be_empty_offline(
    remote: FaultyStore, tmp_path: Path, quick: Quick
) -> None:
    first = cached(remote, tmp_path, quick)
    assert await list_keys(first) == []
    await first.close()
    remote.offline = True
    second = cached(remote, tmp_path, quick, "w2")
    assert await list_keys(second) == []
    await second.close()


async def test_without_a_token_it_works_as_without_a_network(
    store: CachedStore, remote: FaultyStore, quick: Quick, monkeypatch: pytest.MonkeyPatch
) -> None:
    await overwrite(remote, "a.md", b"known")
    await read_content(store, "a.md")
    quick.now += 10

    async def no_token(*_: object, **__: object) -> None:
        raise AuthError("no identity")

    for name in ("read", "stat", "listing", "write"):
        monkeypatch.setattr(remote, name, no_token)
    assert await read_content(store, "a.md") == b"known"
    assert await store.stat("a.md") is not None
    await store.write("b.md", b"ours", expect=Anything())
    assert await read_content(store, "b.md") == b"ours"
    monkeypatch.undo()
    await store.flush()
    assert await read_content(remote.memory, "b.md") == b"ours"


async def test_a_read_that_overlaps_a_write_does_not_undo_it(
    store: CachedStore, remote: FaultyStore
) -> None:
    await overwrite(remote, "a.md", b"v1")
    await list_keys(store)
    remote.hold = asyncio.Event()
    reading = asyncio.create_task(store.read("a.md"))
    await remote.holding.wait()
    await store.write("a.md", b"v2", expect=Anything())
    remote.hold.set()
    await reading
    assert await read_content(store, "a.md") == b"v2"


async def test_a_listing_that_overlaps_a_write_does_not_undo_it(
    store: CachedStore, remote: FaultyStore, quick: Quick
) -> None:
    await overwrite(remote, "gone.md", b"x")
    await list_keys(store)
    quick.now += 10
    remote.hold = asyncio.Event()
    listing = asyncio.create_task(store.listing())
    await remote.holding.wait()
    await store.write("new.md", b"x", expect=Absent())
    await store.delete("gone.md", expect=Anything())
    remote.hold.set()
    await listing
    assert await list_keys(store) == ["new.md"]


async def test_many_readers_wait_for_one_listing(
    store: CachedStore, remote: FaultyStore, quick: Quick
) -> None:
    await overwrite(remote, "a.md", b"x")
    await read_content(store, "a.md")
    quick.now += 10
    remote.calls.clear()
    await asyncio.gather(*(store.read("a.md") for _ in range(20)))
    assert remote.calls == ["listing"]


async def test_a_full_disk_fails_one_append_and_harms_no_other(
    store: CachedStore, remote: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(BackendUnavailable, match="full"):
        await store.append("log.txt", b"lost\n", stamp=STAMP)
    monkeypatch.undo()
    await store.append("log.txt", b"one\n", stamp=STAMP)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(BackendUnavailable, match="full"):
        await store.append("log.txt", b"lost\n", stamp=STAMP)
    monkeypatch.undo()
    await store.flush()
    await store.append("log.txt", b"two\n", stamp=STAMP)
    await store.append("log.txt", b"three\n", stamp=STAMP)
    await store.flush()
    assert await read_content(remote.memory, "log.txt") == b"one\ntwo\nthree\n"


async def test_a_damaged_parcel_is_kept_aside_and_blocks_nothing(
    remote: FaultyStore, tmp_path: Path, quick: Quick, caplog: pytest.LogCaptureFixture
) -> None:
    dead = Outbox(tmp_path / "outbox", "dead", clock=system_clock)
    dead.append("log.txt", b"one\n")
    dead.append("log.txt", b"two\n")
    dead.append("other.txt", b"fine\n")
    dead.close()
    (batch, _) = sorted((tmp_path / "outbox" / "dead").glob("*.open"))
    batch.write_bytes(batch.read_bytes().replace(b"one", b"0ne"))
    heir = cached(remote, tmp_path, quick, "heir")
    await heir.open()
    await heir.flush()
    await heir.close()
    assert await read_content(remote.memory, "other.txt") == b"fine\n"
    assert await remote.memory.read("log.txt") is None
    (kept,) = (tmp_path / "rejected").iterdir()
    assert b"two\n" in kept.read_bytes()
    assert "is damaged" in caplog.text
    assert read_all_items(tmp_path / "rejected") == []


async def test_a_record_cut_short_was_never_acknowledged(
    remote: FaultyStore, tmp_path: Path, quick: Quick
) -> None:
    dead = Outbox(tmp_path / "outbox", "dead", clock=system_clock)
    dead.append("log.txt", b"one\n")
    dead.append("log.txt", b"two\n")
    dead.close()
    (batch,) = (tmp_path / "outbox" / "dead").glob("*.open")
    batch.write_bytes(batch.read_bytes()[:-2])
    heir = cached(remote, tmp_path, quick, "heir")
    await heir.open()
    await heir.flush()
    await heir.close()
    assert await read_content(remote.memory, "log.txt") == b"one\n"


async def test_what_was_created_elsewhere_meanwhile_is_kept(
    store: CachedStore, remote: FaultyStore, quick: Quick, tmp_path: Path
) -> None:
    assert await list_keys(store) == []
    remote.offline = True
    quick.now += 10
    await store.write("a.md", b"ours", expect=Anything())
    await overwrite(remote, "a.md", b"theirs")
    remote.offline = False
    await store.flush()
    assert await read_content(remote.memory, "a.md") == b"ours"
    assert [path.read_bytes() for path in (tmp_path / "conflicts").iterdir()] == [b"theirs"]


async def test_a_write_that_landed_unheard_is_not_sent_over_a_newer_one(
    store: CachedStore, remote: FaultyStore, quick: Quick, tmp_path: Path
) -> None:
    await overwrite(remote, "a.md", b"v0")
    await read_content(store, "a.md")
    remote.lose_answers = 1
    await store.write("a.md", b"v1", expect=Anything())
    other = cached(remote, tmp_path / "other", quick, "w2")
    seen = await other.read("a.md")
    assert seen is not None
    assert seen.data == b"v1"
    await other.write("a.md", b"v2", expect=Matches(seen.version))
    await store.flush()
    assert await read_content(remote.memory, "a.md") == b"v2"
    await other.close()


async def test_a_whole_write_does_not_forget_which_appends_are_in(
    store: CachedStore, remote: FaultyStore, quick: Quick, tmp_path: Path
) -> None:
    await store.append("log.txt", b"A1\n", stamp=STAMP)
    remote.lose_answers = 1
    with pytest.raises(BackendUnavailable):
        await store.flush()
    other = cached(remote, tmp_path / "other", quick, "w2")
    seen = await other.read("log.txt")
    assert seen is not None
    await other.write("log.txt", seen.data + b"B1\n", expect=Matches(seen.version))
    await store.flush()
    assert await read_content(remote.memory, "log.txt") == b"A1\nB1\n"
    await other.close()


async def test_offline_what_waits_can_be_read_and_listed_and_doubt_is_said(
    store: CachedStore, remote: FaultyStore, quick: Quick
) -> None:
    for key in ("appended.md", "replaced.md", "deleted.md"):
        await overwrite(remote, key, b"12345")
    await read_content(store, "deleted.md")
    await remote.memory.delete("deleted.md", expect=Anything())
    quick.now += 10
    await list_keys(store)
    remote.offline = True
    quick.now += 10
    await store.append("appended.md", b"67", stamp=STAMP)
    await store.write("replaced.md", b"abc", expect=Anything())
    assert await read_content(store, "replaced.md") == b"abc"
    sizes = {one.key: one.size for one in (await store.listing()).entries}
    assert sizes == {"appended.md": 7, "replaced.md": 3}
    for key in ("appended.md", "deleted.md"):
        with pytest.raises(BackendUnavailable):
            await store.read(key)


async def test_offline_and_never_listed_an_append_is_not_taken_for_the_whole(
    store: CachedStore, remote: FaultyStore
) -> None:
    remote.offline = True
    await store.append("log.txt", b"mine\n", stamp=STAMP)
    with pytest.raises(BackendUnavailable, match="no copy"):
        await store.read("log.txt")
    remote.offline = False
    await store.flush()
    assert await read_content(remote.memory, "log.txt") == b"mine\n"


async def test_a_cancelled_append_that_was_kept_is_sent(
    store: CachedStore, remote: FaultyStore
) -> None:
    appending = asyncio.create_task(store.append("log.txt", b"one\n", stamp=STAMP))
    await asyncio.sleep(0)
    appending.cancel()
    await asyncio.wait([appending])
    assert store._debouncer._timer is not None


def test_what_was_appended_while_a_write_was_under_way_comes_after_it(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox", "w", clock=system_clock)
    outbox.append("a.md", b"before")
    stamp = outbox.next_stamp()
    outbox.append("b.md", b"other")
    outbox.seal()
    outbox.append("a.md", b"after")
    outbox.replace("a.md", b"whole", None, stamp)
    outbox.append("a.md", b" and more")
    assert [one.data for one in outbox.items("a.md")] == [b"whole", b"after and more"]
    outbox.close()


def test_a_write_ends_the_batch_it_replaces(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox", "w", clock=system_clock)
    outbox.append("a.md", b"before")
    outbox.replace("a.md", b"whole", None, outbox.next_stamp())
    outbox.append("a.md", b" and more")
    assert [one.data for one in outbox.items("a.md")] == [b"whole", b" and more"]
    outbox.close()
