"""What was said, in every dialect, as JSON and as a stream; and shapes that nobody expects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.exchange.conversation_parser import extract_answer, extract_questions, parse_reply

BLOCK = "--- BEGIN MEMORY (from m) ---\n[kind=fact]\nlikes oolong\n--- END MEMORY ---"


def whole(body: Any) -> dict[str, Any]:
    return {"format": "json", "json": body}


def stream(*events: Any, newline: str = "\n") -> dict[str, Any]:
    lines = [f"data: {json.dumps(event)}{newline}{newline}" for event in events]
    return {"format": "sse", "text": "".join(lines)}


def chat(content: Any, **more: Any) -> dict[str, Any]:
    return {"index": 0, "message": {"role": "assistant", "content": content, **more}}


def delta(index: int = 0, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": more}]}


class TestQuestions:
    @pytest.mark.parametrize(
        "request_",
        [
            {"messages": [{"role": "user", "content": "Where is it?"}]},
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "Where is it?"}]}
                ]
            },
            {"input": "Where is it?"},
            {"input": [{"role": "user", "content": "Where is it?"}]},
            {
                "input": [
                    {
                        "type": "message",
                        "role": "user",
                        "content": [{"type": "input_text", "text": "Where is it?"}],
                    }
                ]
            },
        ],
    )
    def test_in_every_dialect(self, request_: Any) -> None:
        assert extract_questions(request_) == ["Where is it?"]

    def test_the_oldest_comes_first_and_only_users_count(self) -> None:
        messages = [
            {"role": "system", "content": "You are terse."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "1"},
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "two"}, {"text": "three"}]},
            {"role": "system", "content": "Today is Monday."},
        ]
        assert extract_questions({"messages": messages}) == ["one", "two\nthree"]

    def test_what_a_tool_answered_is_not_what_the_user_said(self) -> None:
        result = {"type": "tool_result", "tool_use_id": "t", "content": "the log says no"}
        nested = {**result, "content": [{"type": "text", "text": "the log says no"}]}
        anthropic = [
            {"role": "user", "content": "Why?"},
            {"role": "user", "content": [result, nested]},
            {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]},
        ]
        assert extract_questions({"messages": anthropic}) == ["Why?", "And now?"]
        openai = [{"role": "user", "content": "Why?"}, {"role": "tool", "content": "the log"}]
        assert extract_questions({"messages": openai}) == ["Why?"]
        responses = [
            {"role": "user", "content": "Why?"},
            {"type": "function_call", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "the log"},
        ]
        assert extract_questions({"input": responses}) == ["Why?"]

    def test_images_and_other_parts_say_nothing(self) -> None:
        image = {"type": "image_url", "image_url": {"url": "data:x"}, "text": "not said"}
        messages = [{"role": "user", "content": [image, {"type": "text", "text": "What's this?"}]}]
        assert extract_questions({"messages": messages}) == ["What's this?"]

    def test_injected_memory_is_not_what_the_user_said(self) -> None:
        messages = [
            {"role": "user", "content": f"What tea?\n\n{BLOCK}"},
            {"role": "user", "content": [{"type": "text", "text": BLOCK}]},
        ]
        assert extract_questions({"messages": messages}) == ["What tea?"]

    def test_a_users_mention_of_a_mark_does_not_reach_into_the_next_part(self) -> None:
        parts = [
            {"type": "text", "text": "<system-reminder>context</system-reminder>"},
            {"type": "text", "text": "What is <system-reminder> for?"},
            {"type": "text", "text": "<system-reminder>more</system-reminder>"},
        ]
        messages = [{"role": "user", "content": parts}]
        assert extract_questions({"messages": messages}) == ["What is <system-reminder> for?"]

    def test_a_first_message_of_codex(self) -> None:
        def said(text: str) -> dict[str, Any]:
            return {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": text}],
            }

        items = [
            {"type": "message", "role": "developer", "content": "Be terse."},
            said("<user_instructions>\nUse tabs.\n</user_instructions>"),
            said("<environment_context>\n<cwd>/x</cwd>\n</environment_context>"),
            said("Fix the build."),
        ]
        assert extract_questions({"input": items}) == ["Fix the build."]


TOOL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("response", "answer", "calls"),
    [
        pytest.param(whole({"choices": [chat("Hello.")]}), "Hello.", [], id="chat"),
        pytest.param(
            whole(
                {"choices": [chat([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])]}
            ),
            "a\nb",
            [],
            id="chat with parts",
        ),
        pytest.param(
            whole({"choices": [chat(None, tool_calls=[TOOL, TOOL])]}),
            "",
            ["search"],
            id="chat with tool calls",
        ),
        pytest.param(
            whole({"choices": [chat(None, tool_calls=[{"custom": {"name": "run"}}])]}),
            "",
            ["run"],
            id="chat with a custom tool",
        ),
        pytest.param(
            whole({"choices": [chat(None, function_call={"name": "old"})]}),
            "",
            ["old"],
            id="chat with a function call of the older form",
        ),
        pytest.param(
            whole({"choices": [chat(None, refusal="I will not.")]}),
            "I will not.",
            [],
            id="refused",
        ),
        pytest.param(
            whole({"choices": [chat(" "), chat("second"), chat("third")]}),
            "second",
            [],
            id="several choices",
        ),
        pytest.param(whole({"choices": [{"text": "old"}]}), "old", [], id="completion"),
        pytest.param(
            whole(
                {
                    "content": [
                        {"type": "thinking", "thinking": "hm", "text": "hm"},
                        {"type": "text", "text": "Let me see."},
                        {"type": "tool_use", "name": "Read", "input": {}},
                        {"type": "text", "text": "Found."},
                    ]
                }
            ),
            "Let me see.\nFound.",
            ["Read"],
            id="messages",
        ),
        pytest.param(
            whole(
                {
                    "output": [
                        {
                            "type": "reasoning",
                            "content": [{"type": "reasoning_text", "text": "hm"}],
                        },
                        {"type": "function_call", "name": "read", "arguments": "{}"},
                        {
                            "type": "message",
                            "content": [{"type": "output_text", "text": "Found."}],
                        },
                        {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]},
                    ]
                }
            ),
            "Found.\nNo.",
            ["read"],
            id="responses",
        ),
        pytest.param(
            stream(
                delta(role="assistant", content=""),
                delta(content="Hel"),
                delta(1, content="Other"),
                delta(content="lo."),
                delta(tool_calls=[{"index": 0, **TOOL}]),
                delta(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}]),
                delta(tool_calls=[{"index": 1, "id": "c2", "function": {"name": "re"}}]),
                delta(tool_calls=[{"index": 1, "function": {"name": "ad"}}]),
                {"choices": [], "usage": {"prompt_tokens": 1}},
            ),
            "Hello.",
            ["search", "read"],
            id="chat stream",
        ),
        pytest.param(
            stream(
                delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "one"}}]),
                delta(tool_calls=[{"index": 0, "id": "b", "function": {"name": "two"}}]),
                delta(tool_calls=[{"index": 0, "id": "b", "function": {"name": "two"}}]),
                delta(function_call={"name": "old"}),
            ),
            "",
            ["one", "two", "old"],
            id="calls that are numbered alike",
        ),
        pytest.param(
            stream(delta(refusal="I will "), delta(refusal="not.")),
            "I will not.",
            [],
            id="refusal",
        ),
        pytest.param(
            stream(delta(1, content="second"), delta(0, content="first")),
            "first",
            [],
            id="the first choice, not the one that came first",
        ),
        pytest.param(
            stream(
                {"type": "message_start", "message": {"content": []}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "thinking_delta", "thinking": "hm"},
                },
                {
                    "type": "content_block_start",
                    "index": 1,
                    "content_block": {"type": "text", "text": ""},
                },
                *(
                    {
                        "type": "content_block_delta",
                        "index": 1,
                        "delta": {"type": "text_delta", "text": text},
                    }
                    for text in ("Let me ", "see.")
                ),
                {
                    "type": "content_block_start",
                    "index": 2,
                    "content_block": {"type": "tool_use", "name": "Read", "input": {}},
                },
                {
                    "type": "content_block_delta",
                    "index": 2,
                    "delta": {"type": "input_json_delta", "partial_json": "{}"},
                },
                {
                    "type": "content_block_delta",
                    "index": 3,
                    "delta": {"type": "text_delta", "text": "Found."},
                },
                {"type": "message_stop"},
            ),
            "Let me see.\nFound.",
            ["Read"],
            id="messages stream",
        ),
        pytest.param(
            stream(
                {"type": "response.created", "response": {"output": []}},
                {
                    "type": "response.output_item.added",
                    "output_index": 0,
                    "item": {"type": "function_call", "name": "read"},
                },
                {
                    "type": "response.output_item.done",
                    "output_index": 0,
                    "item": {"type": "function_call", "name": "read"},
                },
                *(
                    {
                        "type": "response.output_text.delta",
                        "output_index": 1,
                        "content_index": 0,
                        "delta": text,
                    }
                    for text in ("Fou", "nd.")
                ),
                {
                    "type": "response.output_text.done",
                    "output_index": 1,
                    "content_index": 0,
                    "text": "Found.",
                },
                {
                    "type": "response.completed",
                    "response": {
                        "output": [
                            {"type": "function_call", "name": "read"},
                            {"content": [{"type": "output_text", "text": "Found."}]},
                        ]
                    },
                },
            ),
            "Found.",
            ["read"],
            id="responses stream",
        ),
        pytest.param(
            stream(
                {
                    "type": "response.completed",
                    "response": {
                        "output": [{"content": [{"type": "output_text", "text": "All."}]}]
                    },
                }
            ),
            "All.",
            [],
            id="responses stream with nothing but its end",
        ),
    ],
)
def test_every_dialect(response: Any, answer: str, calls: list[str]) -> None:
    assert extract_answer(response) == answer
    assert list(parse_reply(response).calls) == calls


class TestStreams:
    @pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
    def test_any_line_ending(self, newline: str) -> None:
        body = stream(
            delta(content="a"), delta(content="b\n"), delta(content="c"), newline=newline
        )
        assert extract_answer(body) == "ab\nc"

    def test_comments_names_and_the_end_mark_say_nothing(self) -> None:
        text = (
            '\ufeffdata:{"choices":[{"delta":{"content":"a"}}]}\n\n'
            ": ping\n\nevent: x\nid: 7\nretry: 10\n"
            ': ping\ndata: {"choices":[{"delta":{"content":"b"}}]}\n\ndata: [DONE]\n\n'
        )
        assert extract_answer({"format": "sse", "text": text}) == "ab"

    def test_data_on_several_lines(self) -> None:
        text = 'data: {"choices":\ndata: [{"delta":\ndata:{"content":"a"}}]}\n\n'
        assert extract_answer({"format": "sse", "text": text}) == "a"

    def test_separators_within_text_end_no_line(self) -> None:
        event = json.dumps(delta(content="a\u2028b\u0085c"), ensure_ascii=False)
        assert extract_answer({"format": "sse", "text": f"data: {event}\n\n"}) == "a\u2028b\u0085c"

    def test_a_stream_that_was_cut_says_what_it_said(self) -> None:
        text = stream(delta(content="one "), delta(content="two"))["text"]
        for end in range(len(text)):
            assert extract_answer({"format": "sse", "text": text[:end]}) in {"", "one ", "one two"}
        assert extract_answer({"format": "sse", "text": text.rstrip()}) == "one two"

    def test_a_surrogate_pair_over_two_deltas_is_one_character(self) -> None:
        assert (
            extract_answer(stream(delta(content="\ud83d"), delta(content="\ude00")))
            == "\U0001f600"
        )
        assert extract_answer(stream(delta(content="a\ud83d"))) == "a\ufffd"

    def test_an_end_without_its_text_takes_nothing_back(self) -> None:
        said = {"type": "response.output_text.delta", "delta": "a"}
        assert extract_answer(stream(said, {"type": "response.output_text.done"})) == "a"
        whole_part = {"type": "response.output_text.done", "text": "a and b"}
        assert extract_answer(stream(said, whole_part)) == "a and b"

    def test_text_that_is_not_a_stream_says_nothing(self) -> None:
        assert extract_answer({"format": "sse", "text": "data: 1\n\ndata: {\n\nhello"}) == ""
        assert extract_answer({"format": "sse"}) == ""
        assert extract_answer({"format": "sse", "text": f"data: {'[' * 100_000}\n\n"}) == ""
        deep = '{"a":' * 100_000 + "1" + "}" * 100_000
        assert extract_answer({"format": "sse", "text": f"data: {deep}\n\n"}) == ""


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=8))
def test_deltas_add_up_to_what_would_have_come_in_one_piece(parts: list[str]) -> None:
    text = "".join(parts)
    chat_stream = stream(*(delta(content=part) for part in parts))
    blocks = stream(
        *({"type": "content_block_delta", "index": 0, "delta": {"text": part}} for part in parts)
    )
    items = stream(*({"type": "response.output_text.delta", "delta": part} for part in parts))
    assert extract_answer(blocks) == extract_answer(items) == text
    assert extract_answer(chat_stream) == extract_answer(whole({"choices": [chat(text)]}))


def test_names_are_few_and_short() -> None:
    calls = [{"function": {"name": f"{number}-{'x' * 500}"}} for number in range(500)]
    names = parse_reply(whole({"choices": [chat(None, tool_calls=calls)]})).calls
    assert len(names) == 100
    assert max(map(len, names)) == 128


def test_a_kind_that_is_no_text_is_no_kind() -> None:
    parts = [{"type": ["text"], "text": "a", "name": "x"}, {"type": {}, "text": "b"}]
    body = {"content": parts, "output": parts, "choices": [{"message": {"content": parts}}]}
    assert not parse_reply(whole(body)).calls
    assert extract_questions({"messages": [{"role": ["user"], "content": "a"}]}) == []


_NAMES = st.sampled_from(
    [
        "format",
        "text",
        "json",
        "choices",
        "message",
        "delta",
        "content",
        "tool_calls",
        "function",
        "name",
        "function_call",
        "refusal",
        "index",
        "id",
        "type",
        "output",
        "content_block",
        "output_index",
        "content_index",
        "item",
        "response",
        "messages",
        "input",
        "role",
        "custom",
    ]
)
_VALUES = st.sampled_from(
    [
        *("sse", "json", "user", "text", "tool_use", "refusal", "content_block_delta", "\ud800"),
        *("content_block_start", "response.output_text.delta", "response.output_item.done"),
        *("response.completed", "response.output_text.done", "function_call", "input_text"),
        BLOCK,
    ]
)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | _VALUES | st.text(max_size=5)
_SHAPES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=25,
)


@given(_SHAPES)
def test_no_shape_raises(shape: Any) -> None:
    for said in (*extract_questions(shape), *extract_questions({"messages": shape})):
        said.encode()
    events = shape if isinstance(shape, list) else [shape]
    for response in (shape, whole(shape), stream(*events)):
        extract_answer(response).encode()
        for name in parse_reply(response).calls:
            assert name.encode()


@given(st.text(st.sampled_from('data: {}[]"\n\r\\u1e,x') | st.characters(), max_size=80))
def test_no_stream_raises(text: str) -> None:
    extract_answer({"format": "sse", "text": text}).encode()
