"""Every page, as endpoints of the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memplane.auth.grants import Scope
from memplane.kit.clock import Clock
from memplane.server.dashboard.assets import asset_endpoints
from memplane.server.dashboard.audit import audit_pages
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.conflicts import conflicts_pages
from memplane.server.dashboard.import_export import import_export_pages
from memplane.server.dashboard.live_events import live_event_endpoints
from memplane.server.dashboard.memories import memories_pages
from memplane.server.dashboard.memory_detail import memory_detail_pages
from memplane.server.dashboard.overview import overview_pages
from memplane.server.dashboard.persona import persona_pages
from memplane.server.dashboard.prompt_preview import prompt_preview_pages
from memplane.server.dashboard.recall_lab import recall_lab_pages
from memplane.server.dashboard.sign_in import not_found_endpoint, sign_in_endpoints
from memplane.server.dashboard.turns import TurnSources, turns_pages
from memplane.server.endpoints import Endpoint, ScopeAuth
from memplane.server.system_api import json_response
from memplane.service.client import Client

_ADMIN: Final = ScopeAuth(Scope.ADMIN)


class CodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A code that lets one browser in, once, within a minute."""

    code: str


class DashboardParts(msgspec.Struct, frozen=True, kw_only=True):
    """What pages are made of."""

    client: Client
    browsers: BrowserSessions
    clock: Clock
    logs: Path
    """The logs of sessions."""
    turns: TurnSources
    telemetry: Sequence[Path]
    """The logs of what was done to memory."""


def dashboard_endpoints(parts: DashboardParts) -> list[Endpoint]:
    """Make the endpoints of all pages."""
    client, browsers, clock = parts.client, parts.browsers, parts.clock
    ledgers = parts.turns.ledgers
    return [
        *asset_endpoints(),
        *sign_in_endpoints(browsers),
        not_found_endpoint(browsers),
        *overview_pages(client, browsers, clock, ledgers),
        *conflicts_pages(client, browsers, clock),
        *import_export_pages(client, browsers, parts.turns),
        *memories_pages(client, browsers, clock),
        *memory_detail_pages(client, browsers, clock, parts.logs),
        *prompt_preview_pages(client, browsers, clock),
        *recall_lab_pages(client, browsers, clock, ledgers),
        *turns_pages(client, browsers, clock, parts.turns),
        *persona_pages(client, browsers, clock),
        *audit_pages(client, browsers, clock, ledgers=ledgers, logs=parts.telemetry),
        *live_event_endpoints(client, browsers),
        _code_endpoint(browsers),
    ]


def _code_endpoint(browsers: BrowserSessions) -> Endpoint:
    async def post_code(_request: Request) -> Response:
        return json_response(CodeAnswer(code=browsers.new_code()), 201)

    return Endpoint(
        method="POST",
        path="/api/v1/dashboard/codes",
        handler=post_code,
        needs=_ADMIN,
        gives=CodeAnswer,
        status=201,
        summary="Make a code that lets one browser in, once, within a minute",
    )
