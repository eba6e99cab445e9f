"""Turns as traces, for an OpenTelemetry collector. Its libraries are an extra.

A trace has no question, no answer and no memory in it: how long things took, what was counted, and
what went wrong. A client's own trace goes on in ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from memplane.errors import SettingsError
from memplane.telemetry import MemoryEvent, TurnEvent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_SERVICE_NAME: Final = "memplane"
_OPERATION: Final = "chat"
_EXPORT_TIMEOUT_S: Final = 5.0
_FAILED_OUTCOMES: Final = frozenset({"cut", "not recorded"})


class TurnTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that is over: when it began, how long it and its recall took, and what became of it.

    `carrier` has the headers by which a client tells of its own trace.
    """

    at: datetime
    seconds: float
    event: TurnEvent
    provider: str = ""
    recall: MemoryEvent | None = None
    recall_seconds: float = 0.0
    carrier: Mapping[str, str]


class TraceSink(Protocol):
    """Where traces of turns go."""

    def turn(self, turn: TurnTrace) -> None:
        """Trace a turn; this never waits and never fails."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


class NullTraceSink:
    """Nobody wants any."""

    def turn(self, turn: TurnTrace) -> None:
        """Forget it."""

    def close(self) -> None:
        """Do nothing."""


class OtlpTraceSink:
    """Sends traces to a collector, in the background and in batches."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - an extra
            TraceContextTextMapPropagator,
        )

        self._provider = provider
        self._tracer = provider.get_tracer(_SERVICE_NAME)
        self._propagator = TraceContextTextMapPropagator()

    def turn(self, turn: TurnTrace) -> None:
        from opentelemetry.trace import (  # noqa: PLC0415 - an extra
            SpanKind,
            Status,
            StatusCode,
            set_span_in_context,
        )

        event = turn.event
        parent = self._propagator.extract(turn.carrier)
        span = self._tracer.start_span(
            f"{_OPERATION} {event.model}".strip(),
            context=parent,
            kind=SpanKind.SERVER,
            start_time=_nanoseconds(turn.at),
            attributes=_turn_attributes(turn),
        )
        if turn.recall is not None:
            recall = self._tracer.start_span(
                f"recall {turn.recall.memory_service}",
                context=set_span_in_context(span),
                start_time=_nanoseconds(turn.at),
                attributes=_recall_attributes(turn.recall),
            )
            recall.end(_nanoseconds(turn.at, turn.recall_seconds))
        if event.error or event.outcome in _FAILED_OUTCOMES:
            span.set_status(Status(StatusCode.ERROR, event.error or event.outcome))
        span.end(_nanoseconds(turn.at, turn.seconds))

    def close(self) -> None:
        self._provider.shutdown()


def open_otlp_sink(endpoint: str) -> OtlpTraceSink:
    """Send traces to the collector at an address, which is that of all its signals.

    Raises:
        SettingsError: The libraries for it are not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
    except ImportError as error:
        raise SettingsError(
            "traces need libraries that are not installed: pip install 'memplane[otel]'"
        ) from error
    address = f"{endpoint.rstrip('/')}/v1/traces"
    return make_otlp_sink(OTLPSpanExporter(endpoint=address, timeout=_EXPORT_TIMEOUT_S))


def make_otlp_sink(exporter: SpanExporter) -> OtlpTraceSink:
    """Send traces by an exporter."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    resource = Resource.create({"service.name": _SERVICE_NAME})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return OtlpTraceSink(provider)


def _turn_attributes(turn: TurnTrace) -> dict[str, str | int | float]:
    """Name what is known, by the conventions for generative models where there are some."""
    event = turn.event
    named: dict[str, str | int | float | None] = {
        "gen_ai.operation.name": _OPERATION,
        "gen_ai.provider.name": turn.provider,
        "gen_ai.request.model": event.model,
        "gen_ai.usage.input_tokens": event.tokens_in,
        "gen_ai.usage.output_tokens": event.tokens_out,
        "http.response.status_code": event.status_code,
        "error.type": event.outcome if event.outcome in _FAILED_OUTCOMES else "",
        "memplane.agent": event.claw_id,
        "memplane.outcome": event.outcome,
        "memplane.auxiliary": event.auxiliary,
        "memplane.first_byte_ms": event.first_byte_ms,
        "memplane.cost_usd": event.cost_usd,
    }
    return {name: value for name, value in named.items() if value}


def _recall_attributes(recall: MemoryEvent) -> dict[str, str | int]:
    named: dict[str, str | int | None] = {
        "memplane.memory.service": recall.memory_service,
        "memplane.memory.status": str(recall.memory_status),
        "memplane.memory.blocks": recall.memory_blocks,
        "memplane.memory.bytes": recall.memory_bytes,
        "memplane.memory.removed": recall.memory_removed,
        "memplane.memory.error": recall.error,
    }
    return {name: value for name, value in named.items() if value}


def _nanoseconds(at: datetime, seconds: float = 0.0) -> int:
    moment = at + timedelta(seconds=seconds)
    return int(moment.timestamp() * 1_000_000) * 1000
