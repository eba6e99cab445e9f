"""What `memplane up` prints: where it is, what works there, and nothing between events."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from memplane.cli.greeting import Greeting, agent_rows, short_line
from memplane.cli.show import program
from memplane.home import Home
from memplane.plane.contract import LedgerStatus, Status, StorageStatus
from memplane.settings.table import HttpSettings, Settings
from tests.support.running import environment, memplane, running_memplane


@contextmanager
def printing_events(home: Path, **env: str) -> Iterator[tuple[str, Path, Path]]:
    """Run memplane as a container does: where it is, and files with what it prints."""
    out, err = home.with_name("out"), home.with_name("err")
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "memplane", "up", "--port", "0"],
            env={**environment(home), "MEMPLANE_TELEMETRY_STDOUT": "true", **env},
            stdout=stdout,
            stderr=stderr,
        )
    try:
        while not (found := re.search(r"is up at (http://\S+):", err.read_text())):
            assert process.poll() is None, err.read_text()
            time.sleep(0.02)
        yield found[1], out, err
    finally:
        process.terminate()
        process.wait(timeout=30)


def post(address: str, path: str, body: object, token: str) -> int:
    connection = HTTPConnection(address.removeprefix("http://"), timeout=30)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with closing(connection):
        connection.request("POST", path, json.dumps(body), headers)
        return connection.getresponse().status


def test_standard_output_has_events_alone_where_they_are_wanted(home: Path) -> None:
    with printing_events(home) as (address, out, err):
        token = (home / "token").read_text().strip()
        body = {"agent_id": "a", "entry": {"id": "e"}}
        assert post(address, "/retain", body, token) == 202
    events = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert [one["type"] for one in events] == ["memory_op"]
    audited = memplane(home, "audit", "--log", str(out))
    assert "skipped malformed lines: 0" in audited.stdout
    said = err.read_text().splitlines()
    assert len(said) == 2  # that it is up, and that it stopped
    assert "login#" not in err.read_text()


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ('{"providers": {"local": {"auth": "odd"}}}', "agents that hold tokens take no turns"),
        ('{"providers": {"local": {"auth": "none", "baseurl": ""}}}', "Did you mean base_url?"),
    ],
)
def test_it_says_what_is_wrong_with_the_providers(home: Path, written: str, told: str) -> None:
    home.mkdir(mode=0o700)
    (home / "providers.json").write_text(written)
    with printing_events(home) as (_, _out, err):
        assert told in err.read_text()


def test_in_a_pod_it_says_what_works_there(home: Path, tmp_path: Path) -> None:
    context = tmp_path / "context" / "svc"
    context.mkdir(parents=True)
    secret = "svc:" + "0" * 48
    (context / "metadata.json").write_text(json.dumps({"service": "svc", "token": secret}))
    env = {"MEMPLANE_CONTEXT_ROOT": str(context.parent)}
    with running_memplane(home, env=env) as running:
        assert "/agent/me" not in running.printed
        assert "CLLAMA_TOKEN" in running.printed
        base = re.search(r"OPENAI_BASE_URL=http://[^/]+(\S*)", running.printed)
        assert base is not None
        path = f"{base[1]}/chat/completions"
        # Nobody is there to answer for a provider, but the agent is let in.
        body = {"model": "nobody/m", "messages": []}
        assert post(running.address, path, body, secret) == 502
        assert post(running.address, "/agent/me" + path, body, secret) == 403


def greeting(settings: Settings) -> Greeting:
    storage = StorageStatus(kind="local", where="here", reason="because")
    ledger = LedgerStatus(where="here", agents=0)
    status = Status(version="1", home="", pid=1, address="", storage=storage, ledger=ledger)
    return Greeting("http://127.0.0.1:8080", "memplane", Home(settings.home), status, settings)


def test_agents_of_a_pod_are_told_the_name_that_they_know_it_by(tmp_path: Path) -> None:
    http = HttpSettings(allowed_hosts=("cllama:8080",))
    of_pod = greeting(Settings(home=tmp_path, http=http, context_root=tmp_path))
    assert "OPENAI_BASE_URL=http://cllama:8080/v1" in agent_rows(of_pod)[0][0]
    assert "http://cllama:8080/v1, each with the key CLLAMA_TOKEN" in short_line(of_pod)
    alone = greeting(Settings(home=tmp_path, http=http))
    assert "OPENAI_BASE_URL=http://127.0.0.1:8080/agent/me/v1" in agent_rows(alone)[0][0]


def test_the_commands_that_it_prints_reach_its_home(tmp_path: Path) -> None:
    home = tmp_path / "another home"
    with running_memplane(home) as running:
        line = next(one for one in running.printed.splitlines() if " status " in one)
        words = [*shlex.split(line.partition(" status ")[0]), "status", "--json"]
        # Another terminal knows nothing of how this one was started.
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        ran = subprocess.run(
            words, env=env, capture_output=True, text=True, check=False, timeout=60
        )
        assert json.loads(ran.stdout)["address"] == running.address
        memplane(home, "retain", "--agent", "me", "I like tea")
        assert "1 episode of 1 agent" in memplane(home, "status").stdout


def test_the_usual_home_needs_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "--home" not in program(tmp_path / ".memplane")
    assert program(tmp_path / "it's").endswith(""" --home '""" + f"""{tmp_path}/it'"'"'s'""")
