"""A real browser before a real memplane, and what must never happen while it looks."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    WebError,
    expect,
    sync_playwright,
)

from tests.server.operating import Api, admin
from tests.support.running import Running

# The shell is the same browser without windows, and does less for each page.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_OF_A_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--renderer-process-limit=1",  # fewer processes for each context
)
_PATIENCE = 60_000
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 320, "height": 720}


def browser_program() -> str:
    """Where the browser is; that there is none is a failure."""
    found = next(filter(None, map(shutil.which, _NAMES)), None) or _OF_A_MAC
    assert Path(found).exists(), "there is no Chromium here: run tools/install-browser"
    return found


@contextmanager
def running_browser() -> Iterator[Browser]:
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_program(), args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watch:
    """Keeps what goes wrong in pages: errors, refusals of the policy, requests that go astray."""

    host: str
    problems: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def over(self, context: BrowserContext) -> None:
        context.on("console", self._said)
        context.on("weberror", self._broke)
        context.on("request", self._asked)
        context.on("requestfailed", self._failed)

    def allow(self, *patterns: str) -> None:
        """Let a test cause what it is about."""
        self.allowed += patterns

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self._note(f"console: {message.text}")

    def _broke(self, error: WebError) -> None:
        self._note(f"error: {error.error}")

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in {"http", "https", "ws", "wss"} and address.netloc != self.host:
            self._note(f"request to another host: {request.url}")

    def _failed(self, request: Request) -> None:
        # A page that is left, or that asks anew, gives up what it waits for.
        if "ERR_ABORTED" not in (request.failure or ""):
            self._note(f"failed: {request.url}: {request.failure}")

    def _note(self, problem: str) -> None:
        self.problems.append(problem)

    def found(self) -> list[str]:
        return [
            one for one in self.problems if not any(re.search(each, one) for each in self.allowed)
        ]

    def forget(self) -> None:
        """Begin anew, for the next test of a page that tests share."""
        self.problems.clear()
        self.allowed.clear()


@dataclass(slots=True)
class Desk:
    """Opens pages in browsers of their own that have signed in."""

    running: Running
    browser: Browser
    watch: Watch
    state: Any = None
    contexts: list[BrowserContext] = field(default_factory=list)

    @property
    def api(self) -> Api:
        return admin(self.running)

    @property
    def address(self) -> str:
        return self.running.address

    def context(self, *, signed_in: bool = True, **how: Any) -> BrowserContext:
        """Make a browser of its own, as nothing that is shared with another."""
        how.setdefault("viewport", WIDE)
        context = self.browser.new_context(
            base_url=self.address, storage_state=self.state if signed_in else None, **how
        )
        context.set_default_timeout(_PATIENCE)
        self.watch.over(context)
        self.contexts.append(context)
        return context

    def open(self, path: str, **how: Any) -> Page:
        """Open a page of the dashboard in a browser of its own."""
        page = self.context(**how).new_page()
        page.goto(path)
        return page

    def code(self) -> str:
        return str(self.api.post("/dashboard/codes")["code"])

    def sign_in(self, **how: Any) -> Page:
        """Sign in as people do, with the address that memplane prints."""
        page = self.context(signed_in=False, **how).new_page()
        page.goto(f"/login#{self.code()}")
        expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
        return page

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        self.contexts.clear()


def state_of_one_who_signed_in(running: Running, browser: Browser) -> Any:
    """Sign in once, for many contexts that begin with what that left."""
    desk = Desk(running, browser, Watch(f"127.0.0.1:{running.port}"))
    state = desk.sign_in().context.storage_state()
    desk.close()
    assert not desk.watch.found()
    return state


def row_of(page: Page, number: int) -> Locator:
    """The row of a memory in the list."""
    return page.locator(f"#memory-{number}")


def edit_row(page: Page, number: int) -> Locator:
    """Begin to edit a row of the list."""
    row_of(page, number).get_by_role("link", name=f"Edit memory {number}").click()
    form = page.locator(f"#memory-{number}[data-editing]")
    expect(form).to_be_visible()
    return form


def save(page: Page, number: int) -> None:
    """Save the edit of a row, and wait until it is a row again."""
    row_of(page, number).get_by_role("button", name="Save").click()
    expect(page.locator(f"#memory-{number}:not([data-editing])")).to_be_visible()


def shown(page: Page) -> list[int]:
    """The memories of the list, in its order."""
    rows = page.locator("tr[data-memory]")
    return list(rows.evaluate_all("rows => rows.map(row => Number(row.dataset.memory))"))


def toast(page: Page, words: str) -> Locator:
    """What was said of something that was done."""
    return page.locator("[data-toast]", has_text=words)
