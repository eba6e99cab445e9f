"""`memplane status`: what is configured, where state lives, what is pending."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.plane.contract import LedgerStatus, Status
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Ask the plane and print what it says."""
    import os

    from memplane.assemble import open_plane
    from memplane.cli import OK
    from memplane.cli.show import print_json

    async with open_plane(settings) as plane:
        status = await plane.status()
    running = status.pid != os.getpid()
    if arguments.json:
        import msgspec

        print_json({"running": running, **msgspec.structs.asdict(status)})
    else:
        _print(status, running=running)
    return OK


def _print(status: Status, *, running: bool) -> None:
    from memplane.cli.show import coloured, print_rows

    storage = status.storage
    up = f"up at {status.address} (process {status.pid})" if running else "not running"
    print(coloured(f"memplane {status.version}: {up}", "bold"))
    rows = [
        ("home", status.home),
        ("state", f"{storage.kind}: {storage.where}"),
        ("because", storage.reason),
        ("jobs", f"{status.jobs} for the worker"),
        ("ledger", f"{_agents(status.ledger.agents)} in {status.ledger.where}"),
    ]
    if running:
        secrets = sum(status.ledger.redacted.values())
        rows.append(("recorded", f"{status.ledger.recorded} turns, {secrets} secrets taken out"))
    if (memory := status.memory) is not None:
        left = memory.underived + memory.unindexed
        behind = f", {left} still to be worked on" if left else ""
        behind += f", {memory.unembedded} without a vector yet" if memory.unembedded else ""
        rows.append(("memory", f"{memory.episodes} episodes of {_agents(memory.agents)}{behind}"))
    if storage.kind != "local":
        rows += [
            ("waiting", f"{storage.waiting} writes have not reached the container"),
            ("rejected", f"{storage.rejected} writes the container will not take"),
            ("conflicts", f"{storage.conflicts} replaced versions kept"),
        ]
    print_rows(rows)
    degraded = status.memory.degraded if status.memory else ""
    for complaint in (storage.complaint, *_complaints(status.ledger), degraded):
        if complaint:
            print(coloured(f"  {complaint}", "red"))


def _agents(count: int) -> str:
    return f"{count} agent" if count == 1 else f"{count} agents"


def _complaints(ledger: LedgerStatus) -> list[str]:
    """Say what an operator should know about the ledger."""
    verbatim = "ledger.verbatim is on: turns are written with the secrets in them"
    return [ledger.failing, ledger.degraded, verbatim if ledger.verbatim else ""]
