"""The ASGI application: layers around a table of endpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from memplane.access.tokens import TokenStore
from memplane.clock import Clock, system_clock
from memplane.http.api import api_endpoints, door_endpoints
from memplane.http.boundary import Boundary
from memplane.http.dispatch import Dispatch
from memplane.http.endpoints import AnyToken, Endpoint, Table
from memplane.http.gate import Gate
from memplane.http.limits import Buckets, WrongTokens
from memplane.http.metrics import Figures, Measured, Metrics
from memplane.http.openapi import describe
from memplane.plane.contract import Plane


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much the door takes; 0 requests a second is no limit."""

    requests_per_second: int = 1000
    concurrent_requests: int = 2000


def create_app(
    plane: Plane,
    *,
    hosts: Iterable[str],
    tokens: TokenStore,
    limits: Limits | None = None,
    endpoints: Iterable[Endpoint] = (),
    figures: Iterable[Figures] = (),
    clock: Clock = system_clock,
    seconds: Callable[[], float] = time.monotonic,
) -> ASGIApp:
    """Serve one plane to those who may ask.

    `endpoints` and `figures` come from other parts, beside the ones that are always there.
    """
    limits = limits or Limits()
    metrics = Metrics(figures)
    table = make_table([*door_endpoints(metrics), *api_endpoints(plane), *endpoints])
    gate = Gate(
        app=Dispatch(table),
        table=table,
        tokens=tokens,
        clock=clock,
        seconds=seconds,
        buckets=Buckets(limits.requests_per_second),
        wrong=WrongTokens(),
        refused=metrics.refuse,
    )
    return Boundary(
        Measured(gate, metrics, seconds),
        hosts=hosts,
        most=limits.concurrent_requests,
        refused=metrics.refuse,
    )


def make_table(endpoints: Iterable[Endpoint]) -> Table:
    """Make the table, with the description of itself in it."""

    @cache
    def description() -> bytes:
        # It takes some forty milliseconds to make, and few ever ask.
        return describe(table)

    async def get_description(_request: Request) -> Response:
        return Response(description(), media_type="application/json")

    described = Endpoint(
        method="GET",
        path="/openapi.json",
        handler=get_description,
        needs=AnyToken(),
        gives=dict[str, Any],
        summary="This description",
    )
    table = Table([*endpoints, described])
    return table
