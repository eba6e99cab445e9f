"""Who looks at the dashboard: one-time codes, and the sessions of browsers that had one.

Codes and sessions live in this process alone; a restart signs everybody out. Only hashes are kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from typing import Final

import msgspec

from memplane.kit.clock import Clock

SESSION_COOKIE: Final = "memplane_session"
CODE_LIFETIME: Final = timedelta(seconds=60)
FIRST_CODE_LIFETIME: Final = timedelta(minutes=10)
"""The code that is printed at the start waits until somebody has found the browser."""
SESSION_LIFETIME: Final = timedelta(hours=12)

_MAX_CODES: Final = 20
_MAX_SESSIONS: Final = 200


class BrowserSession(msgspec.Struct, frozen=True):
    """A browser that is signed in; `csrf` stands in each of its pages."""

    csrf: str
    until: datetime


class BrowserSessions(msgspec.Struct):
    """Gives out codes, and turns each into one session."""

    clock: Clock
    _codes: dict[str, datetime] = msgspec.field(default_factory=dict[str, datetime])
    _sessions: dict[str, BrowserSession] = msgspec.field(default_factory=dict[str, BrowserSession])

    def new_code(self, lasts: timedelta = CODE_LIFETIME) -> str:
        """Make a code that lets one browser in, once."""
        self._drop_old()
        while len(self._codes) >= _MAX_CODES:
            del self._codes[next(iter(self._codes))]
        code = secrets.token_urlsafe(18)
        self._codes[_hash_text(code)] = self.clock() + lasts
        return code

    def sign_in(self, code: str) -> str | None:
        """Take a code, which is good no longer; returns the cookie of a new session, or None."""
        self._drop_old()
        if self._codes.pop(_hash_text(code.strip()), None) is None:
            return None
        while len(self._sessions) >= _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        cookie = secrets.token_urlsafe(32)
        until = self.clock() + SESSION_LIFETIME
        self._sessions[_hash_text(cookie)] = BrowserSession(secrets.token_urlsafe(32), until)
        return cookie

    def find(self, cookie: str) -> BrowserSession | None:
        """Return the browser of a cookie; None when it is not signed in."""
        self._drop_old()
        return self._sessions.get(_hash_text(cookie)) if cookie else None

    def sign_out(self, cookie: str) -> None:
        """End a session."""
        self._sessions.pop(_hash_text(cookie), None)

    def _drop_old(self) -> None:
        now = self.clock()
        for code in [one for one, until in self._codes.items() if until <= now]:
            del self._codes[code]
        for one in [one for one, browser in self._sessions.items() if browser.until <= now]:
            del self._sessions[one]


def is_csrf_token_of(browser: BrowserSession, token: str) -> bool:
    """Say whether a form came out of a page of this browser's."""
    return hmac.compare_digest(browser.csrf.encode(), token.encode())


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
