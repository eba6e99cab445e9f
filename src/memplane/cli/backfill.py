"""`memplane backfill`: replay ledgers into a memory service."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memplane.operate.backfill import AgentReport, Backfill
    from memplane.operate.targets import Asked, Place, Target
    from memplane.pod.contexts import Contexts
    from memplane.services.client import ServiceClient
    from memplane.settings import Settings

_CONCURRENCY: Final = 4
_SHOWN_EVERY: Final = 25


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("service", help="the memory service: its name in the pod, or its address")
    parser.add_argument("-f", "--file", metavar="F", help="the pod's file; claw-pod.yml here")
    parser.add_argument("--after", type=_moment, metavar="T", help="only later ones (RFC 3339)")
    parser.add_argument(
        "--limit", type=_limit, default=0, metavar="N", help="at most so many per agent; 0 is all"
    )
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="ID",
        help="only this agent; may be repeated, or a list with commas",
    )
    parser.add_argument("--url", help="where the service answers, if not where the pod says")
    parser.add_argument("--auth-token", metavar="T", help="its token, if not the pod's")
    parser.add_argument(
        "--concurrency", type=_positive, default=_CONCURRENCY, metavar="N", help="agents at once"
    )
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="go on where the same backfill ended; --no-resume begins anew",
    )
    parser.add_argument(
        "--include-errors", action="store_true", help="replay failed turns as well"
    )
    parser.add_argument("--dry-run", action="store_true", help="only count")
    parser.add_argument("--json", action="store_true", help="for machines")


def _limit(text: str) -> int:
    number = _integer(text, "limit")
    if number < 0:
        raise argparse.ArgumentTypeError("limit must be >= 0")
    return number


def _positive(text: str) -> int:
    number = _integer(text, "concurrency")
    if number <= 0:
        raise argparse.ArgumentTypeError("concurrency must be > 0")
    return number


def _integer(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{name} must be an integer") from None


def _moment(text: str) -> datetime:
    from memplane.ledger.heads import instant

    told = instant(text)
    if told is None:
        raise argparse.ArgumentTypeError("after must be RFC3339")
    return told


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Find the ledgers and the service, replay, and tell what came of it."""
    import asyncio
    from dataclasses import replace
    from pathlib import Path

    from memplane.home import Home
    from memplane.operate.targets import (
        home_place,
        home_targets,
        pod_of,
        pod_place,
        pod_targets,
    )
    from memplane.pod.contexts import read_contexts
    from memplane.services.client import open_client

    asked = asked_of(arguments)
    folder = pod_of(arguments.file, Path.cwd())
    async with open_client() as client:
        if folder is None:
            # What others recorded is replayed as well: memory was made of both.
            roots = (settings.ledger.dir, Home(settings.home).received)
            ledgers = [
                (home_place(settings.home, root), home_targets(root, asked, "/retain"))
                for root in roots
            ]
        else:
            contexts = await asyncio.to_thread(read_contexts, folder)
            place = pod_place(folder)
            targets = await asyncio.to_thread(pod_targets, contexts, asked, "retain")
            ledgers = [(place, targets)]
            if not arguments.dry_run:
                await _forget_first(contexts, place, client)
        reports: dict[str, AgentReport] = {}
        for place, targets in ledgers:
            counted = {agent: one.taken for agent, one in reports.items()}
            backfill = replace(
                _backfill(arguments, asked, place, client=client, settings=settings),
                elsewhere=counted,
            )
            for one in (
                await asyncio.to_thread(backfill.count, targets)
                if arguments.dry_run
                else await backfill.run(targets)
            ):
                if one.agent in reports:
                    reports[one.agent].and_also(one)
                else:
                    reports[one.agent] = one
    return _tell(
        [*reports.values()], [one for _, targets in ledgers for one in targets], arguments
    )


def asked_of(arguments: argparse.Namespace) -> Asked:
    """Collect what the command line says of a service and its agents."""
    from memplane.operate.targets import Asked
    from memplane.secret import Secret

    given = (one.strip() for text in arguments.agent for one in text.split(","))
    token = (arguments.auth_token or "").strip()
    return Asked(
        arguments.service.strip(),
        tuple(dict.fromkeys(filter(None, given))),
        (arguments.url or "").strip() or None,
        Secret(token) if token else None,
    )


async def _forget_first(contexts: Contexts, place: Place, client: ServiceClient) -> None:
    """Bring tombstones up to date, and tell services what they were not told yet."""
    import asyncio

    from memplane.assemble.plane import open_command_telemetry
    from memplane.clock import system_clock
    from memplane.ledger.tombstones import agents_with_tombstones, spread_tombstones
    from memplane.operate.forgetting import Forgetting
    from memplane.operate.targets import queued_target

    for warning in contexts.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for agent in {name for root in place.tombstones for name in agents_with_tombstones(root)}:
        await asyncio.to_thread(spread_tombstones, place.tombstones, agent)
    emit = open_command_telemetry(place.state).emit
    drained = await Forgetting(place, client, system_clock, emit).drain(
        lambda item: queued_target(contexts, item.service, item.agent)
    )
    for item, why in drained.left:
        print(f'warning: forget "{item.agent}" still waits: {why}', file=sys.stderr)


def _backfill(
    arguments: argparse.Namespace,
    asked: Asked,
    place: Place,
    *,
    client: ServiceClient,
    settings: Settings,
) -> Backfill:
    from functools import partial

    from memplane.assemble.redactors import open_redactor
    from memplane.clock import system_clock
    from memplane.ledger.redacting import redact_line
    from memplane.objects.pacing import Pacing
    from memplane.operate.backfill import Backfill
    from memplane.operate.selecting import Selection

    return Backfill(
        service=asked.identity,
        place=place,
        selection=Selection(arguments.after, arguments.limit, arguments.include_errors),
        client=client,
        redact=partial(redact_line, open_redactor(settings)),
        pacing=Pacing(),
        clock=system_clock,
        concurrency=arguments.concurrency,
        resume=arguments.resume,
        watch=_watch if sys.stderr.isatty() else lambda _report: None,
    )


def _watch(report: AgentReport) -> None:
    if report.replayed % _SHOWN_EVERY == 0:
        about = f"{report.agent[:40]}: {report.replayed} entries"
        print(f"\r\x1b[K{about}", end="", file=sys.stderr, flush=True)


def _tell(
    reports: Sequence[AgentReport], targets: Sequence[Target], arguments: argparse.Namespace
) -> int:
    from memplane.cli import FAILED, OK
    from memplane.cli.show import print_json

    if sys.stderr.isatty() and not arguments.dry_run:
        print("\r\x1b[K", end="", file=sys.stderr)
    url = next((one.address.shown for one in targets if one.address), "")
    if arguments.json:
        print_json(
            {
                "service": arguments.service,
                "url": url,
                "dry_run": arguments.dry_run,
                "replayed": sum(one.replayed for one in reports),
                "agents": reports,
            }
        )
    else:
        _print_reports(reports, url, dry_run=arguments.dry_run)
    return FAILED if any(one.complaint for one in reports) else OK


def _print_reports(reports: Sequence[AgentReport], url: str, *, dry_run: bool) -> None:
    from memplane.cli.show import harmless

    replayed = [one for one in reports if one.replayed]
    without = [one for one in reports if not one.replayed and not one.complaint]
    total = sum(one.replayed for one in reports)
    verb, verbed = ("Would replay", "Would backfill") if dry_run else ("Replayed", "Backfilled")
    for one in replayed:
        print(f"{verb} {one.replayed} entries for {one.agent}")
    print(f"{verbed} {total} entries across {len(replayed)} agent(s) to {harmless(url)}")
    if without:
        print(f"Skipped {len(without)} agent(s) with no eligible history entries")
    for one in reports:
        if one.complaint:
            print(f'backfill "{one.agent}": {harmless(one.complaint)}', file=sys.stderr)
        if one.unreadable:
            print(f"{one.agent}: {one.unreadable} lines are no entries", file=sys.stderr)
    refused = sum(one.refused for one in reports)
    if refused:
        print(f"{refused} entries were refused; --json names them", file=sys.stderr)
    if any(one.resumed for one in without):
        print(
            "what was replayed before is not sent again; --no-resume begins anew", file=sys.stderr
        )
