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

    from memplane.operate.audit import Wanted
    from memplane.operate.audit_sources import Container, Found
    from memplane.operate.audit_sums import AgentSummary, MemoryTotals, ServiceSummary, Summary
    from memplane.settings import Settings

_POD_FILE: Final = "claw-pod.yml"
_LEDGERS: Final = ".claw-session-history"
_STDIN: Final = "-"
_PAUSE: Final = 0.5
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(ms|s|m|h|d)", re.ASCII)
_NAMED_APART: Final = frozenset({"timestamp", "claw_id", "type"})
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
        type=_moment,
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
        "--file", metavar="F", help=f"the pod's file; by default {_POD_FILE}, if it was compiled"
    )


def _moment(text: str) -> datetime:
    """Read a moment, or how long ago it was."""
    from datetime import timedelta

    from memplane.clock import system_clock
    from memplane.ledger.heads import instant

    told = instant(text.strip())
    if told is not None:
        return told
    parts = list(_DURATION.finditer(text.strip()))
    if not parts or "".join(one[0] for one in parts) != text.strip():
        raise argparse.ArgumentTypeError(
            f'invalid --since value "{text}": use duration (e.g. 1h) or RFC3339'
        )
    seconds = sum(float(one[0].removesuffix(one[1])) * _UNITS[one[1]] for one in parts)
    try:
        return system_clock() - timedelta(seconds=seconds)
    except OverflowError:
        raise argparse.ArgumentTypeError(f'"{text}" is too long ago') from None


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Add up what there is, or print what comes."""
    import asyncio

    from memplane.cli import OK

    if arguments.follow:
        await _follow(arguments, settings)
    else:
        await asyncio.to_thread(_sum_up, arguments, settings)
    return OK


def _wanted(arguments: argparse.Namespace) -> Wanted:
    from memplane.operate.audit import Wanted

    return Wanted(arguments.since, arguments.claw.strip(), arguments.type.strip())


def _pod_folder(arguments: argparse.Namespace) -> Path | None:
    """Find the pod that is meant; without one, and without a log, it is the home."""
    from memplane.pod.contexts import pod_folder
    from memplane.pod.places import COMPOSE_FILE

    if arguments.file:
        return pod_folder(Path(arguments.file))
    here = not arguments.log and Path(COMPOSE_FILE).is_file()
    return pod_folder(Path(_POD_FILE)) if here else None


# All there is


def _sum_up(arguments: argparse.Namespace, settings: Settings) -> None:
    from memplane.cli.show import print_json
    from memplane.operate.audit_sums import Tally
    from memplane.pod.contexts import pod_name

    folder, wanted = _pod_folder(arguments), _wanted(arguments)
    pod = pod_name(folder) if folder else ""
    tally, skipped, bodies = Tally(), 0, list[object]()
    for event in _events(arguments, folder, settings):
        if event is None:
            skipped += 1
        elif wanted.includes(event):
            tally.add(event)
            if arguments.json:
                bodies.append(event.body())
    summary = tally.summary()
    if arguments.json:
        print_json({"pod": pod, "skipped_lines": skipped, "summary": summary, "events": bodies})
        return
    print(f"Pod: {_shown(pod) or f'- ({_shown(arguments.log or str(settings.home))})'}")
    print(f"Events: {summary.events} (skipped malformed lines: {skipped})")
    _print(summary)


def _events(
    arguments: argparse.Namespace, folder: Path | None, settings: Settings
) -> Iterator[Found]:
    from memplane.home import Home
    from memplane.operate.audit_sources import (
        docker_events,
        docker_here,
        event_files,
        file_events,
        ledger_events,
        log_events,
        rotated_events,
    )
    from memplane.operate.targets import pod_place

    if arguments.log == _STDIN:
        yield from log_events(sys.stdin.buffer)
    elif arguments.log:
        yield from file_events(Path(arguments.log))
    elif folder:
        docker = docker_here()
        yield from docker_events(_proxies(folder, docker), docker, arguments.since)
    else:
        for path in event_files(settings.home, settings.ledger.dir):
            yield from rotated_events(path)
        yield from ledger_events(settings.ledger.dir, arguments.since)
    if folder:
        if not arguments.log:
            yield from rotated_events(Home(pod_place(folder).state).commands_file)
        yield from ledger_events(folder / _LEDGERS, arguments.since)


def _proxies(folder: Path, docker: str) -> list[Container]:
    from memplane.operate.audit_sources import proxies
    from memplane.pod.contexts import pod_name

    found = proxies(pod_name(folder), docker)
    if not found:
        print("Docker knows no proxy of this pod; was it started here?", file=sys.stderr)
    return found


def _print(summary: Summary) -> None:
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


def _counts(memory: MemoryTotals) -> tuple[int, ...]:
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
    shown = [list(header), *([_shown(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def _shown(text: str) -> str:
    from memplane.cli.show import harmless

    return harmless(text).replace("\n", " ")


# What comes


async def _follow(arguments: argparse.Namespace, settings: Settings) -> None:
    import asyncio
    from functools import partial

    from memplane.operate.audit_sources import (
        docker_here,
        event_files,
        follow_docker,
        follow_file,
        follow_stream,
    )

    show = partial(_show, wanted=_wanted(arguments), as_json=arguments.json)
    folder = _pod_folder(arguments)
    if arguments.log == _STDIN:
        await follow_stream(sys.stdin.buffer, show)
    elif folder and not arguments.log:
        docker = docker_here()
        await follow_docker(_proxies(folder, docker), docker, show, arguments.since)
    else:
        own = event_files(settings.home, settings.ledger.dir)
        files = [Path(arguments.log)] if arguments.log else own
        follow = partial(
            follow_file,
            show=show,
            wait=partial(asyncio.sleep, _PAUSE),
            from_start=arguments.since is not None,
        )
        await asyncio.gather(*map(follow, files))


def _show(event: Found, *, wanted: Wanted, as_json: bool) -> None:
    if event is None or not wanted.includes(event):
        return
    if as_json:
        import msgspec

        print(msgspec.json.encode(event.body()).decode(), flush=True)
        return
    body = event.body()
    told = (f"{name}={value}" for name, value in body.items() if name not in _NAMED_APART)
    claw = event.claw or "-"
    print(_shown("  ".join([str(body["timestamp"]), claw, event.type, *told])), flush=True)
