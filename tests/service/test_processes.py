"""Two processes, kills, exits and signals: what was acknowledged is never lost or doubled."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from memplane import BlobBackend, CachedBlobBackend, LocalBackend
from memplane.storage.backend import StoreBackend
from memplane.storage.outbox import count_waiting
from tests.support.azurite import Azurite

APPENDER = Path(__file__).with_name("appender.py")


def start(
    kind: str, where: str, cache: Path, name: str, count: int, *, patience: str = "10"
) -> subprocess.Popen[str]:
    words = [kind, where, str(cache), "log.txt", name, str(count), patience]
    return subprocess.Popen(
        [sys.executable, str(APPENDER), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=110)
    assert process.returncode == 0, err
    return out.splitlines()


def lines_of(backend: StoreBackend) -> list[str]:
    return (backend.read_text("log.txt") or "").splitlines()


def test_two_processes_on_a_folder_lose_no_line(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    both = [start("local", folder, tmp_path, name, 1000) for name in ("a", "b")]
    promised = [line for process in both for line in finish(process)]
    assert sorted(lines_of(LocalBackend(folder))) == sorted(promised)
    assert len(promised) == 2000


@pytest.mark.parametrize(
    ("kind", "lines"),
    [("blob", 250), pytest.param("blob", 1000, marks=pytest.mark.long), ("cached", 1000)],
)
def test_two_processes_on_one_blob_lose_no_line(
    kind: str, lines: int, azurite: Azurite, container: str, tmp_path: Path
) -> None:
    where = f"{azurite.connection_string}|{container}"
    both = [start(kind, where, tmp_path / "cache", name, lines) for name in ("a", "b")]
    promised = [line for process in both for line in finish(process)]
    with BlobBackend(azurite.by_key(container), cache=tmp_path / "other") as backend:
        assert sorted(lines_of(backend)) == sorted(promised)
    assert len(promised) == 2 * lines


def test_exit_sends_what_was_batched(azurite: Azurite, container: str, tmp_path: Path) -> None:
    where = f"{azurite.connection_string}|{container}"
    promised = finish(start("cached", where, tmp_path / "cache", "a", 3))
    with BlobBackend(azurite.by_key(container), cache=tmp_path / "other") as backend:
        assert lines_of(backend) == promised
    assert count_waiting(tmp_path / "cache" / "outbox") == 0


def the_rest_of(process: subprocess.Popen[str]) -> list[str]:
    """Read what a process said after the lines that were read; `communicate` would lose some."""
    assert process.stdout is not None
    with process.stdout as said:
        rest = said.read().splitlines()
    process.wait(timeout=60)
    if process.stderr is not None:
        process.stderr.close()
    return rest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_sends_what_was_batched(
    number: signal.Signals, azurite: Azurite, container: str, tmp_path: Path
) -> None:
    where = f"{azurite.connection_string}|{container}"
    process = start("cached", where, tmp_path / "cache", "a", 100_000)
    assert process.stdout is not None
    promised = [process.stdout.readline().strip() for _ in range(5)]
    process.send_signal(number)
    promised += the_rest_of(process)
    assert process.returncode == -number
    with BlobBackend(azurite.by_key(container), cache=tmp_path / "other") as backend:
        found = lines_of(backend)
    # The line that was being appended when the signal came may be there too.
    assert found[: len(promised)] == promised
    assert len(found) - len(promised) <= 1


@pytest.mark.parametrize("rounds", [5, pytest.param(100, marks=pytest.mark.long)])
def test_a_kill_during_a_batch_loses_and_doubles_nothing(
    rounds: int, azurite: Azurite, container: str, tmp_path: Path
) -> None:
    where = f"{azurite.connection_string}|{container}"
    promised: list[str] = []
    for round_number in range(rounds):
        process = start("cached", where, tmp_path / "cache", f"r{round_number}", 100_000)
        assert process.stdout is not None
        spoken = range(30 + 40 * (round_number % 7))
        promised += [process.stdout.readline().strip() for _ in spoken]
        process.kill()
        promised += the_rest_of(process)
    assert count_waiting(tmp_path / "cache" / "outbox") > 0
    with CachedBlobBackend(azurite.by_key(container), cache=tmp_path / "cache") as backend:
        backend.append_text("log.txt", "last\n")
    assert count_waiting(tmp_path / "cache" / "outbox") == 0
    with BlobBackend(azurite.by_key(container), cache=tmp_path / "other") as backend:
        found = lines_of(backend)
    assert len(found) == len(set(found)), "a line was doubled"
    assert set(promised) <= set(found), "a promised line was lost"
    # At most the one line each killed process had not yet said.
    assert len(found) - len(promised) <= rounds + 1


def test_a_forked_child_has_a_backend_of_its_own(tmp_path: Path) -> None:
    program = """
import os, sys
from memplane import LocalBackend
backend = LocalBackend(sys.argv[1])
backend.append_text("log.txt", "parent\\n")
child = os.fork()
if child == 0:
    backend.append_text("log.txt", "child\\n")
    os._exit(0)
_, status = os.waitpid(child, 0)
print(backend.read_text("log.txt"), end="")
sys.exit(status)
"""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "parent\nchild\n"), ran.stderr


def test_a_server_that_never_answers_does_not_hold_up_the_exit(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        connection = f"AccountName=a;AccountKey=c2VjcmV0;BlobEndpoint=http://127.0.0.1:{port}/a;"
        where = f"{connection}|box"
        process = start("cached", where, tmp_path / "cache", "a", 3, patience="1")
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out.split()) == (0, ["a-0", "a-1", "a-2"]), err
    assert count_waiting(tmp_path / "cache" / "outbox") == 1


def test_threads_that_open_at_once_share_one_loop(tmp_path: Path) -> None:
    program = """
import sys, threading
from memplane import LocalBackend
backends = [LocalBackend(sys.argv[1]) for _ in range(8)]
def work(one):
    for n in range(20):
        one.append_text("log.txt", "x\\n")
threads = [threading.Thread(target=work, args=(one,)) for one in backends]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(backends[0].read_text("log.txt").splitlines()))
print(sum(t.name == "memplane" for t in threading.enumerate()))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout.split()) == (0, ["160", "1"]), ran.stderr


def test_one_close_that_fails_holds_up_neither_the_others_nor_the_signal() -> None:
    program = """
import os, signal
from memplane.kit.atexit_hooks import register_exit_hook
class Thing:
    def __init__(self, name): self.name = name
    def leave(self, patience):
        print(self.name, flush=True)
        raise RuntimeError("cannot leave")
for name in ("one", "two"):
    register_exit_hook(Thing(name))
os.kill(os.getpid(), signal.SIGTERM)
signal.pause()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == -signal.SIGTERM
    assert sorted(ran.stdout.split()) == ["one", "two"]
    assert ran.stderr.count("\nRuntimeError: cannot leave") == 2
