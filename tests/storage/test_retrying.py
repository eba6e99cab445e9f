"""Retries: transient faults only, and a write recognises itself."""

from __future__ import annotations

from itertools import count

import pytest

from memplane.errors import BackendUnavailable, ConcurrencyError
from memplane.storage.lineage import Stamp
from memplane.storage.retry import RetryStore
from memplane.storage.store import Absent, Anything, Matches
from memplane.testing.object_conformance import read_content
from tests.support.faulty import FaultyStore, Quick, overwrite


@pytest.fixture
def quick() -> Quick:
    return Quick()


@pytest.fixture
def faulty(quick: Quick) -> FaultyStore:
    return FaultyStore(quick.pacing())


@pytest.fixture
def store(faulty: FaultyStore, quick: Quick) -> RetryStore:
    ids = map(str, count())
    return RetryStore(faulty, pacing=quick.pacing(), new_write_id=lambda: next(ids))


async def test_three_faults_are_survived(store: RetryStore, faulty: FaultyStore) -> None:
    await store.write("a.md", b"x", expect=Absent())
    faulty.fail_next = 3
    assert await read_content(store, "a.md") == b"x"


async def test_the_fourth_fault_is_reported(
    store: RetryStore, faulty: FaultyStore, quick: Quick
) -> None:
    faulty.offline = True
    with pytest.raises(BackendUnavailable):
        await store.read("a.md")
    assert len(faulty.calls) == 4
    assert quick.pauses == sorted(quick.pauses)
    assert len(quick.pauses) == 3


async def test_a_conflict_is_never_tried_again(store: RetryStore, faulty: FaultyStore) -> None:
    await store.write("a.md", b"x", expect=Absent())
    faulty.calls.clear()
    with pytest.raises(ConcurrencyError):
        await store.write("a.md", b"y", expect=Absent())
    assert faulty.calls == ["write a.md"]


async def test_a_create_whose_answer_got_lost_is_recognised(
    store: RetryStore, faulty: FaultyStore
) -> None:
    faulty.lose_answers = 1
    version = await store.write("a.md", b"x", expect=Absent())
    found = await store.read("a.md")
    assert found is not None
    assert (found.data, found.version) == (b"x", version)


async def test_an_update_whose_answer_got_lost_is_recognised(
    store: RetryStore, faulty: FaultyStore
) -> None:
    first = await store.write("a.md", b"1", expect=Absent())
    faulty.lose_answers = 2
    second = await store.write("a.md", b"2", expect=Matches(first))
    assert await read_content(store, "a.md") == b"2"
    await store.write("a.md", b"3", expect=Matches(second))


async def test_someone_elses_write_is_not_taken_for_ours(
    store: RetryStore, faulty: FaultyStore
) -> None:
    first = await store.write("a.md", b"1", expect=Absent())
    await overwrite(faulty, "a.md", b"theirs")
    faulty.fail_next = 1
    with pytest.raises(ConcurrencyError):
        await store.write("a.md", b"ours", expect=Matches(first))
    assert await read_content(store, "a.md") == b"theirs"


async def test_a_delete_whose_answer_got_lost_succeeded(
    store: RetryStore, faulty: FaultyStore
) -> None:
    version = await store.write("a.md", b"1", expect=Absent())
    faulty.lose_answers = 1
    assert await store.delete("a.md", expect=Matches(version)) is True
    assert await store.delete("a.md", expect=Anything()) is False


async def test_an_append_whose_answer_got_lost_is_not_doubled(
    store: RetryStore, faulty: FaultyStore
) -> None:
    faulty.lose_answers = 2
    await store.append("l.txt", b"one\n", stamp=Stamp("w", 1))
    await store.append("l.txt", b"two\n", stamp=Stamp("w", 2))
    assert await read_content(store, "l.txt") == b"one\ntwo\n"
