"""What tells a project on every machine: the first commit of its repository."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

_GIT_TIMEOUT_S: Final = 2.0
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")
_ENVIRONMENT: Final = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
"""Nothing of ours: no variable may send git to another repository, or to the network."""


def find_root_commit(root: Path) -> str:
    """Return the hash of the repository's first commit; empty when it cannot be had quickly.

    A shallow clone does not have it. Of several first commits the one counts that is reached by
    the first parent of every merge: the others came with histories that were merged in, and those
    may be older.
    """
    program = shutil.which("git")
    if program is None or _git(program, root, "rev-parse", "--is-shallow-repository") != "false":
        return ""
    commit = _git(program, root, "rev-list", "--first-parent", "--max-parents=0", "HEAD")
    return commit if _COMMIT.fullmatch(commit) else ""


def _git(program: str, root: Path, *words: str) -> str:
    """Ask git something; empty when it does not answer."""
    try:
        asked = subprocess.run(  # noqa: S603 - our own words, and no shell
            [program, "-C", str(root), "-c", "core.fsmonitor=false", *words],
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.decode("ascii", "replace").strip() if asked.returncode == 0 else ""
