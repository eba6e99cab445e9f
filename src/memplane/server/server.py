"""Listening: one application on a loopback port and on the owner's socket."""

from __future__ import annotations

import errno
import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Final

import msgspec
import uvicorn

from memplane.auth.token_store import TokenStore
from memplane.errors import HomeError, SettingsError
from memplane.home import Home, shorten_socket_path
from memplane.server.app import RequestLimits, create_app
from memplane.server.endpoints import Endpoint
from memplane.server.host_origin_check import loopback_hosts
from memplane.server.metrics import MetricSource
from memplane.server.protocol import StrictProtocol
from memplane.service.services import Services

_BACKLOG: Final = 2048
LOOPBACK: Final = "127.0.0.1"
ALL_INTERFACES: Final = "0.0.0.0"  # noqa: S104 - a name for it
_DOCUMENTATION_ADDRESS: Final = ("198.51.100.1", 9)
"""An address for documentation, that is never this machine's."""


class ServerAddresses(msgspec.Struct, frozen=True):
    """Where a server answers: on this machine, and for others, which may be the same."""

    here: str
    public: str


async def serve_until_stopped(
    services: Services,
    home: Home,
    *,
    tokens: TokenStore,
    port: int,
    allowed_hosts: tuple[str, ...],
    host: str = LOOPBACK,
    trusted: bool = False,
    ready: Callable[[ServerAddresses], None],
    limits: RequestLimits | None = None,
    endpoints: Iterable[Endpoint] = (),
    figures: Iterable[MetricSource] = (),
    failing: Callable[[], Sequence[str]] = tuple,
) -> None:
    """Answer requests until SIGINT or SIGTERM; `ready` is told the addresses.

    This door speaks HTTP without encryption, so beyond loopback the network must be `trusted`.

    Raises:
        SettingsError: The address is beyond loopback, and nobody said that one may trust there.
        HomeError: The port or the socket cannot be had.
    """
    _check_host(host, trusted=trusted)
    with _open_listeners(host, port) as listening, _open_owner_socket(home) as owner_socket:
        bound = listening[0].getsockname()[1]
        public = _public_host(host)
        hosts = (*loopback_hosts(bound), *allowed_hosts, f"{public}:{bound}")
        app = create_app(
            services,
            hosts=hosts,
            tokens=tokens,
            limits=limits,
            endpoints=endpoints,
            figures=figures,
            failing=failing,
        )
        config = uvicorn.Config(
            app,
            http=StrictProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=5,
        )
        server = uvicorn.Server(config)
        with _stop_on_signal(server):
            here = LOOPBACK if host == ALL_INTERFACES else host
            ready(ServerAddresses(f"http://{here}:{bound}", f"http://{public}:{bound}"))
            await server.serve(sockets=[*listening, owner_socket])


def _public_host(host: str) -> str:
    """Return the address that other machines know this one by; loopback, where there is none.

    A web page of somebody else's cannot use it to get in: its own name stands in the Host header.
    """
    if host != ALL_INTERFACES:
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_DOCUMENTATION_ADDRESS)  # it sends nothing, and only finds the way out
        except OSError:
            return LOOPBACK
        found: str = probe.getsockname()[0]
        return found


def _check_host(host: str, *, trusted: bool) -> None:
    try:
        loopback = ipaddress.IPv4Address(host).is_loopback
    except ValueError as error:
        raise SettingsError(
            f"http.host is {host!r}, which is no IPv4 address. Use 127.0.0.1, or 0.0.0.0 for all"
        ) from error
    if not loopback and not trusted:
        raise SettingsError(
            f"http.host, http.listen or LISTEN_ADDR says {host}: whoever is on that network could "
            "read tokens and memories, since this is HTTP without encryption. Inside a pod or "
            "behind a proxy that encrypts, say so: http.trusted_network = true"
        )


@contextmanager
def _open_listeners(host: str, port: int) -> Generator[list[socket.socket]]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(_bind_listener(socket.AF_INET, host, port))]
        if host == LOOPBACK and _has_ipv6_loopback():
            # Also where nobody asks for it: another program there would get our clients' tokens.
            bound = sockets[0].getsockname()[1]
            sockets.append(stack.enter_context(_bind_listener(socket.AF_INET6, "::1", bound)))
        yield sockets


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _bind_listener(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    # With the protocol named, asyncio sends small answers at once; without it each one waits for
    # the other side's delayed acknowledgement, 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise HomeError(
                f"port {port} is taken by another program. Choose another: memplane up --port N"
            ) from error
        raise HomeError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return listening


@contextmanager
def _open_owner_socket(home: Home) -> Generator[socket.socket]:
    # We own the home, so a socket file that is there is left over from a process that died.
    home.socket.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            with shorten_socket_path(home.socket) as path:
                listening.bind(path)
                listening.listen(_BACKLOG)
        finally:
            os.umask(before)
        yield listening
    finally:
        listening.close()
        home.socket.unlink(missing_ok=True)


@contextmanager
def _stop_on_signal(server: uvicorn.Server) -> Generator[None]:
    """Stop the server when told to, from the moment it says that it can be stopped.

    The server has handlers of its own while it runs; it repeats the signal to these at its end.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
