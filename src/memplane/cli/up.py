"""`memplane up`: own the home and listen, in the foreground."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from memplane.home import Claim, Home
    from memplane.plane.contract import Status
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--port", dest="http.port", metavar="N", help="0 takes any free one")


def new_loop() -> asyncio.AbstractEventLoop:
    """Make the event loop of a server."""
    import uvloop

    return uvloop.new_event_loop()


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Serve until told to stop."""
    del arguments
    import gc
    import resource

    from memplane.assemble import filling, open_local_plane, open_telemetry, own_home
    from memplane.cli import OK
    from memplane.clock import system_clock
    from memplane.home import Home
    from memplane.http.app import Limits
    from memplane.http.history_api import history_endpoints
    from memplane.http.ledger_figures import ledger_figures
    from memplane.http.memory_api import Telling, operator_endpoints, service_endpoints
    from memplane.http.memory_figures import memory_figures
    from memplane.http.serve import serve_until_stopped

    # A dump of this process would hold every token and every turn that passes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Each connection and each page of a history needs files; the system allows more than usual.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    home = Home(settings.home)
    async with own_home(home) as claim:
        admins = {"home": home.token(), "settings": settings.admin_token}
        async with (
            open_local_plane(settings, admins=admins, serving=True) as plane,
            filling(settings, plane),
        ):
            telemetry = open_telemetry(settings)
            await plane.remembering.memory()
            # What is there now stays, and need not be looked at again and again.
            gc.collect()
            gc.freeze()
            gc.set_threshold(20_000, 20, 20)
            status = await plane.status()
            await serve_until_stopped(
                plane,
                home,
                tokens=plane.issued,
                limits=Limits(
                    requests_per_second=settings.http.requests_per_second,
                    concurrent_requests=settings.http.concurrent_requests,
                ),
                endpoints=[
                    *history_endpoints(
                        plane.recording,
                        plane.issued,
                        context_root=settings.context_root,
                        tombstones=home.tombstones,
                    ),
                    *service_endpoints(plane, Telling(telemetry, system_clock)),
                    *operator_endpoints(plane),
                ],
                figures=[ledger_figures(plane.recording), memory_figures(telemetry)],
                host=settings.http.host,
                trusted=settings.http.trusted_network,
                port=settings.http.port,
                allowed_hosts=settings.http.allowed_hosts,
                ready=lambda address: _say_ready(address, claim, home, status),
            )
    print("memplane stopped")
    return OK


def _say_ready(address: str, claim: Claim, home: Home, status: Status) -> None:
    import shutil
    import sys

    from memplane.cli.show import coloured, print_rows

    program = "memplane" if shutil.which("memplane") else sys.argv[0]
    if program.endswith("__main__.py"):
        program = f"{sys.executable} -m memplane"
    claim.announce(address)
    print(coloured(f"memplane {status.version} is up", "bold"))
    storage = status.storage
    print_rows(
        [
            ("address", address),
            ("token", str(home.token_file)),
            ("home", str(home.path)),
            ("state", f"{storage.where} ({storage.reason})"),
        ]
    )
    if storage.complaint:
        print(coloured(f"  {storage.complaint}", "red"))
    print("\nNext, in another terminal:")
    print_rows(
        [
            (f"{program} status", "what is configured and what is pending"),
            (f"{program} doctor", "is this machine fit, and what to do if not"),
            (f'{program} retain --agent me "I like tea"', "give an agent something to remember"),
            (f'{program} recall --agent me "what to drink, tea?"', "and ask for it"),
        ]
    )
    token = f"$(cat {home.token_file})"
    print(f'  curl -H "Authorization: Bearer {token}" {address}/api/v1/status')
    print("\nCtrl-C stops it.", flush=True)
