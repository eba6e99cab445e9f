"""A transcript of Claude Code's: one JSON object for each line, read into turns (pure).

What the client says in the user's name (compaction, reminders, notifications), what sub-agents
say, and results of tools are no turns of the user's. A line that cannot be read is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec

from memplane.exchange.prompt_cleanup import strip_client_text

_WRITING_TOOLS: Final = {
    "Write": "file_path",
    "Edit": "file_path",
    "NotebookEdit": "notebook_path",
}


class TranscriptTurn(msgspec.Struct, kw_only=True):
    """What a user asked, and all that was said and written in answer to it."""

    uuid: str
    asked_at: datetime
    prompt: str
    ended_at: datetime
    replies: list[str] = msgspec.field(default_factory=list[str])
    files: list[str] = msgspec.field(default_factory=list[str])
    model: str = ""


class _TranscriptMessage(msgspec.Struct):
    content: Any = ""
    model: str = ""


class _TranscriptLine(msgspec.Struct, rename="camel"):
    type: str = ""
    uuid: str = ""
    timestamp: datetime | None = None
    message: _TranscriptMessage | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False


def read_turns(lines: Iterable[bytes]) -> Iterator[TranscriptTurn]:
    """Yield the turns of a session, in order."""
    decoder = msgspec.json.Decoder(_TranscriptLine)
    turn: TranscriptTurn | None = None
    for raw in lines:
        try:
            line = decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if line.message is None or line.timestamp is None or line.is_sidechain:
            continue
        at = line.timestamp if line.timestamp.tzinfo else line.timestamp.replace(tzinfo=UTC)
        if line.type == "assistant" and turn is not None:
            _add_reply(turn, line.message, at)
        elif line.type == "user" and (prompt := _find_prompt(line)):
            if turn is not None:
                yield turn
            turn = TranscriptTurn(uuid=line.uuid, asked_at=at, prompt=prompt, ended_at=at)
    if turn is not None:
        yield turn


def _find_prompt(line: _TranscriptLine) -> str:
    """Return what the user typed; empty for what the client says in the user's name."""
    if line.is_meta or line.is_compact_summary or line.message is None:
        return ""
    texts = (strip_client_text(text) for text in _texts(line.message.content))
    return "\n\n".join(filter(None, texts))


def _add_reply(turn: TranscriptTurn, message: _TranscriptMessage, at: datetime) -> None:
    turn.ended_at = max(turn.ended_at, at)
    turn.model = message.model or turn.model
    turn.replies += (text.strip() for text in _texts(message.content) if text.strip())
    for part in _parts(message.content):
        field = _WRITING_TOOLS.get(str(part.get("name")), "")
        path = _object(part.get("input")).get(field)
        if isinstance(path, str) and path not in turn.files:
            turn.files.append(path)


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in _parts(content):
        text = part.get("text")
        if part.get("type") == "text" and isinstance(text, str):
            yield text


def _parts(content: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(content, list):
        yield from map(_object, cast("list[object]", content))


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
