"""Every page, as endpoints of the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memplane.access.grants import Scope
from memplane.clock import Clock
from memplane.http.api import answer_json
from memplane.http.dashboard.assets import asset_endpoints
from memplane.http.dashboard.audit import audit_pages
from memplane.http.dashboard.browsers import Browsers
from memplane.http.dashboard.conflicts import conflicts_pages
from memplane.http.dashboard.lab import lab_pages
from memplane.http.dashboard.live import live_pages
from memplane.http.dashboard.memories import memories_pages
from memplane.http.dashboard.memory import memory_pages
from memplane.http.dashboard.moving import moving_pages
from memplane.http.dashboard.overview import overview_pages
from memplane.http.dashboard.persona import OpenDesk, persona_pages
from memplane.http.dashboard.preview import preview_pages
from memplane.http.dashboard.signing_in import nothing_here, signing_in_endpoints
from memplane.http.dashboard.turns import Places, turns_pages
from memplane.http.endpoints import Endpoint, Needs
from memplane.plane.contract import Plane

_ADMIN: Final = Needs(Scope.ADMIN)


class CodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A code that lets one browser in, once, within a minute."""

    code: str


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """What pages are made of."""

    plane: Plane
    browsers: Browsers
    clock: Clock
    logs: Path
    """The logs of sessions."""
    turns: Places
    telemetry: Sequence[Path]
    """The logs of what was done to memory."""
    persona: OpenDesk


def dashboard_endpoints(parts: Dashboard) -> list[Endpoint]:
    """Make the endpoints of all pages."""
    plane, browsers, clock = parts.plane, parts.browsers, parts.clock
    ledgers = parts.turns.ledgers
    return [
        *asset_endpoints(),
        *signing_in_endpoints(browsers),
        nothing_here(browsers),
        *overview_pages(plane, browsers, clock, ledgers),
        *conflicts_pages(plane, browsers, clock),
        *moving_pages(plane, browsers, parts.turns),
        *memories_pages(plane, browsers, clock),
        *memory_pages(plane, browsers, clock, parts.logs),
        *preview_pages(plane, browsers, clock),
        *lab_pages(plane, browsers, clock, ledgers),
        *turns_pages(plane, browsers, clock, parts.turns),
        *persona_pages(parts.persona, browsers, clock),
        *audit_pages(plane, browsers, clock, ledgers=ledgers, logs=parts.telemetry),
        *live_pages(plane, browsers),
        _codes(browsers),
    ]


def _codes(browsers: Browsers) -> Endpoint:
    async def post_code(_request: Request) -> Response:
        return answer_json(CodeAnswer(code=browsers.new_code()), 201)

    return Endpoint(
        method="POST",
        path="/api/v1/dashboard/codes",
        handler=post_code,
        needs=_ADMIN,
        gives=CodeAnswer,
        status=201,
        summary="Make a code that lets one browser in, once, within a minute",
    )
