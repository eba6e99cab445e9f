"""A folder that is watched: when it is synced, what is said, and who is known to watch."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from memplane.errors import BackendUnavailable, PersonaError
from memplane.persona.folder_watcher import (
    CONTAINER_AVAILABLE,
    CONTAINER_UNAVAILABLE,
    FolderWatcher,
    WatchingProcess,
    find_watcher,
    publish_watcher,
    summarise_report,
    watch_changes,
)
from memplane.persona.report import PersonaReport

QUIET = 0.05
LONG = 60.0


async def next_change(changes: AsyncGenerator[None], seconds: float = 60.0) -> None:
    await asyncio.wait_for(anext(changes), seconds)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir()
    return folder


async def test_it_begins_with_a_sync_and_misses_nothing_meanwhile(folder: Path) -> None:
    stop = asyncio.Event()
    async with aclosing(watch_changes(folder, stop, every=LONG, quiet=QUIET)) as changes:
        await next_change(changes)
        (folder / "user_role.md").write_text("typed while the first sync runs\n")
        await next_change(changes)
        stop.set()


async def test_what_is_no_document_is_no_change(folder: Path) -> None:
    stop = asyncio.Event()
    async with aclosing(watch_changes(folder, stop, every=LONG, quiet=QUIET)) as changes:
        await next_change(changes)
        for name in ("notes.txt", ".memplane-new-1", ".hidden.md", "x.md.swp"):
            (folder / name).write_text("x")
        with pytest.raises(TimeoutError):
            await next_change(changes, 0.5)


async def test_every_minute_it_looks_for_what_others_changed(folder: Path) -> None:
    stop = asyncio.Event()
    async with aclosing(watch_changes(folder, stop, every=0.2, quiet=QUIET)) as changes:
        for _ in range(3):
            await next_change(changes)
        stop.set()
        with pytest.raises(StopAsyncIteration):
            await next_change(changes)


async def test_a_folder_that_appears_or_is_replaced_is_watched(tmp_path: Path) -> None:
    folder, stop = tmp_path / "memory", asyncio.Event()
    async with aclosing(watch_changes(folder, stop, every=0.5, quiet=QUIET)) as changes:
        await next_change(changes)
        folder.mkdir()  # as the first sync does
        await next_change(changes)
        (folder / "user_role.md").write_text("one\n")
        await next_change(changes)
        shutil.rmtree(folder)
        folder.mkdir()
        await next_change(changes)
        await next_change(changes)
        (folder / "user_role.md").write_text("two\n")
        await next_change(changes)
        stop.set()


@dataclass(slots=True)
class Heard:
    """A sync that does what the test says, and what was told about it."""

    outcomes: Iterator[PersonaReport | Exception]
    told: list[str] = field(default_factory=list[str])
    warned: list[str] = field(default_factory=list[str])
    noted: list[str] = field(default_factory=list[str])

    async def sync(self) -> PersonaReport:
        outcome = next(self.outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def heard(*outcomes: PersonaReport | Exception) -> Heard:
    """Watch through so many syncs."""
    one = Heard(iter(outcomes))

    async def changes(_root: Path, _stop: asyncio.Event) -> AsyncGenerator[None]:
        for _ in outcomes:
            yield

    watcher = FolderWatcher(
        Path("/nowhere"), one.sync, one.told.append, one.warned.append, one.noted.append, changes
    )
    await watcher.watch(asyncio.Event())
    return one


async def test_a_container_that_is_away_is_mentioned_once() -> None:
    away = [BackendUnavailable(f"no answer, {number}") for number in range(3)]
    one = await heard(*away, PersonaReport(), PersonaReport())
    assert one.warned == [f"{CONTAINER_UNAVAILABLE} (no answer, 0)", CONTAINER_AVAILABLE]
    assert one.noted == [CONTAINER_UNAVAILABLE, ""]
    assert one.told == []


async def test_what_waits_counts_as_away() -> None:
    one = await heard(
        PersonaReport(waiting=["a.md"], errors=[("a.md", "no answer")]), PersonaReport()
    )
    assert one.warned == [f"{CONTAINER_UNAVAILABLE} (1 of them)", CONTAINER_AVAILABLE]


async def test_other_trouble_is_said_when_it_changes() -> None:
    one = await heard(PersonaError("x"), PersonaError("x"), PersonaError("y"), PersonaReport())
    assert one.warned == ["nothing was synced: x", "nothing was synced: y", "all is well again"]
    assert one.noted == ["x", "y", ""]


async def test_what_is_held_is_said_once_and_again_when_it_returns() -> None:
    held = PersonaReport(held=[("notes.md", "no frontmatter")])
    one = await heard(held, held, PersonaReport(), held)
    assert one.warned == ["notes.md: no frontmatter"] * 2


async def test_what_was_done_is_told() -> None:
    one = await heard(
        PersonaReport(copied=2, pulled=1, keys=["a.md", "b.md", "c.md"]), PersonaReport()
    )
    assert one.told == ["2 sent, 1 brought"]


def test_a_sum_of_nothing() -> None:
    assert summarise_report(PersonaReport()) == "nothing to do"


def test_who_watches_is_known_while_it_does(tmp_path: Path) -> None:
    post = tmp_path / "watching" / "folder"
    assert find_watcher(post) is None
    with publish_watcher(post) as note:
        assert find_watcher(post) == WatchingProcess(os.getpid(), "")
        note("the container is away")
        with publish_watcher(post) as second:
            second("the second is not heard")
        assert find_watcher(post) == WatchingProcess(os.getpid(), "the container is away")
    assert find_watcher(post) is None
    post.write_text("{")
    assert find_watcher(post) is None
