"""The file work of many documents, done in one go: what all of them need durable is synced once.

A disk syncs a hundred files that were written together in a fraction of the time it takes for one
after the other, and a folder that all of them share is synced once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from memplane.kit.durable_files import FileWork, start_writeback, sync_file

_T = TypeVar("_T")

_MAX_GROUP_SIZE: Final = 32
"""Each holds up to four files open, and some systems allow no more than 256."""


@dataclass(slots=True)
class GroupCommit:
    """Does file work in one thread: whatever is asked for while it is busy comes next, as one."""

    _queue: list[tuple[FileWork[Any], asyncio.Future[Any]]] = field(default_factory=list[Any])
    _worker: asyncio.Task[None] | None = None

    async def do(self, work: FileWork[_T]) -> _T:
        """Do a work, with those that others ask for; it is durable when this returns."""
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._queue.append((work, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="persona-files")
        return await future

    async def _work(self) -> None:
        try:
            while self._queue:
                items, self._queue = self._queue[:_MAX_GROUP_SIZE], self._queue[_MAX_GROUP_SIZE:]
                # Whoever is gone by now wants nothing done any more.
                batch = [item for item in items if not item[1].done()]
                outcomes = await asyncio.to_thread(run_group, [work for work, _ in batch])
                for (_, future), outcome in zip(batch, outcomes, strict=True):
                    _set_outcome(future, outcome)
        finally:
            self._worker = None


def _set_outcome(future: asyncio.Future[Any], outcome: object) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def run_group(works: Sequence[FileWork[_T]]) -> list[_T | BaseException]:
    """Do all of them, from one sync to the next; the failure of one stops no other."""
    with ExitStack() as stack:
        for work in works:
            stack.callback(work.close)
        return _run_steps(works)


def _run_steps(works: Sequence[FileWork[_T]]) -> list[_T | BaseException]:
    outcomes: dict[int, _T | BaseException] = {}
    failures: Mapping[int, OSError | None] = dict.fromkeys(range(len(works)))
    while failures:
        waiting: dict[int, int] = {}
        for number, failure in failures.items():
            try:
                waiting[number] = _advance(works[number], failure)
            except StopIteration as done:
                outcomes[number] = done.value
            except BaseException as error:  # noqa: BLE001 - told to the one who asked for it
                outcomes[number] = error
        failures = _sync_files(waiting)
    return [outcomes[number] for number in range(len(works))]


def _advance(work: Generator[int, None, Any], failure: OSError | None) -> int:
    return next(work) if failure is None else work.throw(failure)


def _sync_files(waiting: Mapping[int, int]) -> dict[int, OSError | None]:
    """Sync what works wait for, each file once; say which could not be."""
    files = {number: _identity(descriptor) for number, descriptor in waiting.items()}
    distinct = {files[number]: descriptor for number, descriptor in waiting.items()}
    for descriptor in distinct.values():
        start_writeback(descriptor)
    failures = {file: _failure(descriptor) for file, descriptor in distinct.items()}
    return {number: failures[file] for number, file in files.items()}


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _failure(descriptor: int) -> OSError | None:
    try:
        sync_file(descriptor)
    except OSError as error:
        return error
    return None
