"""File work the object stores share: durable, atomic, and never through a symbolic link.

What must be durable before the next step is a `Work`. One is done `alone`; many are done together
by `memplane.persona.group_commit`, which costs a good deal less than one after the other.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from memplane.errors import BackendUnavailable, InvalidKey, PermissionDenied, StorageError
from memplane.kit.ids import RESERVED_PREFIX, new_id
from memplane.kit.private_files import make_private_folder

_T = TypeVar("_T")

FileWork: TypeAlias = Generator[int, None, _T]
"""Yields each descriptor that must be durable before it goes on, and returns what it made."""

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TEMPORARY_PREFIX: Final = f"{RESERVED_PREFIX}-new-"
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
_DISK_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PERMISSION_ERRNOS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_INVALID_KEY_ERRNOS: Final = frozenset(
    {errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}
)


@contextmanager
def translate_os_errors(key: str) -> Generator[None]:
    """Turn the operating system's errors into ours."""
    try:
        yield
    except OSError as error:
        raise _translation(error, key) from error


def _translation(error: OSError, key: str) -> StorageError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _DISK_FULL_ERRNOS:
        return BackendUnavailable(
            f"not written, the disk or quota is full ({reason}). Free some space and try again",
            key=key,
        )
    if error.errno in _PERMISSION_ERRNOS:
        return PermissionDenied(f"the file system refused ({reason})", key=key)
    if error.errno in _INVALID_KEY_ERRNOS:
        return InvalidKey(
            f"cannot be a file here ({reason}): a part of the path is a link, a file or too long",
            key=key,
        )
    return BackendUnavailable(f"the file system failed ({reason})", key=key)


def sync_file(descriptor: int) -> None:
    """Make what was written durable, also where fsync stops at the drive's cache."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        os.fsync(descriptor)


def start_writeback(descriptor: int) -> None:
    """Let the disk begin with what was written: those that are synced together wait for it once.

    It is a hint that Linux takes, and nothing rests on it.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def run_file_work(work: FileWork[_T]) -> _T:
    """Do a work by itself; whatever ends it early, it clears up while its folder is open."""
    with closing(work):
        try:
            descriptor = next(work)
            while True:
                try:
                    sync_file(descriptor)
                except OSError as error:
                    descriptor = work.throw(error)
                else:
                    descriptor = next(work)
        except StopIteration as done:
            result: _T = done.value
            return result


def sync_data(descriptor: int) -> None:
    """Make appended bytes durable; times and modes of the file may come later."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        os.fdatasync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, _FOLDER_FLAGS)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def open_folder(root: Path | int, parts: tuple[str, ...], *, create: bool) -> int:
    """Open a folder below the root, one component at a time, following no symbolic link.

    The root may be open already, and stays open.

    Raises:
        FileNotFoundError: It is not there, and was not to be created.
    """
    folder_fd = os.dup(root) if isinstance(root, int) else _open_root(root, create=create)
    try:
        for part in parts:
            try:
                deeper = _open_below(folder_fd, part)
            except FileNotFoundError:
                if not create:
                    raise
                _make_folder(part, folder_fd)
                deeper = _open_below(folder_fd, part)
            os.close(folder_fd)
            folder_fd = deeper
    except BaseException:
        os.close(folder_fd)
        raise
    return folder_fd


def _open_root(root: Path, *, create: bool) -> int:
    try:
        return os.open(root, _FOLDER_FLAGS)
    except FileNotFoundError:
        if not create:
            raise
    make_private_folder(root)
    return os.open(root, _FOLDER_FLAGS)


def _open_below(parent: int, name: str) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=parent)
    except NotADirectoryError as error:
        # Linux says the same of a link as of a file, but a link must never look like an absence.
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from error
        raise


def _make_folder(name: str, parent: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return
    sync_file(parent)


def replace_file(folder: int, name: str, data: bytes, *, durable: bool = True) -> None:
    """Put the bytes at the name, all or nothing; on any failure the old bytes stay."""
    run_file_work(replace_file_work(folder, name, data, durable=durable))


def replace_file_work(
    folder: int, name: str, data: bytes, *, durable: bool = True
) -> FileWork[None]:
    """Put the bytes at the name, as `replace_file` does."""
    temporary = _TEMPORARY_PREFIX + new_id()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        try:
            write_all(descriptor, data)
            if durable:
                yield descriptor
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
    if durable:
        yield folder


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; a short write goes on where it stopped."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def append_to_file(folder: int, name: str, data: bytes, *, create: bool = True) -> None:
    """Add the bytes at the end in one write, durably; on any failure the file is as before."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    flags |= os.O_CREAT if create else 0
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        before = os.fstat(descriptor).st_size
        try:
            write_all(descriptor, data)
            sync_file(descriptor)
        except BaseException:
            os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)
    if before == 0:
        sync_file(folder)


def read_file(folder: int, name: str) -> tuple[bytes, os.stat_result]:
    """Read a regular file; a link, pipe or device is refused as a link is (ELOOP)."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as handle:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        return handle.read(), status


@contextmanager
def hold_lock(folder: int, name: str) -> Generator[None]:
    """Hold the lock file of that name; others wait."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def file_contains(path: Path, text: bytes) -> bool:
    """Say whether a file has these bytes anywhere."""
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        return data.find(text) >= 0
