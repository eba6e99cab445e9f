"""The two renames that Python lacks: one that replaces nothing, and one that trades two names.

Both are single steps of the file system, so nobody can slip in between and a crash leaves either
what was or what is to be. Where a file system cannot do them, they are made of smaller steps.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

from memplane.kit.durable_files import sync_file

_Rename: TypeAlias = Callable[[int, bytes, int, bytes, int], int]

_IS_MAC: Final = sys.platform == "darwin"
_NO_REPLACE: Final = 4 if _IS_MAC else 1
_EXCHANGE: Final = 2
_UNSUPPORTED_ERRNOS: Final = frozenset(
    {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
)
_NO_LINK_ERRNOS: Final = _UNSUPPORTED_ERRNOS | {errno.EPERM, errno.EMLINK}


def exchange_files(folder: int, first: str, second: str) -> bool:
    """Let two files trade their names, in one step; False where the file system cannot."""
    return _rename(folder, first, second, _EXCHANGE)


def rename_no_replace(folder: int, name: str, new: str) -> bool:
    """Rename a file, unless something has the new name already: then nothing is done, and False.

    Where that takes two steps, a crash between them leaves the file under both names.
    """
    try:
        return _rename(folder, name, new, _NO_REPLACE) or _rename_by_link(folder, name, new)
    except FileExistsError:
        return False


def _rename(folder: int, name: str, new: str, flags: int) -> bool:
    rename = _system_rename()
    if rename is None:
        return False
    if rename(folder, os.fsencode(name), folder, os.fsencode(new), flags) == 0:
        return True
    failure = ctypes.get_errno()
    if failure in _UNSUPPORTED_ERRNOS:
        return False
    raise OSError(failure, os.strerror(failure), name)


@cache
def _system_rename() -> _Rename | None:
    """Find the system's rename with flags; None where it has none."""
    library = ctypes.CDLL(None, use_errno=True)
    function = getattr(library, "renameatx_np" if _IS_MAC else "renameat2", None)
    if function is not None:
        integer, text = ctypes.c_int, ctypes.c_char_p
        function.argtypes = (integer, text, integer, text, ctypes.c_uint)
        function.restype = integer
    return function


def _rename_by_link(folder: int, name: str, new: str) -> bool:
    try:
        os.link(name, new, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINK_ERRNOS:
            raise
        return _rename_if_absent(folder, name, new)
    sync_file(folder)
    os.unlink(name, dir_fd=folder)
    return True


def _rename_if_absent(folder: int, name: str, new: str) -> bool:
    """The last resort, with a gap between the look and the rename."""
    try:
        os.stat(new, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
        return True
    return False
