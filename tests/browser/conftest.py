"""A browser for each module, one memplane for all; a page that goes wrong fails its test.

Tests have agents of their own, and so do not see each other's memories.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.homelab import Homelab, configure, furnish
from tests.browser.looking import Desk, Watch, running_browser
from tests.browser.servers import Provider, running_server
from tests.http.operating import Api, new_agent
from tests.support.running import Running, running_memplane


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    made = Provider()
    with running_server(made):
        yield made


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("dashboard") / "home"
    configure(home, provider)
    with running_memplane(home) as started:
        yield started


@pytest.fixture(scope="module")
def signed_in(chromium: Browser, running: Running) -> Any:
    desk = Desk(running, chromium, Watch(f"127.0.0.1:{running.port}"))
    state = desk.sign_in().context.storage_state()
    desk.close()
    assert not desk.watch.found()
    return state


@pytest.fixture
def desk(chromium: Browser, running: Running, signed_in: Any) -> Iterator[Desk]:
    made = Desk(running, chromium, Watch(f"127.0.0.1:{running.port}"), signed_in)
    yield made
    made.close()
    assert not made.watch.found()


@pytest.fixture
def api(running: Running) -> Api:
    """The API for an agent that nobody has heard of yet: each test has rows of its own."""
    return new_agent(running)


@pytest.fixture(scope="session")
def homelab(running: Running, provider: Provider) -> Homelab:
    return furnish(running, provider)
