"""Recorders under strace: killed at a system call, or with one that fails.

Only calls on the ledger's own files count, and strace counts them for each thread; with one agent
a single thread makes them all.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.ledger.proofs.worker import Job
from tests.ledger.proofs.workers import Said, Workers

CALLS: Final = (
    "openat",
    "write",
    "pwrite64",
    "fdatasync",
    "fsync",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "ftruncate",
    "mkdir",
    "mkdirat",
    "chmod",
    "fchmodat",
    "fchmod",
)
_PATIENCE: Final = 60.0
_MOST_SEGMENTS: Final = 30
_CALL: Final = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed)")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a recorder said under strace, and what strace saw."""

    said: Said
    trace: str

    @property
    def injected(self) -> bool:
        return "(INJECTED)" in self.trace or self.said.status == -signal.SIGKILL


def paths_of(root: Path, agent: str) -> list[Path]:
    """Name every path that a recorder of one agent touches."""
    folder, state = root / agent, root / ".memplane"
    names = ("history.jsonl", "history.jsonl.1", "chain.jsonl", "index.jsonl", "lock", "segments")
    kept = ("anchors.jsonl", "anchors.lock", "quarantine", f"quarantine/{agent}")
    sealed = [folder / "segments" / f"{number:08}.jsonl" for number in range(1, _MOST_SEGMENTS)]
    foreign = folder / "history.index.json"
    return [
        root,
        folder,
        state,
        foreign,
        *sealed,
        *(folder / name for name in names),
        *(state / name for name in kept),
    ]


def run_traced(workers: Workers, job: Job, *, calls: Sequence[str], inject: str = "") -> Ran:
    """Run a recorder with strace attached from before it touches a file."""
    pid = workers.start(replace(job, waits=True))
    output = Path(job.root).with_suffix(".strace")
    words = ["strace", "-f", "-o", str(output), "-e", f"trace={','.join(calls)}"]
    if inject:
        words += ["-e", f"inject={inject}"]
    for path in paths_of(Path(job.root), job.agents[0]):
        words += ["-P", str(path)]
    said = Said()
    with _attached([*words, "-p", str(pid)]):
        os.kill(pid, signal.SIGUSR1)
        workers.hear_to_the_end(pid, said)
    trace = output.read_text("utf-8", "replace")
    output.unlink()
    return Ran(said, trace)


@contextmanager
def _attached(words: list[str]) -> Iterator[None]:
    with subprocess.Popen(words, stderr=subprocess.PIPE) as strace:
        assert strace.stderr is not None
        told = b""
        while b"attached" not in told:
            ready, _, _ = select.select([strace.stderr], [], [], _PATIENCE)
            assert ready, "strace did not attach"
            piece = os.read(strace.stderr.fileno(), 4096)
            assert piece, f"strace failed: {told!r}"
            told += piece
        yield
        strace.communicate(timeout=_PATIENCE)


def counted(trace: str) -> dict[str, int]:
    """Count each call in a trace, in the thread that made the most of them."""
    seen: Counter[tuple[str, str]] = Counter()
    for line in trace.splitlines():
        found = _CALL.match(line)
        if found is not None and "resumed" not in line:
            seen[found[2], found[1]] += 1
    most: dict[str, int] = {}
    for (call, _), count in seen.items():
        most[call] = max(count, most.get(call, 0))
    return most


def synced_again(trace: str) -> list[str]:
    """Return the syncs of a descriptor that had failed to sync, before it was closed."""
    failed: set[str] = set()
    again: list[str] = []
    for call, descriptor, line in _on_descriptors(trace):
        if call == "close":
            failed.discard(descriptor)
        elif descriptor in failed:
            again.append(line)
        elif "(INJECTED)" in line:
            failed.add(descriptor)
    return again


def _on_descriptors(trace: str) -> Iterator[tuple[str, str, str]]:
    for line in trace.splitlines():
        found = re.search(r"(fdatasync|fsync|close)\((\d+)", line)
        if found is not None:
            yield found[1], found[2], line


def every_call(workers: Workers, job: Job) -> list[tuple[str, int]]:
    """Run a recorder unharmed; returns each call that it makes, with its number."""
    ran = run_traced(workers, job, calls=CALLS)
    assert ran.said.closed, ran.said
    return [(call, at) for call, most in counted(ran.trace).items() for at in range(1, most + 1)]
