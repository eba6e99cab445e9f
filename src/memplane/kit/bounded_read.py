"""Reading the files of a pod: regular ones, and no giants."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from memplane.errors import PodError


def read_bounded(path: Path, max_bytes: int) -> bytes | None:
    """Read a file; None when there is none.

    Raises:
        PodError: It is no regular file, is too large, or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as handle:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PodError(f"{path} is no regular file")
            data = handle.read(max_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise PodError(f"{path} cannot be read: {error}") from error
    if len(data) > max_bytes:
        raise PodError(f"{path} is larger than {max_bytes} bytes")
    return data
