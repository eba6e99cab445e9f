"""The process that serves a home: starting it in the background, and stopping it.

It is known by the home's lock, which ends with its process, and by the home's socket, whose other
end the system names. A process id from a file alone may be another process's by now.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from memplane.errors import HomeError, OwnerUnavailable
from memplane.home import Home, Owner, shorten_socket_path
from memplane.kit.own_program import get_own_program
from memplane.kit.private_files import make_private_folder

START_TIMEOUT_S: Final = 60.0
_POLL_INTERVAL_S: Final = 0.05
_CONNECT_TIMEOUT_S: Final = 5.0
_PEER_CREDENTIALS: Final = struct.Struct("3i")
"""Linux: the process, user and group at the other end of a socket."""
_DARWIN_SOL_LOCAL: Final = 0
_DARWIN_LOCAL_PEERPID: Final = 2


def build_server_command(home: Path, flags: Mapping[str, str], *options: str) -> tuple[str, ...]:
    """Return the command that serves a home, with its log in the home."""
    overrides = (word for name, value in flags.items() for word in ("--set", f"{name}={value}"))
    return (*get_own_program(), "--home", str(home), *overrides, "up", "--log", *options)


async def start_server(home: Home, command: Sequence[str]) -> Owner:
    """Start a server in the background, and return once it listens.

    Raises:
        HomeError: One is there already, or it ended before it listened.
        OwnerUnavailable: It neither listens nor ends.
    """
    if (server := home.server()) is not None:
        raise HomeError(
            f"memplane is already up at {server.address}, with {home.path} as its home"
        )
    home.create()
    make_private_folder(home.log_file.parent)
    output = home.log_file.with_name("start.log")
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own program; it starts at once
            command,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,  # it outlives this process, and its terminal
        )
    finally:
        os.close(descriptor)
    give_up = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < give_up:
        if process.poll() is not None:
            raise HomeError(f"memplane did not start: {_read_reason(output)}")
        if (server := home.server()) is not None:
            process.returncode = 0  # nobody waits for its end here
            return server
        await asyncio.sleep(_POLL_INTERVAL_S)
    raise OwnerUnavailable(
        f"memplane does not listen after {START_TIMEOUT_S:g} s, and goes on trying as process "
        f"{process.pid}. See {home.log_file}"
    )


def _read_reason(output: Path) -> str:
    lines = output.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("memplane up: ") if lines else "it ended without a word"


async def stop_server(home: Home, timeout_s: float) -> Owner | None:
    """Stop the process that serves a home, and wait until it has finished its work.

    Returns what was stopped; None when nothing serves the home.

    Raises:
        OwnerUnavailable: It cannot be known for certain, or it works on after the timeout.
        HomeError: It is another user's.
    """
    server = home.server()
    if server is None:
        return None
    _end_process(home, server)
    give_up = time.monotonic() + timeout_s
    while home.server() == server:
        if time.monotonic() >= give_up:
            raise OwnerUnavailable(
                f"memplane was told to stop and still works after {timeout_s:g} s, as process "
                f"{server.pid}. Its log says why: memplane logs"
            )
        await asyncio.sleep(_POLL_INTERVAL_S)
    return server


def _end_process(home: Home, server: Owner) -> None:
    """Send SIGTERM to the process at the other end of the home's socket, and to no other."""
    try:
        peer = _find_socket_peer(home)
    except OSError as error:
        raise OwnerUnavailable(
            f"process {server.pid} owns {home.path} and does not answer on its socket"
        ) from error
    if peer != server.pid:
        raise OwnerUnavailable(
            f"memplane at {server.address} runs as process {server.pid} in another container. "
            "Stop it there"
        )
    try:
        if sys.platform == "linux":
            _signal_by_descriptor(home, server)
        elif home.server() == server:
            os.kill(server.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise HomeError(
            f"process {server.pid}, which serves {home.path}, is another user's"
        ) from (error)


def _signal_by_descriptor(home: Home, server: Owner) -> None:
    """Signal a process by a descriptor that stays its own when its number is used again."""
    descriptor = os.pidfd_open(server.pid)
    try:
        # Whoever has the lock after the descriptor was opened had it before: it is that process.
        if home.server() == server:
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    finally:
        os.close(descriptor)


def _find_socket_peer(home: Home) -> int:
    """Return the number of the process that listens on the home's socket, as it is known here."""
    with shorten_socket_path(home.socket) as path, socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_CONNECT_TIMEOUT_S)
        connection.connect(path)
        if sys.platform != "linux":
            return connection.getsockopt(_DARWIN_SOL_LOCAL, _DARWIN_LOCAL_PEERPID)
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
        pid, _, _ = _PEER_CREDENTIALS.unpack(raw)
        return int(pid)
