"""Which turns stand in a conversation: those whose answers do, whatever else is alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memplane.exchange.dialect import Dialect
from memplane.exchange.dialect_registry import DIALECTS
from memplane.exchange.request_body import RequestBody, parse_body
from memplane.ledger.entry import JsonReply, Reply, StreamReply
from memplane.proxy.conversation_position import (
    ConversationPosition,
    find_answer_places,
    find_position,
)
from tests.support.answers import (
    Said,
    anthropic_events,
    anthropic_json,
    chat_events,
    chat_json,
    responses_events,
    responses_json,
)

CHAT, RESPONSES, ANTHROPIC = DIALECTS
WRITTEN: dict[str, tuple[Any, Any, str]] = {
    CHAT.path: (chat_json, chat_events, "text"),
    RESPONSES.path: (responses_json, responses_events, "output_text"),
    ANTHROPIC.path: (anthropic_json, anthropic_events, "text"),
}
OPENING, NEXT = "Do the daily check.", "Who repaired the router?"


def body(dialect: Dialect, *messages: Any) -> RequestBody:
    """A request; texts are the user's and the model's in turn, others stand as they are."""
    roles = ("user", "assistant")
    listed = [
        {"role": roles[at % 2], "content": one} if isinstance(one, str | list) else one
        for at, one in enumerate(messages)
    ]
    return parse_body(json.dumps({"model": "m", dialect.messages_member: listed}).encode())


def replied(dialect: Dialect, text: str, *, streamed: bool = False) -> Reply:
    in_one_piece, events, _ = WRITTEN[dialect.path]
    if streamed:
        return StreamReply(b"".join(events(Said(text))))
    (answer,) = in_one_piece(Said(text))
    return JsonReply(answer.partition(b"\r\n\r\n")[2])


def place_of_answer(dialect: Dialect, asked: RequestBody, reply: Reply) -> str:
    return find_position(dialect, asked, reply).place


def here(dialect: Dialect, *messages: Any) -> tuple[str, ...]:
    return find_answer_places(dialect.conversation(body(dialect, *messages)))


@pytest.mark.parametrize("streamed", [False, True], ids=["in one piece", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.path)
def test_a_turn_stands_where_its_answer_does(dialect: Dialect, *, streamed: bool) -> None:
    answer = "Kim repaired it.\n\nAll is well. ☃"
    place = place_of_answer(
        dialect, body(dialect, OPENING), replied(dialect, answer, streamed=streamed)
    )
    assert here(dialect, OPENING, answer, NEXT) == (place,)
    assert here(dialect, OPENING, answer + "\n", NEXT) == (place,)
    kind = WRITTEN[dialect.path][2]
    parts = [{"type": kind, "text": one} for one in answer.split("\n\n")]
    assert here(dialect, OPENING, parts, NEXT) == (place,)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.path)
def test_conversations_that_begin_alike_are_told_apart(dialect: Dialect) -> None:
    other = place_of_answer(dialect, body(dialect, OPENING), replied(dialect, "Bo repaired it."))
    assert other not in here(dialect, OPENING, "Kim repaired it.", NEXT)
    # Also where the same was said after different answers.
    fine = replied(dialect, "Fine.")
    second = place_of_answer(dialect, body(dialect, OPENING, "Bo did.", "And now?"), fine)
    assert second not in here(dialect, OPENING, "Kim did.", "And now?", "Fine.", NEXT)
    assert second in here(dialect, OPENING, "Bo did.", "And now?", "Fine.", NEXT)


def test_what_the_newest_prompt_asks_is_not_answered_yet() -> None:
    assert here(CHAT, OPENING) == ()


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.path)
def test_an_answer_that_goes_on_stands_as_the_half_that_it_was_and_as_a_whole(
    dialect: Dialect,
) -> None:
    half = place_of_answer(dialect, body(dialect, OPENING), replied(dialect, "Kim has"))
    going_on = body(dialect, OPENING, "Kim has")
    assert here(dialect, OPENING, "Kim has") == (half,)
    rest = place_of_answer(dialect, going_on, replied(dialect, " repaired it."))
    assert here(dialect, OPENING, "Kim has repaired it.", NEXT) == (rest,)


CALLS: list[tuple[Dialect, list[Any]]] = [
    (
        CHAT,
        [
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
            {"role": "tool", "tool_call_id": "1", "content": "up"},
        ],
    ),
    (
        ANTHROPIC,
        [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]},
        ],
    ),
    (
        RESPONSES,
        [
            {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "up"},
        ],
    ),
]


@pytest.mark.parametrize(("dialect", "calls"), CALLS, ids=[one.path for one, _ in CALLS])
def test_every_turn_of_a_tool_loop_stands(dialect: Dialect, calls: list[Any]) -> None:
    only_a_call = place_of_answer(dialect, body(dialect, OPENING), replied(dialect, ""))
    last = place_of_answer(dialect, body(dialect, OPENING, *calls), replied(dialect, "It is up."))
    said = {"role": "assistant", "content": "It is up."}
    asked = {"role": "user", "content": NEXT}
    assert here(dialect, OPENING, *calls, said, asked) == (only_a_call, last)


def test_an_input_of_one_text_is_a_conversation_too() -> None:
    asked = parse_body(json.dumps({"model": "m", "input": OPENING}).encode())
    place = place_of_answer(RESPONSES, asked, replied(RESPONSES, "Fine."))
    assert here(RESPONSES, OPENING, "Fine.", NEXT) == (place,)


@pytest.mark.parametrize("streamed", [False, True], ids=["in one piece", "streamed"])
def test_what_a_provider_keeps_stands_by_its_name(*, streamed: bool) -> None:
    def asked(**more: object) -> RequestBody:
        return parse_body(json.dumps({"model": "m", "input": OPENING, **more}).encode())

    def stood(**more: object) -> ConversationPosition:
        return find_position(
            RESPONSES, asked(**more), replied(RESPONSES, "Fine.", streamed=streamed)
        )

    def before(**more: object) -> tuple[str, ...]:
        return find_answer_places(RESPONSES.conversation(asked(**more)))

    (named,) = stood().names
    assert named.startswith("response ")
    assert stood().after == ()
    gone_on = {"previous_response_id": named.removeprefix("response ")}
    assert before(**gone_on) == (named,)
    assert stood(**gone_on).after == (named,)
    for thread in ("conv_1", {"id": "conv_1"}):
        assert before(conversation=thread) == ("conversation conv_1",)
        assert stood(conversation=thread).names == ("conversation conv_1", named)
    # What is not kept there has no name, nor has what other providers answer.
    assert stood(store=False).names == ()
    assert before(previous_response_id=None, conversation=7) == ()
    assert find_position(CHAT, body(CHAT, OPENING), replied(CHAT, "Fine.")).names == ()
