"""Python blocks in the README are run as tests, in a folder of their own; signals are heard."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path
from typing import Any

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser


def pytest_configure() -> None:
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
