"""`memplane up` in a process of its own, on any free port."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memplane.home import Home


@dataclass(frozen=True, slots=True)
class Running:
    process: subprocess.Popen[str]
    address: str
    port: int
    home: Path
    printed: str

    @property
    def token(self) -> str:
        return (self.home / "token").read_text().strip()


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a process under test: nothing of the developer's.

    Recall works by words, so that no process loads a model; tests of meaning choose one.
    """
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home.parent),
        "MEMPLANE_HOME": str(home),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "MEMPLANE_VECTORS_SOURCE": "none",
        **more,
    }


def memplane(
    home: Path, *words: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memplane", *words],
        env={**environment(home), **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def running_memplane(
    home: Path, *words: str, env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    given = {**environment(home), **(env or {})}
    process = subprocess.Popen(
        [sys.executable, "-m", "memplane", "up", "--port", "0", *words],
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    printed = ""
    try:
        # The last line of what it says to people, and the only one in a log of events.
        while not ("Ctrl-C" in printed or " is up at " in printed):
            line = process.stdout.readline()
            assert line, f"memplane did not start: {printed}"
            printed += line
        # What it prints is an address for others, where it listens everywhere.
        owner = Home(Path(given["MEMPLANE_HOME"])).owner()
        assert owner is not None
        assert owner.address
        yield Running(process, owner.address, int(owner.address.rpartition(":")[2]), home, printed)
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()
