"""Anthropic Messages: Claude Code in both of its forms, opencode, plain SDKs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.exchange.anthropic import AnthropicMessages
from memplane.exchange.dialect import Conversation
from memplane.exchange.request_body import parse_body
from memplane.exchange.sse import SseEvent
from tests.proxy.shapes import (
    BLOCK,
    MARK,
    REMINDER,
    Json,
    assistant,
    body,
    claude_code,
    opus_like,
    sonnet_like,
    text,
    tool_result,
    tool_use,
    user,
    written,
)

DIALECT = AnthropicMessages()
REMEMBERED = {"type": "tool_result", "tool_use_id": "t", "content": BLOCK}


def read(document: Json) -> Conversation:
    return DIALECT.conversation(body(document))


def places(messages: list[Json]) -> list[str]:
    return [prompt.place for prompt in read(claude_code(messages)).prompts]


@pytest.mark.parametrize("form", [opus_like, sonnet_like])
def test_prompts_are_what_users_said(form: Any) -> None:
    conversation = read(claude_code(form("first", "second")))

    assert [prompt.text for prompt in conversation.prompts] == ["first", "second"]
    assert conversation.awaits
    assert not conversation.injected
    assert {len(prompt.place) for prompt in conversation.prompts} == {32}
    assert int(conversation.prompts[0].place, 16)


def test_the_index_is_that_of_the_message() -> None:
    assert [one.index for one in read(claude_code(opus_like("a", "b"))).prompts] == [0, 3]
    assert [one.index for one in read(claude_code(sonnet_like("a", "b"))).prompts] == [0, 2]


def test_both_forms_have_the_same_places() -> None:
    assert places(opus_like("a", "b", "c")) == places(sonnet_like("a", "b", "c"))


def test_places_stay_as_the_conversation_goes_on() -> None:
    later = places(opus_like("a", "b", "c"))

    assert places(opus_like("a")) == later[:1]
    assert places(opus_like("a", "b")) == later[:2]
    assert len(set(later)) == 3


@pytest.mark.parametrize(
    "changed",
    [
        [user(text("a", **MARK)), assistant(text("x")), user(text("b"))],
        [{"role": "user", "content": "a"}, assistant(text("x")), {"role": "user", "content": "b"}],
        [user(text("a")), assistant(text("other"), tool_use()), tool_result(), user(text("b"))],
        [user(text("a")), {"role": "system", "content": "new"}, assistant(), user(text("b"))],
        [user(text(REMINDER), text("a")), assistant(text("x")), user(text("b"), text(REMINDER))],
        [user(text("a")), assistant(text("x")), user(text("b\n" + REMINDER))],
        [user(text("a")), assistant(text("x")), tool_result(text("b"))],
        [user(text("a")), tool_result(text(REMINDER)), assistant(text("x")), user(text("b"))],
        [{"content": "a", "role": "user", "id": 7}, assistant(text("x")), user(text("b"))],
    ],
    ids=[
        "breakpoint moved",
        "strings for lists",
        "other answers",
        "system comes",
        "reminders come",
        "a reminder in the text",
        "beside a tool's answer",
        "a tool's answer with a reminder",
        "key order and unknown keys",
    ],
)
def test_what_clients_change_leaves_places_alone(changed: list[Json]) -> None:
    plain = [user(text("a")), assistant(text("x")), user(text("b", **MARK))]

    assert places(changed) == places(plain)


@pytest.mark.parametrize(
    "changed",
    [
        [user(text("A")), assistant(text("x")), user(text("b"))],
        [user(text("a")), user(text("more")), assistant(text("x")), user(text("b"))],
        [user(text("a"), text("more")), assistant(text("x")), user(text("b"))],
        [user(text("b"))],
        [user(text("b")), user(text("a"))],
    ],
    ids=["other word", "a prompt more", "a text more", "nothing before", "other order"],
)
def test_other_words_are_another_place(changed: list[Json]) -> None:
    plain = [user(text("a")), assistant(text("x")), user(text("b"))]

    assert places(changed)[-1] != places(plain)[-1]


def test_texts_do_not_run_into_one_another() -> None:
    assert places([user(text("ab"), text("c"))]) != places([user(text("a"), text("bc"))])


def test_an_image_is_part_of_what_was_said_and_its_breakpoint_is_not() -> None:
    def image(data: str, **more: object) -> Json:
        return {"type": "image", "source": {"type": "base64", "data": data}, **more}

    one = places([user(image("AAAA"), text("what is it?"))])

    assert places([user(image("AAAA", **MARK), text("what is it?"))]) == one
    assert places([user(image("AAAB"), text("what is it?"))]) != one
    assert places([user(text("what is it?"))]) != one


def test_a_compacted_conversation_has_places_that_nobody_knows() -> None:
    before = places(sonnet_like("a", "b"))
    summary = "This session is being continued from a previous conversation. Summary: a, b"

    after = places([user(text(REMINDER), text(summary)), assistant(), user(text("c"))])

    assert not set(after) & {*before, *places(sonnet_like("a", "b", "c"))}


def test_a_request_within_a_tool_loop_does_not_await() -> None:
    loop = [user(text("a")), assistant(tool_use()), tool_result()]
    conversation = read(claude_code(loop))

    assert not conversation.awaits
    assert [prompt.text for prompt in conversation.prompts] == ["a"]
    assert not read(claude_code([*loop, {"role": "system", "content": "x"}])).awaits
    assert not read(claude_code([*loop[:2], tool_result(text(REMINDER))])).awaits
    assert not read(claude_code([user(text("a")), tool_result()])).awaits


@pytest.mark.parametrize("begun", ["{", [text("Dear")]], ids=["string", "parts"])
def test_a_prompt_whose_answer_the_client_begins_awaits(begun: Any) -> None:
    asked = [user(text("a")), {"role": "assistant", "content": begun}]

    assert read(claude_code(asked)).awaits
    assert read(claude_code([user(text("a"), text(BLOCK)), asked[1]])).injected
    assert not read(claude_code([*asked, asked[1]])).awaits
    assert not read(claude_code([user(text("a")), assistant(text("x"), tool_use())])).awaits
    assert not read(claude_code([user(text("a")), assistant()])).awaits


def test_words_beside_a_tools_answer_await() -> None:
    loop = [user(text("a")), assistant(tool_use()), tool_result(text("rather b"))]

    assert read(claude_code(loop)).awaits


@pytest.mark.parametrize(
    "words",
    ["[Request interrupted by user]", "[Your previous response had no visible output. Go on.]"],
)
def test_what_the_client_says_in_the_users_name_is_no_prompt(words: str) -> None:
    conversation = read(claude_code([user(text("a")), assistant(text("x")), user(text(words))]))

    assert [prompt.text for prompt in conversation.prompts] == ["a"]
    assert not conversation.awaits


NOTIFICATION = (
    "<task-notification>\n<task-id>a14a</task-id>\n<status>completed</status>\n"
    "<summary>Agent finished</summary>\n<result>It found a.</result>\n</task-notification>"
)


@pytest.mark.parametrize(
    "words",
    [
        NOTIFICATION,
        f"<system-reminder>\n[SYSTEM NOTIFICATION]\n{NOTIFICATION}\n</system-reminder>",
    ],
    ids=["alone", "in a reminder"],
)
@pytest.mark.parametrize("follows", [[], [{"role": "system", "content": [text("x", **MARK)]}]])
def test_the_end_of_a_background_task_is_no_prompt(words: str, follows: list[Json]) -> None:
    asked = [user(text("a")), assistant(text("x"))]
    conversation = read(claude_code([*asked, user(text(words, **MARK)), *follows]))

    assert [prompt.text for prompt in conversation.prompts] == ["a"]
    assert not conversation.awaits
    both = [*asked, user(text(words), text("b")), *follows]
    assert [prompt.text for prompt in read(claude_code(both)).prompts] == ["a", "b"]


@pytest.mark.parametrize(
    "messages",
    [
        [user(text("a"), text(f"<system-reminder>\n{BLOCK}\n</system-reminder>"))],
        [user(text("a")), {"role": "system", "content": f"UserPromptSubmit hook: {BLOCK}"}],
        [user(text("a")), {"role": "system", "content": [text(BLOCK)]}],
        [user(text("a"), text(BLOCK))],
    ],
    ids=["reminder", "system", "system parts", "text"],
)
def test_a_hooks_memory_is_seen(messages: list[Json]) -> None:
    assert read(claude_code(messages)).injected


@pytest.mark.parametrize(
    "messages",
    [
        [user(text("What does --- BEGIN MEMORY mean?"))],
        [user(text("a"), text(BLOCK)), assistant(text("x")), user(text("b"))],
        [user(text("a")), assistant(text(BLOCK)), user(text("b"))],
        [user(text("a")), assistant(tool_use()), user(REMEMBERED), user(text("b"))],
        [user(text("a")), assistant(tool_use()), user(REMEMBERED, text("b"))],
    ],
    ids=[
        "a question about it",
        "an earlier prompt",
        "the model's words",
        "a tool's",
        "a tool's beside",
    ],
)
def test_memory_elsewhere_is_none_of_a_hooks(messages: list[Json]) -> None:
    assert not read(claude_code(messages)).injected


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"messages": None},
        {"messages": 1},
        {"messages": {"role": "user"}},
        {"messages": [1, None, "x", [], {"role": []}, {"role": "user"}, {"role": {}}]},
        {"messages": [{"role": "user", "content": [1, None, {"type": []}, {"text": 5}, [[]]]}]},
    ],
)
def test_other_shapes_are_no_conversation(document: Json) -> None:
    assert read(document).prompts == ()
    assert not read(document).awaits
    assert DIALECT.with_blocks(body(document), {0: BLOCK, 9: BLOCK, -1: BLOCK})


def test_a_conversation_is_decoded_when_it_is_asked_for() -> None:
    document = claude_code(opus_like("a"))
    conversation = read(document)

    assert conversation.messages == document["messages"]
    assert conversation.system == document["system"]
    assert (Conversation().messages, Conversation().system) == (None, None)


def test_a_block_comes_after_everything_in_its_message() -> None:
    document = claude_code([tool_result(text("a", **MARK)), assistant(text("x")), user(text("b"))])

    changed = json.loads(DIALECT.with_blocks(body(document), {0: "one", 2: "two"}))

    assert changed["messages"][0]["content"] == [
        *document["messages"][0]["content"],
        text("one"),
    ]
    assert changed["messages"][2]["content"] == [text("b"), text("two")]
    assert changed["messages"][1] == document["messages"][1]


def test_a_string_becomes_a_list_of_its_own_text_and_the_block() -> None:
    raw = rb'{"messages": [ {"content" : "\u00e9 \/ \ud83d" , "role":"user"} ], "model":"m"}'

    assert DIALECT.with_blocks(parse_body(raw), {0: BLOCK}) == raw.replace(
        rb'"\u00e9 \/ \ud83d"',
        rb'[{"type":"text","text":"\u00e9 \/ \ud83d"},' + written(text(BLOCK)) + b"]",
    )


def test_an_empty_list_gets_the_block_alone() -> None:
    raw = b'{"messages":[{"role":"user","content":[ ]}]}'

    changed = DIALECT.with_blocks(parse_body(raw), {0: "b"})

    assert json.loads(changed)["messages"][0]["content"] == [text("b")]


def test_nothing_to_put_in_gives_the_very_same_bytes() -> None:
    one = body(claude_code(opus_like("a")))

    assert DIALECT.with_blocks(one, {}) is one.raw
    assert DIALECT.with_blocks(one, {0: ""}) is one.raw
    assert DIALECT.with_blocks(one, {77: BLOCK}) is one.raw


_PROMPTS = st.lists(st.text(min_size=1), min_size=1, max_size=6)


@given(
    prompts=_PROMPTS,
    data=st.data(),
    indent=st.sampled_from([None, 1, "\t"]),
    ascii_only=st.booleans(),
    block=st.text(min_size=1),
)
def test_taking_a_block_out_gives_the_body_back(
    prompts: list[str], data: st.DataObject, indent: Any, block: str, *, ascii_only: bool
) -> None:
    messages = data.draw(st.sampled_from([opus_like, sonnet_like]))(*prompts)
    document = claude_code(messages, odd=[0.70, 12345678901234567890, {"b": 1, "a": -0.0}])
    raw = json.dumps(document, indent=indent, ensure_ascii=ascii_only).replace("0.7,", "0.70,")
    one = parse_body(raw.encode("utf-8", "replace"))
    indexes = [at for at, message in enumerate(messages) if message["role"] == "user"]

    changed = DIALECT.with_blocks(one, {index: f"@{index}@{block}" for index in indexes})

    rest = changed
    for index in indexes:
        added = b"," + body_part(f"@{index}@{block}")
        assert rest.count(added) == 1
        rest = rest.replace(added, b"")
    assert rest == one.raw


def body_part(words: str) -> bytes:
    cleaned = words.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return b'{"type":"text","text":' + msgspec.json.encode(cleaned) + b"}"


def test_context_stands_after_the_last_message_of_the_users() -> None:
    messages = opus_like("a", "b")
    changed = DIALECT.with_context(body(claude_code(messages)), "memory")

    assert changed is not None
    assert json.loads(changed)["messages"] == [
        *messages[:4],
        {"role": "user", "content": [text("memory")]},
        messages[4],
    ]
    assert json.loads(changed)["system"] == claude_code(messages)["system"]


@pytest.mark.parametrize(("messages", "at"), [([], 0), ([assistant(text("x"))], 1)])
def test_context_comes_last_when_no_user_spoke(messages: list[Json], at: int) -> None:
    changed = DIALECT.with_context(body({"messages": messages}), "memory")

    assert changed is not None
    assert json.loads(changed)["messages"][at] == {"role": "user", "content": [text("memory")]}


@pytest.mark.parametrize("document", [{}, {"messages": None}, {"messages": "x"}])
def test_without_a_list_there_is_no_place_for_context(document: Json) -> None:
    assert DIALECT.with_context(body(document), "memory") is None


@pytest.mark.parametrize(
    ("event", "ends"),
    [
        (SseEvent("message_stop", '{"type":"message_stop"}'), True),
        (SseEvent("", '{"type": "message_stop"}'), True),
        (SseEvent("message_stop", '{"type":"mess'), False),
        (SseEvent("message_stop", ""), False),
        (SseEvent("content_block_delta", '{"type":"x","delta":{"text":"message_stop"}}'), False),
        (SseEvent("", "[DONE]"), False),
    ],
)
def test_the_last_event(event: SseEvent, *, ends: bool) -> None:
    assert DIALECT.is_end(event) is ends


@pytest.mark.parametrize(
    ("document", "failure"),
    [
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "Over\nloaded"}},
            "overloaded_error: Over loaded",
        ),
        ({"type": "error"}, "the provider sent an error"),
        ({"error": "no"}, "no"),
        ({"type": "message", "error": None, "content": [text("error")]}, ""),
        ([], ""),
        (None, ""),
        ("error", ""),
    ],
)
def test_failures(document: object, failure: str) -> None:
    assert DIALECT.failure_in(document) == failure
