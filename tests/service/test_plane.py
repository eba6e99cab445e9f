"""One owner per home: in this process, or the one that has it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from memplane.auth.grants import Scope, TokenRequest
from memplane.errors import (
    HomeError,
    InvalidRequest,
    MemplaneError,
    OwnerUnavailable,
    RecordsError,
    TooLarge,
    UnknownMemory,
)
from memplane.home import Home
from memplane.persona.api_types import DocumentQuery, DocumentWrite
from memplane.service.client import Client
from memplane.service.composition.files import open_home_files
from memplane.service.connection import error_in
from memplane.service.http_transport import HttpTransport, open_owner_transport
from memplane.service.operations import tokens
from memplane.service.operations.documents import list_folders, read_document, write_document
from memplane.service.transport import FileTransport, LocalTransport
from memplane.settings import Settings, load_settings
from memplane.testing.client_conformance import (
    OPERATOR,
    ClientConformance,
    DocumentConformance,
    ObservationConformance,
)
from tests.support.in_process import memplane_here
from tests.support.running import Running, running_memplane


class TestLocalPlane(ClientConformance):
    @pytest.fixture
    async def client(self, home: Path) -> AsyncIterator[Client]:
        async with Client(load_settings({"home": str(home)}, {})) as opened:
            assert isinstance(opened.transport, LocalTransport)
            yield opened


class TestRemotePlane(ClientConformance):
    @pytest.fixture
    async def client(self, home: Path) -> AsyncIterator[Client]:
        with running_memplane(home):
            async with Client(load_settings({"home": str(home)}, {})) as opened:
                assert isinstance(opened.transport, HttpTransport)
                yield opened


async def test_a_home_may_lie_deeper_than_the_path_of_a_socket_may_be_long(tmp_path: Path) -> None:
    """A socket's path has about 100 bytes."""
    home = tmp_path / ("deep" * 20) / ("er" * 30) / "home"
    home.parent.mkdir(parents=True)
    with running_memplane(home):
        async with Client(load_settings({"home": str(home)}, {})) as opened:
            assert isinstance(opened.transport, HttpTransport)
            assert (await opened.status()).home == str(home)
            issued = await opened.call(tokens.issue_token, TokenRequest(admin=True))
            assert await opened.call(tokens.list_tokens) == (issued.about,)


class TestLocalObservations(ObservationConformance):
    @pytest.fixture
    def agent(self) -> str:
        return "ops"

    @pytest.fixture
    async def client(self, home: Path) -> AsyncIterator[Client]:
        async with Client(load_settings({"home": str(home)}, {}), operator=OPERATOR) as opened:
            yield opened


def documented(home: Path, folder: Path) -> Settings:
    return load_settings({"home": str(home), "persona.dir": str(folder)}, {})


class TestLocalDocuments(DocumentConformance):
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "documents"

    @pytest.fixture
    async def client(self, home: Path, folder: Path) -> AsyncIterator[Client]:
        async with Client(documented(home, folder)) as opened:
            assert isinstance(opened.transport, LocalTransport)
            yield opened


class TestDocumentsBesideTheOwner(TestLocalDocuments):
    @pytest.fixture
    async def client(self, home: Path, folder: Path) -> AsyncIterator[Client]:
        settings = documented(home, folder)
        Home(home).create()
        with Home(home).claim() as claim:
            assert claim is not None
            yield Client.over(FileTransport(open_home_files(settings)))


@pytest.fixture(scope="module")
def documents_owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("documents") / "home"
    env = {"MEMPLANE_PERSONA_DIR": str(home.parent / "documents"), "MEMPLANE_AGENT": "ops"}
    with running_memplane(home, env=env) as running:
        yield running


class TestRemoteDocuments(DocumentConformance):
    @pytest.fixture
    def folder(self, documents_owner: Running) -> Path:
        folder = documents_owner.home.parent / "documents"
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    @pytest.fixture
    async def client(self, documents_owner: Running, folder: Path) -> AsyncIterator[Client]:
        async with Client(url=documents_owner.address, token=documents_owner.token) as opened:
            yield opened


async def test_only_the_agent_of_the_folder_reaches_its_documents(
    documents_owner: Running, tmp_path: Path
) -> None:
    address = documents_owner.address
    folder = documents_owner.home.parent / "documents"
    folder.mkdir(exist_ok=True)
    text = "---\nname: A\ndescription: B\ntype: user\n---\n\nkestrel\n"
    (folder / "user_a.md").write_text(text)
    async with Client(url=address, token=documents_owner.token) as admin:

        async def token(agent: str, *scopes: Scope) -> str:
            wanted = TokenRequest(agent=agent, scopes=scopes)
            return (await admin.call(tokens.issue_token, wanted)).token

        hers = await token("ops", Scope.READ)
        theirs = await token("other", Scope.READ, Scope.WRITE)
    query = DocumentQuery(key="user_a.md")
    async with Client(url=address, token=hers) as reader:
        assert "kestrel" in ((await reader.call(read_document, None, query)).text or "")
        with pytest.raises(OwnerUnavailable, match="403"):
            await reader.call(write_document, None, DocumentWrite(key="user_a.md", text=text))
    async with Client(url=address, token=theirs) as stranger:
        assert (await stranger.call(list_folders)).folders == ()
        for agent in (None, "ops"):
            with pytest.raises(MemplaneError):
                await stranger.call(read_document, agent, query)
        write = DocumentWrite(key="user_b.md", text=text)
        with pytest.raises(UnknownMemory):
            await stranger.call(write_document, None, write)
    assert not (folder / "user_b.md").exists()


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with running_memplane(tmp_path_factory.mktemp("owned") / "home") as running:
        yield running.home


class TestRemoteObservations(ObservationConformance):
    """One owner for all of them: each has an agent of its own."""

    @pytest.fixture
    def agent(self) -> str:
        return f"ops-{uuid.uuid4().hex[:12]}"

    @pytest.fixture
    async def client(self, owned: Path) -> AsyncIterator[Client]:
        async with Client(load_settings({"home": str(owned)}, {}), operator=OPERATOR) as opened:
            assert isinstance(opened.transport, HttpTransport)
            yield opened


async def test_the_remote_status_is_the_owners(home: Path) -> None:
    with running_memplane(home) as running:
        async with Client(load_settings({"home": str(home)}, {})) as plane:
            status = await plane.status()
    assert status.pid == running.process.pid != os.getpid()
    assert status.address == running.address


async def test_two_commands_at_once_take_turns(home: Path) -> None:
    settings = load_settings({"home": str(home)}, {})

    async def ask() -> str:
        async with Client(settings) as plane:
            return (await plane.status()).home

    assert await asyncio.gather(*(ask() for _ in range(5))) == [str(home)] * 5


async def test_an_owner_that_does_not_answer_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memplane.service.composition.home._OWNER_PATIENCE", 3)
    Home(home).create()
    with Home(home).claim() as claim:
        assert claim is not None
        with pytest.raises(HomeError, match=f"process {os.getpid()} owns"):
            async with Client(load_settings({"home": str(home)}, {})):
                pass


async def test_an_owner_that_dies_is_said_to_be_gone(home: Path) -> None:
    with running_memplane(home) as running:
        async with Client(load_settings({"home": str(home)}, {})) as plane:
            await plane.status()
            running.process.kill()
            running.process.wait()
            with pytest.raises(OwnerUnavailable, match="memplane up"):
                await plane.status()


async def test_a_killed_owner_leaves_a_home_that_can_be_used(home: Path) -> None:
    with running_memplane(home) as running:
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
    assert (home / "socket").exists()
    async with Client(load_settings({"home": str(home)}, {})) as plane:
        assert isinstance(plane.transport, LocalTransport)
    with running_memplane(home) as running:
        assert running.address


async def test_an_owner_that_refuses_is_said_to_refuse(home: Path) -> None:
    with running_memplane(home):
        (home / "token").write_text("another token\n")
        async with open_owner_transport(Home(home)) as transport:
            with pytest.raises(OwnerUnavailable, match="answered 401"):
                await Client.over(transport).status()


def test_only_one_process_is_up(home: Path) -> None:
    with running_memplane(home) as running:
        second = memplane_here(home, "up", "--port", "0")
        assert second.returncode == 1
        assert f"already up at {running.address}" in second.stderr


def test_a_taken_port_is_said_with_the_remedy(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = memplane_here(home, "up", "--port", str(port))
    assert ran.returncode == 1
    assert f"port {port} is taken" in ran.stderr
    assert "--port N" in ran.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_when_told_and_leaves_no_socket(number: signal.Signals, home: Path) -> None:
    with running_memplane(home) as running:
        running.process.send_signal(number)
        assert running.process.wait(timeout=30) == 0
        assert running.process.stdout is not None
        assert "memplane stopped" in running.process.stdout.read()
    assert not (home / "socket").exists()
    assert Home(home).owner() is None


def test_up_waits_for_a_command_that_has_the_home_for_a_moment(home: Path) -> None:
    Home(home).create()
    program = """
import sys
from pathlib import Path
from memplane.home import Home
with Home(Path(sys.argv[1])).claim() as claim:
    print(claim is not None, flush=True)
    sys.stdin.read()
"""
    held = subprocess.Popen(
        [sys.executable, "-c", program, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert held.stdout is not None
    assert held.stdin is not None
    assert held.stdout.readline() == "True\n"
    threading.Timer(1.0, held.stdin.close).start()
    with running_memplane(home) as running:
        assert running.address
    held.wait()
    held.stdout.close()


def test_a_port_that_is_taken_on_ipv6_alone_is_refused(home: Path) -> None:
    """Clients that say `localhost` would otherwise send the token to another program."""
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = memplane_here(home, "up", "--port", str(port))
    assert ran.returncode == 1
    assert f"port {port} is taken" in ran.stderr


async def test_an_error_of_the_owner_is_raised_here(home: Path) -> None:
    with running_memplane(home):
        (home / "tokens.json").mkdir()
        async with open_owner_transport(Home(home)) as transport:
            with pytest.raises(HomeError, match=r"tokens\.json cannot be written"):
                await Client.over(transport).call(tokens.issue_token, TokenRequest(admin=True))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b'{"error":{"message":"m"}}',
        b'{"error":{"message":"m","type":"annotations"}}',
        b'{"error":{"message":"m","type":"Exception"}}',
    ],
)
def test_an_answer_that_names_no_error_of_ours_is_none(answer: bytes) -> None:
    assert error_in(answer) is None
    named = error_in(b'{"error":{"message":"m","type":"TooLarge"}}')
    assert isinstance(named, TooLarge)
    assert str(named) == "m"


def test_an_error_comes_back_with_its_fields_and_without_what_only_logs_say() -> None:
    body = b'{"error":{"code":"c","message":"m","type":"InvalidRequest","fields":{"a":"b"}}}'
    named = error_in(body)
    assert isinstance(named, InvalidRequest)
    assert (str(named), named.fields) == ("m", {"a": "b"})
    failed = error_in(b'{"error":{"message":"internal server error","type":"RecordsError"}}')
    assert isinstance(failed, RecordsError)
    assert "log" in str(failed)
