"""Listening: one application on a loopback port and on the owner's socket."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn

from memplane.errors import HomeError
from memplane.home import Home, short_path
from memplane.http.app import create_app
from memplane.http.boundary import loopback_hosts
from memplane.plane.contract import Plane


async def serve_until_stopped(
    plane: Plane,
    home: Home,
    *,
    port: int,
    allowed_hosts: tuple[str, ...],
    ready: Callable[[str], None],
) -> None:
    """Answer requests until SIGINT or SIGTERM; `ready` is told the address.

    Raises:
        HomeError: The port or the socket cannot be had.
    """
    with _listening(port) as listening, _owner_socket(home) as owner_socket, _own_signals():
        bound = listening[0].getsockname()[1]
        hosts = (*loopback_hosts(bound), *allowed_hosts)
        config = uvicorn.Config(
            create_app(plane, hosts=hosts, token=home.token()),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=5,
        )
        ready(f"http://127.0.0.1:{bound}")
        await uvicorn.Server(config).serve(sockets=[*listening, owner_socket])


@contextmanager
def _listening(port: int) -> Generator[list[socket.socket]]:
    sockets = [_bound(socket.AF_INET, "127.0.0.1", port)]
    with suppress(HomeError, OSError):  # a machine may be without IPv6
        sockets.append(_bound(socket.AF_INET6, "::1", sockets[0].getsockname()[1]))
    try:
        yield sockets
    finally:
        for one in sockets:
            one.close()


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise HomeError(
                f"port {port} is taken by another program. Choose another: memplane up --port N"
            ) from error
        raise HomeError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return listening


@contextmanager
def _owner_socket(home: Home) -> Generator[socket.socket]:
    # We own the home, so a socket file that is there is left over from a process that died.
    home.socket.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            with short_path(home.socket) as path:
                listening.bind(path)
        finally:
            os.umask(before)
        yield listening
    finally:
        listening.close()
        home.socket.unlink(missing_ok=True)


def _heeded(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the server has been told."""


@contextmanager
def _own_signals() -> Generator[None]:
    # The server repeats the signal that stopped it when it is done; by then it was heeded.
    before = {number: signal.signal(number, _heeded) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
