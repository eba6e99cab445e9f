"""One browser and one memplane for all; a page that goes wrong fails its test.

Tests have agents of their own, and so do not see each other's memories.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.homelab import Homelab, configure, furnish
from tests.browser.looking import Desk, Watch, running_browser, state_of_one_who_signed_in
from tests.browser.servers import Provider, running_server
from tests.server.operating import Api, new_agent
from tests.support.running import Running, running_memplane

_HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Look at pages before all else, so that a browser is started once and not for each module."""
    items.sort(key=lambda item: not item.path.is_relative_to(_HERE))


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """A browser that ends before tests of another kind: while it runs, so does an event loop."""
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


@pytest.fixture(scope="package")
def signed_in(chromium: Browser, running: Running) -> Any:
    return state_of_one_who_signed_in(running, chromium)


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
