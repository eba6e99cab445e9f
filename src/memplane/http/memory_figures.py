"""What memory and the proxy have to show on `/metrics`. Agents are never named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memplane.http.metrics import Figure, Figures
from memplane.telemetry import (
    BUCKETS,
    MemoryOperation,
    OperationFigures,
    Telemetry,
    TelemetryFigures,
)


def memory_figures(telemetry: Telemetry) -> Figures:
    """Make the function that reads the figures."""

    def figures() -> Iterable[Figure]:
        counted = telemetry.figures()
        for operation, of_operation in counted.operations.items():
            yield from _of_operation(operation, of_operation)
            yield from _latencies(operation, of_operation)
        for (kind, outcome), times in sorted(counted.turns.items()):
            yield Figure(
                name="memplane_proxy_events",
                help="What happened to turns in the proxy, by kind and outcome.",
                kind="counter",
                value=times,
                labels={"kind": kind, "outcome": outcome},
            )
        yield from _of_all(counted)

    return figures


def _of_operation(operation: MemoryOperation, figures: OperationFigures) -> Iterator[Figure]:
    for status, times in figures.by_status.items():
        yield Figure(
            name="memplane_memory_operations",
            help="Memory operations, by how they ended.",
            kind="counter",
            value=times,
            labels={"op": operation, "status": status},
        )
    counted = {
        "removed": (figures.removed, "Blocks that policy dropped, and secrets it replaced."),
        "redacted": (figures.redacted, "Secrets taken out of what was sent or recalled."),
        "retried": (figures.retried, "Attempts after the first."),
    }
    for name, (value, words) in counted.items():
        yield Figure(
            name=f"memplane_memory_{name}",
            help=words,
            kind="counter",
            value=value,
            labels={"op": operation},
        )
    if operation is MemoryOperation.RECALL:
        recalled = {
            "blocks": (figures.blocks, "Blocks that recalls returned, before policy."),
            "bytes": (figures.bytes, "Bytes of memory that were injected."),
        }
        for name, (value, words) in recalled.items():
            yield Figure(name=f"memplane_memory_{name}", help=words, kind="counter", value=value)


def _latencies(operation: MemoryOperation, figures: OperationFigures) -> Iterator[Figure]:
    """Write a histogram down: its parts have the names and labels that its readers look for."""
    name = "memplane_memory_operation_seconds"
    ends = [*(f"{end:g}" for end in BUCKETS), "+Inf"]
    for end, times in zip(ends, figures.within, strict=True):
        yield Figure(
            name=f"{name}_bucket",
            help="Memory operations that took at most that long.",
            kind="gauge",
            value=times,
            labels={"op": operation, "le": end},
        )
    parts = {
        "sum": (figures.seconds, "Time that memory operations took."),
        "count": (figures.within[-1], "Memory operations that took time."),
    }
    for part, (value, words) in parts.items():
        yield Figure(
            name=f"{name}_{part}",
            help=words,
            kind="gauge",
            value=value,
            labels={"op": operation},
        )


def _of_all(figures: TelemetryFigures) -> Iterator[Figure]:
    yield Figure(
        name="memplane_memory_queue",
        help="Turns that wait to be retained, as last told.",
        kind="gauge",
        value=figures.queue,
    )
    yield Figure(
        name="memplane_telemetry_unwritten",
        help="Events that could not be written.",
        kind="counter",
        value=figures.unwritten,
    )
