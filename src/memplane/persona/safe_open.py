"""Folders and files of documents, held open while they are worked with; no link is followed."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from memplane.errors import BackendUnavailable, InvalidKey, TooLarge
from memplane.kit.durable_files import open_folder, read_file

MAX_DOCUMENT_BYTES: Final = 5 * 1024 * 1024
"""No document is larger, whatever the settings say."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def open_root(root: Path) -> Generator[int]:
    """Hold a root open: as long as it is in use, its disk cannot be unmounted.

    Raises:
        BackendUnavailable: It is not there, so nothing is known of what lies in it.
    """
    try:
        folder = os.open(root, _FOLDER)
    except FileNotFoundError as error:
        raise BackendUnavailable(
            f"the folder {root} is not there; is its disk mounted?"
        ) from error
    try:
        yield folder
    finally:
        os.close(folder)


def try_exclusive_lock(folder: int) -> bool:
    """Hold an open folder if nobody else does, until it is closed; False where that fails."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody has it, or its file system knows no such locks
        return False
    return True


def acquire_shared_lock(folder: int) -> None:
    """Keep an open folder from being held by one alone, where its file system knows locks."""
    with suppress(OSError):
        fcntl.flock(folder, fcntl.LOCK_SH)


@contextmanager
def open_folder_at(root: Path | int, parts: tuple[str, ...]) -> Generator[int | None]:
    """Hold a folder below a root open; None when there is no such folder."""
    try:
        folder = open_folder(root, parts, create=False)
    except (FileNotFoundError, NotADirectoryError):
        folder = None
    try:
        yield folder
    finally:
        if folder is not None:
            os.close(folder)


@contextmanager
def make_folder_at(root: Path | int, parts: tuple[str, ...]) -> Generator[int]:
    """Hold a folder below a root open; it is made when it is not there."""
    folder = open_folder(root, parts, create=True)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def open_document(folder: int, leaf: str, key: str) -> Generator[BinaryIO | None]:
    """Hold a document open; None when there is none.

    Raises:
        InvalidKey: What is there cannot be a document.
        TooLarge: No document is so large.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(leaf, flags, dir_fd=folder)
    except FileNotFoundError:
        yield None
        return
    with os.fdopen(descriptor, "rb") as document:
        status = os.fstat(descriptor)
        if reason := explain_invalid_file(status):
            raise InvalidKey(reason, key=key)
        if status.st_size > MAX_DOCUMENT_BYTES:
            raise TooLarge(f"{status.st_size} bytes are more than {MAX_DOCUMENT_BYTES}", key=key)
        yield document


def explain_invalid_file(status: os.stat_result) -> str | None:
    """Say why a file cannot be a document, whatever it is called; None when it can."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a file but a folder, a pipe, a socket or a device"
    if status.st_nlink > 1:
        return "it has a second name (a hard link), which may lie anywhere"
    return None


def read_document(folder: int, leaf: str, key: str) -> bytes | None:
    """Read a document; None when there is none."""
    with open_document(folder, leaf, key) as document:
        return None if document is None else document.read()


def read_optional_file(folder: int, name: str) -> bytes | None:
    """Read a file of ours; None when there is none, or something else has its name."""
    status = stat_entry(folder, name)
    if status is None or not stat.S_ISREG(status.st_mode):
        return None
    try:
        return read_file(folder, name)[0]
    except FileNotFoundError:
        return None


def stat_entry(folder: int, name: str) -> os.stat_result | None:
    """Look at what has a name, and not at what it links to; None when nothing has it."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
