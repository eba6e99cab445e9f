"""What hooks remember between two events: which sessions are open, and what each was given."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from memplane.kit.private_files import make_private_folder

T = TypeVar("T")

_SESSION_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_SILENCE: Final = timedelta(days=1)
"""An open session that was not heard of for so long has ended, whatever has its process id now."""
_KEPT: Final = timedelta(days=30)


class OpenSession(msgspec.Struct, frozen=True):
    """A session that began and has not ended: what is needed to finish its work later."""

    session: str
    transcript: str
    cwd: str
    folder: str
    project: str
    pid: int
    started: datetime


class GivenContext(msgspec.Struct, frozen=True):
    """What a session was given: the documents by their SHA-256, and the entries it recalled."""

    documents: dict[str, str] = {}
    entries: tuple[str, ...] = ()
    operational: str = ""


class SessionStore:
    """A folder of small files. Each is replaced whole, so that two hooks never mix."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    # Open sessions

    def mark_open(self, session: OpenSession) -> None:
        """Note that a session is open; noting it again says that it is still alive."""
        if _SESSION_ID.fullmatch(session.session):
            self._write(self._marker(session.session), session)

    def touch(self, session: str) -> None:
        """Note that a session was heard of."""
        if _SESSION_ID.fullmatch(session):
            with suppress(OSError):
                os.utime(self._marker(session))

    def find_open(self, session: str) -> OpenSession | None:
        """Return a session that is noted as open."""
        if not _SESSION_ID.fullmatch(session):
            return None
        return _read(self._marker(session), OpenSession)

    def mark_closed(self, session: str) -> None:
        """Note that a session has ended."""
        if _SESSION_ID.fullmatch(session):
            self._marker(session).unlink(missing_ok=True)

    def list_crashed(self, *, but: str, now: datetime) -> Iterator[OpenSession]:
        """Yield the sessions that are noted as open and whose process is gone."""
        for path in sorted(self._folder.glob("session-*.open")):
            session = _read(path, OpenSession)
            if session is None or session.session == but:
                continue
            if not _is_alive(session.pid) or _age(path, now) > _MAX_SILENCE:
                yield session

    def _marker(self, session: str) -> Path:
        return self._folder / f"session-{session}.open"

    # What was given

    def given(self, session: str) -> GivenContext | None:
        """Return what a session was given; None when nothing is known of it."""
        if not _SESSION_ID.fullmatch(session):
            return None
        return _read(self._folder / "given" / f"{session}.json", GivenContext)

    def note_given(self, session: str, given: GivenContext) -> None:
        """Note what a session was given."""
        if _SESSION_ID.fullmatch(session):
            self._write(self._folder / "given" / f"{session}.json", given)

    def prune(self, now: datetime) -> None:
        """Remove what is too old to be asked for again."""
        for path in (*self._folder.glob("given/*"), *self._folder.glob("replies/*")):
            if _age(path, now) > _KEPT:
                path.unlink(missing_ok=True)

    # Folders

    def snapshot(self, folder: Path) -> dict[str, str] | None:
        """Return the documents of a folder as they last were; None when they never were seen."""
        return _read(self._snapshot_file(folder), dict[str, str])

    def note_snapshot(self, folder: Path, documents: Mapping[str, str]) -> None:
        """Note the documents of a folder, by their SHA-256."""
        self._write(self._snapshot_file(folder), dict(documents))

    def _snapshot_file(self, folder: Path) -> Path:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        return self._folder / "folders" / f"{name}.json"

    # Replies of the worker

    def new_reply(self, name: str) -> Path:
        """Return where the worker puts a reply; its folder is there."""
        replies = self._folder / "replies"
        make_private_folder(replies)
        return replies / f"{name}.json"

    @staticmethod
    def _write(path: Path, value: object) -> None:
        # What is lost in a crash costs one more scan, so nothing here waits for the disk.
        make_private_folder(path.parent)
        aside = path.with_name(f".{path.name}-{os.getpid()}")
        aside.write_bytes(msgspec.json.encode(value))
        aside.replace(path)


def find_changes(before: Mapping[str, str] | None, now: Mapping[str, str]) -> set[str] | None:
    """Name the documents that changed since; None when that takes a look at everything.

    It does where nothing is known of before, or where a document is gone.
    """
    if before is None or before.keys() - now.keys():
        return None
    return {key for key, sha256 in now.items() if before.get(key) != sha256}


def join_keys(keys: Iterable[str]) -> str:
    """Write the keys of documents into one field of a job."""
    return "\n".join(sorted(keys))


def _read(path: Path, kind: type[T]) -> T | None:
    """Read a file of ours; None when it is not there or says nothing that can be used."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _age(path: Path, now: datetime) -> timedelta:
    try:
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return timedelta(0)
    return now - changed
