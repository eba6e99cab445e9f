"""Commands run in the process of the tests, where they start ten times as quickly."""

from __future__ import annotations

import gc
import io
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from memplane.cli import main
from tests.support.running import environment


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def memplane_here(home: Path, *words: str, env: Mapping[str, str] | None = None) -> Done:
    """Run a command as `tests.support.running.memplane` does, but in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with (
        pytest.MonkeyPatch.context() as patch,
        _hooks_kept(),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        for name, value in {**environment(home), **(env or {})}.items():
            patch.setenv(name, value)
        try:
            code = main(words)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
    return Done(code, _written(out), _written(err))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


@contextmanager
def _hooks_kept() -> Iterator[None]:
    """Put back what a command sets for its process."""
    root = logging.getLogger()
    kept = sys.excepthook, threading.excepthook, logging.raiseExceptions, root.level
    handlers, levels, threshold = list(root.handlers), _levels(), gc.get_threshold()
    try:
        yield
    finally:
        sys.excepthook, threading.excepthook, logging.raiseExceptions, level = kept
        root.setLevel(level)
        root.handlers[:] = handlers
        for name in _levels():
            logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))
        gc.set_threshold(*threshold)


def _levels() -> dict[str, int]:
    loggers = logging.root.manager.loggerDict.items()
    return {name: one.level for name, one in loggers if isinstance(one, logging.Logger)}
