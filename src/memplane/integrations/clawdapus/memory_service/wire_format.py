"""The bodies that a memory service is sent, and what is read in its answers.

Nothing here reads or writes anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard, cast

import msgspec

from memplane.episodes import api_types
from memplane.episodes.provenance import Origin, Trust
from memplane.integrations.clawdapus.pod.agent_contexts import AgentContext
from memplane.redaction.redactor import RedactionResult

_ORIGINS: Final = frozenset(Origin)
_TRUST: Final = frozenset(Trust)
MAX_RECALL_BYTES: Final = 16384
"""The bytes that a recall answer may have."""


class _EntryModel(msgspec.Struct):
    requested_model: str = ""


class NamedBlock(msgspec.Struct, frozen=True):
    """One block of a recall answer, with the entries that it names, if it names any."""

    text: str
    entry_ids: frozenset[str] = frozenset()


class RecallConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A request that wants its memories: its path, `openai` or `anthropic`, and what it says.

    `messages` and `system` are JSON; those that are empty are not in the request.
    """

    path: str
    model: str = ""
    session: str = ""
    messages: bytes = b""
    system: bytes = b""


class UnreadableResponse(msgspec.Struct, frozen=True):
    """Why an answer cannot be used; nothing that it says is in it."""

    why: str


def encode_retain(
    context: AgentContext, entry: RedactionResult[bytes], *, removed: int = 0
) -> bytes:
    """Write what retains an entry: its line as it was recorded, without the secrets in it.

    `removed` secrets had been taken out before it was recorded.
    """
    entry_text = _utf8(entry.value)
    removed += sum(entry.counts.values())
    model = _read_model(entry_text)
    more: dict[str, object] = {"policy_removed": removed} if removed else {}
    if model:
        more["requested_model"] = model
    # The line is put in as it is: decoding it could change what it says.
    body = _encode_json(_common_members(context, "retain", **more))
    return b'%s,"entry":%s}' % (body[:-1], entry_text)


def encode_forget(context: AgentContext, entry_ids: Sequence[str], reason: str) -> bytes:
    """Write what forgets entries."""
    body = {**_common_members(context, "forget"), "entry_ids": list(entry_ids)}
    return _encode_json({**body, "reason": reason} if reason else body)


def encode_question(context: AgentContext, question: str) -> bytes:
    """Write what asks for memories, as an agent with that question would."""
    messages = [{"role": "user", "content": question}]
    common = _common_members(context, "openai")
    return _encode_json({**common, "messages": messages})


def encode_conversation(context: AgentContext, talk: RecallConversation) -> bytes:
    """Write what asks for the memories of a conversation, which has no secrets any more."""
    more = {"requested_model": talk.model, "session_id": talk.session}
    common = _common_members(
        context, talk.path, **{name: value for name, value in more.items() if value}
    )
    body = _encode_json(common)[:-1]
    for name, value in ((b"messages", talk.messages), (b"system", talk.system)):
        body += b',"%s":%s' % (name, value) if value else b""
    return body + b"}"


def parse_recalled(answer: bytes) -> api_types.RecallResponse | UnreadableResponse:
    """Read the answer to a conversation: keys in any letter case, and any wrong type is fatal."""
    if len(answer) > MAX_RECALL_BYTES:
        return UnreadableResponse(f"recall response exceeds {MAX_RECALL_BYTES} bytes")
    try:
        body: object = json.loads(answer.decode("utf-8", "replace"))
        memories = _require_list(_require_object(body, "the answer").get("memories"))
        blocks = tuple(_parse_block(memory, at) for at, memory in enumerate(memories))
    except _WrongType as error:
        return UnreadableResponse(f"parse recall response: {error}")
    except (ValueError, RecursionError):
        return UnreadableResponse("parse recall response: it is not JSON")
    return api_types.RecallResponse(memories=blocks)


class _WrongType(Exception):
    """Something in an answer is not what it should be."""


def _parse_block(memory: object, at: int) -> api_types.MemoryBlock:
    where = f"memories[{at}]"
    members = _require_object({} if memory is None else memory, where)
    score = members.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float | None):
        raise _WrongType(f"{where}.score is no number")
    # These are ours: another service may mean something else by them.
    named, ids = members.get("id"), _as_list(members.get("entry_ids"))
    origin, trust = members.get("origin"), members.get("trust")
    return api_types.MemoryBlock(
        text=_require_text(members, "text", where),
        score=score,
        kind=_require_text(members, "kind", where),
        source=_require_text(members, "source", where),
        ts=_require_text(members, "ts", where),
        id=named if _is_id(named) else "",
        entry_ids=tuple(entry_id for entry_id in ids if _is_id(entry_id)),
        origin=origin if isinstance(origin, str) and origin in _ORIGINS else "",
        trust=trust if isinstance(trust, str) and trust in _TRUST else "",
        sources=tuple(source for source in _as_list(members.get("sources")) if _is_id(source)),
    )


def _is_id(value: object) -> TypeGuard[str]:
    """Tell whether a value can be kept as an id; half a surrogate pair cannot be written."""
    return isinstance(value, str) and value.isprintable()


def _require_text(members: Mapping[str, object], name: str, where: str) -> str:
    value = members.get(name)
    if not isinstance(value, str | None):
        raise _WrongType(f"{where}.{name} is no string")
    return value or ""


def _require_list(value: object) -> list[object]:
    items = _as_list(value)
    if not isinstance(value, list | None):
        raise _WrongType("memories is no list")
    return items


def _require_object(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _WrongType(f"{what} is no object")
    return _lower_case_members(cast("dict[str, object]", value))


def parse_named_blocks(answer: bytes) -> list[NamedBlock] | None:
    """Read a recall answer, its keys in any letter case; None when it is none."""
    if len(answer) > MAX_RECALL_BYTES:
        return None
    try:
        body: object = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    memories = _lower_case_members(body).get("memories")
    blocks = [_parse_named_block(memory) for memory in _as_list(memories)]
    usable = isinstance(body, dict) and (memories is None or isinstance(memories, list))
    return blocks if usable else None


def _parse_named_block(memory: object) -> NamedBlock:
    members = _lower_case_members(memory)
    text = members.get("text")
    ids = (name for name in _as_list(members.get("entry_ids")) if isinstance(name, str))
    return NamedBlock(text if isinstance(text, str) else "", frozenset(ids))


def _lower_case_members(value: object) -> dict[str, object]:
    body = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return {name.lower(): member for name, member in body.items()}


def _as_list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _common_members(context: AgentContext, path: str, **more: object) -> dict[str, object]:
    """Write the members that every body has; those that say nothing are left out."""
    metadata: dict[str, object] = {"path": path, **more, "service": context.service}
    if context.timezone:
        metadata["timezone"] = context.timezone
    metadata["type"] = context.type
    body: dict[str, object] = {"agent_id": context.agent}
    if context.pod:
        body["pod"] = context.pod
    return {**body, "metadata": metadata}


def _read_model(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=_EntryModel).requested_model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _utf8(line: bytes) -> bytes:
    """Return a line that any JSON reader takes."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace").encode()
    return line


def _encode_json(body: dict[str, object]) -> bytes:
    # Not msgspec: an id may hold half a surrogate pair.
    return json.dumps(body, separators=(",", ":")).encode()
