"""Rendering: templates, the headers of every page, and what all pages share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memplane.server.dashboard import display_format
from memplane.server.dashboard.assets import asset_path
from memplane.server.dashboard.browser_sessions import BrowserSession
from memplane.server.dashboard.toasts import TOAST_PARAMS, read_toast
from memplane.version import VERSION

if TYPE_CHECKING:
    from jinja2 import Environment

PAGE_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    # With no-referrer a browser says of its own forms that they come from nowhere.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
NAVIGATION: Final = (
    ("/", "Overview"),
    ("/memories", "Memories"),
    ("/conflicts", "Conflicts"),
    ("/preview", "Prompt"),
    ("/lab", "Recall lab"),
    ("/turns", "Turns"),
    ("/persona", "Persona"),
    ("/audit", "Audit"),
)


class PageRequest(msgspec.Struct, frozen=True):
    """A request of a browser that is signed in."""

    request: Request
    browser: BrowserSession

    @property
    def is_partial(self) -> bool:
        """Whether a page asks for a part of itself."""
        return "hx-request" in self.request.headers

    def page(self, template: str, code: int = 200, /, **values: object) -> Response:
        """Answer with a page, or with a part of one."""
        return render_page(
            template,
            code,
            csrf=self.browser.csrf,
            here=self._here,
            at=self._at,
            theme=self._theme,
            toast=read_toast(self.query),
            **values,
        )

    @property
    def query(self) -> Mapping[str, str]:
        """What stands behind the address."""
        return dict(self.request.query_params)

    @property
    def _theme(self) -> str:
        chosen = self.request.cookies.get("memplane_theme", "")
        return chosen if chosen in {"light", "dark"} else "system"

    @property
    def _here(self) -> str:
        return self.request.url.path

    @property
    def _at(self) -> str:
        """The address without what was done before, to come back to."""
        left = [
            (k, v) for k, v in self.request.query_params.multi_items() if k not in TOAST_PARAMS
        ]
        return f"{self._here}?{urlencode(left)}" if left else self._here


def render_page(template: str, code: int = 200, /, **values: object) -> Response:
    """Answer with a template."""
    text = _make_environment().get_template(template).render(**values)
    return HTMLResponse(text, code, headers=PAGE_HEADERS)


def redirect_to(path: str) -> Response:
    """Send the browser on to another page, after a form."""
    return RedirectResponse(path, 303, headers=PAGE_HEADERS)


@cache
def _make_environment() -> Environment:
    # Only whoever looks at the dashboard waits for it.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=PackageLoader("memplane.server.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The library's own names are all that its types know of.
    known: dict[str, Any] = environment.globals
    known.update(asset=asset_path, navigation=NAVIGATION, version=VERSION, shown=display_format)
    filters: dict[str, Any] = environment.filters
    filters.update(
        ago=display_format.format_age,
        happened=display_format.describe_event,
        visible=display_format.escape_invisible,
        sure=display_format.format_confidence,
        number=display_format.format_number,
    )
    return environment
