"""Recorders in processes of their own, to be killed or to have their system calls fail."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.ledger.proofs.worker import Job

_REPOSITORY: Final = Path(__file__).parents[3]
_PATIENCE: Final = 60.0


@dataclass(slots=True)
class Said:
    """What a recorder said before it was gone."""

    acked: list[str] = field(default_factory=list[str])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    closed: bool = False
    hung: bool = False
    status: int = 0


class Workers:
    """Starts recorders one at a time, and hears what they say."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in = process.stdin
        self._out = process.stdout.fileno()
        self._heard = b""

    def start(self, job: Job) -> int:
        """Start a recorder and return its process id; one that waits has come that far."""
        self._in.write(job.encode())
        self._in.flush()
        awaited = {"started", "ready"} if job.waits else {"started"}
        pid, early = 0, list[str]()  # the recorder may speak before its parent does
        while awaited:
            line = self._line()
            kind, _, rest = line.partition(" ")
            if kind not in awaited:
                early.append(line)
            awaited.discard(kind)
            pid = int(rest) if kind == "started" else pid
        self._heard = b"".join(line.encode() + b"\n" for line in early) + self._heard
        return pid

    def hear(self, said: Said, *, until_acks: int = sys.maxsize) -> bool:
        """Take in what the recorder says; False once it is gone."""
        while len(said.acked) < until_acks:
            kind, _, rest = self._line().partition(" ")
            match kind:
                case "ack":
                    said.acked.append(rest)
                case "no":
                    token, _, error = rest.partition(" ")
                    said.refused[token] = error
                case "closed":
                    said.closed = True
                case "ended":
                    said.status = int(rest)
                    return False
                case _:
                    raise AssertionError(f"a recorder said {kind} {rest}")
        return True

    def hear_to_the_end(self, pid: int, said: Said) -> None:
        """Take in what the recorder says until it is gone; one that says nothing is killed."""
        try:
            self.hear(said)
        except TimeoutError:
            said.hung = True
            kill(pid)
            self.hear(said)

    def _line(self) -> str:
        while b"\n" not in self._heard:
            ready, _, _ = select.select([self._out], [], [], _PATIENCE)
            if not ready:
                raise TimeoutError(f"a recorder has said nothing for {_PATIENCE} seconds")
            piece = os.read(self._out, 1 << 16)
            assert piece, "the worker is gone"
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()


@contextmanager
def running_workers() -> Iterator[Workers]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.ledger.proofs.worker"],
        cwd=_REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            yield Workers(process)
        finally:
            process.kill()


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
