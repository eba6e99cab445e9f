from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.dashboard.browsing import Person, signed_in
from tests.server.operating import Api, admin, new_agent
from tests.support.running import Running, running_memplane


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_memplane(tmp_path_factory.mktemp("dashboard") / "home") as started:
        yield started


@pytest.fixture
def person(running: Running) -> Person:
    return signed_in(running)


@pytest.fixture
def api(running: Running) -> Api:
    """Somebody who has an agent of their own."""
    return new_agent(running)


@pytest.fixture
def operator(running: Running) -> Api:
    return admin(running)
