"""OpenAI Responses: Codex, opencode, plain SDKs."""

from __future__ import annotations

import json

import pytest

from memplane.exchange.dialect_registry import DIALECTS, find_dialect
from memplane.exchange.openai_responses import OpenAIResponses
from memplane.exchange.request_body import parse_body
from memplane.exchange.sse import SseEvent
from tests.proxy.shapes import (
    BLOCK,
    Json,
    body,
    codex,
    codex_assistant,
    codex_user,
    message,
    written,
)

DIALECT = OpenAIResponses()
CALL = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "ok"}
REASONING = {"type": "reasoning", "summary": [], "encrypted_content": "x"}


def places(document: Json) -> list[str]:
    return [one.place for one in DIALECT.conversation(body(document)).prompts]


def test_prompts_are_what_users_said() -> None:
    document = codex([codex_user("a"), REASONING, codex_assistant("x"), codex_user("b")])
    conversation = DIALECT.conversation(body(document))

    assert [(one.index, one.text) for one in conversation.prompts] == [(2, "a"), (5, "b")]
    assert conversation.awaits
    assert conversation.messages == document["input"]


def test_an_input_of_one_text_is_a_prompt() -> None:
    conversation = DIALECT.conversation(body({"model": "m", "input": "a"}))

    assert [(one.index, one.text) for one in conversation.prompts] == [(-1, "a")]
    assert conversation.awaits
    assert places({"input": "a"}) == places({"input": [{"role": "user", "content": "a"}]})
    assert places({"input": "a"}) == places(codex([codex_user("a")]))
    assert not DIALECT.conversation(body({"input": " "})).prompts
    assert DIALECT.conversation(body({"input": "a\n" + BLOCK})).injected


def test_what_clients_change_leaves_places_alone() -> None:
    plain = places(codex([codex_user("a"), codex_assistant("x"), codex_user("b")]))

    assert plain == places(
        codex(
            [
                message("developer", "input_text", "hook says"),
                {"role": "user", "content": "a"},
                REASONING,
                CALL,
                OUTPUT,
                codex_user("b"),
            ],
            instructions="new",
        )
    )
    assert plain != places(codex([codex_user("a"), codex_user("B")]))


def test_a_tool_loop_does_not_await() -> None:
    loop = [codex_user("a"), REASONING, CALL, OUTPUT]

    for length in (2, 3, 4):
        assert not DIALECT.conversation(body(codex(loop[:length]))).awaits
    assert DIALECT.conversation(body(codex([*loop, codex_user("b")]))).awaits


def test_only_what_is_new_is_read_after_an_earlier_response() -> None:
    new = body({"model": "m", "previous_response_id": "resp_1", "input": [OUTPUT]})

    assert DIALECT.conversation(new).prompts == ()
    assert not DIALECT.conversation(new).awaits


@pytest.mark.parametrize("is_before", [True, False])
def test_a_hooks_memory_is_seen(*, is_before: bool) -> None:
    hook = message("developer", "input_text", BLOCK)
    newest = [hook, codex_user("b")] if is_before else [codex_user("b"), hook]
    items = [codex_user("a"), codex_assistant("x"), *newest]

    assert DIALECT.conversation(body(codex(items))).injected
    assert not DIALECT.conversation(
        body(codex([*items, codex_assistant("y"), codex_user("c")]))
    ).injected


def test_a_block_comes_after_everything_in_its_item() -> None:
    document = codex([codex_user("a"), {"role": "user", "content": "b"}])
    changed = json.loads(DIALECT.with_blocks(body(document), {2: "one", 3: "two"}))

    assert changed["input"][2]["content"] == [
        {"type": "input_text", "text": "a"},
        {"type": "input_text", "text": "one"},
    ]
    assert changed["input"][3]["content"] == "b\n\ntwo"
    changed["input"][2:] = document["input"][2:]
    assert changed == document


def test_a_block_follows_on_an_input_of_one_text() -> None:
    raw = rb'{"input" : "\u00e9" , "temperature":0.70}'

    assert DIALECT.with_blocks(parse_body(raw), {-1: "m"}) == (
        rb'{"input" : "\u00e9\n\nm" , "temperature":0.70}'
    )
    assert DIALECT.with_blocks(parse_body(raw), {0: "m"}) == raw


def test_context_stands_before_the_last_item_of_the_users() -> None:
    items = [codex_user("a"), codex_assistant("x"), codex_user("b"), CALL]
    context = {"role": "system", "content": "memory"}

    assert DIALECT.with_context(body(codex(items)), "memory") == written(
        codex([*items[:2], context, *items[2:]])
    )
    assert DIALECT.with_context(body({"input": []}), "memory") == written({"input": [context]})
    assert DIALECT.with_context(body({"input": "a"}), "memory") == written(
        {"input": [context, {"role": "user", "content": "a"}]}
    )
    assert DIALECT.with_context(body({"input": None}), "memory") is None
    assert DIALECT.with_context(body({}), "memory") is None


@pytest.mark.parametrize(
    ("event", "ends"),
    [
        (SseEvent("response.completed", '{"type":"response.completed","response":{}}'), True),
        (SseEvent("", '{"type":"response.incomplete"}'), True),
        (SseEvent("response.failed", '{"type":"response.failed"}'), True),
        (SseEvent("response.completed", '{"response":{}}'), True),
        (SseEvent("response.completed", '{"type":"response.comp'), False),
        (SseEvent("", '{"type":"x","delta":"response.completed"}'), False),
        (SseEvent("", "[DONE]"), False),
    ],
)
def test_the_last_event(event: SseEvent, *, ends: bool) -> None:
    assert DIALECT.is_end(event) is ends


@pytest.mark.parametrize(
    ("document", "failure"),
    [
        ({"type": "error", "code": "server_error", "message": "no"}, "server_error: no"),
        ({"type": "error", "error": {"type": "t", "message": "no"}}, "t: no"),
        (
            {"type": "response.failed", "response": {"error": {"code": "c", "message": "m"}}},
            "c: m",
        ),
        (
            {"type": "response.failed", "response": {"status": "failed", "error": None}},
            "the response is failed",
        ),
        ({"status": "failed", "error": {"code": "c"}}, "c"),
        ({"status": "incomplete", "error": None}, ""),
        ({"status": "completed", "error": None, "output": [{"error": "x"}]}, ""),
        ({"type": "response.completed", "response": {"status": "completed"}}, ""),
    ],
)
def test_failures(document: object, failure: str) -> None:
    assert DIALECT.failure_in(document) == failure


def test_each_path_has_its_dialect() -> None:
    assert [find_dialect(one.path) for one in DIALECTS] == list(DIALECTS)
    assert find_dialect("/v1/messages/count_tokens") is None
    assert find_dialect("/v1/responses/compact") is None
