"""What happens, told to pages as it happens."""

from __future__ import annotations

from starlette.responses import Response

from memplane.http.changes_api import MEDIA_TYPE, stream_of
from memplane.http.dashboard.browsers import COOKIE, Browsers
from memplane.http.dashboard.pages import Visit
from memplane.http.dashboard.signing_in import SIGNED_IN, guarded
from memplane.http.endpoints import Endpoint
from memplane.plane.contract import Plane


def live_pages(plane: Plane, browsers: Browsers) -> list[Endpoint]:
    """Make the endpoint that pages listen to while they are open."""

    async def live(visit: Visit) -> Response:
        cookie = visit.request.cookies.get(COOKIE, "")
        return await stream_of(
            await plane.memories(), visit.request, None, lambda: browsers.find(cookie) is not None
        )

    return [
        Endpoint(
            method="GET",
            path="/live",
            handler=guarded(browsers, live),
            needs=SIGNED_IN,
            media_type=MEDIA_TYPE,
            headers={"Last-Event-ID": "Go on after that event; without it, from now on."},
            summary="What happens to memories, for pages that are open",
        )
    ]
