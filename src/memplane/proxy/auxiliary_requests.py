"""Requests that are no turn of a user's: titles, compactions, retries of clients (pure).

Each rule is about what one client sends. A chat without tools, with whatever instructions, is a
user's turn like any other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

from memplane.exchange.conversation import (
    INSTRUCTION_ROLES,
    USER_ROLE,
    content_texts,
    find_last_user_message,
    message_texts,
)
from memplane.exchange.dialect import Dialect
from memplane.exchange.request_body import RequestBody
from memplane.kit.json_values import as_list, as_object, as_string, decode_json_or_none

TITLE: Final = "title"
COMPACTION: Final = "compaction"
RETRY: Final = "empty-answer retry"
LISTED_PHRASE: Final = "listed phrase"

_CODEX_HEADER: Final = "x-codex-turn-metadata"
_CLAUDE_CODE_HEADER: Final = "x-claude-code-session-id"
_CLAUDE_CODE_AGENT: Final = "claude-cli/"
_RETRY_PREFIX: Final = "[Your previous response had no visible output"
_COMPACTION_PREFIX: Final = "CRITICAL: Respond with TEXT ONLY"
_COMPACTION_PHRASE: Final = "create a detailed summary"
_SUMMARISER_PHRASES: Final = (
    "tasked with summarizing conversations",
    "You are a context summarization agent",
)
_MAX_INSTRUCTION_CHARS: Final = 8192
"""Instructions for a title or a summary alone are never that long."""
_EMPTY_LIST_BYTES: Final = 64
_TITLE_PATTERN: Final = (
    r"(?i)\byou are an? (?:[\w-]+ ){0,3}title generator\b"
    r"|\b(?:generate|create|write|produce|output|provide|extract|come up with)"
    r" (?:an?|the|only) (?:\S+ ){0,6}title\b[^.\n]{0,100}"
    r"\b(?:conversation|chat|thread|session|new topic)\b"
    r"(?: history| so far)?\s*(?:[.,:;!()\n]|$| based| in | from| using| with)"
)
"""Words that ask for the title of a conversation, and not of something the user writes."""


def classify_auxiliary(
    dialect: Dialect, body: RequestBody, headers: Mapping[str, str], phrases: Collection[str] = ()
) -> str:
    """Say which request of a client's own this is; empty for a turn of a user's.

    Args:
        dialect: How the body is to be read.
        body: The request.
        headers: Its headers, whose names are in lower case or found in any case.
        phrases: An operator's own rules: words in the instructions of requests without tools.
    """
    if _codex_kind(headers) == COMPACTION:
        return COMPACTION
    asked = _classify_newest_message(dialect, body)
    if asked:
        return asked
    if _has_tools(body):
        return ""
    told = _instructions(dialect, body)
    if any(words in told for words in _SUMMARISER_PHRASES):
        return COMPACTION
    if any(phrase.lower() in told.lower() for phrase in phrases):
        return LISTED_PHRASE
    if _has_model_messages(dialect, body):
        return ""
    if _compile_title_pattern().search(told) or (
        _is_from_claude_code(headers) and _wants_title(body)
    ):
        return TITLE
    return ""


def _codex_kind(headers: Mapping[str, str]) -> str:
    said = headers.get(_CODEX_HEADER, "")
    return as_string(as_object(decode_json_or_none(said)).get("request_kind")) if said else ""


def _classify_newest_message(dialect: Dialect, body: RequestBody) -> str:
    """Look at the newest message under the user's role, where clients put their own requests."""
    messages = body.messages(dialect.messages_member)
    last = find_last_user_message(messages)
    for text in () if last is None else message_texts(messages[last]):
        said = text.lstrip()
        if said.startswith(_RETRY_PREFIX):
            return RETRY
        if said.startswith(_COMPACTION_PREFIX) and _COMPACTION_PHRASE in said:
            return COMPACTION
    return ""


def _has_tools(body: RequestBody) -> bool:
    for name in ("tools", "functions"):
        listed = body.members.get(name)
        if listed is not None and (len(listed) > _EMPTY_LIST_BYTES or as_list(body.value(name))):
            return True
    return False


def _has_model_messages(dialect: Dialect, body: RequestBody) -> bool:
    """Tell whether something of the model's is there; a title is asked for before that."""
    said = {USER_ROLE, *INSTRUCTION_ROLES}
    return any(one.role not in said for one in body.messages(dialect.messages_member))


def _is_from_claude_code(headers: Mapping[str, str]) -> bool:
    agent = headers.get("user-agent", "")
    return bool(headers.get(_CLAUDE_CODE_HEADER)) or agent.startswith(_CLAUDE_CODE_AGENT)


def _wants_title(body: RequestBody) -> bool:
    """Tell whether the answer has to be an object with a title."""
    config = decode_json_or_none(bytes(body.members.get("output_config", b"")))
    wanted = as_object(as_object(config).get("format"))
    schema = as_object(wanted.get("schema"))
    return wanted.get("type") == "json_schema" and "title" in as_object(schema.get("properties"))


def _instructions(dialect: Dialect, body: RequestBody) -> str:
    """Return what the client tells the model to do; empty when that is too long for one thing."""
    texts = (
        content_texts(bytes(body.members.get(dialect.system_member, b"")))
        if dialect.system_member
        else []
    )
    for message in body.messages(dialect.messages_member):
        if message.role in INSTRUCTION_ROLES:
            texts += message_texts(message)
    told = "\n".join(texts)
    return told if len(told) <= _MAX_INSTRUCTION_CHARS else ""


@cache
def _compile_title_pattern() -> re.Pattern[str]:
    return re.compile(_TITLE_PATTERN)
