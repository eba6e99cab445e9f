"""What Claude Code prints, read as it comes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memplane.integrations.claude_code.stream_json import (
    Compaction,
    EventPosition,
    ModelText,
    Retraction,
    SessionResult,
    StreamEvent,
    StreamJsonReader,
    StreamStart,
    ToolResult,
)
from memplane.observations.agent_guide import build_output_schema
from memplane.observations.model import SourceClass
from tests.support.answers import ANTHROPIC, Call, Said
from tests.support.claude_code import MODEL, ClaudeCode
from tests.support.upstream import running_upstream

MARKER = "[MEMORY:timing:jellyfin] Takes 60s to start"

untimed = hypothesis_settings(deadline=None)


def read(*chunks: bytes) -> list[StreamEvent]:
    reader = StreamJsonReader()
    found = [one for chunk in chunks for one in reader.feed(chunk)]
    return found + reader.end()


def counted(stream: bytes) -> tuple[int, int, int]:
    reader = StreamJsonReader()
    reader.feed(stream)
    reader.end()
    return reader.lines, reader.not_json, reader.unknown


def printed(*events: Any, end: bytes = b"\n") -> bytes:
    return b"".join(json.dumps(one).encode() + end for one in events)


def said(*blocks: Any, **more: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "role": "assistant", "content": list(blocks)}
    return {"type": "assistant", "uuid": "u1", "message": message} | more


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def given_back(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": "u2", "message": {"content": list(blocks)}} | more


def result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content} | more


def texts(happenings: Iterable[StreamEvent]) -> list[str]:
    return [one.text for one in happenings if isinstance(one, ModelText)]


# Lines


def test_a_text_says_where_it_stands() -> None:
    first, second = printed({"type": "system", "subtype": "status"}), printed(said(text(MARKER)))
    (found,) = read(first + second)
    assert found == ModelText(
        at=EventPosition(2, len(first), hashlib.sha256(second.rstrip(b"\n")).hexdigest()),
        text=MARKER,
        message_id="msg_1",
        uuid="u1",
        origin=SourceClass.AGENT,
        aborted=False,
    )


def test_blank_lines_count_as_lines_and_as_nothing_else() -> None:
    stream = b"\n \r\n" + printed(said(text("a")))
    assert read(stream)[0].at.line == 3
    assert read(stream)[0].at.offset == 4
    assert counted(stream) == (3, 0, 0)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_each_line_is_read_when_it_ends(end: bytes) -> None:
    reader = StreamJsonReader()
    whole = printed(said(text("a")), end=end)
    assert reader.feed(whole[:-1]) == []
    assert texts(reader.feed(whole[-1:])) == ["a"]
    assert reader.end() == []


def test_a_last_line_needs_no_newline() -> None:
    assert texts(read(printed(said(text("a")), end=b""))) == ["a"]


def test_a_line_that_the_program_did_not_finish_is_counted() -> None:
    stream = printed(said(text("a"))) + printed(said(text("b")))[:-5]
    assert texts(read(stream)) == ["a"]
    assert counted(stream) == (2, 1, 0)


def test_what_is_no_json_is_counted_and_passed_over() -> None:
    good = printed(said(text("a")))
    stream = b"[warn] oops\n" + good + b"{\xff}\n" + b"[" * 100_000 + b"\n" + good
    assert texts(read(stream)) == ["a", "a"]
    assert counted(stream) == (5, 3, 0)


def test_a_line_of_five_megabytes_in_small_pieces() -> None:
    words = "x" * (5 << 20)
    stream = printed(given_back(result(words)), said(text(MARKER)))
    chunks = [stream[at : at + 4096] for at in range(0, len(stream), 4096)]
    tool, answer = read(*chunks)
    assert isinstance(tool, ToolResult)
    assert tool.text == words
    assert answer.at.line == 2
    assert texts([answer]) == [MARKER]


def test_the_array_of_a_whole_run_is_read() -> None:
    array = json.dumps([said(text("a")), said(text("b")), {"type": "new"}]).encode()
    assert texts(read(array)) == ["a", "b"]
    assert {one.at for one in read(array)} == {
        EventPosition(1, 0, hashlib.sha256(array).hexdigest())
    }
    assert counted(array) == (1, 0, 1)
    assert counted(b"[]\n") == (1, 0, 0)


# Kinds


@pytest.mark.parametrize(
    "event",
    [
        {"type": "new_kind", "message": said(text(MARKER))["message"]},
        {"type": "system", "subtype": "new_kind"},
        {"type": "system"},
        {"type": ["assistant"]},
        {},
        42,
        "assistant",
        None,
    ],
)
def test_an_unknown_kind_is_counted_and_says_nothing(event: Any) -> None:
    assert read(printed(event)) == []
    assert counted(printed(event)) == (1, 0, 1)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "stream_event", "event": {"delta": text(MARKER)}},
        {"type": "rate_limit_event", "rate_limit_info": {}},
        {"type": "system", "subtype": "api_retry", "attempt": 1},
        {"type": "system", "subtype": "hook_response", "output": MARKER},
        {"type": "tool_progress"},
    ],
)
def test_a_known_kind_may_say_nothing_and_is_not_counted(event: Any) -> None:
    assert read(printed(event)) == []
    assert counted(printed(event)) == (1, 0, 0)


@pytest.mark.parametrize("kind", ["assistant", "user", "result", "system"])
@pytest.mark.parametrize("rest", [None, [], "x", 7, {"content": 7}, {"content": [7, None, {}]}])
def test_a_known_kind_of_an_unknown_shape_is_no_trouble(kind: str, rest: Any) -> None:
    names = ("message", "subtype", "supersedes", "is_error", "compact_metadata", "uuid")
    event = {"type": kind} | dict.fromkeys(names, rest)
    assert texts(read(printed(event))) == []


def test_a_start_says_with_what() -> None:
    event = {
        "type": "system",
        "subtype": "init",
        "session_id": "s",
        "cwd": "/srv",
        "model": "m",
        "permissionMode": "plan",
        "tools": ["Bash", 7],
        "mcp_servers": [{"name": "files", "status": "connected"}],
        "claude_code_version": "2.1.197",
        "memory_paths": {"auto": "/home/memory/"},
        "skills": ["verify"],
        "plugins": [{"name": "p", "path": "/p"}],
    }
    (found,) = read(printed(event))
    assert found == StreamStart(
        at=found.at,
        session_id="s",
        model="m",
        cwd="/srv",
        version="2.1.197",
        permission_mode="plan",
        memory_folder="/home/memory/",
        tools=("Bash",),
        mcp_servers=("files",),
        skills=("verify",),
        plugins=("p",),
    )


def test_only_texts_of_an_answer_are_texts() -> None:
    event = said(
        {"type": "thinking", "thinking": MARKER},
        {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": MARKER}},
        text("a"),
        {"type": "new_kind", "text": MARKER},
        text("b"),
    )
    assert texts(read(printed(event))) == ["a", "b"]
    assert len(read(printed(event))) == 2


def test_what_is_said_beside_answers_is_no_text() -> None:
    stream = printed(
        {"type": "user", "message": {"content": MARKER}},
        given_back(text(MARKER)),
        given_back(result(MARKER), tool_use_result={"stdout": MARKER}),
        {"type": "result", "subtype": "success", "is_error": False, "result": MARKER},
    )
    assert texts(read(stream)) == []
    assert [type(one) for one in read(stream)] == [ToolResult, SessionResult]


def test_an_answer_that_is_an_error_is_skipped() -> None:
    assert read(printed(said(text(MARKER), error="rate_limit"))) == []
    assert texts(read(printed(said(text("a"), error=None)))) == ["a"]


def test_an_answer_says_whose_it_is_and_whether_it_was_aborted() -> None:
    stream = printed(
        said(text("a"), parent_tool_use_id=None),
        said(text("b"), parent_tool_use_id="toolu_7"),
        said(text("c"), aborted=True),
    )
    found = [(one.origin, one.aborted) for one in read(stream) if isinstance(one, ModelText)]
    assert found == [
        (SourceClass.AGENT, False),
        (SourceClass.SUBAGENT, False),
        (SourceClass.AGENT, True),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("one", "one"),
        ([text("one"), {"type": "image", "source": {}}, text("two")], "one\ntwo"),
        ([], ""),
        (None, ""),
    ],
)
def test_a_result_of_a_tool_has_its_texts(content: Any, words: str) -> None:
    event = given_back(result(content, is_error=True), parent_tool_use_id="toolu_7")
    (found,) = read(printed(event))
    assert found == ToolResult(
        at=found.at,
        text=words,
        tool_use_id="toolu_1",
        uuid="u2",
        origin=SourceClass.SUBAGENT,
        is_error=True,
    )


def test_a_result_that_is_replayed_is_not_seen_again() -> None:
    assert read(printed(given_back(result("a"), isReplay=True))) == []


def test_an_answer_takes_back_what_it_replaces_and_not_itself() -> None:
    event = said(text("better"), supersedes=["u0", "u1", 7, "", "u9"])
    retracted, better = read(printed(event))
    assert isinstance(retracted, Retraction)
    assert retracted.uuids == ("u0", "u9")
    assert texts([better]) == ["better"]
    assert [type(one) for one in read(printed(said(supersedes=["u0"], error="x")))] == [Retraction]


def test_a_fallback_takes_back_what_was_refused() -> None:
    event = {"type": "system", "subtype": "model_refusal_fallback", "uuid": "u5"}
    (found,) = read(printed(event | {"retracted_message_uuids": ["u1", "u2"]}))
    assert isinstance(found, Retraction)
    assert found.uuids == ("u1", "u2")
    assert read(printed(event)) == []
    assert counted(printed(event)) == (1, 0, 0)


def test_a_compaction_says_how_much_is_left() -> None:
    figures = {"trigger": "auto", "pre_tokens": 95_000, "post_tokens": True}
    event = {"type": "system", "subtype": "compact_boundary", "compact_metadata": figures}
    (found,) = read(printed(event))
    assert found == Compaction(
        at=found.at, trigger="auto", tokens_before=95_000, tokens_after=None
    )


ENDED = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "session_id": "s",
    "result": "Done",
    "num_turns": 3,
    "duration_ms": 458,
    "total_cost_usd": 0.25,
    "permission_denials": [{}, {}],
    "structured_output": {"memories": []},
    "terminal_reason": "completed",
    "api_error_status": None,
}


def ended(**changes: Any) -> SessionResult:
    event = {name: value for name, value in (ENDED | changes).items() if value != "nothing"}
    (found,) = read(printed(event))
    assert isinstance(found, SessionResult)
    return found


def test_an_end_says_how_it_went() -> None:
    assert ended() == SessionResult(
        at=ended().at,
        session_id="s",
        subtype="success",
        is_error=False,
        result="Done",
        structured_output={"memories": []},
        cost_usd=0.25,
        turns=3,
        duration_ms=458,
        denied=2,
        terminal_reason="completed",
        api_error_status=None,
    )


@pytest.mark.parametrize(
    ("subtype", "is_error", "failed"),
    [
        ("success", True, True),
        ("success", False, False),
        ("error_max_turns", "nothing", True),
        ("success", "nothing", False),
        ("error_max_turns", False, False),
    ],
)
def test_a_run_failed_when_it_says_so_whatever_its_subtype(
    subtype: str, is_error: Any, *, failed: bool
) -> None:
    assert ended(subtype=subtype, is_error=is_error).is_error is failed


@pytest.mark.parametrize("cost", [None, "1", True, 10**400, float("inf"), float("nan"), "nothing"])
def test_a_cost_that_is_none_is_none(cost: Any) -> None:
    assert ended(total_cost_usd=cost).cost_usd is None


@pytest.mark.parametrize("output", [None, "nothing"])
def test_a_document_that_was_not_returned_is_none(output: Any) -> None:
    assert ended(structured_output=output).structured_output is None


def test_half_of_a_surrogate_pair_can_be_written() -> None:
    assert texts(read(printed(said(text("a\ud800b 🌍"))))) == ["a\ufffdb 🌍"]
    output = {"\udc00": ["\ud83d", 1, {}, None]}
    assert ended(structured_output=output).structured_output == {"\ufffd": ["\ufffd", 1, {}, None]}


# Cuts


EVENTS = st.sampled_from(
    [
        printed(said(text("é🌍\n" + MARKER))),
        printed(said(text("a"), text("b"), supersedes=["u0"]), end=b"\r\n"),
        printed(given_back(result([text("seen")]))),
        printed({"type": "stream_event"}, {"type": "what"}),
        printed([said(text("a")), ENDED]),
        printed(ENDED, end=b""),
        b"no json\n",
        b"\n",
        b'{"type": "assistant"',
        b"\xff\xfe",
    ]
)


def cut_up(stream: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[a:b] for a, b in pairwise(places)]


@untimed
@given(st.lists(EVENTS, max_size=8).map(b"".join), st.lists(st.integers(0, 9999), max_size=30))
def test_cuts_make_no_difference(stream: bytes, cuts: list[int]) -> None:
    assert read(*cut_up(stream, cuts)) == read(stream)


@untimed
@given(st.lists(st.binary(max_size=20), max_size=20))
def test_any_bytes_are_read(chunks: list[bytes]) -> None:
    assert read(*chunks) == read(b"".join(chunks))


@untimed
@given(st.lists(EVENTS, max_size=8).map(b"".join))
def test_every_place_leads_back_to_its_line(stream: bytes) -> None:
    lines = stream.split(b"\n")
    for one in read(stream):
        line = lines[one.at.line - 1]
        assert stream[one.at.offset :].startswith(line)
        assert hashlib.sha256(line).hexdigest() == one.at.sha256


# The program itself


LOOK = Call("Bash", {"command": f"echo '{MARKER}'", "description": "Say it"}, "toolu_look")
MEMORY = {"category": "timing", "service": "jellyfin", "observation": "Takes 60s to start"}
REFUSED, RETURNED = (
    Call("StructuredOutput", {"memories": [MEMORY | {"category": one}]}, f"toolu_{one}")
    for one in ("misc", "timing")
)


async def test_what_the_program_prints_is_understood_however_it_is_cut(tmp_path: Path) -> None:
    """With partial messages, a tool, and a document by our schema, which it applies."""
    replies = (
        Said(f"Let me see, “é” 🌍.\n\n{MARKER}", (LOOK,), id="1"),
        Said(calls=(REFUSED,), id="2"),
        Said("Again.", (RETURNED,), id="3"),
    )
    options = ("--include-partial-messages", "--json-schema", json.dumps(build_output_schema()))
    async with running_upstream() as upstream:
        upstream.scripts[ANTHROPIC.path] = ANTHROPIC.replies(*replies)
        claude = ClaudeCode(upstream.address, tmp_path / "home", tmp_path / "project")
        ran = await claude.ask("How is it?", "--allowedTools=Bash(echo:*)", *options)
    assert b'"stream_event"' in ran.stdout
    found = read(ran.stdout)
    assert [type(one) for one in found] == [
        *(StreamStart, ModelText, ToolResult, ToolResult, ModelText, ToolResult, SessionResult)
    ]
    assert counted(ran.stdout) == (len(ran.events), 0, 0)
    assert texts(found) == [f"Let me see, “é” 🌍.\n\n{MARKER}", "Again."]
    started, first, looked, refused, *_, end = found
    assert isinstance(started, StreamStart)
    assert (started.session_id, started.model) == (ran.session, MODEL)
    assert str(tmp_path / "home") in started.memory_folder
    assert isinstance(first, ModelText)
    assert ran.events[first.at.line - 1]["uuid"] == first.uuid
    assert isinstance(looked, ToolResult)
    assert (looked.text, looked.tool_use_id) == (MARKER, LOOK.id)
    assert isinstance(refused, ToolResult)
    assert (refused.is_error, "/memories/0/category" in refused.text) == (True, True)
    assert isinstance(end, SessionResult)
    assert end.structured_output == {"memories": [MEMORY]}
    assert (end.is_error, end.subtype, end.turns) == (False, "success", 4)
    assert (end.cost_usd or 0) > 0
    for size in (1, 7, 1000):
        chunks = [ran.stdout[at : at + size] for at in range(0, len(ran.stdout), size)]
        assert read(*chunks) == found
