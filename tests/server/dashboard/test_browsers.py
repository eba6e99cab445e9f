"""One-time codes, and the sessions of browsers that had one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from memplane.server.dashboard.browser_sessions import (
    CODE_LIFETIME,
    FIRST_CODE_LIFETIME,
    SESSION_LIFETIME,
    BrowserSessions,
    is_csrf_token_of,
)

MOMENT = timedelta(milliseconds=1)


@dataclass
class Hands:
    """A clock that is set by hand."""

    now: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def test_a_code_lets_one_browser_in_and_is_used_up() -> None:
    browsers = BrowserSessions(Hands())
    code = browsers.new_code()
    cookie = browsers.sign_in(f" {code}\n")
    assert cookie is not None
    assert browsers.find(cookie) is not None
    assert browsers.sign_in(code) is None


def test_a_code_is_good_for_a_minute_and_the_first_one_for_longer() -> None:
    clock = Hands()
    browsers = BrowserSessions(clock)
    late, early = browsers.new_code(), browsers.new_code()
    first = browsers.new_code(FIRST_CODE_LIFETIME)
    clock.now += CODE_LIFETIME - MOMENT
    assert browsers.sign_in(early) is not None
    clock.now += MOMENT
    assert browsers.sign_in(late) is None
    assert browsers.sign_in(first) is not None


def test_a_code_that_nobody_gave_out_is_good_for_nothing() -> None:
    browsers = BrowserSessions(Hands())
    browsers.new_code()
    for guess in ("", "x", "a" * 24):
        assert browsers.sign_in(guess) is None


def test_a_session_ends_after_half_a_day_or_when_somebody_signs_out() -> None:
    clock = Hands()
    browsers = BrowserSessions(clock)
    first = browsers.sign_in(browsers.new_code())
    second = browsers.sign_in(browsers.new_code())
    assert first is not None
    assert second is not None
    browsers.sign_out(first)
    assert browsers.find(first) is None
    clock.now += SESSION_LIFETIME - MOMENT
    assert browsers.find(second) is not None
    clock.now += MOMENT
    assert browsers.find(second) is None


def test_nobody_is_found_by_an_empty_cookie_or_by_a_code() -> None:
    browsers = BrowserSessions(Hands())
    assert browsers.find("") is None
    assert browsers.find(browsers.new_code()) is None


def test_a_form_is_from_the_browser_whose_token_it_has() -> None:
    browsers = BrowserSessions(Hands())
    mine, other = (browsers.find(browsers.sign_in(browsers.new_code()) or "") for _ in range(2))
    assert mine is not None
    assert other is not None
    assert is_csrf_token_of(mine, mine.csrf)
    assert not is_csrf_token_of(mine, other.csrf)
    assert not is_csrf_token_of(mine, "")
    assert not is_csrf_token_of(mine, "\u2019")


def test_only_hashes_of_codes_and_cookies_are_kept() -> None:
    browsers = BrowserSessions(Hands())
    code = browsers.new_code()
    cookie = browsers.sign_in(browsers.new_code())
    assert cookie is not None
    assert code not in repr(browsers)
    assert cookie not in repr(browsers)


def test_codes_and_sessions_do_not_pile_up() -> None:
    browsers = BrowserSessions(Hands())
    codes = [browsers.new_code() for _ in range(30)]
    assert browsers.sign_in(codes[0]) is None
    assert browsers.sign_in(codes[-1]) is not None
    oldest = browsers.sign_in(browsers.new_code())
    for _ in range(250):
        browsers.sign_in(browsers.new_code())
    assert oldest is not None
    assert browsers.find(oldest) is None
