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
from memplane.http.dashboard.browsers import COOKIE, SESSION_LASTS, Browsers, is_from
from memplane.http.dashboard.forms import LIMIT, Form, read_form
from memplane.http.dashboard.pages import SAFE, Visit, go_to, rendered
from memplane.http.endpoints import ELSEWHERE, Endpoint, Handler, Open, OwnRules
from memplane.http.errors import status_of, unauthorised

Page: TypeAlias = Callable[[Visit], Awaitable[Response]]
Act: TypeAlias = Callable[[Visit, Form], Awaitable[Response]]

SIGNED_IN: Final = OwnRules("for a browser that has signed in")
_OURS: Final = frozenset({"same-origin", "none"})
_TOO_MANY: Final = 20


def guarded(browsers: Browsers, page: Page) -> Handler:
    """Let only browsers that have signed in see a page; others are asked to."""

    async def handler(request: Request) -> Response:
        browser = browsers.find(request.cookies.get(COOKIE, ""))
        if browser is None:
            return _ask_to_sign_in(request)
        return await _answered(page, Visit(request, browser))

    return handler


def guarded_act(browsers: Browsers, act: Act) -> Handler:
    """Let only forms out of this browser's own pages change something."""

    async def handler(request: Request) -> Response:
        browser = browsers.find(request.cookies.get(COOKIE, ""))
        if browser is None:
            return _ask_to_sign_in(request)
        return await _answered(checked, Visit(request, browser))

    async def checked(visit: Visit) -> Response:
        _check_site(visit.request)
        form = await read_form(visit.request)
        token = visit.request.headers.get("x-csrf-token") or form.one("csrf")
        if not is_from(visit.browser, token):
            raise HTTPException(403, "this form is not from a page of this session: load it again")
        return await act(visit, form)

    return handler


async def _answered(page: Page, visit: Visit) -> Response:
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
    if site not in _OURS or (origin and urlsplit(origin).netloc.lower() != host.lower()):
        raise HTTPException(403, "that page may not do this")


def _ask_to_sign_in(request: Request) -> Response:
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={**SAFE, "HX-Redirect": "/login"})
    if "text/event-stream" in request.headers.get("accept", ""):
        # A stream that is sent elsewhere would be tried again for ever.
        return Response(status_code=401, headers=SAFE)
    return go_to("/login")


def nothing_here(browsers: Browsers) -> Endpoint:
    """Make the page for a browser that has signed in and asks for a page that there is not."""

    async def handler(request: Request) -> Response:
        browser = browsers.find(request.cookies.get(COOKIE, ""))
        if browser is None or "text/html" not in request.headers.get("accept", ""):
            raise unauthorised()
        return await _answered(_absent, Visit(request, browser))

    return page_endpoint("GET", ELSEWHERE, handler, "There is no such page")


async def _absent(_visit: Visit) -> Response:
    raise HTTPException(404, "there is no page at that address")


def signing_in_endpoints(browsers: Browsers) -> list[Endpoint]:
    """Make the endpoints that let browsers in and out."""

    async def get_login(request: Request) -> Response:
        if browsers.find(request.cookies.get(COOKIE, "")) is not None:
            return go_to("/")
        return rendered("login.html", wrong=False)

    async def post_login(request: Request) -> Response:
        _check_site(request)
        form = await read_form(request)
        cookie = browsers.sign_in(form.one("code"))
        if cookie is None:
            return rendered("login.html", 403, wrong=True)
        response = go_to("/")
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=int(SESSION_LASTS.total_seconds()),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def post_logout(visit: Visit, _form: Form) -> Response:
        browsers.sign_out(visit.request.cookies.get(COOKIE, ""))
        response = go_to("/login")
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    def endpoint(method: str, path: str, handler: Handler, summary: str) -> Endpoint:
        return Endpoint(
            method=method,
            path=path,
            handler=handler,
            needs=Open(),
            media_type="text/html",
            body_limit=LIMIT,
            summary=summary,
        )

    return [
        endpoint("GET", "/login", get_login, "The page that asks for a one-time code"),
        endpoint("POST", "/login", post_login, "Sign in with a one-time code"),
        page_endpoint("POST", "/logout", guarded_act(browsers, post_logout), "Sign out"),
    ]


def page_endpoint(method: str, path: str, handler: Handler, summary: str) -> Endpoint:
    """Make the endpoint of a page, or of a form in one."""
    return Endpoint(
        method=method,
        path=path,
        handler=handler,
        needs=SIGNED_IN,
        media_type="text/html",
        body_limit=LIMIT,
        summary=summary,
    )
