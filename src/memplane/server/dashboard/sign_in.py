"""Signing in and out, and the guard before every page.

A browser shows a one-time code once, by a form, and gets a cookie. A page that changes something
needs the cookie, a token out of one of this browser's own pages, and an origin that is ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from memplane.errors import InvalidRequest, MemplaneError
from memplane.server.dashboard.browser_sessions import (
    SESSION_COOKIE,
    SESSION_LIFETIME,
    BrowserSessions,
    is_csrf_token_of,
)
from memplane.server.dashboard.forms import MAX_FORM_BYTES, Form, read_form
from memplane.server.dashboard.renderer import PAGE_HEADERS, PageRequest, redirect_to, render_page
from memplane.server.endpoints import FALLBACK_PATH, Endpoint, Handler, HandlerAuth, NoAuth
from memplane.server.errors import status_of, unauthorised_error

PageHandler: TypeAlias = Callable[[PageRequest], Awaitable[Response]]
ActionHandler: TypeAlias = Callable[[PageRequest, Form], Awaitable[Response]]

BROWSER_SESSION_AUTH: Final = HandlerAuth("for a browser that has signed in")
_OWN_SITES: Final = frozenset({"same-origin", "none"})
_TOO_MANY: Final = 20


def require_session(browsers: BrowserSessions, page: PageHandler) -> Handler:
    """Let only browsers that have signed in see a page; others are asked to."""

    async def handler(request: Request) -> Response:
        browser = browsers.find(request.cookies.get(SESSION_COOKIE, ""))
        if browser is None:
            return _ask_to_sign_in(request)
        return await _render_result(page, PageRequest(request, browser))

    return handler


def require_form_session(browsers: BrowserSessions, act: ActionHandler) -> Handler:
    """Let only forms out of this browser's own pages change something."""

    async def handler(request: Request) -> Response:
        browser = browsers.find(request.cookies.get(SESSION_COOKIE, ""))
        if browser is None:
            return _ask_to_sign_in(request)
        return await _render_result(checked, PageRequest(request, browser))

    async def checked(visit: PageRequest) -> Response:
        _check_site(visit.request)
        form = await read_form(visit.request)
        token = visit.request.headers.get("x-csrf-token") or form.one("csrf")
        if not is_csrf_token_of(visit.browser, token):
            raise HTTPException(403, "this form is not from a page of this session: load it again")
        return await act(visit, form)

    return handler


async def _render_result(page: PageHandler, visit: PageRequest) -> Response:
    try:
        return await page(visit)
    except (MemplaneError, HTTPException) as error:
        status = status_of(error) if isinstance(error, MemplaneError) else error.status_code
        words = str(error) if isinstance(error, MemplaneError) else error.detail
        fields = error.fields if isinstance(error, InvalidRequest) else {}
        return visit.page(
            "error_part.html" if visit.is_partial else "error.html",
            status,
            status=status,
            words=words,
            fields=fields,
        )


def _check_site(request: Request) -> None:
    """Refuse what another page had the browser send, even one on this machine."""
    site = request.headers.get("sec-fetch-site", "none")
    origin = request.headers.get("origin", "")
    host = request.headers.get("host", "")
    if site not in _OWN_SITES or (origin and urlsplit(origin).netloc.lower() != host.lower()):
        raise HTTPException(403, "that page may not do this")


def _ask_to_sign_in(request: Request) -> Response:
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={**PAGE_HEADERS, "HX-Redirect": "/login"})
    if "text/event-stream" in request.headers.get("accept", ""):
        # A stream that is sent elsewhere would be tried again for ever.
        return Response(status_code=401, headers=PAGE_HEADERS)
    return redirect_to("/login")


def not_found_endpoint(browsers: BrowserSessions) -> Endpoint:
    """Make the page for a browser that has signed in and asks for a page that there is not."""

    async def handler(request: Request) -> Response:
        browser = browsers.find(request.cookies.get(SESSION_COOKIE, ""))
        if browser is None or "text/html" not in request.headers.get("accept", ""):
            raise unauthorised_error()
        return await _render_result(_raise_not_found, PageRequest(request, browser))

    return page_endpoint("GET", FALLBACK_PATH, handler, "There is no such page")


async def _raise_not_found(_visit: PageRequest) -> Response:
    raise HTTPException(404, "there is no page at that address")


def sign_in_endpoints(browsers: BrowserSessions) -> list[Endpoint]:
    """Make the endpoints that let browsers in and out."""

    async def get_login(request: Request) -> Response:
        if browsers.find(request.cookies.get(SESSION_COOKIE, "")) is not None:
            return redirect_to("/")
        return render_page("login.html", wrong=False)

    async def post_login(request: Request) -> Response:
        _check_site(request)
        form = await read_form(request)
        cookie = browsers.sign_in(form.one("code"))
        if cookie is None:
            return render_page("login.html", 403, wrong=True)
        response = redirect_to("/")
        response.set_cookie(
            SESSION_COOKIE,
            cookie,
            max_age=int(SESSION_LIFETIME.total_seconds()),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def post_logout(visit: PageRequest, _form: Form) -> Response:
        browsers.sign_out(visit.request.cookies.get(SESSION_COOKIE, ""))
        response = redirect_to("/login")
        response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")
        return response

    def endpoint(method: str, path: str, handler: Handler, summary: str) -> Endpoint:
        return Endpoint(
            method=method,
            path=path,
            handler=handler,
            needs=NoAuth(),
            media_type="text/html",
            body_limit=MAX_FORM_BYTES,
            summary=summary,
        )

    return [
        endpoint("GET", "/login", get_login, "The page that asks for a one-time code"),
        endpoint("POST", "/login", post_login, "Sign in with a one-time code"),
        page_endpoint("POST", "/logout", require_form_session(browsers, post_logout), "Sign out"),
    ]


def page_endpoint(method: str, path: str, handler: Handler, summary: str) -> Endpoint:
    """Make the endpoint of a page, or of a form in one."""
    return Endpoint(
        method=method,
        path=path,
        handler=handler,
        needs=BROWSER_SESSION_AUTH,
        media_type="text/html",
        body_limit=MAX_FORM_BYTES,
        summary=summary,
    )
