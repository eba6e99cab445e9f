"""Entries for other memory services, without the memory that was put into their prompts (pure).

A prompt may cite what was forgotten after it was sent. Which block of it does, only some services
say, so an agent that has forgotten anything has none of them sent on: no service may derive
anything from them anyway. The ledger keeps its bytes, and the entry its id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, cast

import msgspec

from memplane.exchange.prompt_cleanup import strip_injected_memory
from memplane.ledger.canonical_json import escape_characters, reencode_json

_PROMPTS: Final = ("request_original", "request_effective")
_MARK: Final = b"memory"


class _Removed(Enum):
    """What is left where there was nothing but memory."""

    GONE = "gone"


def strip_memory(line: bytes) -> bytes:
    """Take the injected memory out of an entry's prompts; without any, the line is as it was."""
    if _MARK not in line.lower():
        return line
    try:
        members = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        members = _decode_leniently(line)
    changed = {
        name: msgspec.Raw(prompt)
        for name in _PROMPTS
        if name in members
        and (prompt := _strip_prompt(bytes(members[name]))) != bytes(members[name])
    }
    return escape_characters(msgspec.json.encode({**members, **changed})) if changed else line


def _decode_leniently(line: bytes) -> dict[str, msgspec.Raw]:
    """Read what the strict decoder refuses; of what nobody can read, nothing is taken out."""
    try:
        value: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    body = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {name: msgspec.Raw(json.dumps(member).encode()) for name, member in body.items()}


def _strip_prompt(prompt: bytes) -> bytes:
    """Take memory out of a prompt; one that is nested too deep to look into is left out."""
    try:
        value: object = json.loads(prompt.decode("utf-8", "replace"))
        stripped = _strip_content(value)
        return prompt if stripped == value else reencode_json(json.dumps(stripped).encode())
    except (ValueError, RecursionError):
        return b"null"


def _strip_content(prompt: object) -> object:
    """Take memory out of what a prompt consists of; a member that had nothing else is empty."""
    if not isinstance(prompt, dict):
        return prompt
    stripped: dict[str, object] = {}
    for name, value in cast("dict[str, object]", prompt).items():
        value_left = _strip_value(value)
        stripped[name] = type(value)() if value_left is _Removed.GONE else value_left
    return stripped


def _strip_value(value: object) -> object:
    """Take memory out of a value; a message, or a part of one, that had nothing else is gone."""
    if isinstance(value, str):
        text = strip_injected_memory(value)
        return _Removed.GONE if text != value and not text.strip() else text
    if isinstance(value, Mapping):
        members = {
            name: _strip_value(item) for name, item in cast("Mapping[str, object]", value).items()
        }
        return _Removed.GONE if _Removed.GONE in members.values() else members
    if isinstance(value, list):
        items = cast("list[object]", value)
        items_left = [item for item in map(_strip_value, items) if item is not _Removed.GONE]
        return items_left if items_left or not items else _Removed.GONE
    return value
