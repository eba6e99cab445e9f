"""The ASGI application: layers around a table of endpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from memplane.auth.token_store import TokenStore
from memplane.kit.clock import Clock, system_clock
from memplane.server.authentication import TokenAuthentication
from memplane.server.dispatcher import Dispatcher
from memplane.server.endpoints import AnyTokenAuth, Endpoint, EndpointTable
from memplane.server.host_origin_check import HostOriginCheck
from memplane.server.limits import TokenRateLimit, WrongTokenLimit
from memplane.server.metrics import Metrics, MetricsLayer, MetricSource
from memplane.server.openapi import build_openapi
from memplane.server.operation_endpoints import operation_endpoints
from memplane.server.system_api import system_endpoints
from memplane.service.services import Services
from memplane.service.table import OPERATIONS


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much the door takes; 0 requests a second is no limit."""

    requests_per_second: int = 1000
    concurrent_requests: int = 2000


def create_app(
    services: Services,
    *,
    hosts: Iterable[str],
    tokens: TokenStore,
    limits: RequestLimits | None = None,
    endpoints: Iterable[Endpoint] = (),
    figures: Iterable[MetricSource] = (),
    failing: Callable[[], Sequence[str]] = tuple,
    clock: Clock = system_clock,
    seconds: Callable[[], float] = time.monotonic,
) -> ASGIApp:
    """Serve one client to those who may ask.

    `endpoints` and `figures` come from other parts, beside the ones that are always there.
    `failing` says for `/health` what is not kept now.
    """
    limits = limits or RequestLimits()
    metrics = Metrics(figures)
    operations = operation_endpoints(OPERATIONS, services)
    table = build_table([*system_endpoints(metrics, failing), *operations, *endpoints])
    gate = TokenAuthentication(
        app=Dispatcher(table),
        table=table,
        tokens=tokens,
        clock=clock,
        seconds=seconds,
        buckets=TokenRateLimit(limits.requests_per_second),
        wrong=WrongTokenLimit(),
        refused=metrics.refuse,
    )
    return HostOriginCheck(
        MetricsLayer(gate, metrics, seconds),
        hosts=hosts,
        most=limits.concurrent_requests,
        refused=metrics.refuse,
    )


def build_table(endpoints: Iterable[Endpoint]) -> EndpointTable:
    """Make the table, with the description of itself in it."""

    @cache
    def description() -> bytes:
        # It takes some forty milliseconds to make, and few ever ask.
        return build_openapi(table)

    async def get_description(_request: Request) -> Response:
        return Response(description(), media_type="application/json")

    described = Endpoint(
        method="GET",
        path="/openapi.json",
        handler=get_description,
        needs=AnyTokenAuth(),
        gives=dict[str, Any],
        summary="This description",
    )
    table = EndpointTable([*endpoints, described])
    return table
