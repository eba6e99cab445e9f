"""What happens, told to pages as it happens."""

from __future__ import annotations

from typing import cast

from starlette.responses import Response

from memplane.server.dashboard.browser_sessions import SESSION_COOKIE, BrowserSessions
from memplane.server.dashboard.renderer import PageRequest
from memplane.server.dashboard.sign_in import BROWSER_SESSION_AUTH, require_session
from memplane.server.endpoints import Endpoint
from memplane.server.event_stream import MEDIA_TYPE, stream_events
from memplane.server.query_params import read_header
from memplane.service.client import Client
from memplane.service.operations.stats import watch_events


def live_event_endpoints(client: Client, browsers: BrowserSessions) -> list[Endpoint]:
    """Make the endpoint that pages listen to while they are open."""

    async def live(visit: PageRequest) -> Response:
        cookie = visit.request.cookies.get(SESSION_COOKIE, "")
        after = read_header(visit.request.headers, "Last-Event-ID", int, None)
        stream = await client.call(watch_events, after=cast("int | None", after))
        return stream_events(stream, visit.request, lambda: browsers.find(cookie) is not None)

    return [
        Endpoint(
            method="GET",
            path="/live",
            handler=require_session(browsers, live),
            needs=BROWSER_SESSION_AUTH,
            media_type=MEDIA_TYPE,
            headers={"Last-Event-ID": "Go on after that event; without it, from now on."},
            summary="What happens to memories, for pages that are open",
        )
    ]
