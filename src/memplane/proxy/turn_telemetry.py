"""What is told of a turn, from its request to what became of it: events, counters, traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from memplane.integrations.otel import TraceSink, TurnTrace
from memplane.kit.clock import Clock
from memplane.ledger.entry import Usage
from memplane.proxy.recall_client import RecallResult, make_recall_event
from memplane.redaction.redactor import RedactionResult
from memplane.telemetry import MemoryEvent, Telemetry, TurnEvent

TRACE_HEADERS: Final = ("traceparent", "tracestate")
"""The headers by which a client tells of its own trace."""

_CUT: Final = "cut"


class TurnTelemetry(msgspec.Struct, frozen=True, kw_only=True):
    """To whom it is told, and what tells the time."""

    telemetry: Telemetry
    traces: TraceSink
    clock: Clock
    elapsed: Callable[[], float]
    redact: Callable[[str], RedactionResult[str]]

    def begin(self) -> TurnStart:
        """Say when a turn begins."""
        return TurnStart(self.clock(), self.elapsed())


class TurnStart(msgspec.Struct, frozen=True):
    """A time of day, and the same on the clock that measures."""

    at: datetime
    measured: float


class ProviderResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Who answered, how, and after how many seconds."""

    provider: str
    status: int
    first_byte: float


class TurnSpan:
    """What is told of one turn."""

    def __init__(
        self,
        telling: TurnTelemetry,
        began: TurnStart,
        *,
        agent: str,
        model: str,
        carrier: Mapping[str, str],
        left_out: str = "",
    ) -> None:
        self._telling = telling
        self._began = began
        named = telling.redact(model).value
        self._event = TurnEvent(ts=began.at, claw_id=agent, type="request", model=named)
        self._carrier = carrier
        self._left_out = left_out
        self._recall: MemoryEvent | None = None
        self._recall_seconds = 0.0

    @property
    def seconds(self) -> float:
        """How long the turn has taken until now."""
        return self._telling.elapsed() - self._began.measured

    def asked(self) -> None:
        """Tell that it was asked for."""
        self._telling.telemetry.tell(self._event)

    def emit_intervention(self, kind: str, why: str) -> None:
        """Tell that another model was asked than the one that was wanted."""
        told = self._telling.redact(why).value
        self._telling.telemetry.tell(
            msgspec.structs.replace(self._event, type=kind, intervention=told)
        )

    def recalled(self, came: RecallResult, *, injected: int) -> None:
        """Tell how its recall went, and how many bytes of it were put into the prompt."""
        event = make_recall_event(came, ts=self._telling.clock(), injected_bytes=injected)
        if event is not None:
            self._recall, self._recall_seconds = event, came.seconds
            self._telling.telemetry.emit(event, seconds=came.seconds)

    def emit_refusal(self, status: int, why: str) -> None:
        """Tell that it was refused here, before anybody was asked."""
        self._failed("refused", why, status)

    def unread(self, why: str) -> None:
        """Tell that it is passed on and neither recorded nor given memories."""
        self._failed("unread", why)

    def cut(self, why: str) -> None:
        """Tell that it ended before its time."""
        self._failed(_CUT, why)

    def _failed(self, outcome: str, why: str, status: int = 0) -> None:
        self._over(
            msgspec.structs.replace(
                self._event,
                type="error",
                latency_ms=_milliseconds(self.seconds),
                status_code=status,
                error=self._telling.redact(why).value,
                auxiliary=self._left_out,
                outcome=outcome,
            )
        )

    def refused(self, answered: ProviderResponse) -> None:
        """Tell that the provider refused it."""
        self._over(self._response(answered, outcome="refused"), answered.provider)

    def emit_cut_reply(self, answered: ProviderResponse, usage: Usage, why: str) -> None:
        """Tell that its answer was passed on and is no turn, because it was not whole."""
        told = self._counted(self._response(answered, outcome=_CUT), usage, why)
        self._over(msgspec.structs.replace(told, type="error"), answered.provider)

    def answered(self, answered: ProviderResponse, usage: Usage, why: str) -> TurnEvent:
        """Return the event of its answer, which is told once the turn is recorded."""
        told = self._counted(self._response(answered, outcome="recorded"), usage, why)
        self._trace(told, answered.provider)
        return told

    def _response(self, answered: ProviderResponse, *, outcome: str) -> TurnEvent:
        return msgspec.structs.replace(
            self._event,
            type="response",
            latency_ms=_milliseconds(self.seconds),
            first_byte_ms=_milliseconds(answered.first_byte),
            status_code=answered.status,
            auxiliary=self._left_out,
            outcome=outcome,
        )

    def _counted(self, told: TurnEvent, usage: Usage, why: str) -> TurnEvent:
        return msgspec.structs.replace(
            told,
            tokens_in=usage.prompt_tokens,
            tokens_out=usage.completion_tokens,
            cost_usd=usage.reported_cost_usd,
            error=self._telling.redact(why).value if why else "",
        )

    def _over(self, told: TurnEvent, provider: str = "") -> None:
        self._telling.telemetry.tell(told)
        self._trace(told, provider)

    def _trace(self, told: TurnEvent, provider: str) -> None:
        self._telling.traces.turn(
            TurnTrace(
                at=self._began.at,
                seconds=self.seconds,
                event=told,
                provider=provider,
                recall=self._recall,
                recall_seconds=self._recall_seconds,
                carrier=self._carrier,
            )
        )


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
