"""Requests of clients' own are told from turns of users, in both directions."""

from __future__ import annotations

import json

import pytest

from memplane.exchange.anthropic import AnthropicMessages
from memplane.exchange.dialect import Dialect
from memplane.exchange.openai_chat import OpenAIChat
from memplane.exchange.openai_responses import OpenAIResponses
from memplane.proxy.auxiliary_requests import classify_auxiliary
from tests.proxy.shapes import (
    REMINDER,
    TOOLS,
    Json,
    assistant,
    body,
    chat,
    claude_code,
    codex,
    codex_assistant,
    codex_user,
    opus_like,
    sonnet_like,
    text,
    tool_result,
    tool_use,
    user,
)

CLAUDE_CODE = {"x-claude-code-session-id": "s", "user-agent": "claude-cli/2.1.197 (external, cli)"}
TITLE_SCHEMA = {
    "format": {
        "type": "json_schema",
        "schema": {"type": "object", "properties": {"title": {"type": "string"}}},
    }
}
COMPACTING = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n"
    "Your task is to create a detailed summary of the conversation so far."
)
RETRYING = "[Your previous response had no visible output. Please continue.]"
OPENCODE_TITLE = (
    "You are a title generator. You output ONLY a thread title. Nothing else.\n"
    "Keep technical terms and file names."
)
TITLING = "Generate a concise, sentence-case title (3-7 words) that captures this coding session."


def of(dialect: Dialect, document: Json, headers: dict[str, str] | None = None) -> str:
    return classify_auxiliary(dialect, body(document), headers or {})


def title_request(**more: object) -> Json:
    told = [text("x-anthropic-billing-header: cc_version=2;"), text("Name what was asked.")]
    return {
        **claude_code([user(text("fix the build"))]),
        "system": told,
        "tools": [],
        "thinking": {"type": "disabled"},
        "output_config": TITLE_SCHEMA,
        **more,
    }


def test_claude_codes_title() -> None:
    assert of(AnthropicMessages(), title_request(), CLAUDE_CODE) == "title"
    assert (
        of(AnthropicMessages(), title_request(), {"user-agent": CLAUDE_CODE["user-agent"]})
        == "title"
    )
    assert (
        of(AnthropicMessages(), title_request(system=TITLING, output_config={}), CLAUDE_CODE)
        == "title"
    )


def test_an_apps_own_schema_with_a_title_is_a_turn() -> None:
    assert of(AnthropicMessages(), title_request(), {"user-agent": "anthropic-python/1.17"}) == ""


def test_claude_code_with_other_schemas_or_tools_is_a_turn() -> None:
    other = {"format": {"type": "json_schema", "schema": {"properties": {"answer": {}}}}}

    assert of(AnthropicMessages(), title_request(output_config=other), CLAUDE_CODE) == ""
    assert of(AnthropicMessages(), title_request(tools=TOOLS), CLAUDE_CODE) == ""
    assert of(AnthropicMessages(), title_request(output_config={"format": "x"}), CLAUDE_CODE) == ""


@pytest.mark.parametrize(
    "newest",
    [user(text(COMPACTING)), tool_result(text(REMINDER), text("\n" + COMPACTING))],
    ids=["alone", "beside a tool's answer"],
)
def test_claude_codes_compaction(newest: Json) -> None:
    messages = [user(text("a")), assistant(text("x"), tool_use()), newest]

    assert of(AnthropicMessages(), claude_code(messages), CLAUDE_CODE) == "compaction"


def test_a_user_who_wants_a_summary_is_a_user() -> None:
    for words in (
        "create a detailed summary of this file",
        "CRITICAL: Respond with TEXT ONLY.",
        f"What does this prompt do? {COMPACTING}",
    ):
        assert of(AnthropicMessages(), claude_code([user(text(words))]), CLAUDE_CODE) == ""


def test_an_earlier_compaction_is_past() -> None:
    messages = [user(text(COMPACTING)), assistant(text("x")), user(text("go on"))]

    assert of(AnthropicMessages(), claude_code(messages), CLAUDE_CODE) == ""


def test_claude_codes_retry_after_an_empty_answer() -> None:
    messages = [user(text("a")), assistant(), user(text(RETRYING))]

    assert of(AnthropicMessages(), claude_code(messages), CLAUDE_CODE) == "empty-answer retry"


@pytest.mark.parametrize("form", [opus_like, sonnet_like])
def test_turns_of_claude_code_are_turns(form: object) -> None:
    assert callable(form)
    assert of(AnthropicMessages(), claude_code(form("a", "b")), CLAUDE_CODE) == ""
    assert of(AnthropicMessages(), claude_code(form("a"), tools=[]), CLAUDE_CODE) == ""


def test_codex_says_what_a_request_is() -> None:
    document = codex([codex_user("a"), codex_assistant("x")])

    for kind, expected in (("compaction", "compaction"), ("turn", ""), ("review", ""), (7, "")):
        headers = {"x-codex-turn-metadata": json.dumps({"request_kind": kind})}
        assert of(OpenAIResponses(), document, headers) == expected
    for broken in ("", "compaction", "{", "[]", '{"request_kind":'):
        assert of(OpenAIResponses(), document, {"x-codex-turn-metadata": broken}) == ""


def test_opencodes_title_in_each_dialect() -> None:
    asked = "Generate a title for this conversation:\n"
    in_chat = chat(
        [
            {"role": "system", "content": OPENCODE_TITLE},
            {"role": "user", "content": asked},
            {"role": "user", "content": "fix the build"},
        ]
    )
    in_messages = {"system": [text(OPENCODE_TITLE)], "messages": [user(text(asked))]}
    in_responses = {"instructions": OPENCODE_TITLE, "input": [codex_user(asked)]}

    assert of(OpenAIChat(), in_chat) == "title"
    assert of(AnthropicMessages(), in_messages) == "title"
    assert of(OpenAIResponses(), in_responses) == "title"
    assert of(OpenAIChat(), {**in_chat, "tools": []}) == "title"
    assert of(OpenAIChat(), {**in_chat, "tools": [{"type": "function"}] * 9}) == ""


@pytest.mark.parametrize(
    "told",
    [
        "You are a helpful AI assistant tasked with summarizing conversations.",
        "You are a context summarization agent. You are given a conversation between a user and",
    ],
)
def test_opencodes_compaction(told: str) -> None:
    messages: list[Json] = [
        {"role": "system", "content": told},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "Provide a detailed prompt for continuing."},
    ]

    assert of(OpenAIChat(), chat(messages)) == "compaction"
    assert of(OpenAIChat(), chat(messages, functions=TOOLS)) == ""


@pytest.mark.parametrize(
    "told",
    [
        "",
        "You are a helpful assistant.",
        "You write titles for blog posts. Generate a title for the article the user gives you.",
        "You are a title company's assistant. Answer questions about deeds in this chat.",
        "Create a document when asked. Give it a title. Keep the chat friendly.",
        "You summarize conversations for a support team.",
        "Summarise what the user pastes. Respond with text only.",
        "Write the title of a session musician's record.",
        "Never generate titles.",
    ],
)
def test_a_chat_without_tools_is_a_turn_whatever_it_is_told(told: str) -> None:
    messages: list[Json] = [
        {"role": "system", "content": told},
        {"role": "user", "content": "hello"},
    ]

    assert of(OpenAIChat(), chat(messages)) == ""
    assert of(AnthropicMessages(), {"system": told, "messages": messages[1:]}) == ""
    assert of(OpenAIResponses(), {"instructions": told, "input": "hello"}) == ""


def test_long_instructions_that_name_titles_are_a_turn() -> None:
    told = f"You help. {TITLING} " + "Be kind. " * 2000

    assert of(AnthropicMessages(), {"system": told, "messages": [user(text("a"))]}) == ""


def test_a_conversation_that_goes_on_is_a_turn() -> None:
    messages = [user(text("a")), assistant(text("x")), user(text("b"))]

    assert of(AnthropicMessages(), {"system": TITLING, "messages": messages[:1]}) == "title"
    assert of(AnthropicMessages(), {"system": TITLING, "messages": messages}) == ""


@pytest.mark.parametrize("document", [{}, {"messages": 1, "tools": 1, "system": 1}, {"tools": {}}])
def test_other_shapes_are_turns(document: Json) -> None:
    for dialect in (AnthropicMessages(), OpenAIChat(), OpenAIResponses()):
        assert of(dialect, document, CLAUDE_CODE) == ""
