"""What `/metrics` tells of memory operations."""

from __future__ import annotations

import re
from itertools import product

from prometheus_client.parser import text_string_to_metric_families

from memplane.server.metrics import Metrics
from memplane.server.telemetry_metrics import telemetry_metrics
from memplane.telemetry import MemoryEvent, MemoryOperation, OperationStatus, Telemetry
from tests.support.turns import NOON


def emit(
    telemetry: Telemetry, operation: str, status: str, *, latency_ms: int = 0, **more: int
) -> None:
    telemetry.emit(
        MemoryEvent(
            ts=NOON,
            claw_id="secret-agent",
            memory_service="secret-service",
            memory_op=MemoryOperation(operation),
            memory_status=OperationStatus(status),
            latency_ms=latency_ms,
            memory_blocks=more.get("blocks"),
            memory_bytes=more.get("bytes"),
            memory_removed=more.get("removed", 0),
            memory_attempt=more.get("attempt", 0),
            memory_queue=more.get("queue"),
            memory_redacted=more.get("redacted", 0),
        )
    )


def samples(telemetry: Telemetry) -> dict[str, float]:
    text = Metrics([telemetry_metrics(telemetry)]).text().decode()
    return {
        one.name + "".join(f" {k}={v}" for k, v in sorted(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if re.match("memplane_(memory|telemetry)", one.name)
    }


def test_operations_are_counted_by_how_they_ended() -> None:
    telemetry = Telemetry()
    emit(telemetry, "recall", "succeeded", blocks=3, bytes=200, removed=1)
    emit(telemetry, "recall", "succeeded", blocks=2, bytes=50)
    emit(telemetry, "recall", "timed_out", latency_ms=300)
    emit(telemetry, "retain", "succeeded", attempt=3, queue=4, redacted=2)
    found = samples(telemetry)
    assert found["memplane_memory_operations_total op=recall status=succeeded"] == 2
    assert found["memplane_memory_operations_total op=recall status=timed_out"] == 1
    assert found["memplane_memory_operations_total op=retain status=succeeded"] == 1
    assert found["memplane_memory_operations_total op=forget status=failed"] == 0
    assert found["memplane_memory_blocks_total"] == 5
    assert found["memplane_memory_bytes_total"] == 250
    assert found["memplane_memory_removed_total op=recall"] == 1
    assert found["memplane_memory_redacted_total op=retain"] == 2
    assert found["memplane_memory_retried_total op=retain"] == 1
    assert found["memplane_memory_queue"] == 4
    assert found["memplane_telemetry_unwritten_total"] == 0


def test_every_series_is_there_from_the_start_and_no_agent_makes_more() -> None:
    telemetry = Telemetry()
    before = samples(telemetry)
    assert {
        f"memplane_memory_operations_total op={operation} status={status}"
        for operation, status in product(MemoryOperation, OperationStatus)
    } <= before.keys()
    emit(telemetry, "recall", "succeeded", blocks=1, bytes=1)
    emit(telemetry, "forget", "failed")
    assert samples(telemetry).keys() == before.keys()
    assert "secret-" not in Metrics([telemetry_metrics(telemetry)]).text().decode()


def test_latencies_make_a_histogram() -> None:
    telemetry = Telemetry()
    for latency in (3, 40, 40, 700, 60_000):
        emit(telemetry, "recall", "succeeded", latency_ms=latency)
    emit(telemetry, "recall", "skipped")
    found = samples(telemetry)

    def within(end: str) -> float:
        return found[f"memplane_memory_operation_seconds_bucket le={end} op=recall"]

    assert (within("0.0025"), within("0.005"), within("0.05"), within("0.5")) == (0, 1, 3, 3)
    assert (within("1"), within("10"), within("+Inf")) == (4, 4, 5)
    assert found["memplane_memory_operation_seconds_count op=recall"] == 5
    assert found["memplane_memory_operation_seconds_sum op=recall"] == 60.783
    assert found["memplane_memory_operation_seconds_count op=retain"] == 0
