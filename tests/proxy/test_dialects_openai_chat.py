"""OpenAI Chat Completions: opencode, aider, plain SDKs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.exchange.openai_chat import OpenAIChat
from memplane.exchange.request_body import parse_body
from memplane.exchange.sse import SseEvent
from tests.proxy.shapes import BLOCK, Json, body, chat, written

DIALECT = OpenAIChat()
SYSTEM = {"role": "system", "content": "You are a helpful assistant."}


def said(role: str, content: object) -> Json:
    return {"role": role, "content": content}


def places(*messages: Json) -> list[str]:
    return [one.place for one in DIALECT.conversation(body(chat(list(messages)))).prompts]


def test_prompts_are_what_users_said() -> None:
    messages = [SYSTEM, said("user", "a"), said("assistant", "x"), said("user", "b")]
    conversation = DIALECT.conversation(body(chat(messages)))

    assert [(one.index, one.text) for one in conversation.prompts] == [(1, "a"), (3, "b")]
    assert conversation.awaits
    assert conversation.messages == messages
    assert conversation.system is None


def test_what_clients_change_leaves_places_alone() -> None:
    plain = places(SYSTEM, said("user", "a"), said("assistant", "x"), said("user", "b"))

    assert plain == places(said("user", "a"), said("user", "b"))
    assert plain == places(
        said("developer", "new"),
        said("user", [{"type": "text", "text": "a"}]),
        said("assistant", "other"),
        said("user", [{"type": "text", "text": "b", "prompt_cache_breakpoint": True}]),
    )
    assert plain != places(said("user", "a"), said("user", "c"))


def test_a_tool_loop_does_not_await() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    loop = [
        said("user", "a"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]

    assert not DIALECT.conversation(body(chat(loop))).awaits
    assert not DIALECT.conversation(body(chat([*loop, SYSTEM]))).awaits
    assert DIALECT.conversation(body(chat([*loop, said("user", "b")]))).awaits
    assert DIALECT.conversation(body(chat([*loop, said("user", "b"), SYSTEM]))).awaits


def test_a_block_follows_on_the_users_words() -> None:
    raw = rb'{"messages": [{"role":"user","content": "\u00e9\/ \"q\""}], "top_p": 0.70}'

    assert DIALECT.with_blocks(parse_body(raw), {0: "m\n1"}) == (
        rb'{"messages": [{"role":"user","content": "\u00e9\/ \"q\"\n\nm\n1"}], "top_p": 0.70}'
    )


def test_a_block_is_a_part_after_the_others() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:x"}}, {"type": "text", "text": "a"}]
    changed = DIALECT.with_blocks(body(chat([said("user", parts)])), {0: BLOCK})

    content = json.loads(changed)["messages"][0]["content"]
    assert content == [*parts, {"type": "text", "text": BLOCK}]


def test_a_message_without_content_is_left_alone() -> None:
    one = body(chat([said("user", None), {"role": "user"}, said("user", 5)]))

    assert DIALECT.with_blocks(one, {0: BLOCK, 1: BLOCK, 2: BLOCK}) is one.raw


def test_a_message_with_a_key_twice_is_left_alone() -> None:
    one = parse_body(b'{"messages":[{"role":"user","content":"a","content":"b"}]}')

    assert DIALECT.with_blocks(one, {0: BLOCK}) is one.raw


@given(
    contents=st.lists(st.text() | st.lists(st.text(), max_size=3), min_size=1, max_size=5),
    indent=st.sampled_from([None, 2]),
    ascii_only=st.booleans(),
    block=st.text(min_size=1),
)
def test_taking_a_block_out_gives_the_body_back(
    contents: list[str | list[str]], indent: int | None, block: str, *, ascii_only: bool
) -> None:
    messages = [
        said("user", one if isinstance(one, str) else [{"type": "text", "text": t} for t in one])
        for one in contents
    ]
    document = json.dumps(chat(messages, odd=1e3), indent=indent, ensure_ascii=ascii_only)
    one = parse_body(document.encode("utf-8", "replace"))

    changed = DIALECT.with_blocks(one, dict.fromkeys(range(len(messages)), "@@" + block))

    clean = ("@@" + block).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    read = json.loads(changed)
    for message in read["messages"]:
        if isinstance(message["content"], str):
            assert message["content"].endswith("\n\n" + clean)
            message["content"] = message["content"][: -len(clean) - 2]
        else:
            assert message["content"].pop() == {"type": "text", "text": clean}
    assert read == json.loads(one.raw)


def test_context_stands_before_the_last_message_of_the_users() -> None:
    messages = [SYSTEM, said("user", "a"), said("assistant", "x"), said("user", "b")]
    changed = DIALECT.with_context(body(chat([*messages, said("tool", "t")])), "memory")

    assert changed == written(
        chat([*messages[:3], said("system", "memory"), messages[3], said("tool", "t")])
    )


@pytest.mark.parametrize("messages", [[], [SYSTEM]])
def test_context_comes_last_when_no_user_spoke(messages: list[Json]) -> None:
    changed = DIALECT.with_context(body(chat(messages)), "memory")

    assert changed == written(chat([*messages, said("system", "memory")]))


def test_without_a_list_there_is_no_place_for_context() -> None:
    assert DIALECT.with_context(body({"prompt": "x"}), "memory") is None
    assert DIALECT.with_context(body({"messages": {}}), "memory") is None


@pytest.mark.parametrize(
    ("event", "ends"),
    [
        (SseEvent("", "[DONE]"), True),
        (SseEvent("", " [DONE]"), True),
        (SseEvent("", "[DON"), False),
        (SseEvent("", '{"choices":[{"delta":{"content":"[DONE]"}}]}'), False),
    ],
)
def test_the_last_event(event: SseEvent, *, ends: bool) -> None:
    assert DIALECT.is_end(event) is ends


@pytest.mark.parametrize(
    ("document", "failure"),
    [
        ({"error": {"message": "no", "type": "server_error", "code": 502}}, "server_error: no"),
        ({"error": {"code": 502}}, "the provider sent an error"),
        ({"error": True}, "the provider sent an error"),
        ({"choices": [{"finish_reason": "error"}]}, "the provider sent an error"),
        ({"choices": [{"finish_reason": "stop"}], "error": None}, ""),
        ({"choices": "x", "error": {}}, ""),
    ],
)
def test_failures(document: object, failure: str) -> None:
    assert DIALECT.failure_in(document) == failure


def test_a_long_error_is_cut() -> None:
    assert len(DIALECT.failure_in({"error": "x" * 1000})) == 200
