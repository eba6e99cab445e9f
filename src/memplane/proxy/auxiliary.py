"""Requests that are no turn of a user's: titles, compactions, retries of clients (pure).

Each rule is about what one client sends. A chat without tools, with whatever instructions, is a
user's turn like any other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

from memplane.proxy.body import Body
from memplane.proxy.dialects.contract import Dialect
from memplane.proxy.dialects.conversing import (
    INSTRUCTING,
    USER,
    last_of_user,
    texts_in,
    texts_of,
)
from memplane.proxy.json_values import decoded_or_none, items, members, string

TITLE: Final = "title"
COMPACTION: Final = "compaction"
RETRY: Final = "empty-answer retry"
LISTED: Final = "listed phrase"

_CODEX: Final = "x-codex-turn-metadata"
_CLAUDE_CODE: Final = "x-claude-code-session-id"
_CLAUDE_CODE_AGENT: Final = "claude-cli/"
_NO_OUTPUT: Final = "[Your previous response had no visible output"
_TEXT_ONLY: Final = "CRITICAL: Respond with TEXT ONLY"
_SUMMARY: Final = "create a detailed summary"
_SUMMARISERS: Final = (
    "tasked with summarizing conversations",
    "You are a context summarization agent",
)
_LONGEST_ASKING: Final = 8192
"""Instructions for a title or a summary alone are never that long."""
_FEW_BYTES: Final = 64
_TITLES: Final = (
    r"(?i)\byou are an? (?:[\w-]+ ){0,3}title generator\b"
    r"|\b(?:generate|create|write|produce|output|provide|extract|come up with)"
    r" (?:an?|the|only) (?:\S+ ){0,6}title\b[^.\n]{0,100}"
    r"\b(?:conversation|chat|thread|session|new topic)\b"
    r"(?: history| so far)?\s*(?:[.,:;!()\n]|$| based| in | from| using| with)"
)
"""Words that ask for the title of a conversation, and not of something the user writes."""


def auxiliary(
    dialect: Dialect, body: Body, headers: Mapping[str, str], phrases: Collection[str] = ()
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
    asked = _asked(dialect, body)
    if asked:
        return asked
    if _has_tools(body):
        return ""
    told = _instructions(dialect, body)
    if any(words in told for words in _SUMMARISERS):
        return COMPACTION
    if any(phrase.lower() in told.lower() for phrase in phrases):
        return LISTED
    if _has_answers(dialect, body):
        return ""
    if _titles().search(told) or (_is_from_claude_code(headers) and _wants_title(body)):
        return TITLE
    return ""


def _codex_kind(headers: Mapping[str, str]) -> str:
    said = headers.get(_CODEX, "")
    return string(members(decoded_or_none(said)).get("request_kind")) if said else ""


def _asked(dialect: Dialect, body: Body) -> str:
    """Look at the newest message under the user's role, where clients put their own requests."""
    messages = body.messages(dialect.listed)
    last = last_of_user(messages)
    for text in () if last is None else texts_of(messages[last]):
        said = text.lstrip()
        if said.startswith(_NO_OUTPUT):
            return RETRY
        if said.startswith(_TEXT_ONLY) and _SUMMARY in said:
            return COMPACTION
    return ""


def _has_tools(body: Body) -> bool:
    for name in ("tools", "functions"):
        listed = body.members.get(name)
        if listed is not None and (len(listed) > _FEW_BYTES or items(body.value(name))):
            return True
    return False


def _has_answers(dialect: Dialect, body: Body) -> bool:
    """Tell whether something of the model's is there; a title is asked for before that."""
    said = {USER, *INSTRUCTING}
    return any(one.role not in said for one in body.messages(dialect.listed))


def _is_from_claude_code(headers: Mapping[str, str]) -> bool:
    agent = headers.get("user-agent", "")
    return bool(headers.get(_CLAUDE_CODE)) or agent.startswith(_CLAUDE_CODE_AGENT)


def _wants_title(body: Body) -> bool:
    """Tell whether the answer has to be an object with a title."""
    config = decoded_or_none(bytes(body.members.get("output_config", b"")))
    wanted = members(members(config).get("format"))
    schema = members(wanted.get("schema"))
    return wanted.get("type") == "json_schema" and "title" in members(schema.get("properties"))


def _instructions(dialect: Dialect, body: Body) -> str:
    """Return what the client tells the model to do; empty when that is too long for one thing."""
    texts = texts_in(bytes(body.members.get(dialect.told, b""))) if dialect.told else []
    for message in body.messages(dialect.listed):
        if message.role in INSTRUCTING:
            texts += texts_of(message)
    told = "\n".join(texts)
    return told if len(told) <= _LONGEST_ASKING else ""


@cache
def _titles() -> re.Pattern[str]:
    return re.compile(_TITLES)
