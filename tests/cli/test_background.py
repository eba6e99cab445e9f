"""memplane in the background: started, found, stopped, and kept running by the system."""

from __future__ import annotations

import os
import plistlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path, PurePosixPath

import pytest

from memplane.home import Home
from memplane.integrations.user_service import make_launchd_service, make_systemd_service
from memplane.service.server_process import build_server_command
from tests.support.in_process import memplane_here as memplane
from tests.support.running import environment

# Stands for the user's systemd: it starts and stops what the unit says.
SYSTEMCTL = r"""
import fcntl, os, pathlib, shlex, signal, subprocess, sys

assert sys.argv[1] == "--user"
words = sys.argv[2:]
folder = pathlib.Path(__file__).parent
with (folder / "asked").open("a") as asked:
    asked.write(" ".join(words) + "\n")
if "no bus" in os.environ.get("SYSTEMCTL", ""):
    sys.exit("Failed to connect to bus: No such file or directory")
unit = pathlib.Path(os.environ["XDG_CONFIG_HOME"]) / "systemd" / "user" / words[-1]
running = folder / "running"

def stop():
    if running.exists():
        pid = int(running.read_text())
        running.unlink()
        os.kill(pid, signal.SIGTERM)
        with open(pathlib.Path(os.environ["MEMPLANE_HOME"]) / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)  # which it lets go of at its end

match words:
    case ["daemon-reload"] | ["enable", _]:
        pass
    case ["restart", _]:
        stop()
        line = next(one for one in unit.read_text().splitlines() if one.startswith("ExecStart="))
        command = shlex.split(line.partition("=")[2].replace("%%", "%").replace("$$", "$"))
        # Nobody waits for it but the system's first process, as with systemd.
        pid = os.fork()
        if pid == 0:
            started = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            running.write_text(str(started.pid))
            os._exit(0)
        os.waitpid(pid, 0)
    case ["disable", "--now", _]:
        stop()
    case ["is-active", "--quiet", _]:
        sys.exit(0 if running.exists() else 3)
    case _:
        sys.exit(f"what is {words}?")
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with a blank and signs that units treat specially in its name."""
    home = tmp_path / "a 100%$HOME"
    home.mkdir(mode=0o700)
    yield home
    if Home(home).is_owned():
        memplane(home, "stop")
    assert not Home(home).is_owned(), "something still runs"


def answers(address: str) -> bool:
    with closing(HTTPConnection(address.removeprefix("http://"), timeout=30)) as connection:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200


def test_it_runs_in_the_background_until_it_is_stopped(home: Path) -> None:
    started = memplane(home, "--set", "agent=ada", "up", "--detach", "--port", "0")
    assert started.returncode == 0, started.stderr
    server = Home(home).server()
    assert server is not None
    assert f"memplane is up at {server.address}, in the background" in started.stdout
    assert answers(server.address)
    again = memplane(home, "up", "--detach", "--port", "0")
    assert again.returncode == 1
    assert f"already up at {server.address}" in again.stderr
    stopped = memplane(home, "stop")
    assert (stopped.returncode, stopped.stdout) == (
        0,
        f"memplane at {server.address} is stopped\n",
    )
    assert not Home(home).is_owned()
    shown = memplane(home, "logs").stdout
    assert f"is up at {server.address}" in shown
    assert "login#" not in shown, "whoever reads the log is let in"
    assert shown.endswith("memplane stopped\n")
    assert {path.stat().st_mode & 0o777 for path in (home / "logs").iterdir()} <= {0o600}


def test_a_start_that_fails_says_why(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = memplane(home, "up", "--detach", "--port", port)
    assert ran.returncode == 1
    assert f"did not start: port {port} is taken by another program" in ran.stderr
    assert f"port {port} is taken" in memplane(home, "logs").stdout


def test_nothing_that_does_not_serve_the_home_is_stopped(home: Path) -> None:
    """The file of a killed memplane names a process that may be anybody's by now."""
    assert "there is no log" in memplane(home, "logs").stderr
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        left = f'{{"pid": {other.pid}, "address": "http://127.0.0.1:9"}}'
        (home / "lock").write_text(left)
        assert "is not running" in memplane(home, "stop").stdout
        with Home(home).claim() as claim, socket.socket(socket.AF_UNIX) as listening:
            # Somebody has the home, and another process is named: as from within a container.
            assert claim is not None
            os.pwrite(claim.descriptor, left.encode(), 0)
            listening.bind(str(home / "socket"))
            listening.listen()
            ran = memplane(home, "stop")
        assert ran.returncode == 3
        assert "another container" in ran.stderr
        assert other.poll() is None
    finally:
        other.communicate(b"\n")


def test_logs_go_on_where_they_were_rotated(home: Path) -> None:
    log = Home(home).log_file
    log.parent.mkdir()
    log.with_name("memplane.log.2").write_text("one\n")
    log.with_name("memplane.log.1").write_text("two\nthree\n")
    log.write_text("four\n\x1b[31mfive\n")
    assert memplane(home, "logs", "-n", "3").stdout == "three\nfour\n\\u001b[31mfive\n"
    following = subprocess.Popen(
        [sys.executable, "-m", "memplane", "logs", "-f", "-n", "0"],
        env=environment(home),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    try:
        # Only what comes after the start is wanted: so it is written until it is heard.
        line = ""
        os.set_blocking(following.stdout.fileno(), False)
        while not line:
            with log.open("a") as out:
                out.write("six\n")
            line = following.stdout.readline()
        os.set_blocking(following.stdout.fileno(), True)
        assert line == "six\n"
        log.rename(log.with_name("memplane.log.9"))
        log.write_text("seven\n")
        while line == "six\n":
            line = following.stdout.readline()
        assert line == "seven\n"
    finally:
        following.terminate()
        following.communicate()


# The service


@contextmanager
def user_systemd(home: Path, **more: str) -> Iterator[dict[str, str]]:
    programs = home.parent / "bin"
    programs.mkdir(exist_ok=True)
    program = programs / "systemctl"
    program.write_text(f"#!{sys.executable}{SYSTEMCTL}")
    program.chmod(0o755)
    yield {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(home.parent / "configuration"),
        **more,
    }


def asked(home: Path) -> list[str]:
    return (home.parent / "bin" / "asked").read_text().splitlines()


def test_a_service_is_installed_once_and_removed_without_a_trace(home: Path) -> None:
    with user_systemd(home) as env:
        installed = memplane(home, "service", "install", "--port", "0", env=env)
        assert installed.returncode == 0, installed.stderr
        server = Home(home).server()
        assert server is not None
        assert f"memplane is up at {server.address}" in installed.stdout
        assert "loginctl enable-linger" in installed.stdout
        assert answers(server.address)
        again = memplane(home, "service", "install", "--port", "0", env=env)
        assert "is installed already, and runs" in again.stdout
        assert Home(home).server() == server
        assert memplane(home, "service", "status", env=env).returncode == 0
        [unit] = (home.parent / "configuration" / "systemd" / "user").iterdir()
        assert unit.name in asked(home)[-1]
        removed = memplane(home, "service", "uninstall", env=env)
        assert removed.returncode == 0, removed.stderr
        assert not unit.exists()
        assert not Home(home).is_owned()
        status = memplane(home, "service", "status", env=env)
        assert status.returncode == 3
        assert "no: memplane service install" in status.stdout


def test_a_service_that_cannot_be_started_leaves_nothing_behind(home: Path) -> None:
    with user_systemd(home, SYSTEMCTL="no bus") as env:
        ran = memplane(home, "service", "install", env=env)
    assert ran.returncode == 1
    assert "Failed to connect to bus" in ran.stderr
    assert "Without a service: memplane up --detach" in ran.stderr
    assert list((home.parent / "configuration" / "systemd" / "user").iterdir()) == []


def test_a_service_does_not_take_over_what_was_started_by_hand(home: Path) -> None:
    with user_systemd(home) as env, Home(home).claim() as claim:
        assert claim is not None
        claim.announce("http://127.0.0.1:9")
        ran = memplane(home, "service", "install", env=env)
    assert ran.returncode == 1
    assert "Stop it first: memplane stop" in ran.stderr


def verify(unit: Path) -> tuple[int, list[str]]:
    """Ask systemd itself what it thinks of a unit; it looks at others of this machine as well."""
    runtime = unit.parent / "runtime"
    runtime.mkdir(exist_ok=True)
    checked = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)],
        env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(runtime), "HOME": str(runtime)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return checked.returncode, [one for one in checked.stderr.splitlines() if unit.name in one]


def test_systemd_accepts_the_unit_and_runs_the_words_that_were_meant(
    home: Path, tmp_path: Path
) -> None:
    if sys.platform != "linux":
        assert shutil.which("systemctl") is None
        return
    command = build_server_command(home, {"agent": 'quo"te\\ $HOME %h'})
    service = make_systemd_service(command, home, tmp_path, is_usual=False)
    unit = tmp_path / service.name
    unit.write_bytes(service.content)
    assert verify(unit) == (0, [])
    # It would say so, if it did not understand a line.
    unit.write_bytes(service.content.replace(b"RestartSec", b"RestrtSec"))
    _, [complaint] = verify(unit)
    assert "RestrtSec" in complaint
    assert '"agent=quo\\"te\\\\ $$HOME %%h"' in service.content.decode()


def test_launchd_is_given_the_same_command() -> None:
    """The property list is read back; it was not run on a Mac."""
    home = PurePosixPath("/Users/ada/.memplane")
    command = ("/usr/bin/python3", "-P", "-m", "memplane", "--home", str(home), "up", "--log")
    service = make_launchd_service(command, home, PurePosixPath("/Users/ada"), 501, is_usual=True)
    told = plistlib.loads(service.content)
    assert told["ProgramArguments"] == list(command)
    assert told["RunAtLoad"] is True
    assert told["KeepAlive"] == {"SuccessfulExit": False}
    assert str(service.file) == "/Users/ada/Library/LaunchAgents/memplane.server.plist"
    assert service.start == (("launchctl", "bootstrap", "gui/501", str(service.file)),)
    other = make_launchd_service(command, home / "b", home, 501, is_usual=False)
    assert other.name != service.name
