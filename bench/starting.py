"""Servers of the benches, each a module of ours in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def started(module: str, *arguments: str) -> Iterator[int]:
    """Start a server that prints its port first, and give that port."""
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
