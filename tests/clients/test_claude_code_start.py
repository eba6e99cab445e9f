"""`memplane claude -- …` starts the real Claude Code, whether memplane answers or not."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memplane.home import Home
from tests.support.answers import ANTHROPIC, Said
from tests.support.claude_code import MODEL, find_program
from tests.support.running import environment, memplane, running_memplane
from tests.support.upstream import Upstream

HELLO = ("--", "-p", "--model", MODEL, "Hello?")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of PATH in which claude is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "claude").symlink_to(find_program())
    return folder


@pytest.fixture
def silent_server(home: Path) -> Iterator[str]:
    """An owner of the home that accepts connections, and never says anything."""
    with Home(home).claim() as claim, socket.create_server(("127.0.0.1", 0)) as listening:
        assert claim is not None
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        claim.announce(address)
        yield address


def configure_client(home: Path, address: str) -> None:
    """Let the client's settings file name memplane, as a user would who followed its page."""
    folder = home.parent / ".claude"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": address}}))


async def start_client(
    home: Path, programs: Path, upstream: str, *words: str, key: str = "sk-ant-dummy"
) -> subprocess.CompletedProcess[str]:
    own = environment(home, MEMPLANE_PROXY_UPSTREAM_ANTHROPIC=upstream)
    own["PATH"] = f"{programs}:/usr/bin:/bin"
    own["ANTHROPIC_API_KEY"] = key
    own["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    project = home.parent / "project"
    project.mkdir(exist_ok=True)
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "memplane", "claude", *words],
        env=own,
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_the_client_goes_through_the_proxy_where_that_takes_its_turns(
    home: Path, programs: Path, upstream: Upstream
) -> None:
    upstream.scripts["/v1/messages"] = ANTHROPIC.replies(Said("Hello."), Said("Hello."))
    with running_memplane(home, "--upstream-anthropic", upstream.address) as running:
        configure_client(home, f"{running.address}/agent/someone")
        ran = await start_client(home, programs, upstream.address, "--agent", "ada", *HELLO)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "Hello.\n", "")
        create = ("token", "create", "--agent", "ada", "--scope", "proxy")
        token = await asyncio.to_thread(memplane, home, *create)
        # Its turns would be refused from now on, and it would go on trying.
        direct = await start_client(home, programs, upstream.address, "--agent", "ada", *HELLO)
    assert (direct.returncode, direct.stdout) == (0, "Hello.\n")
    assert "ada takes its turns with a token of memplane's" in direct.stderr
    shown = token.stdout.split()[-1]
    refused = await start_client(home, programs, upstream.address, *HELLO, key=shown)
    assert refused.returncode == 3
    assert shown not in str(upstream.received)
    assert len(upstream.asked("/v1/messages")) == 2
    [entry] = (home / "ledger" / "ada" / "history.jsonl").read_text().splitlines()
    assert json.loads(entry)["request_original"]["model"] == MODEL


async def test_the_client_goes_to_the_provider_when_memplane_is_off_and_says_so(
    home: Path, programs: Path, upstream: Upstream
) -> None:
    upstream.scripts["/v1/messages"] = ANTHROPIC.replies(Said("Hello."))
    configure_client(home, "http://127.0.0.1:6367/agent/ada")
    ran = await start_client(home, programs, upstream.address, *HELLO)
    assert (ran.returncode, ran.stdout) == (0, "Hello.\n")
    assert "memplane is not running" in ran.stderr
    assert "directly, without the proxy" in ran.stderr
    assert len(upstream.asked("/v1/messages")) == 1


async def test_the_client_does_not_wait_for_a_memplane_that_is_stuck(
    home: Path, programs: Path, upstream: Upstream, silent_server: str
) -> None:
    """A script stands for the client: it prints what it was started with."""
    (programs / "claude").unlink()
    (programs / "claude").write_text('#!/bin/sh\necho "$ANTHROPIC_BASE_URL" "$@"\nexit 7\n')
    (programs / "claude").chmod(0o755)
    ran = await start_client(home, programs, upstream.address, "--", "-p", "hi")
    assert (ran.returncode, ran.stdout) == (7, " -p hi\n")
    assert f"{silent_server} does not answer within 1 s" in ran.stderr


async def test_a_missing_client_is_named(home: Path, programs: Path, upstream: Upstream) -> None:
    shutil.rmtree(programs)
    ran = await start_client(home, programs, upstream.address, *HELLO)
    assert ran.returncode == 127
    assert "there is no program claude on PATH" in ran.stderr
