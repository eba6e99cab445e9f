"""`memplane mcp`: it speaks the protocol alone, leaves with its client, lets go of the home."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from memplane.episodes.api_types import NoteRequest, RecallRequest
from memplane.errors import OwnerUnavailable
from memplane.home import Home
from memplane.server.mcp import server, stdio
from memplane.server.mcp.messages import McpRequest
from memplane.server.mcp.stdio import HomeTransport
from memplane.server.mcp.tool import McpCaller
from memplane.service.composition.files import open_home_files
from memplane.service.composition.home import open_transport
from memplane.service.operation import Operation
from memplane.service.operations.home import get_status
from memplane.service.operations.memory import recall, retain_note
from memplane.service.transport import FileTransport, Transport
from memplane.settings import load_settings
from tests.support.running import environment, running_memplane

R = TypeVar("R")
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}


def message(number: int, method: str, **params: object) -> bytes:
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(body).encode() + b"\n"


def start(home: Path, *words: str, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "memplane", "mcp", *words],
        env={**environment(home), **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_only_the_protocol_is_on_standard_output(home: Path) -> None:
    sent = [
        message(1, "initialize", **INITIALIZE),
        b"this is no message\n",
        b"\n",
        b"x" * (stdio.MAX_MESSAGE_BYTES + 1) + b"\n",
        message(2, "tools/call", name="retain", arguments={"text": "a note"}),
        message(3, "ping").rstrip(),  # the last line need not end
    ]
    process = start(home, "--agent", "ops", MEMPLANE_LOG_LEVEL="debug")
    out, err = process.communicate(b"".join(sent), timeout=60)
    assert process.returncode == 0
    answers = [json.loads(line) for line in out.splitlines()]
    assert all(one["jsonrpc"] == "2.0" for one in answers)
    assert [one["error"]["code"] for one in answers if "error" in one] == [-32700, -32700]
    assert {one["id"] for one in answers if "result" in one} == {1, 2, 3}
    assert b"Traceback" not in err


def test_when_its_input_ends_it_leaves_although_a_call_still_waits(home: Path) -> None:
    """Here another process owns the home and does not answer; a call would wait five seconds."""
    Home(home).create()
    with Home(home).claim() as claim:
        assert claim is not None
        process = start(home, "--agent", "ops")
        call = message(2, "tools/call", name="retain", arguments={"text": "a note"})
        out, err = process.communicate(message(1, "initialize", **INITIALIZE) + call, timeout=60)
    assert process.returncode == 0
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1]
    assert err == b""


def test_documents_need_no_owner_and_a_wrong_agent_is_said_at_once(home: Path) -> None:
    documents = home.parent / "documents"
    Home(home).create()
    with Home(home).claim():
        process = start(home, MEMPLANE_PERSONA_DIR=str(documents))
        call = message(1, "tools/call", name="persona_list", arguments={})
        out, _ = process.communicate(call, timeout=60)
    assert "no documents yet" in json.loads(out)["result"]["content"][0]["text"]
    process = start(home, "--agent", "not an agent")
    out, err = process.communicate(b"", timeout=60)
    assert (process.returncode, out) == (2, b"")
    assert b"agent" in err


# In this process, where the waiting can be shortened.


def home_transport(home: Path) -> HomeTransport:
    settings = load_settings({"home": str(home)}, {})
    files = FileTransport(open_home_files(settings))
    return HomeTransport(files, partial(open_transport, settings))


async def note(transport: Transport, text: str) -> str:
    arguments = retain_note.bind(NoteRequest(agent="ops", text=text))
    return (await transport.send(retain_note, arguments)).status


def caller(transport: Transport, agent: str = "ops") -> McpCaller:
    return McpCaller(transport=transport, agent=agent, reach=None, allows=lambda _scope: True)


async def test_the_home_is_let_go_soon_after_a_call(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "HOLD_S", 0)
    transport = home_transport(home)
    assert await note(transport, "one") == "retained"
    while (closers := list(transport._closers)) != []:
        await asyncio.gather(*closers)
    with Home(home).claim() as claim:
        assert claim is not None


async def test_a_home_that_is_held_is_reached_through_its_owner_and_back(home: Path) -> None:
    transport = home_transport(home)
    with running_memplane(home) as running:
        status = await transport.send(get_status, {})
        assert status.pid == running.process.pid
    # The owner has ended: what only reads is asked again, of the home itself.
    assert (await transport.send(get_status, {})).pid != running.process.pid
    await transport.close()


class Gone:
    """A transport to an owner that has ended, and how often it was opened."""

    def __init__(self) -> None:
        self.opened = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Transport]:
        self.opened += 1
        yield self

    async def send(self, operation: Operation[..., R], arguments: dict[str, Any]) -> R:
        raise OwnerUnavailable("it has ended")


async def test_only_what_reads_is_asked_again_when_an_owner_has_ended() -> None:
    gone = Gone()
    transport = HomeTransport(gone, gone.open)
    with pytest.raises(OwnerUnavailable):
        await note(transport, "may have been kept")
    assert gone.opened == 1
    with pytest.raises(OwnerUnavailable):
        await transport.send(recall, recall.bind(RecallRequest(agent="ops", text="x")))
    assert gone.opened == 3
    await transport.close()


async def answer(name: str, transport: Transport, **arguments: object) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    response = await server.answer_request(McpRequest(1, "tools/call", params), caller(transport))
    result: dict[str, Any] = json.loads(response.body)["result"]
    return result


async def test_an_owner_that_does_not_answer_is_a_result_that_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memplane.service.composition.home._OWNER_PATIENCE", 3)
    Home(home).create()
    with Home(home).claim():
        result = await answer("recall", home_transport(home), text="x")
    assert result["isError"]
    assert "does not answer" in result["content"][0]["text"]


class Slow:
    """A transport that answers when it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.answered = asyncio.Event()

    async def send(self, operation: Operation[..., R], arguments: dict[str, Any]) -> R:
        await self.may_answer.wait()
        self.answered.set()
        raise OwnerUnavailable("too late for anybody")


async def test_a_client_does_not_wait_for_ever_and_the_call_goes_on_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "CALL_DEADLINE_S", 0.01)
    slow = Slow()
    result = await answer("retain", slow, text="x")
    assert result["isError"]
    assert "may still be carried out" in result["content"][0]["text"]
    slow.may_answer.set()
    await slow.answered.wait()


async def test_a_request_that_is_cancelled_gets_no_answer_and_its_call_goes_on() -> None:
    slow, written = Slow(), list[bytes]()
    connection = stdio.StdioConnection(caller(slow), written.append)
    connection.receive(message(1, "tools/call", name="retain", arguments={"text": "x"}))
    connection.receive(message(2, "ping"))
    await asyncio.sleep(0)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    connection.receive(json.dumps(cancelled).encode())
    assert await connection.drain()
    slow.may_answer.set()
    await slow.answered.wait()
    assert [json.loads(line)["id"] for line in written] == [2]


async def test_an_error_nobody_foresaw_is_told_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        async def send(self, operation: Operation[..., R], arguments: dict[str, Any]) -> R:
            raise RuntimeError("/secret/place")

    request = McpRequest(1, "tools/call", {"name": "recall", "arguments": {"text": "x"}})
    response = await server.answer_request(request, caller(Broken()))
    assert json.loads(response.body)["error"] == {"code": -32603, "message": "internal error"}
    assert "/secret/place" in caplog.text
