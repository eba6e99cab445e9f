"""`memplane up`: own the home and listen, in the foreground."""

from __future__ import annotations

import argparse
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator

    from memplane.home import Claim
    from memplane.http.dashboard.browsers import Browsers
    from memplane.http.endpoints import Endpoint
    from memplane.persona.desk import Desk
    from memplane.plane.local import LocalPlane
    from memplane.proxy.turn import Proxy
    from memplane.settings import Settings
    from memplane.telemetry import Telemetry


_SWITCH_SECONDS: Final = 0.0005


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--port", dest="http.port", metavar="N", help="0 takes any free one")
    parser.add_argument(
        "--demo",
        action="store_true",
        help="with a scripted provider, and a conversation to see: no key is needed",
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
    """Serve until told to stop."""
    if not arguments.demo:
        return await _serve(settings)
    from memplane.http.demo import demo_upstream

    async with demo_upstream() as address:
        return await _serve(_with_upstreams(settings, address), demo=True)


async def _serve(settings: Settings, *, demo: bool = False) -> int:
    from memplane.assemble.plane import filling, open_local_plane, open_telemetry, own_home
    from memplane.assemble.proxy import open_proxy
    from memplane.cli import OK
    from memplane.cli.greeting import beside_events
    from memplane.cli.persona_watching import watching
    from memplane.clock import system_clock
    from memplane.home import Home
    from memplane.http.dashboard.browsers import Browsers

    _set_limits()
    home = Home(settings.home)
    telemetry = open_telemetry(settings)
    with beside_events(settings):
        async with own_home(home) as claim:
            admins = {"home": home.token(), "settings": settings.admin_token}
            async with (
                _telling(telemetry),
                open_local_plane(settings, admins=admins, serving=True) as plane,
                filling(settings, plane),
                open_proxy(settings, plane, telemetry) as proxy,
                watching(settings),
            ):
                _settle_down()
                parts = _Parts(plane, proxy, telemetry, Browsers(system_clock))
                await _listen(settings, claim, parts, demo=demo)
        print("memplane stopped")
    return OK


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a server is made of."""

    plane: LocalPlane
    proxy: Proxy
    telemetry: Telemetry
    browsers: Browsers


async def _listen(settings: Settings, claim: Claim, parts: _Parts, *, demo: bool) -> None:
    """Answer until told to stop, and say so at the start."""
    import asyncio

    from memplane.cli.demo import play
    from memplane.cli.greeting import Greeting
    from memplane.cli.show import program
    from memplane.home import Home
    from memplane.http.app import Limits
    from memplane.http.dashboard.browsers import FIRST_CODE_LASTS
    from memplane.http.ledger_figures import ledger_figures
    from memplane.http.memory_figures import memory_figures
    from memplane.http.serve import serve_until_stopped

    plane, home = parts.plane, Home(settings.home)
    status, name = await plane.status(), program(home.path)
    playing: list[asyncio.Task[None]] = []

    def ready(address: str) -> None:
        claim.announce(address)
        greeting = Greeting(address, name, home, status, settings)
        greeting.say_ready(lambda: parts.browsers.new_code(FIRST_CODE_LASTS))
        if demo:
            playing.append(asyncio.create_task(play(address, plane, parts.proxy, name)))
        else:
            greeting.say_next()

    await serve_until_stopped(
        plane,
        home,
        tokens=plane.issued,
        limits=Limits(
            requests_per_second=settings.http.requests_per_second,
            concurrent_requests=settings.http.concurrent_requests,
        ),
        endpoints=_endpoints(settings, parts),
        figures=[ledger_figures(plane.recording), memory_figures(parts.telemetry)],
        host=settings.http.host,
        trusted=settings.http.trusted_network,
        port=settings.http.port,
        allowed_hosts=settings.http.allowed_hosts,
        ready=ready,
    )


@asynccontextmanager
async def _telling(telemetry: Telemetry) -> AsyncGenerator[None]:
    """Let telemetry be written behind those who tell, until all of it is."""
    telemetry.write_behind()
    try:
        yield
    finally:
        telemetry.close()


def _endpoints(settings: Settings, parts: _Parts) -> list[Endpoint]:
    """List what a server offers beside what every door has."""
    from functools import cache

    from memplane.clock import system_clock
    from memplane.home import Home
    from memplane.http.changes_api import changes_endpoints
    from memplane.http.curating_api import curating_endpoints
    from memplane.http.dashboard.table import Dashboard, dashboard_endpoints
    from memplane.http.dashboard.turns import Places
    from memplane.http.history_api import history_endpoints
    from memplane.http.looking_api import looking_endpoints
    from memplane.http.memories_api import memories_endpoints
    from memplane.http.memory_api import Telling, operator_endpoints, service_endpoints
    from memplane.http.proxy_api import ProxyDoor, proxy_endpoints
    from memplane.http.sessions_api import sessions_endpoints
    from memplane.http.snapshot_api import snapshot_endpoints
    from memplane.ledger.tombstones import mirror_of
    from memplane.operate.audit_sources import event_files

    plane = parts.plane
    home = Home(settings.home)
    history = history_endpoints(
        plane.recording,
        plane.issued,
        context_root=settings.context_root,
        tombstones=home.tombstones,
    )
    door = ProxyDoor(
        proxy=parts.proxy,
        tokens=plane.issued,
        context_root=settings.context_root,
        default_agent=settings.agent or "default",
    )
    service = service_endpoints(plane, Telling(parts.telemetry, system_clock))
    return [
        *history,
        *service,
        *operator_endpoints(plane),
        *memories_endpoints(plane),
        *sessions_endpoints(plane),
        *curating_endpoints(plane),
        *looking_endpoints(plane),
        *changes_endpoints(plane, plane.issued, system_clock),
        *snapshot_endpoints(plane.recording.root),
        *proxy_endpoints(door),
        *dashboard_endpoints(
            Dashboard(
                plane=plane,
                browsers=parts.browsers,
                clock=system_clock,
                logs=home.sessions,
                turns=Places(
                    (plane.recording.root, home.received),
                    (home.tombstones, mirror_of(plane.recording.root)),
                ),
                telemetry=event_files(settings.home, settings.ledger.dir),
                persona=cache(lambda: _desk(settings)),
            )
        ),
    ]


def _desk(settings: Settings) -> Desk:
    """Open what can be seen of folders of documents, with that of where we are first."""
    from memplane.assemble.persona import persona_desk
    from memplane.cli.persona_asking import folder_here

    try:
        root = folder_here(settings).root
    except OSError:  # where we are is no more
        return persona_desk(settings, None)
    is_meant = settings.persona.dir is not None or root.is_dir()
    return persona_desk(settings, root if is_meant else None)


def _set_limits() -> None:
    import resource

    # A dump of this process would hold every token and every turn that passes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Each connection and each page of a history needs files; the system allows more than usual.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _settle_down() -> None:
    import gc
    import sys

    # The loop that passes streams on waits no longer for a thread that computes.
    sys.setswitchinterval(_SWITCH_SECONDS)

    # What is there now stays, and need not be looked at again and again.
    gc.collect()
    gc.freeze()


def _with_upstreams(settings: Settings, address: str) -> Settings:
    from dataclasses import replace

    chosen = replace(settings.proxy, upstream_openai=address, upstream_anthropic=address)
    return replace(settings, proxy=chosen)
