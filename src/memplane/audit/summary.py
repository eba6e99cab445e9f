"""What the events of a log add up to: by agent, by memory service, and in all (pure)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from memplane.audit.events import (
    MEMORY_OP,
    MIN_ERROR_STATUS,
    TOOL_CALL,
    AuditEvent,
    format_event_time,
)

_UNKNOWN_NAME: Final = "(unknown)"
_COUNTER_OF_EVENT_TYPE: Final = {
    "request": "requests",
    "response": "responses",
    "error": "errors",
    "intervention": "interventions",
    "feed_fetch": "feed_fetches",
    TOOL_CALL: "tool_calls",
    "provider_pool": "provider_pool_events",
}
_TURN_EVENT_TYPES: Final = frozenset({"request", "response", "error"})
"""A turn has at most one event of each; which of them there are, a filter may have decided."""
_COUNTER_OF_STATUS: Final = {
    "succeeded": "ok",
    "failed": "failed",
    "timed_out": "timed_out",
    "skipped": "skipped",
}


class RecallTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Recalls; times are of those that were tried, by the nearest rank."""

    ok: int = 0
    failed: int = 0
    timed_out: int = 0
    skipped: int = 0
    blocks: int = 0
    bytes: int = 0
    removed: int = 0
    p50_ms: int | None = None
    p95_ms: int | None = None


class DeliveryTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Retains or forgets; `queued` is how many waited when it was last told."""

    ok: int = 0
    failed: int = 0
    timed_out: int = 0
    skipped: int = 0
    retried: int = 0
    queued: int = 0


class AuditMemoryTotals(msgspec.Struct, frozen=True):
    """Memory operations."""

    recall: RecallTotals
    retain: DeliveryTotals
    forget: DeliveryTotals


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the events of one agent add up to."""

    claw_id: str
    requests: int
    responses: int
    errors: int
    interventions: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    model_usage: Mapping[str, int]
    feed_fetches: int
    feed_errors: int
    tool_calls: int
    tool_errors: int
    provider_pool_events: int
    first_timestamp: str
    last_timestamp: str
    memory: AuditMemoryTotals


class ServiceSummary(msgspec.Struct, frozen=True):
    """What the operations of one memory service add up to."""

    service: str
    memory: AuditMemoryTotals


class AuditSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What all events add up to; agents and services by their names."""

    agents: list[AgentSummary]
    services: list[ServiceSummary]
    events: int
    requests: int
    responses: int
    errors: int
    interventions: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    feed_fetches: int
    feed_errors: int
    tool_calls: int
    tool_errors: int
    provider_pool_events: int
    memory: AuditMemoryTotals


class AuditTally:
    """Adds events up, one after the other, without keeping them."""

    def __init__(self) -> None:
        self._agents: dict[str, _Sums] = {}
        self._services: dict[str, _MemorySums] = {}
        self._all = _Sums()

    def add(self, event: AuditEvent) -> None:
        """Take an event into account."""
        agent = self._agents.setdefault(event.claw or _UNKNOWN_NAME, _Sums())
        for sums in (agent, self._all):
            sums.add(event)
        if event.type == MEMORY_OP:
            name = event.text("memory_service") or _UNKNOWN_NAME
            self._services.setdefault(name, _MemorySums()).add(event)

    def summary(self) -> AuditSummary:
        """Return the sums up to now."""
        agents = [
            AgentSummary(
                claw_id=name,
                **sums.totals(),
                model_usage=sums.model_usage(),
                first_timestamp=format_event_time(sums.times[0]),
                last_timestamp=format_event_time(sums.times[1]),
            )
            for name, sums in sorted(self._agents.items())
        ]
        services = [
            ServiceSummary(name, sums.totals()) for name, sums in sorted(self._services.items())
        ]
        return AuditSummary(
            agents=agents, services=services, events=self._all.events, **self._all.totals()
        )


class _MemorySums(msgspec.Struct):
    counts: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter[tuple[str, str]])
    latencies: Counter[int] = msgspec.field(default_factory=Counter[int])
    queued: dict[str, tuple[datetime, int]] = msgspec.field(
        default_factory=dict[str, tuple[datetime, int]]
    )

    def add(self, event: AuditEvent) -> None:
        operation, status = event.text("memory_op"), event.text("memory_status")
        if status not in _COUNTER_OF_STATUS:
            return
        self.counts[operation, _COUNTER_OF_STATUS[status]] += 1
        for name in ("blocks", "bytes", "removed"):
            self.counts[operation, name] += event.number(f"memory_{name}") or 0
        self.counts[operation, "retried"] += (event.number("memory_attempt") or 0) > 1
        if operation == "recall" and status != "skipped":
            # A latency that is not told is 0: it took less than a millisecond.
            self.latencies[event.number("latency_ms") or 0] += 1
        queue = event.number("memory_queue")
        if queue is not None and event.at >= self.queued.get(operation, (event.at, 0))[0]:
            self.queued[operation] = event.at, queue

    def totals(self) -> AuditMemoryTotals:
        recall = {
            name: self.counts["recall", name]
            for name in (*_COUNTER_OF_STATUS.values(), "blocks", "bytes", "removed")
        }
        return AuditMemoryTotals(
            recall=RecallTotals(
                **recall,
                p50_ms=compute_percentile(self.latencies, 50),
                p95_ms=compute_percentile(self.latencies, 95),
            ),
            retain=self._delivered("retain"),
            forget=self._delivered("forget"),
        )

    def _delivered(self, operation: str) -> DeliveryTotals:
        counts = {
            name: self.counts[operation, name]
            for name in (*_COUNTER_OF_STATUS.values(), "retried")
        }
        queued = self.queued[operation][1] if operation in self.queued else 0
        return DeliveryTotals(**counts, queued=queued)


@dataclass(slots=True)
class _Sums:
    events: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    cost: float = 0.0
    models: dict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict[str, Counter[str]](Counter)
    )
    times: tuple[datetime, datetime] = field(init=False)
    memory: _MemorySums = field(default_factory=_MemorySums)

    def add(self, event: AuditEvent) -> None:
        first, last = self.times if self.events else (event.at, event.at)
        self.times = (min(first, event.at), max(last, event.at))
        self.events += 1
        if event.type == MEMORY_OP:
            self.memory.add(event)
            return
        if event.type in _TURN_EVENT_TYPES and (model := event.text("model")):
            self.models[model][event.type] += 1
        for name in ("tokens_in", "tokens_out"):
            self.counts[name] += event.number(name) or 0
        cost = event.members.get("cost_usd")
        self.cost += cost if isinstance(cost, int | float) else 0.0
        if event.type in _COUNTER_OF_EVENT_TYPE:
            self.counts[_COUNTER_OF_EVENT_TYPE[event.type]] += 1
        if event.type == "feed_fetch":
            self.counts["feed_errors"] += _is_failure(event)
        if event.type == TOOL_CALL:
            self.counts["tool_errors"] += _is_failure(event)

    def model_usage(self) -> dict[str, int]:
        """Say how many turns each model had; one that was asked and answered is one turn."""
        return {model: max(types.values()) for model, types in sorted(self.models.items())}

    def totals(self) -> dict[str, Any]:
        names = (
            *_COUNTER_OF_EVENT_TYPE.values(),
            "tokens_in",
            "tokens_out",
            "feed_errors",
            "tool_errors",
        )
        return {
            **{name: self.counts[name] for name in names},
            "cost_usd": round(self.cost, 10),
            "memory": self.memory.totals(),
        }


def _is_failure(event: AuditEvent) -> bool:
    has_failed = (event.number("status_code") or 0) >= MIN_ERROR_STATUS
    return has_failed or bool(event.text("error")) or event.text("tool_status") == "error"


def compute_percentile(counts: Mapping[int, int], percent: int) -> int | None:
    """Return the value that so many percent of all do not exceed; `counts` says how often."""
    rank = -(-sum(counts.values()) * percent // 100)
    for value in sorted(counts):
        rank -= counts[value]
        if rank <= 0:
            return value
    return None
