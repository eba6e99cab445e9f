"""OpenAPI, help, pages and homes: compared with what they were."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.homelab import AGENT, configure, furnish
from tests.browser.servers import Provider, running_server
from tests.goldens.command_help import describe_commands
from tests.goldens.comparison import FOLDER, check_golden
from tests.goldens.pages import normalise, page_paths
from tests.goldens.recorded_home import HOME, answers, copy_home, write_home
from tests.server.dashboard.browsing import Person, signed_in
from tests.server.operating import admin
from tests.support.in_process import memplane_here
from tests.support.running import Running, running_memplane


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    with running_server(made):
        yield made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("golden") / "home"
    configure(home, provider)
    patient = {"MEMPLANE_PROXY_RECALL_MS": "10000"}  # on a busy machine, too
    with running_memplane(home, env=patient) as started:
        yield started


def test_the_description_of_the_api_is_as_it_was(running: Running) -> None:
    described = admin(running)
    reply = Person(running).ask(
        "GET /openapi.json", headers={"Authorization": f"Bearer {described.token}"}
    )
    assert reply.status == 200
    body = reply.json()
    body["info"]["version"] = "VERSION"
    check_golden(
        "openapi.json", json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    )


def test_the_help_of_every_command_is_as_it_was() -> None:
    check_golden("help.txt", describe_commands())


def test_the_pages_are_as_they_were(running: Running, provider: Provider) -> None:
    homelab = furnish(running, provider)
    while is_busy(admin(running).get("/status")["memory"]):
        time.sleep(0.05)
    person = signed_in(running)
    paths = page_paths(homelab)
    for name, path in paths.items():
        visitor = Person(running) if name == "login" else person
        check_golden(f"pages/{name}.html", normalise(name, visitor.page(path)))
    kept = {file.stem for file in (FOLDER / "pages").glob("*.html")}
    assert kept == set(paths)


def is_busy(memory: dict[str, Any]) -> bool:
    return any(memory[name] for name in ("busy", "underived", "unindexed"))


def test_a_golden_file_tells_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WRITE_GOLDENS", raising=False)
    with pytest.raises(AssertionError, match=r"help\.txt differs from its golden file"):
        check_golden("help.txt", describe_commands().replace("memplane forget", "memplane forgot"))


def test_a_home_of_an_earlier_version_says_what_it_said(
    provider: Provider, tmp_path: Path
) -> None:
    if os.environ.get("WRITE_GOLDENS") and not HOME.exists():
        write_home(tmp_path / "written" / "home", provider)
    home = copy_home(tmp_path / "home")
    check_golden("home.json", json.dumps(answers(home), indent=1, ensure_ascii=False) + "\n")


def test_a_changed_line_of_that_home_is_noticed(tmp_path: Path) -> None:
    home = copy_home(tmp_path / "home")
    history = home / "ledger" / AGENT / "history.jsonl"
    history.write_text(history.read_text().replace("gpt-4o", "gpt-4p", 1))
    assert memplane_here(home, "history", "verify").returncode != 0
