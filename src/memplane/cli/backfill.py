"""`memplane backfill`: replay ledgers into a memory service."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from memplane.integrations.clawdapus.memory_service.backfill import (
        AgentBackfillReport,
        Backfill,
    )
    from memplane.integrations.clawdapus.memory_service.client import ServiceClient
    from memplane.integrations.clawdapus.memory_service.service_targets import (
        LedgerPaths,
        ServiceSelection,
        ServiceTarget,
    )
    from memplane.integrations.clawdapus.pod.agent_contexts import PodContexts
    from memplane.settings import Settings

_DEFAULT_CONCURRENCY: Final = 4
_PROGRESS_EVERY_ENTRIES: Final = 25


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
        "--concurrency",
        type=_positive,
        default=_DEFAULT_CONCURRENCY,
        metavar="N",
        help="agents at once",
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
    from memplane.ledger.entry_head import parse_rfc3339

    told = parse_rfc3339(text)
    if told is None:
        raise argparse.ArgumentTypeError("after must be RFC3339")
    return told


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Find the ledgers and the service, replay, and tell what came of it."""
    import asyncio
    from dataclasses import replace
    from pathlib import Path

    from memplane.home import Home
    from memplane.integrations.clawdapus.memory_service.client import open_service_client
    from memplane.integrations.clawdapus.memory_service.service_targets import (
        find_home_targets,
        find_pod_targets,
        get_home_paths,
        get_pod_paths,
        resolve_pod_folder,
    )
    from memplane.integrations.clawdapus.pod.agent_contexts import read_contexts

    asked = read_service_selection(arguments)
    folder = resolve_pod_folder(arguments.file, Path.cwd())
    async with open_service_client() as client:
        if folder is None:
            # What others recorded is replayed as well: memory was made of both.
            roots = (settings.ledger.dir, Home(settings.home).received)
            ledgers = [
                (get_home_paths(settings.home, root), find_home_targets(root, asked, "/retain"))
                for root in roots
            ]
            _expect_agents(asked.agents, roots)
        else:
            contexts = await asyncio.to_thread(read_contexts, folder)
            place = get_pod_paths(folder)
            targets = await asyncio.to_thread(find_pod_targets, contexts, asked, "retain")
            ledgers = [(place, targets)]
            if not arguments.dry_run:
                await _forget_first(contexts, place, client)
        reports: dict[str, AgentBackfillReport] = {}
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
                    reports[one.agent].merge_report(one)
                else:
                    reports[one.agent] = one
    return _print_result(
        [*reports.values()], [one for _, targets in ledgers for one in targets], arguments
    )


def read_service_selection(arguments: argparse.Namespace) -> ServiceSelection:
    """Collect what the command line says of a service and its agents."""
    from memplane.integrations.clawdapus.memory_service.service_targets import ServiceSelection
    from memplane.secret import Secret

    given = (one.strip() for text in arguments.agent for one in text.split(","))
    token = (arguments.auth_token or "").strip()
    return ServiceSelection(
        arguments.service.strip(),
        tuple(dict.fromkeys(filter(None, given))),
        (arguments.url or "").strip() or None,
        Secret(token) if token else None,
    )


def _expect_agents(named: Sequence[str], roots: Sequence[Path]) -> None:
    """Refuse agents that have no turns here.

    Raises:
        UnknownAgent: There is one among them.
    """
    from memplane.cli.agent_argument import make_unknown_agent
    from memplane.ledger.folder import list_ledger_agents

    known = sorted({agent for root in roots for agent in list_ledger_agents(root)})
    for agent in named:
        if agent not in known:
            raise make_unknown_agent(agent, known, "no turns here")


async def _forget_first(contexts: PodContexts, place: LedgerPaths, client: ServiceClient) -> None:
    """Bring tombstones up to date, and tell services what they were not told yet."""
    import asyncio

    from memplane.integrations.clawdapus.memory_service.forget import ForgetRunner
    from memplane.integrations.clawdapus.memory_service.service_targets import find_queued_target
    from memplane.kit.clock import system_clock
    from memplane.ledger.tombstones import list_agents_with_tombstones, replicate_tombstones
    from memplane.service.composition.home import open_command_telemetry

    for warning in contexts.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for agent in {name for root in place.tombstones for name in list_agents_with_tombstones(root)}:
        await asyncio.to_thread(replicate_tombstones, place.tombstones, agent)
    emit = open_command_telemetry(place.state).emit
    drained = await ForgetRunner(place, client, system_clock, emit).drain(
        lambda item: find_queued_target(contexts, item.service, item.agent)
    )
    for item, why in drained.left:
        print(f'warning: forget "{item.agent}" still waits: {why}', file=sys.stderr)


def _backfill(
    arguments: argparse.Namespace,
    asked: ServiceSelection,
    place: LedgerPaths,
    *,
    client: ServiceClient,
    settings: Settings,
) -> Backfill:
    from functools import partial

    from memplane.integrations.clawdapus.memory_service.backfill import Backfill
    from memplane.integrations.clawdapus.memory_service.entry_filter import EntryFilter
    from memplane.kit.clock import system_clock
    from memplane.kit.retry_clock import RetryClock
    from memplane.ledger.turn_redaction import redact_entry_line
    from memplane.service.composition.redactors import open_redactor

    return Backfill(
        service=asked.identity,
        place=place,
        selection=EntryFilter(arguments.after, arguments.limit, arguments.include_errors),
        client=client,
        redact=partial(redact_entry_line, open_redactor(settings)),
        pacing=RetryClock(),
        clock=system_clock,
        concurrency=arguments.concurrency,
        resume=arguments.resume,
        watch=_watch if sys.stderr.isatty() else lambda _report: None,
    )


def _watch(report: AgentBackfillReport) -> None:
    if report.replayed % _PROGRESS_EVERY_ENTRIES == 0:
        about = f"{report.agent[:40]}: {report.replayed} entries"
        print(f"\r\x1b[K{about}", end="", file=sys.stderr, flush=True)


def _print_result(
    reports: Sequence[AgentBackfillReport],
    targets: Sequence[ServiceTarget],
    arguments: argparse.Namespace,
) -> int:
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.output import print_json

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
    return EXIT_FAILED if any(one.complaint for one in reports) else EXIT_OK


def _print_reports(reports: Sequence[AgentBackfillReport], url: str, *, dry_run: bool) -> None:
    from memplane.cli.output import escape_text

    replayed = [one for one in reports if one.replayed]
    without = [one for one in reports if not one.replayed and not one.complaint]
    total = sum(one.replayed for one in reports)
    verb, verbed = ("Would replay", "Would backfill") if dry_run else ("Replayed", "Backfilled")
    for one in replayed:
        print(f"{verb} {one.replayed} entries for {one.agent}")
    print(f"{verbed} {total} entries across {len(replayed)} agent(s) to {escape_text(url)}")
    if without:
        print(f"Skipped {len(without)} agent(s) with no eligible history entries")
    for one in reports:
        if one.complaint:
            print(f'backfill "{one.agent}": {escape_text(one.complaint)}', file=sys.stderr)
        if one.unreadable:
            print(f"{one.agent}: {one.unreadable} lines are no entries", file=sys.stderr)
    refused = sum(one.refused for one in reports)
    if refused:
        print(f"{refused} entries were refused; --json names them", file=sys.stderr)
    if any(one.resumed for one in without):
        print(
            "what was replayed before is not sent again; --no-resume begins anew", file=sys.stderr
        )
