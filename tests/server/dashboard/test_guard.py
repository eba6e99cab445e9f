"""Nobody gets past the guard: every endpoint of the dashboard, walked through in the table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from memplane.kit.clock import system_clock
from memplane.server.app import build_table
from memplane.server.dashboard.browser_sessions import SESSION_COOKIE, BrowserSessions
from memplane.server.dashboard.endpoints import DashboardParts, dashboard_endpoints
from memplane.server.dashboard.sign_in import BROWSER_SESSION_AUTH
from memplane.server.dashboard.turns import TurnSources
from memplane.server.dispatcher import Dispatcher
from memplane.server.endpoints import FALLBACK_PATH, Endpoint, NoAuth, ScopeAuth
from tests.server.dashboard.browsing import FORM
from tests.server.door import Reply, call, sending

NOWHERE = Path("/nonexistent")
OPEN = {"GET /static/{digest}/{name}", "GET /login", "POST /login"}
OURS = ("Origin", "http://localhost")


class Untouchable:
    """A plane that may not be asked for anything."""

    def __getattr__(self, name: str) -> Any:
        pytest.fail(f"the plane was asked for {name}")


def endpoints(browsers: BrowserSessions) -> list[Endpoint]:
    client: Any = Untouchable()
    return dashboard_endpoints(
        DashboardParts(
            client=client,
            browsers=browsers,
            clock=system_clock,
            logs=NOWHERE,
            turns=TurnSources((NOWHERE,), (NOWHERE,)),
            telemetry=(),
        )
    )


def address(endpoint: Endpoint) -> str:
    path = re.sub(r"\{[^}]*\}", "1", endpoint.path)
    return f"{endpoint.method} {path}"


ALL = endpoints(BrowserSessions(system_clock))
GUARDED = [one for one in ALL if one.needs == BROWSER_SESSION_AUTH and one.path != FALLBACK_PATH]
FORMS = [one for one in GUARDED if one.method == "POST"]


def name(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


def test_only_signing_in_and_files_are_open_to_everybody() -> None:
    assert {name(one) for one in ALL if isinstance(one.needs, NoAuth)} == OPEN
    rest = [
        one
        for one in ALL
        if not isinstance(one.needs, NoAuth) and one.needs != BROWSER_SESSION_AUTH
    ]
    assert [name(one) for one in rest] == ["POST /api/v1/dashboard/codes"]
    assert all(isinstance(one.needs, ScopeAuth) for one in rest)


async def asked(
    line: str, browsers: BrowserSessions, *headers: tuple[str, str], body: bytes = b""
) -> Reply:
    app = sending(Dispatcher(build_table(endpoints(browsers))))
    return await call(app, line, *headers, body=(body,) if body else ())


@pytest.mark.parametrize("endpoint", GUARDED, ids=name)
async def test_without_a_session_every_page_and_form_asks_to_sign_in(endpoint: Endpoint) -> None:
    browsers = BrowserSessions(system_clock)
    for cookie in ("", "wrong", browsers.new_code()):
        headers = (("Cookie", f"{SESSION_COOKIE}={cookie}"), ("Content-Type", FORM))
        reply = await asked(address(endpoint), browsers, *headers)
        assert (reply.status, reply.headers["location"]) == (303, "/login")
        partial = await asked(address(endpoint), browsers, *headers, ("HX-Request", "true"))
        assert (partial.status, partial.headers["hx-redirect"]) == (401, "/login")
        stream = await asked(address(endpoint), browsers, ("Accept", "text/event-stream"))
        assert stream.status == 401


@pytest.mark.parametrize("endpoint", FORMS, ids=name)
async def test_a_form_of_another_page_changes_nothing(endpoint: Endpoint) -> None:
    browsers = BrowserSessions(system_clock)
    cookie, others = (browsers.sign_in(browsers.new_code()) or "" for _ in range(2))
    mine, other = browsers.find(cookie), browsers.find(others)
    assert mine is not None
    assert other is not None
    session, form = ("Cookie", f"{SESSION_COOKIE}={cookie}"), ("Content-Type", FORM)
    right = f"csrf={mine.csrf}".encode()
    probes: list[tuple[bytes, tuple[tuple[str, str], ...], int]] = [
        (b"observation=x", (form, OURS), 403),
        (b"csrf=", (form, OURS), 403),
        (f"csrf={other.csrf}".encode(), (form, OURS), 403),
        (right, (("Content-Type", "text/plain"), OURS), 415),
        (b"{}", (("Content-Type", "application/json"), OURS), 415),
        (right, (form, ("Sec-Fetch-Site", "cross-site")), 403),
        (right, (form, ("Sec-Fetch-Site", "same-site")), 403),
        (right, (form, ("Origin", "http://localhost:3000")), 403),
        (right, (form, ("Origin", "null")), 403),
    ]
    for body, headers, status in probes:
        reply = await asked(address(endpoint), browsers, session, *headers, body=body)
        assert reply.status == status, (body, headers, reply.body)


@pytest.mark.parametrize("endpoint", FORMS, ids=name)
async def test_nothing_is_changed_by_looking(endpoint: Endpoint) -> None:
    shown = {one.path for one in ALL if one.method == "GET"}
    line = address(endpoint).replace("POST", "GET")
    reply = await asked(line, BrowserSessions(system_clock))
    assert reply.status == (303 if endpoint.path in shown else 405)


async def test_the_guard_itself_lets_the_right_form_through() -> None:
    browsers = BrowserSessions(system_clock)
    cookie = browsers.sign_in(browsers.new_code()) or ""
    mine = browsers.find(cookie)
    assert mine is not None
    body = f"csrf={mine.csrf}".encode()
    headers = (("Cookie", f"{SESSION_COOKIE}={cookie}"), ("Content-Type", FORM), OURS)
    same = ("Sec-Fetch-Site", "same-origin")
    reply = await asked("POST /logout", browsers, *headers, same, body=body)
    assert (reply.status, reply.headers["location"]) == (303, "/login")
    assert browsers.find(cookie) is None


async def test_a_wrong_code_is_said_to_be_wrong_and_signs_nobody_in() -> None:
    browsers = BrowserSessions(system_clock)
    browsers.new_code()
    form = ("Content-Type", FORM)
    reply = await asked("POST /login", browsers, form, OURS, body=b"code=guess")
    assert reply.status == 403
    assert "set-cookie" not in reply.headers
    assert b'aria-invalid="true"' in reply.body
    foreign = ("Sec-Fetch-Site", "cross-site")
    code = browsers.new_code().encode()
    reply = await asked("POST /login", browsers, form, foreign, body=b"code=" + code)
    assert reply.status == 403


async def test_the_cookie_is_for_this_site_alone_and_not_for_scripts() -> None:
    browsers = BrowserSessions(system_clock)
    body = f"code={browsers.new_code()}".encode()
    reply = await asked("POST /login", browsers, ("Content-Type", FORM), OURS, body=body)
    cookie = reply.headers["set-cookie"]
    assert reply.status == 303
    for word in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"):
        assert word in cookie
