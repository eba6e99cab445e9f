"""How this program is started again, in a process of its own."""

from __future__ import annotations

import sys


def get_own_program() -> tuple[str, ...]:
    """Return the command that starts memplane, without arguments.

    `-P` keeps the current folder off the path of modules: it may be somebody else's project, with
    files that are called like modules of ours.
    """
    return (sys.executable, "-P", "-m", "memplane")
