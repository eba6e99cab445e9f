"""What the ledger and the redaction have to show on `/metrics`. Agents are never named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memplane.ledger.writer import LedgerCounters
from memplane.server.metrics import MetricSample, MetricSource
from memplane.service.ledger_service import LedgerService


def ledger_metrics(recording: LedgerService) -> MetricSource:
    """Make the function that reads the figures."""

    def figures() -> Iterable[MetricSample]:
        yield from _ledger_samples(recording.ledger.figures)
        for kind, times in sorted(recording.redacted.items()):
            yield MetricSample(
                name="memplane_redactions",
                help="Secrets taken out of turns before they were written, by kind.",
                kind="counter",
                value=times,
                labels={"kind": kind},
            )

    return figures


def _ledger_samples(figures: LedgerCounters) -> Iterator[MetricSample]:
    counted = {
        "entries": (figures.entries, "Turns recorded."),
        "bytes": (figures.bytes, "Bytes recorded."),
        "batches": (figures.batches, "Batches, each made durable with one sync for each agent."),
        "sync_seconds": (figures.sync_seconds, "Time spent making batches durable."),
        "failed": (figures.failed, "Turns that were not recorded because the disk failed."),
        "refused": (figures.refused, "Turns refused because too many waited for the disk."),
        "torn_lines": (figures.torn, "Last lines that were cut off and mended or moved away."),
        "found_lines": (figures.found, "Lines that the chain did not know when it was opened."),
        "damaged_lines": (figures.damaged, "Lines that cannot be read."),
        "broken": (figures.broken, "Times that something recorded was missing."),
    }
    for name, (value, words) in counted.items():
        yield MetricSample(name=f"memplane_ledger_{name}", help=words, kind="counter", value=value)
    yield MetricSample(
        name="memplane_ledger_queued_bytes",
        help="Bytes that wait for the disk.",
        kind="gauge",
        value=figures.queued_bytes,
    )
    yield MetricSample(
        name="memplane_ledger_degraded",
        help="1 while an operator should look at the ledger.",
        kind="gauge",
        value=float(bool(figures.degraded or figures.failing)),
    )
