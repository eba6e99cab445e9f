"""Real clients and the scripted upstream, with nothing between them.

This is what a run through memplane is compared with.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

from tests.clients.talks import AT_ONCE, CLOSED, FORMS, KEY, LONG, STREAMS, TOOL, talking
from tests.support.answers import (
    ANTHROPIC,
    Call,
    Form,
    Said,
    anthropic_error,
    anthropic_stream,
    cut,
    whole,
)
from tests.support.claude_code import ClaudeCode
from tests.support.upstream import End, Upstream, running_upstream

# The SDKs


@FORMS
@STREAMS
async def test_a_conversation(form: Form, upstream: Upstream, *, stream: bool) -> None:
    replies = Said("Good day.", id="1"), Said("Rain, “they say” 🌧.", id="2", read=40, written=9)
    upstream.scripts[form.path] = form.replies(*replies)
    async with talking(form, upstream.address) as talk:
        heard = [await talk.ask(words, stream=stream) for words in ("hello", "and tomorrow?")]
    assert heard == list(replies)
    first, second = upstream.asked(form.path)
    assert bool(first.json().get("stream")) is stream
    key = first.header("x-api-key") or first.header("authorization") or ""
    assert key.removeprefix("Bearer ") == KEY
    said = [str(one) for one in second.json().get("messages", second.json().get("input"))]
    assert ["hello" in said[0], "Good day." in said[1], "tomorrow" in said[2]] == [True] * 3


@FORMS
@STREAMS
async def test_a_tool_is_called(form: Form, upstream: Upstream, *, stream: bool) -> None:
    call = Call(TOOL, {"place": "Zürich"})
    asks, tells = Said("Let me see.", (call,), id="1"), Said("Sunny.", id="2")
    upstream.scripts[form.path] = form.replies(asks, tells)
    async with talking(form, upstream.address) as talk:
        assert await talk.ask("How is the weather?", stream=stream) == asks
        assert await talk.give(call, "sun", stream=stream) == tells
    last = upstream.received[-1].json()
    assert call.id in str(last.get("messages", last.get("input"))[-1])


@FORMS
@STREAMS
@pytest.mark.parametrize("status", [429, 500, 529])
async def test_a_client_that_is_sent_away_comes_again(
    form: Form, upstream: Upstream, status: int, *, stream: bool
) -> None:
    refusal = form.error(status, "overloaded_error", headers=AT_ONCE)
    upstream.scripts[form.path] = form.replies(refusal, Said("Now."))
    async with talking(form, upstream.address) as talk:
        assert (await talk.ask("hello", stream=stream)).text == "Now."
    first, second = upstream.asked(form.path)
    assert first.body == second.body


@FORMS
@STREAMS
async def test_a_request_that_is_wrong_is_told_so(
    form: Form, upstream: Upstream, *, stream: bool
) -> None:
    refusal = form.error(400, "invalid_request_error", "no such thing")
    upstream.scripts[form.path] = form.replies(refusal)
    async with talking(form, upstream.address) as talk:
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as refused:
            await talk.ask("hello", stream=stream)
    error: Any = refused.value
    assert "no such thing" in str(error)
    assert error.request_id == "req_error"
    assert len(upstream.received) == 1


@FORMS
@pytest.mark.parametrize("how", [End.CLOSE, End.RESET])
async def test_a_cut_stream_is_no_answer(form: Form, upstream: Upstream, how: End) -> None:
    upstream.at(form.path, cut(form.stream(Said(LONG)), 6, how))
    async with talking(form, upstream.address) as talk:
        with pytest.raises(CLOSED):
            await talk.ask("hello", stream=True)


# Claude Code


async def test_claude_code_talks_and_takes_the_conversation_up_again(
    upstream: Upstream, claude_at: Callable[[str], ClaudeCode]
) -> None:
    upstream.scripts[ANTHROPIC.path] = ANTHROPIC.replies(Said("Good day."), Said("Still here."))
    claude = claude_at(upstream.address)
    first = await claude.ask("hello")
    again = await claude.ask("are you there?", "--resume", first.session)
    assert [first.result["result"], again.result["result"]] == ["Good day.", "Still here."]
    assert (first.code, again.code, again.session) == (0, 0, first.session)
    assert {one.method for one in upstream.asked("/")} == {"HEAD"}
    asked = upstream.asked(ANTHROPIC.path)
    assert [one.header("X-Claude-Code-Session-Id") for one in asked] == [first.session] * 2
    assert [one.target for one in asked] == ["/v1/messages?beta=true"] * 2
    roles = [one["role"] for one in asked[1].json()["messages"]]
    assert roles == ["user", "assistant", "user"]


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-8"])
async def test_claude_code_calls_its_tools(
    upstream: Upstream, claude_at: Callable[[str], ClaudeCode], model: str
) -> None:
    run = Call("Bash", {"command": "echo hello", "description": "Say hello"}, "toolu_1")
    claude = claude_at(upstream.address)
    read = Call("Read", {"file_path": str(claude.project / "note.txt")}, "toolu_2")
    claude.project.mkdir()
    (claude.project / "note.txt").write_text("The answer is 42.\n")
    upstream.scripts[ANTHROPIC.path] = ANTHROPIC.replies(
        Said("First this.", (run,)), Said(calls=(read,)), Said("Hello, and 42.")
    )
    ran = await claude.ask("say hello and read", "--allowedTools=Bash(echo:*),Read", model=model)
    assert (ran.code, ran.result["result"]) == (0, "Hello, and 42.")
    results = [
        part["content"]
        for request in upstream.asked(ANTHROPIC.path)[1:]
        for part in request.json()["messages"][-1]["content"]
        if isinstance(part, dict) and part["type"] == "tool_result"
    ]
    assert "hello" in str(results[0])
    assert "The answer is 42." in str(results)


async def test_claude_code_comes_again_when_it_is_sent_away(
    upstream: Upstream, claude_at: Callable[[str], ClaudeCode]
) -> None:
    refusal = anthropic_error(529, "overloaded_error", "Overloaded")
    upstream.scripts[ANTHROPIC.path] = ANTHROPIC.replies(refusal, Said("Back."))
    ran = await claude_at(upstream.address).ask("hello")
    assert (ran.code, ran.result["result"]) == (0, "Back.")
    assert [one["error_status"] for one in ran.of_type("system", "api_retry")] == [529]
    first, second = upstream.asked(ANTHROPIC.path)
    assert first.body == second.body


async def test_claude_code_gives_up_when_it_was_wrong(
    upstream: Upstream, claude_at: Callable[[str], ClaudeCode]
) -> None:
    upstream.at(ANTHROPIC.path, anthropic_error(400, "invalid_request_error", "no such thing"))
    ran = await claude_at(upstream.address).ask("hello")
    assert ran.code == 1
    assert (ran.result["subtype"], ran.result["is_error"]) == ("success", True)
    assert "no such thing" in ran.result["result"]


async def test_claude_code_asks_again_without_a_stream_when_one_was_cut(
    upstream: Upstream, claude_at: Callable[[str], ClaudeCode]
) -> None:
    cut_short = cut(anthropic_stream(Said(LONG)), 6)
    upstream.scripts[ANTHROPIC.path] = ANTHROPIC.replies(cut_short, Said("The whole."))
    ran = await claude_at(upstream.address).ask("hello")
    assert (ran.code, ran.result["result"]) == (0, "The whole.")
    first, second = (one.json() for one in upstream.asked(ANTHROPIC.path))
    assert first.pop("stream") is True
    assert first == second


async def test_claude_code_asks_again_when_its_connection_was_reset(
    upstream: Upstream, claude_at: Callable[[str], ClaudeCode]
) -> None:
    """With a stream, when the reset was there before it had read anything, or without one."""
    cut_short = cut(anthropic_stream(Said(LONG)), 6, End.RESET)
    upstream.scripts[ANTHROPIC.path] = ANTHROPIC.replies(cut_short, Said("The whole."))
    ran = await claude_at(upstream.address).ask("hello")
    assert (ran.code, ran.result["result"]) == (0, "The whole.")
    first, second = (one.json() for one in upstream.asked(ANTHROPIC.path))
    assert first.pop("stream") is True
    assert second.pop("stream", True) is True
    assert first == second


async def test_claude_code_sends_the_same_bytes_in_the_same_place(
    upstream: Upstream, claude_at: Callable[[str], ClaudeCode]
) -> None:
    """Otherwise a run could not be compared with another one."""
    upstream.scripts[ANTHROPIC.path] = ANTHROPIC.replies(Said("Good day."))
    claude = claude_at(upstream.address)
    for _ in range(2):
        await claude.ask("hello", "--session-id", "11111111-1111-4111-8111-111111111111")
        claude.leave()
    first, second = upstream.asked(ANTHROPIC.path)
    assert (first.head, first.body) == (second.head, second.body)


# The upstream itself


async def test_what_was_sent_is_kept_as_it_came(upstream: Upstream) -> None:
    upstream.at("/v1/x", whole(b"{}"))
    head = b"POST /v1/x?a=%20b HTTP/1.1\r\nhOST: here\r\nX-A:1\r\nX-a:  2\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    sized = head + b"content-length: 3\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    writer.write(chunked + b"2;ext=1\r\nab\r\n1\r\nc\r\n0\r\n\r\n" + sized + b"abc")
    for _ in range(2):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await reader.readexactly(2) == b"{}"
    writer.close()
    await writer.wait_closed()
    await upstream.connections[0].gone.wait()
    assert [(one.head, one.body) for one in upstream.received] == [
        (chunked, b"abc"),
        (sized, b"abc"),
    ]
    assert upstream.received[0].headers[:3] == [("hOST", "here"), ("X-A", "1"), ("X-a", "2")]
    assert (upstream.received[0].path, upstream.received[0].header("x-A")) == ("/v1/x", "1")


@pytest.mark.parametrize("reset", [True, False])
async def test_it_sees_that_a_client_left_in_the_middle(
    upstream: Upstream, *, reset: bool
) -> None:
    upstream.at("/", (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome", asyncio.Event()))
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    connection = (await upstream.until_asked("/")).connection
    assert (await reader.readuntil(b"some")).endswith(b"some")
    assert not connection.gone.is_set()
    if reset:
        own: socket.socket = writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    await connection.gone.wait()
    assert connection.was_reset is reset


async def test_it_holds_an_answer_back_until_it_is_told(upstream: Upstream) -> None:
    go = asyncio.Event()
    upstream.at("/", (b"one", go, b"two", End.CLOSE))
    upstream.at("/other", (b"meanwhile", End.CLOSE))
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await reader.readexactly(3) == b"one"
    rest = asyncio.create_task(reader.read())
    assert await asked(upstream, "/other") == b"meanwhile"
    assert not rest.done()
    go.set()
    assert await rest == b"two"
    writer.close()
    await writer.wait_closed()


async def asked(upstream: Upstream, path: str) -> bytes:
    """All bytes that come until the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


async def test_it_resets(upstream: Upstream) -> None:
    upstream.at("/", (b"one", End.RESET))
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_it_answers_hundreds_at_once(upstream: Upstream) -> None:
    everybody, release = 500, asyncio.Event()
    upstream.scripts["/"] = lambda _: (b"HTTP/1.1 200 OK\r\n\r\n", release, b"yes", End.CLOSE)
    asking = [asyncio.create_task(asked(upstream, "/")) for _ in range(everybody)]
    await upstream.until_asked("/", times=everybody)
    release.set()
    assert set(await asyncio.gather(*asking)) == {b"HTTP/1.1 200 OK\r\n\r\nyes"}


async def test_a_script_that_fails_fails_its_test() -> None:
    with pytest.raises(ValueError, match="fromhex"):
        await asked_with_a_mistake()


async def asked_with_a_mistake() -> None:
    async with running_upstream() as upstream:
        upstream.scripts["/"] = lambda _: [bytes.fromhex("a mistake")]
        assert await asked(upstream, "/") == b""
