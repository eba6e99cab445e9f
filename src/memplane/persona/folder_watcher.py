"""Syncs a folder whenever it changes, and every minute, until told to stop.

Whatever goes wrong is said once and tried again: a container that is away for a day fills no log,
and what changes meanwhile waits.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol, cast

import msgspec

from memplane.errors import AuthError, BackendUnavailable, MemplaneError
from memplane.kit.private_files import make_private_folder
from memplane.persona.document_names import DOCUMENT_SUFFIX
from memplane.persona.report import PersonaReport

POLL_INTERVAL_S: Final = 60.0
"""How often it looks for what others changed, in seconds."""
QUIET_PERIOD_S: Final = 1.0
"""How long nothing may be written before a change is sent: editors write in several steps."""
_MAX_DEBOUNCE_S: Final = 10.0
_MISSING_FOLDER_RETRY_S: Final = 5.0

CONTAINER_UNAVAILABLE: Final = (
    "the container does not answer: what changes here waits, and goes when it does"
)
CONTAINER_AVAILABLE: Final = "the container answers again"


class ChangeSource(Protocol):
    """Yields at first, and when there is something to sync; ends when told to."""

    def __call__(self, root: Path, stop: asyncio.Event, /) -> AsyncGenerator[None]:
        """Look at a folder."""
        ...


async def watch_changes(
    root: Path,
    stop: asyncio.Event,
    *,
    every: float = POLL_INTERVAL_S,
    quiet: float = QUIET_PERIOD_S,
) -> AsyncGenerator[None]:
    """Yield at first, after changes in the folder once it is quiet, and every so many seconds.

    A folder that is not there, or was replaced by another, is looked for again.
    """
    while not stop.is_set():
        watched = _identity(root)
        looks = _watch_files(root, stop, every=every, quiet=quiet)
        # It watches before the first sync looks: what changes in between must not be missed.
        next_change = asyncio.ensure_future(anext(looks, None))
        await asyncio.sleep(0)
        try:
            yield
            while await next_change is not None:
                yield
                if _identity(root) != watched:
                    break
                next_change = asyncio.ensure_future(anext(looks, None))
        except (OSError, RuntimeError):  # it is not there, or this system watches no more files
            if _identity(root) == watched:
                await _pause(
                    stop, min(_MISSING_FOLDER_RETRY_S if watched is None else every, every)
                )
        finally:
            next_change.cancel()
            with suppress(asyncio.CancelledError, OSError, RuntimeError):
                await next_change
            await looks.aclose()


def _watch_files(
    root: Path, stop: asyncio.Event, *, every: float, quiet: float
) -> AsyncGenerator[object]:
    # Only those who watch need it, and not all of its types are known.
    from watchfiles import awatch  # noqa: PLC0415  # pyright: ignore[reportUnknownVariableType]

    return awatch(
        root,
        watch_filter=lambda _, path: _is_document(path),
        debounce=int(_MAX_DEBOUNCE_S * 1000),
        step=int(quiet * 1000),
        rust_timeout=int(every * 1000),
        yield_on_timeout=True,
        stop_event=stop,
    )


def _is_document(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(DOCUMENT_SUFFIX) and not name.startswith(".")


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        status = root.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


class FolderWatcher(msgspec.Struct):
    """Keeps one folder synced.

    `report_line` receives one sentence per sync that changed something, `warn` one per problem.
    `note` receives the current problem, and an empty text when it is over.
    """

    root: Path
    sync: Callable[[], Awaitable[PersonaReport]]
    report_line: Callable[[str], None]
    warn: Callable[[str], None]
    note: Callable[[str], None]
    changes: ChangeSource = watch_changes
    _trouble: str = ""
    _complaints: frozenset[tuple[str, str]] = frozenset()

    async def watch(self, stop: asyncio.Event) -> None:
        """Sync whenever there is a reason to, until told to stop."""
        async with aclosing(self.changes(self.root, stop)) as changes:
            async for _ in changes:
                await self._sync_once()

    async def _sync_once(self) -> None:
        try:
            report = await self.sync()
        except (BackendUnavailable, AuthError) as error:
            self._meet(CONTAINER_UNAVAILABLE, f"{CONTAINER_UNAVAILABLE} ({error})")
        except MemplaneError as error:
            self._meet(str(error), f"nothing was synced: {error}")
        else:
            self._print_report(report)

    def _meet(self, trouble: str, sentence: str) -> None:
        """Say what is wrong, unless that was said last."""
        if trouble != self._trouble:
            self._trouble = trouble
            self.warn(sentence)
            self.note(trouble)

    def _print_report(self, report: PersonaReport) -> None:
        if report.waiting:
            self._meet(
                CONTAINER_UNAVAILABLE, f"{CONTAINER_UNAVAILABLE} ({len(report.waiting)} of them)"
            )
        elif self._trouble:
            self.warn(
                CONTAINER_AVAILABLE
                if self._trouble == CONTAINER_UNAVAILABLE
                else "all is well again"
            )
            self._trouble = ""
            self.note("")
        if report.keys:
            self.report_line(summarise_report(report))
        complaints = frozenset((*report.held, *report.errors))
        for key, reason in sorted(complaints - self._complaints):
            if key not in report.waiting:
                self.warn(f"{key}: {reason}")
        self._complaints = complaints


def summarise_report(report: PersonaReport) -> str:
    """Say in a line what a sync did."""
    parts = (
        (report.copied, "sent"),
        (report.pulled, "brought"),
        (report.merged, "merged"),
        (report.deleted, "of these deleted"),
        (len(report.held), "held"),
        (len({key for key, _ in report.errors} - {*report.waiting}), "failed"),
        (len(report.waiting), "waiting"),
        (len(report.conflicts), "kept aside"),
    )
    summary = ", ".join(f"{count} {label}" for count, label in parts if count)
    return summary or "nothing to do"


# Who watches.


class WatchingProcess(msgspec.Struct, frozen=True):
    """A process that watches a folder, and what is wrong, if anything is."""

    pid: int
    trouble: str


@contextmanager
def publish_watcher(post: Path) -> Generator[Callable[[str], None]]:
    """Let others know that this process watches; yields what to call when something is wrong.

    Of two processes that watch the same folder, the first is known.
    """
    make_private_folder(post.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(post, flags, 0o600)
    first = _try_lock(descriptor)

    def write(trouble: str) -> None:
        if first:
            body = json.dumps({"pid": os.getpid(), "trouble": trouble}).encode()
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, body, 0)

    try:
        write("")
        yield write
    finally:
        os.close(descriptor)


def find_watcher(post: Path) -> WatchingProcess | None:
    """Say which process watches; None when none does."""
    try:
        descriptor = os.open(post, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if _try_lock(descriptor):
            return None
        try:
            body = cast("dict[str, Any]", json.loads(file.read()))
            return WatchingProcess(int(body["pid"]), str(body["trouble"]))
        except (ValueError, KeyError, TypeError):
            return None


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
