"""The bodies that operators send to a memory service, and what they read in its answers.

Nothing here reads or writes anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from memplane.pod.contexts import AgentContext
from memplane.redaction.redactor import Redacted

MOST_RECALLED: Final = 16384
"""The bytes that a recall answer may have."""


class _Entry(msgspec.Struct):
    requested_model: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a recall answer, with the entries that it names, if it names any."""

    text: str
    entry_ids: frozenset[str] = frozenset()


def retain_body(context: AgentContext, entry: Redacted[bytes]) -> bytes:
    """Write what retains an entry: its line as it was recorded, without the secrets in it."""
    scrubbed = _utf8(entry.value)
    removed = sum(entry.counts.values())
    model = _model_in(scrubbed)
    more: dict[str, object] = {"policy_removed": removed} if removed else {}
    if model:
        more["requested_model"] = model
    # The line is put in as it is: decoding it could change what it says.
    body = _json(_common(context, "retain", **more))
    return b'%s,"entry":%s}' % (body[:-1], scrubbed)


def forget_body(context: AgentContext, entry_ids: Sequence[str], reason: str) -> bytes:
    """Write what forgets entries."""
    body = {**_common(context, "forget"), "entry_ids": list(entry_ids)}
    return _json({**body, "reason": reason} if reason else body)


def recall_body(context: AgentContext, question: str) -> bytes:
    """Write what asks for memories, as an agent with that question would."""
    messages = [{"role": "user", "content": question}]
    common = _common(context, "openai")
    return _json({**common, "messages": messages})


def blocks_in(answer: bytes) -> list[Block] | None:
    """Read a recall answer, its keys in any letter case; None when it is none."""
    if len(answer) > MOST_RECALLED:
        return None
    try:
        body: object = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    memories = _members(body).get("memories")
    blocks = [_block(one) for one in _items(memories)]
    usable = isinstance(body, dict) and (memories is None or isinstance(memories, list))
    return blocks if usable else None


def _block(memory: object) -> Block:
    members = _members(memory)
    text = members.get("text")
    ids = (name for name in _items(members.get("entry_ids")) if isinstance(name, str))
    return Block(text if isinstance(text, str) else "", frozenset(ids))


def _members(value: object) -> dict[str, object]:
    body = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return {name.lower(): one for name, one in body.items()}


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _common(context: AgentContext, path: str, **more: object) -> dict[str, object]:
    """Write the members that every body has; those that say nothing are left out."""
    metadata: dict[str, object] = {"path": path, **more, "service": context.service}
    if context.timezone:
        metadata["timezone"] = context.timezone
    metadata["type"] = context.type
    body: dict[str, object] = {"agent_id": context.agent}
    if context.pod:
        body["pod"] = context.pod
    return {**body, "metadata": metadata}


def _model_in(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=_Entry).requested_model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _utf8(line: bytes) -> bytes:
    """Return a line that any JSON reader takes."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace").encode()
    return line


def _json(body: dict[str, object]) -> bytes:
    # Not msgspec: an id may hold half a surrogate pair.
    return json.dumps(body, separators=(",", ":")).encode()
