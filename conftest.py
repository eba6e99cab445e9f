"""What holds for every test: where files go, which signals are heard, Python blocks of pages."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any, Final

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - pytest makes private folders in it
_MIN_FREE_BYTES: Final = 4 << 30


def pytest_configure() -> None:
    """Prepare the process and those that it starts."""
    _use_memory_for_files()
    _hear_signals()


def _use_memory_for_files() -> None:
    """Put the files of tests into memory where there is enough, since a sync to disk takes long.

    `make test-long` names the disk. What a crash leaves of unsynced writes is computed by the
    tests that prove durability; no disk would show it.
    """
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MIN_FREE_BYTES:
        # Pytest reads this place from nowhere else.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))  # noqa: TID251


def _hear_signals() -> None:
    """Let programs that tests start hear signals that whoever started the suite ignores.

    A shell ignores SIGINT for what it runs in the background, and nohup SIGHUP. Programs inherit
    that; from a handler, even one that does nothing, they do not.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def _in_an_empty_folder(namespace: dict[str, Any]) -> None:
    namespace["_before"] = Path.cwd()
    namespace["_folder"] = tempfile.TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def _back(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_before"])
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
    setup=_in_an_empty_folder,
    teardown=_back,
).pytest()
