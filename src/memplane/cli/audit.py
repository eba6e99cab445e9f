"""`memplane audit`: what a proxy's log tells of turns, tools and memory, and its sums.

The log is a file, a pod's as Docker keeps it, or what memplane tells in its own home.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from memplane.audit.events import EventFilter
    from memplane.audit.sources import EventOrNone, ProxyContainer
    from memplane.audit.summary import (
        AgentSummary,
        AuditMemoryTotals,
        AuditSummary,
        ServiceSummary,
    )
    from memplane.settings import Settings

_POD_FILE_NAME: Final = "claw-pod.yml"
_STDIN: Final = "-"
_POLL_INTERVAL_S: Final = 0.5
_SECONDS_PER_UNIT: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PATTERN: Final = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(ms|s|m|h|d)", re.ASCII)
_ENVELOPE_MEMBERS: Final = frozenset({"timestamp", "claw_id", "type"})
_HEADER: Final = (
    "CLAW", "REQ", "RESP", "ERR", "INT", "TOOLS", "TOOL_ERR", "TOK_IN", "TOK_OUT", "COST_USD",
    "MODELS",
)  # fmt: skip
_MEMORY_HEADER: Final = (
    "MEM_SVC", "RECALL_OK", "RECALL_FAIL", "RECALL_TO", "BLOCKS", "BYTES", "REMOVED", "RETAIN_OK",
    "RETAIN_FAIL", "QUEUED",
)  # fmt: skip
_AGENT_HEADER: Final = ("CLAW", *_MEMORY_HEADER[1:], "RETAIN_TO", "FORGET_OK", "P50_MS", "P95_MS")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--since",
        type=_parse_moment_or_age,
        metavar="T",
        help="only later ones: a duration such as 1h, or RFC 3339",
    )
    parser.add_argument("--claw", default="", metavar="A", help="only this agent's events")
    parser.add_argument("--type", default="", metavar="T", help="only events of this type")
    parser.add_argument("--json", action="store_true", help="for machines, with every event")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="print events as they come, until Ctrl-C"
    )
    parser.add_argument("--log", metavar="F", help="read this log; - is stdin")
    parser.add_argument(
        "--file",
        metavar="F",
        help=f"the pod's file; by default {_POD_FILE_NAME}, if it was compiled",
    )


def _parse_moment_or_age(text: str) -> datetime:
    """Read a moment, or how long ago it was."""
    from datetime import timedelta

    from memplane.kit.clock import system_clock
    from memplane.ledger.entry_head import parse_rfc3339

    told = parse_rfc3339(text.strip())
    if told is not None:
        return told
    parts = list(_DURATION_PATTERN.finditer(text.strip()))
    if not parts or "".join(one[0] for one in parts) != text.strip():
        raise argparse.ArgumentTypeError(
            f'invalid --since value "{text}": use duration (e.g. 1h) or RFC3339'
        )
    seconds = sum(float(one[0].removesuffix(one[1])) * _SECONDS_PER_UNIT[one[1]] for one in parts)
    try:
        return system_clock() - timedelta(seconds=seconds)
    except OverflowError:
        raise argparse.ArgumentTypeError(f'"{text}" is too long ago') from None


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Add up what there is, or print what comes."""
    import asyncio

    from memplane.cli import EXIT_OK

    if arguments.follow:
        await _follow(arguments, settings)
    else:
        await asyncio.to_thread(_sum_up, arguments, settings)
    return EXIT_OK


def _wanted(arguments: argparse.Namespace) -> EventFilter:
    from memplane.audit.events import EventFilter

    return EventFilter(arguments.since, arguments.claw.strip(), arguments.type.strip())


def _pod_folder(arguments: argparse.Namespace) -> Path | None:
    """Find the pod that is meant; without one, and without a log, it is the home."""
    from memplane.integrations.clawdapus.pod.agent_contexts import find_pod_folder
    from memplane.integrations.clawdapus.pod.paths import COMPOSE_FILE

    if arguments.file:
        return find_pod_folder(Path(arguments.file))
    here = not arguments.log and Path(COMPOSE_FILE).is_file()
    return find_pod_folder(Path(_POD_FILE_NAME)) if here else None


# All there is


def _sum_up(arguments: argparse.Namespace, settings: Settings) -> None:
    from memplane.audit.summary import AuditTally
    from memplane.cli.agent_argument import make_unknown_agent
    from memplane.cli.output import print_json
    from memplane.integrations.clawdapus.pod.agent_contexts import read_pod_name

    folder, wanted = _pod_folder(arguments), _wanted(arguments)
    pod = read_pod_name(folder) if folder else ""
    tally, skipped, bodies = AuditTally(), 0, list[object]()
    known: set[str] = set()
    for event in _events(arguments, folder, settings):
        if event is None:
            skipped += 1
            continue
        known.add(event.claw)
        if wanted.includes(event):
            tally.add(event)
            if arguments.json:
                bodies.append(event.body())
    known.update(_agents_with_turns(arguments, folder, settings))
    if wanted.claw and wanted.claw not in known:
        raise make_unknown_agent(wanted.claw, sorted(filter(None, known)), "no event here")
    summary = tally.summary()
    if arguments.json:
        print_json({"pod": pod, "skipped_lines": skipped, "summary": summary, "events": bodies})
        return
    print(f"Pod: {_clean_cell(pod) or f'- ({_clean_cell(arguments.log or str(settings.home))})'}")
    print(f"Events: {summary.events} (skipped malformed lines: {skipped})")
    _print(summary)


def _agents_with_turns(
    arguments: argparse.Namespace, folder: Path | None, settings: Settings
) -> Iterator[str]:
    """Name the agents that exist whether or not a log tells of them."""
    from memplane.home import Home
    from memplane.integrations.clawdapus.memory_service.service_targets import get_pod_paths
    from memplane.ledger.folder import list_ledger_agents

    if folder:
        yield from list_ledger_agents(get_pod_paths(folder).ledgers)
    elif not arguments.log:
        yield from list_ledger_agents(settings.ledger.dir)
        yield from list_ledger_agents(Home(settings.home).received)


def _events(
    arguments: argparse.Namespace, folder: Path | None, settings: Settings
) -> Iterator[EventOrNone]:
    from memplane.audit.sources import (
        find_docker,
        list_event_files,
        read_docker_events,
        read_file_events,
        read_ledger_events,
        read_log_events,
        read_rotated_events,
    )
    from memplane.home import Home
    from memplane.integrations.clawdapus.memory_service.service_targets import (
        get_home_paths,
        get_pod_paths,
    )

    if arguments.log == _STDIN:
        yield from read_log_events(sys.stdin.buffer)
    elif arguments.log:
        yield from read_file_events(Path(arguments.log))
    elif folder:
        docker = find_docker()
        yield from read_docker_events(_proxies(folder, docker), docker, arguments.since)
    else:
        place = get_home_paths(settings.home, settings.ledger.dir)
        for path in list_event_files(settings.home, settings.ledger.dir):
            yield from read_rotated_events(path)
        yield from read_ledger_events(place, arguments.since)
    if folder:
        if not arguments.log:
            yield from read_rotated_events(Home(get_pod_paths(folder).state).commands_file)
        yield from read_ledger_events(get_pod_paths(folder), arguments.since)


def _proxies(folder: Path, docker: str) -> list[ProxyContainer]:
    from memplane.audit.sources import find_proxy_containers
    from memplane.integrations.clawdapus.pod.agent_contexts import read_pod_name

    found = find_proxy_containers(read_pod_name(folder), docker)
    if not found:
        print("Docker knows no proxy of this pod; was it started here?", file=sys.stderr)
    return found


def _print(summary: AuditSummary) -> None:
    if not summary.agents:
        print("No telemetry events matched the current filters.")
        return
    _print_table(_HEADER, [_row(one) for one in summary.agents])
    print(
        f"\nTotals: req={summary.requests} resp={summary.responses} err={summary.errors} "
        f"int={summary.interventions} tools={summary.tool_calls}/{summary.tool_errors} "
        f"tokens={summary.tokens_in}/{summary.tokens_out} cost=${summary.cost_usd:.4f}"
    )
    if summary.services:
        print()
        _print_table(_MEMORY_HEADER, [_memory_row(one) for one in summary.services])
        print()
        _print_table(_AGENT_HEADER, [_agent_memory_row(one) for one in summary.agents])


def _row(agent: AgentSummary) -> list[str]:
    models = ", ".join(f"{name}({times})" for name, times in agent.model_usage.items())
    numbers = (
        agent.requests,
        agent.responses,
        agent.errors,
        agent.interventions,
        agent.tool_calls,
        agent.tool_errors,
        agent.tokens_in,
        agent.tokens_out,
    )
    return [agent.claw_id, *map(str, numbers), f"{agent.cost_usd:.4f}", models or "-"]


def _memory_row(service: ServiceSummary) -> list[str]:
    return [service.service, *map(str, _counts(service.memory))]


def _agent_memory_row(agent: AgentSummary) -> list[str]:
    memory = agent.memory
    beside = (
        memory.retain.timed_out,
        memory.forget.ok,
        memory.recall.p50_ms,
        memory.recall.p95_ms,
    )
    shown = ("-" if one is None else str(one) for one in (*_counts(memory), *beside))
    return [agent.claw_id, *shown]


def _counts(memory: AuditMemoryTotals) -> tuple[int, ...]:
    recall, retain = memory.recall, memory.retain
    return (
        recall.ok,
        recall.failed,
        recall.timed_out,
        recall.blocks,
        recall.bytes,
        recall.removed,
        retain.ok,
        retain.failed,
        retain.queued,
    )


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    shown = [list(header), *([_clean_cell(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def _clean_cell(text: str) -> str:
    from memplane.cli.output import escape_text

    return escape_text(text).replace("\n", " ")


# What comes


async def _follow(arguments: argparse.Namespace, settings: Settings) -> None:
    import asyncio
    from functools import partial

    from memplane.audit.sources import (
        find_docker,
        follow_docker,
        follow_file,
        follow_stream,
        list_event_files,
    )

    show = partial(_show, wanted=_wanted(arguments), as_json=arguments.json)
    folder = _pod_folder(arguments)
    if arguments.log == _STDIN:
        await follow_stream(sys.stdin.buffer, show)
    elif folder and not arguments.log:
        docker = find_docker()
        await follow_docker(_proxies(folder, docker), docker, show, arguments.since)
    else:
        own = list_event_files(settings.home, settings.ledger.dir)
        files = [Path(arguments.log)] if arguments.log else own
        follow = partial(
            follow_file,
            handle=show,
            wait=partial(asyncio.sleep, _POLL_INTERVAL_S),
            from_start=arguments.since is not None,
        )
        await asyncio.gather(*map(follow, files))


def _show(event: EventOrNone, *, wanted: EventFilter, as_json: bool) -> None:
    if event is None or not wanted.includes(event):
        return
    if as_json:
        import msgspec

        print(msgspec.json.encode(event.body()).decode(), flush=True)
        return
    body = event.body()
    told = (f"{name}={value}" for name, value in body.items() if name not in _ENVELOPE_MEMBERS)
    claw = event.claw or "-"
    print(_clean_cell("  ".join([str(body["timestamp"]), claw, event.type, *told])), flush=True)
