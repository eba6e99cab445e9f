"""What memory and the proxy have to show on `/metrics`. Agents are never named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memplane.server.metrics import MetricSample, MetricSource
from memplane.telemetry import (
    LATENCY_BUCKETS_S,
    MemoryOperation,
    OperationStats,
    Telemetry,
    TelemetryStats,
)


def telemetry_metrics(telemetry: Telemetry) -> MetricSource:
    """Make the function that reads the figures."""

    def figures() -> Iterable[MetricSample]:
        counted = telemetry.figures()
        for operation, of_operation in counted.operations.items():
            yield from _operation_samples(operation, of_operation)
            yield from _latency_samples(operation, of_operation)
        for (kind, outcome), times in sorted(counted.turns.items()):
            yield MetricSample(
                name="memplane_proxy_events",
                help="What happened to turns in the proxy, by kind and outcome.",
                kind="counter",
                value=times,
                labels={"kind": kind, "outcome": outcome},
            )
        yield from _total_samples(counted)

    return figures


def _operation_samples(
    operation: MemoryOperation, figures: OperationStats
) -> Iterator[MetricSample]:
    for status, times in figures.by_status.items():
        yield MetricSample(
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
        yield MetricSample(
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
            yield MetricSample(
                name=f"memplane_memory_{name}", help=words, kind="counter", value=value
            )


def _latency_samples(
    operation: MemoryOperation, figures: OperationStats
) -> Iterator[MetricSample]:
    """Write a histogram down: its parts have the names and labels that its readers look for."""
    name = "memplane_memory_operation_seconds"
    ends = [*(f"{end:g}" for end in LATENCY_BUCKETS_S), "+Inf"]
    for end, times in zip(ends, figures.within, strict=True):
        yield MetricSample(
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
        yield MetricSample(
            name=f"{name}_{part}",
            help=words,
            kind="gauge",
            value=value,
            labels={"op": operation},
        )


def _total_samples(figures: TelemetryStats) -> Iterator[MetricSample]:
    yield MetricSample(
        name="memplane_memory_queue",
        help="Turns that wait to be retained, as last told.",
        kind="gauge",
        value=figures.queue,
    )
    yield MetricSample(
        name="memplane_telemetry_unwritten",
        help="Events that could not be written.",
        kind="counter",
        value=figures.unwritten,
    )
