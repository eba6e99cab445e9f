"""What `memplane up` prints: where it is, what works there, and nothing between events."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from memplane.cli.output import get_program_name
from memplane.cli.startup_message import (
    StartupMessage,
    format_short_line,
    get_public_address,
    list_agent_rows,
)
from memplane.home import Home
from memplane.server.server import ALL_INTERFACES, ServerAddresses, _public_host
from memplane.service.model import LedgerStatus, Status, StorageStatus
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


def greeting(settings: Settings) -> StartupMessage:
    storage = StorageStatus(kind="local", where="here", reason="because")
    ledger = LedgerStatus(where="here", agents=0)
    status = Status(version="1", home="", pid=1, address="", storage=storage, ledger=ledger)
    return StartupMessage(
        "http://127.0.0.1:8080", "memplane", Home(settings.home), status, settings
    )


def test_agents_of_a_pod_are_told_the_name_that_they_know_it_by(tmp_path: Path) -> None:
    http = HttpSettings(allowed_hosts=("cllama:8080",))
    of_pod = greeting(Settings(home=tmp_path, http=http, context_root=tmp_path))
    assert "OPENAI_BASE_URL=http://cllama:8080/v1" in list_agent_rows(of_pod)[0][0]
    assert "http://cllama:8080/v1, each with the key CLLAMA_TOKEN" in format_short_line(of_pod)
    alone = greeting(Settings(home=tmp_path, http=http))
    assert "OPENAI_BASE_URL=http://127.0.0.1:8080/agent/me/v1" in list_agent_rows(alone)[0][0]


def test_what_listens_everywhere_prints_an_address_that_others_can_use(home: Path) -> None:
    env = {"MEMPLANE_HTTP_HOST": "0.0.0.0", "MEMPLANE_HTTP_TRUSTED_NETWORK": "true"}  # noqa: S104
    with running_memplane(home, env=env) as running:
        assert "0.0.0.0" not in running.printed  # noqa: S104
        shown = re.search(r"address +http://(\S+)", running.printed)
        assert shown is not None
        assert shown[1] == f"{_public_host(ALL_INTERFACES)}:{running.port}"
        own = f"127.0.0.1:{running.port}"
        used = set(re.findall(r"http://([\d.:]+)", running.printed)) - {own}
        assert used <= {shown[1]}, "the clients' addresses are the same"
        for address in (shown[1], own):
            with closing(HTTPConnection(address, timeout=30)) as connection:
                connection.request("GET", "/health")
                assert connection.getresponse().status == 200, address
        with closing(HTTPConnection(shown[1], timeout=30)) as connection:
            connection.request("GET", "/health", headers={"Host": f"evil.example:{running.port}"})
            assert connection.getresponse().status == 421


@pytest.mark.parametrize(
    ("public", "hosts", "shown"),
    [
        ("http://198.51.100.7:80", (), "http://198.51.100.7:80"),
        ("http://198.51.100.7:80", ("mem.lan:80",), "http://mem.lan:80"),
        ("http://127.0.0.1:80", ("mem.lan:80",), "http://127.0.0.1:80"),
    ],
)
def test_others_are_told_the_name_that_was_allowed_or_a_number(
    tmp_path: Path, public: str, hosts: tuple[str, ...], shown: str
) -> None:
    settings = Settings(home=tmp_path, http=HttpSettings(allowed_hosts=hosts))
    assert get_public_address(ServerAddresses("http://127.0.0.1:80", public), settings) == shown


def test_the_way_out_of_this_machine_is_found_without_a_packet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _public_host("192.0.2.7") == "192.0.2.7"

    def no_way(_socket: socket.socket, _address: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", no_way)
    assert _public_host(ALL_INTERFACES) == "127.0.0.1"


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
    assert "--home" not in get_program_name(tmp_path / ".memplane")
    assert get_program_name(tmp_path / "it's").endswith(
        """ --home '""" + f"""{tmp_path}/it'"'"'s'"""
    )
