"""`memplane up`: own the home and listen, in the foreground or in the background."""

from __future__ import annotations

import argparse
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator

    from memplane.home import Claim
    from memplane.proxy.turn import Proxy
    from memplane.server.dashboard.browser_sessions import BrowserSessions
    from memplane.server.endpoints import Endpoint
    from memplane.server.server import ServerAddresses
    from memplane.service.services import Services
    from memplane.settings import Settings
    from memplane.telemetry import Telemetry


_THREAD_SWITCH_INTERVAL_S: Final = 0.0005


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--port", dest="http.port", metavar="N", help="0 takes any free one")
    parser.add_argument(
        "--demo",
        action="store_true",
        help="with a scripted provider, and a conversation to see: no key is needed",
    )
    parser.add_argument(
        "--detach",
        action="store_true",
        help="start it in the background: memplane stop ends it, memplane logs shows its log",
    )
    parser.add_argument(
        "--log",
        action="store_true",
        help="write to the home's log, which is rotated, instead of the terminal",
    )
    for family in ("openai", "anthropic"):
        parser.add_argument(
            f"--upstream-{family}",
            dest=f"proxy.upstream_{family}",
            metavar="URL",
            help=f"where {family.title()}'s requests go, if not to the vendor",
        )


def new_loop() -> asyncio.AbstractEventLoop:
    """Make the event loop of a server."""
    import uvloop

    return uvloop.new_event_loop()


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Serve until told to stop, or let a process in the background do so."""
    if arguments.detach:
        return await _detach(arguments, settings)
    if arguments.log:
        return await _serve_with_log(arguments, settings)
    return await _serve(arguments, settings)


async def _detach(arguments: argparse.Namespace, settings: Settings) -> int:
    """Start a server in the background, and say where it is."""
    from memplane.cli import EXIT_OK, list_flags
    from memplane.cli.output import colour_text, get_program_name, print_rows
    from memplane.home import Home
    from memplane.service.server_process import build_server_command, start_server

    home = Home(settings.home)
    options = ["--demo"] if arguments.demo else []
    flags = {name: value for name, value in list_flags(arguments).items() if name != "home"}
    server = await start_server(home, build_server_command(home.path, flags, *options))
    name = get_program_name(home.path)
    print(colour_text(f"memplane is up at {server.address}, in the background", "bold"))
    print_rows(
        [
            (f"{name} logs -f", "what it says"),
            (f"{name} stop", "ends it"),
            (f"{name} dashboard", "lets a browser in"),
            (f"{name} claude -- …", "starts Claude Code with memory"),
        ]
    )
    return EXIT_OK


async def _serve_with_log(arguments: argparse.Namespace, settings: Settings) -> int:
    import logging
    from dataclasses import replace

    from memplane.cli.log_setup import redirect_to_log
    from memplane.errors import MemplaneError
    from memplane.home import Home

    # Nobody reads standard output; the events are in logs/telemetry.jsonl as well.
    settings = replace(settings, telemetry=replace(settings.telemetry, stdout=False))
    home = Home(settings.home)
    home.create()
    with redirect_to_log(home.log_file):
        try:
            return await _serve(arguments, settings)
        except MemplaneError as error:
            logging.getLogger("memplane").error("%s", error)  # noqa: TRY400 - no traceback
            raise


async def _serve(arguments: argparse.Namespace, settings: Settings) -> int:
    if not arguments.demo:
        return await _own_and_serve(settings, brief=arguments.log)
    from memplane.server.demo_server import serve_demo_provider

    async with serve_demo_provider() as address:
        upstreams = _with_upstreams(settings, address)
        return await _own_and_serve(upstreams, demo=True, brief=arguments.log)


async def _own_and_serve(settings: Settings, *, demo: bool = False, brief: bool = False) -> int:
    from memplane.cli import EXIT_OK
    from memplane.cli.persona_watcher import watch_in_background
    from memplane.cli.startup_message import redirect_output_from_events
    from memplane.home import Home
    from memplane.kit.clock import system_clock
    from memplane.server.dashboard.browser_sessions import BrowserSessions
    from memplane.service.composition.home import filling, open_services, open_telemetry, own_home
    from memplane.service.composition.proxy import open_proxy

    _set_limits()
    home = Home(settings.home)
    telemetry = open_telemetry(settings)
    with redirect_output_from_events(settings):
        async with own_home(home) as claim:
            admins = {"home": home.token(), "settings": settings.admin_token}
            async with (
                _run_telemetry(telemetry),
                open_services(settings, admins=admins, serving=True) as services,
                filling(settings, services),
                open_proxy(settings, services, telemetry) as proxy,
                watch_in_background(settings),
            ):
                _freeze_garbage()
                parts = _ServerParts(services, proxy, telemetry, BrowserSessions(system_clock))
                await _listen(settings, claim, parts, demo=demo, brief=brief)
        print("memplane stopped")
    return EXIT_OK


@dataclass(frozen=True, slots=True)
class _ServerParts:
    """What a server is made of."""

    services: Services
    proxy: Proxy
    telemetry: Telemetry
    browsers: BrowserSessions


async def _listen(
    settings: Settings, claim: Claim, parts: _ServerParts, *, demo: bool, brief: bool
) -> None:
    """Answer until told to stop, and say so at the start."""
    import asyncio

    from memplane.cli.demo import play_demo
    from memplane.cli.output import get_program_name
    from memplane.cli.startup_message import StartupMessage, get_public_address
    from memplane.home import Home
    from memplane.server.app import RequestLimits
    from memplane.server.dashboard.browser_sessions import FIRST_CODE_LIFETIME
    from memplane.server.ledger_metrics import ledger_metrics
    from memplane.server.server import serve_until_stopped
    from memplane.server.telemetry_metrics import telemetry_metrics
    from memplane.service.client import local_client

    services, home = parts.services, Home(settings.home)
    status, name = await local_client(services).status(), get_program_name(home.path)
    playing: list[asyncio.Task[None]] = []

    def ready(addresses: ServerAddresses) -> None:
        address = addresses.here
        claim.announce(address)
        public = get_public_address(addresses, settings)
        greeting = StartupMessage(address, name, home, status, settings, public, brief)
        greeting.print_ready(lambda: parts.browsers.new_code(FIRST_CODE_LIFETIME))
        if demo:
            playing.append(asyncio.create_task(play_demo(address, services, parts.proxy, name)))
        else:
            greeting.print_next_steps()

    await serve_until_stopped(
        services,
        home,
        tokens=services.issued,
        limits=RequestLimits(
            requests_per_second=settings.http.requests_per_second,
            concurrent_requests=settings.http.concurrent_requests,
        ),
        endpoints=_endpoints(settings, parts),
        figures=[ledger_metrics(services.recording), telemetry_metrics(parts.telemetry)],
        failing=services.failing,
        host=settings.http.host,
        trusted=settings.http.trusted_network,
        port=settings.http.port,
        allowed_hosts=settings.http.allowed_hosts,
        ready=ready,
    )


@asynccontextmanager
async def _run_telemetry(telemetry: Telemetry) -> AsyncGenerator[None]:
    """Let telemetry be written behind those who tell, until all of it is."""
    telemetry.start_background_writer()
    try:
        yield
    finally:
        telemetry.close()


def _endpoints(settings: Settings, parts: _ServerParts) -> list[Endpoint]:
    """List what a server offers beside what every door has."""
    from memplane.audit.sources import list_event_files
    from memplane.auth.agent_id import DEFAULT_AGENT
    from memplane.home import Home
    from memplane.kit.clock import system_clock
    from memplane.ledger.tombstones import get_mirror_root
    from memplane.server.dashboard.endpoints import DashboardParts, dashboard_endpoints
    from memplane.server.dashboard.memories import OPERATOR
    from memplane.server.dashboard.turns import TurnSources
    from memplane.server.history_api import history_endpoints
    from memplane.server.mcp.endpoint import mcp_endpoint
    from memplane.server.memory_api import OperationTelemetry, memory_service_endpoints
    from memplane.server.proxy_api import ProxyHandler, proxy_endpoints
    from memplane.server.snapshot_api import snapshot_endpoints
    from memplane.service.client import local_client

    services = parts.services
    home = Home(settings.home)
    history = history_endpoints(
        services.recording,
        services.issued,
        context_root=settings.context_root,
        tombstones=home.tombstones,
    )
    door = ProxyHandler(
        proxy=parts.proxy,
        tokens=services.issued,
        context_root=settings.context_root,
        default_agent=settings.agent or DEFAULT_AGENT,
    )
    service = memory_service_endpoints(
        local_client(services), OperationTelemetry(parts.telemetry, system_clock)
    )
    return [
        mcp_endpoint(services, settings.agent or ""),
        *history,
        *service,
        *snapshot_endpoints(services.recording.root, home.tombstones),
        *proxy_endpoints(door),
        *dashboard_endpoints(
            DashboardParts(
                client=local_client(services, OPERATOR),
                browsers=parts.browsers,
                clock=system_clock,
                logs=home.sessions,
                turns=TurnSources(
                    (services.recording.root, home.received),
                    (home.tombstones, get_mirror_root(services.recording.root)),
                ),
                telemetry=list_event_files(settings.home, settings.ledger.dir),
            )
        ),
    ]


def _set_limits() -> None:
    import resource

    # A dump of this process would hold every token and every turn that passes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Each connection and each page of a history needs files; the system allows more than usual.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _freeze_garbage() -> None:
    import gc
    import sys

    # The loop that passes streams on waits no longer for a thread that computes.
    sys.setswitchinterval(_THREAD_SWITCH_INTERVAL_S)

    # What is there now stays, and need not be looked at again and again.
    gc.collect()
    gc.freeze()


def _with_upstreams(settings: Settings, address: str) -> Settings:
    from dataclasses import replace

    chosen = replace(settings.proxy, upstream_openai=address, upstream_anthropic=address)
    return replace(settings, proxy=chosen)
