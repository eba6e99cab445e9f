"""Files that pages load: styles, our own script, and htmx.

htmx is put beside them when memplane is built. Without it every page still works, only without
updating in place.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from memplane.server.endpoints import Endpoint, NoAuth
from memplane.server.errors import not_found_error

_MEDIA_TYPES: Final = {
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_CACHE_FOR_A_YEAR: Final = "public, max-age=31536000, immutable"


@cache
def _bytes_of(name: str) -> bytes | None:
    place = resources.files("memplane.server.dashboard") / "static" / name
    return place.read_bytes() if place.is_file() else None


@cache
def asset_path(name: str) -> str:
    """Return where a file is served, with its digest in the address; empty when it is not here."""
    content = _bytes_of(name)
    if content is None:
        return ""
    return f"/static/{hashlib.sha256(content).hexdigest()[:16]}/{name}"


async def _get_asset(request: Request) -> Response:
    name = request.path_params["name"]
    content = _bytes_of(name) if name in _MEDIA_TYPES else None
    if content is None or request.url.path != asset_path(name):
        raise not_found_error()
    return Response(
        content, media_type=_MEDIA_TYPES[name], headers={"Cache-Control": _CACHE_FOR_A_YEAR}
    )


def asset_endpoints() -> list[Endpoint]:
    """Make the endpoint of the files; there is nothing of anybody's in them."""
    return [
        Endpoint(
            method="GET",
            path="/static/{digest}/{name}",
            handler=_get_asset,
            needs=NoAuth(),
            media_type="text/plain",
            summary="A file that pages load",
        )
    ]
