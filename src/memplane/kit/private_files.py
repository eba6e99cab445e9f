"""Folders and files for this user alone, written durably."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from memplane.errors import HomeError
from memplane.kit.ids import new_id


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone."""
    missing = takewhile(lambda path: not path.exists(), (folder, *folder.parents))
    for path in reversed([*missing]):
        path.mkdir(mode=0o700, exist_ok=True)
        _sync_folder(path.parent)


def read_private_file(path: Path) -> bytes | None:
    """Read a file of the home that holds secrets; None when there is none.

    Raises:
        HomeError: It cannot be read, is a link, or others can read it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as handle:
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
            body = handle.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HomeError(f"{path} cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise HomeError(
            f"{path} can be read by others (mode {mode:o}). Make it private: chmod 600 {path}"
        )
    return body


def replace_private_file(path: Path, body: bytes) -> None:
    """Put the bytes into a file of the home, for this user alone: all of them, durably, or none.

    Raises:
        HomeError: They cannot be written; the file is as before.
    """
    aside = path.with_name(f".{path.name}-{new_id()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(aside, flags, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(body)
            handle.flush()
            os.fsync(descriptor)
        aside.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        raise HomeError(f"{path} cannot be written: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
