"""Figures for Prometheus. Each application has its own; agents are never named in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import generate_latest as _text_of
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.types import Receive, Scope, Send

from memplane.server.authentication import endpoint_path
from memplane.server.responses import STATUS_KEY, AppLayer, send_response
from memplane.version import VERSION

METRICS_MEDIA_TYPE: Final = CONTENT_TYPE_LATEST

_LATENCY_BUCKETS_S: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
)
_CLIENT_CLOSED_STATUS: Final = 499
_LABEL_CACHE_SIZE: Final = 512
"""Counted where the client left before an answer began, as other servers do."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class MetricSample(msgspec.Struct, frozen=True, kw_only=True):
    """One number that another part wants shown; figures of one name have the same labels."""

    name: str
    help: str
    kind: Literal["counter", "gauge"]
    value: float
    labels: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


MetricSource: TypeAlias = Callable[[], Iterable[MetricSample]]
"""Called in a thread each time somebody looks."""


class Metrics:
    """What the door counts, and the figures of other parts."""

    def __init__(self, figures: Iterable[MetricSource] = ()) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "memplane_http_requests",
            "Requests answered, by endpoint.",
            ("endpoint", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "memplane_http_request_seconds",
            "Time from a request's head to the end of its answer.",
            ("endpoint",),
            buckets=_LATENCY_BUCKETS_S,
            registry=self._registry,
        )
        self._refused = Counter(
            "memplane_http_refused",
            "Requests refused before they were routed, by reason.",
            ("reason",),
            registry=self._registry,
        )
        self._wrong_tokens = Counter(
            "memplane_http_wrong_tokens", "Wrong tokens that were given.", registry=self._registry
        )
        build = Gauge("memplane_build_info", "The version.", ("version",), registry=self._registry)
        build.labels(VERSION).set(1)
        self._registry.register(_SampleCollector(tuple(figures)))
        # The library finds the counter of some labels in ten times as long.
        self._count_of = lru_cache(_LABEL_CACHE_SIZE)(self._requests.labels)
        self._seconds_of = lru_cache(_LABEL_CACHE_SIZE)(self._seconds.labels)

    def refuse(self, reason: str) -> None:
        """Count a refusal; a wrong token is one."""
        self._refused.labels(reason).inc()
        if reason == "token":
            self._wrong_tokens.inc()

    def answer(self, endpoint: str, method: str, status: int, seconds: float) -> None:
        """Count an answer."""
        known = method if method in _METHODS else "other"
        self._count_of(endpoint, known, status).inc()
        self._seconds_of(endpoint).observe(seconds)

    def text(self) -> bytes:
        """Write all figures down."""
        return _text_of(self._registry)


@dataclass(frozen=True, slots=True)
class _SampleCollector(Collector):
    """Asks the other parts for their figures."""

    figures: tuple[MetricSource, ...]

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for one in (figure for ask in self.figures for figure in ask()):
            kind = CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily
            labels = sorted(one.labels)
            family = families.setdefault(one.name, kind(one.name, one.help, labels=labels))
            family.add_metric([one.labels[name] for name in labels], one.value)
        yield from families.values()


class MetricsLayer(msgspec.Struct, frozen=True):
    """Counts and times what passes, by the endpoint that was asked."""

    app: AppLayer
    metrics: Metrics
    seconds: Callable[[], float]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        unsent = _CLIENT_CLOSED_STATUS
        began = self.seconds()
        try:
            await send_response(await self.app(scope, receive), scope, receive, send)
        except Exception:
            unsent = 500
            raise
        finally:
            took = self.seconds() - began
            status = scope.get(STATUS_KEY, unsent)
            self.metrics.answer(endpoint_path(scope), scope["method"], status, took)
