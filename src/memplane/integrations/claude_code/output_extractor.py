"""What is to be learned from an agent's output, as its lines come (pure).

Output in stream-json is read as such. Anything else is what the agent says, in plain text.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from memplane.exchange.marker_parser import update_fence
from memplane.integrations.claude_code.stream_json import (
    Compaction,
    ModelText,
    Retraction,
    SessionResult,
    StreamEvent,
    StreamJsonReader,
    StreamStart,
    ToolResult,
)
from memplane.kit.json_values import as_list, as_object, decode_json_or_none
from memplane.observations.requests import Heard, HeardText, Mode

MAX_TOOL_RESULTS_CHARS: Final = 1 << 20
"""The characters of tools' results that are kept as evidence; the newest of them."""
MAX_TOOL_RESULT_CHARS: Final = 64 << 10

_MARKER_START: Final = re.compile(r"\[\s{0,8}memory", re.IGNORECASE)
_HTML_START: Final = re.compile(r"(<!--)|<(pre|code)(?:\s[^>]{0,200})?>", re.IGNORECASE)


class OutputLine(msgspec.Struct, frozen=True):
    """A line of output, without its secrets and without its end.

    Args:
        raw: Its bytes.
        at: When it came; empty when nobody knows.
        number: Its number in the log, from 1.
        offset: Where it begins in the log.
        ended: Whether its newline came too.
    """

    raw: bytes
    at: str
    number: int
    offset: int
    ended: bool = True


class OutputExtractor:
    """Listens to the lines of one session, and says what is to be learned as soon as it can.

    `outcome` is how the session says that it went. With structured output markers wait until it
    is clear that there is none; then `misses_document` is true and they count after all.
    """

    def __init__(self, mode: Mode) -> None:
        self.outcome: SessionResult | None = None
        self.misses_document = False
        self._mode: Mode = mode
        self._reader = StreamJsonReader()
        self._plain = _ParagraphBuffer()
        self._is_stream: bool | None = None
        self._tools = _ToolEvidence()
        self._held: list[Heard] = []
        self._has_document = False
        self._said: set[str] = set()
        self._cli_session = self._model = ""
        self._is_introduced = False

    def line(self, line: OutputLine) -> list[Heard]:
        """Take the next line."""
        if self._is_stream is None and line.raw.strip():
            self._is_stream = _is_event(line.raw)
        if self._is_stream:
            happened = self._reader.feed(line.raw + b"\n")
            return [heard for one in happened for heard in self._happened(one, line)]
        return list(self._spoken(self._plain.line(line)))

    def end(self, *, cut: bool = False) -> list[Heard]:
        """Return what is left; `cut` says that the agent was stopped while it wrote."""
        heard = [*self._spoken(self._plain.end(cut=cut))]
        self.misses_document = self._mode == "structured" and not self._has_document
        if self.misses_document:
            heard += self._held
        if not heard and not self._is_introduced and (self._cli_session or self._model):
            heard.append(self._heard())
        return heard

    def _spoken(self, text: HeardText | None) -> Iterator[Heard]:
        if text is not None:
            yield from self._now_or_later(self._heard(texts=(text,), tools=True))

    def _happened(self, one: StreamEvent, line: OutputLine) -> Iterator[Heard]:
        match one:
            case StreamStart():
                self._cli_session, self._model = one.session_id, one.model
                self._is_introduced = False
            case ModelText():
                yield from self._text(one, line)
            case ToolResult():
                self._tools.add(one.text)
            case Retraction():
                if uuids := tuple(uuid for uuid in one.uuids if uuid in self._said):
                    yield from self._now_or_later(self._heard(retracted=uuids))
            case SessionResult():
                yield from self._ended(one)
            case Compaction():
                pass

    def _text(self, one: ModelText, line: OutputLine) -> Iterator[Heard]:
        if _MARKER_START.search(one.text):
            text = _text_of(one, line)
            self._said.add(text.message)
            yield from self._spoken(text)

    def _ended(self, ended: SessionResult) -> Iterator[Heard]:
        self.outcome = ended
        if self._mode == "structured" and ended.structured_output is not None:
            self._has_document = True
            yield self._heard(structured=ended.structured_output, tools=True)

    def _now_or_later(self, heard: Heard) -> Iterator[Heard]:
        if self._mode == "markers":
            yield heard
        else:
            self._held.append(heard)

    def _heard(
        self,
        *,
        texts: tuple[HeardText, ...] = (),
        retracted: tuple[str, ...] = (),
        structured: object = None,
        tools: bool = False,
    ) -> Heard:
        self._is_introduced = True
        return Heard(
            texts=texts,
            tool_results=self._tools.newest_first() if tools else (),
            retracted=retracted,
            structured=structured,
            cli_session=self._cli_session,
            model=self._model,
        )


def _is_event(line: bytes) -> bool:
    """Tell whether a first line is an event, or all of them in one array."""
    if line.lstrip()[:1] not in {b"{", b"["}:
        return False
    value = decode_json_or_none(line)
    listed = as_list(value)
    return bool(value) and all("type" in as_object(one) for one in listed or [value])


def _text_of(one: ModelText, line: OutputLine) -> HeardText:
    return HeardText(
        text=one.text,
        source=one.origin,
        at=line.at,
        message=one.uuid or one.message_id,
        line=line.number,
        offset=line.offset,
        digest=one.at.sha256,
        aborted=one.aborted,
    )


class _ToolEvidence:
    """What tools gave, as much of it as is kept."""

    def __init__(self) -> None:
        self._kept: deque[str] = deque()
        self._size = 0

    def add(self, text: str) -> None:
        if not text:
            return
        self._kept.appendleft(text[:MAX_TOOL_RESULT_CHARS])
        self._size += len(self._kept[0])
        while self._size > MAX_TOOL_RESULTS_CHARS:
            self._size -= len(self._kept.pop())

    def newest_first(self) -> tuple[str, ...]:
        return tuple(self._kept)


class _ParagraphBuffer:
    """Holds the lines of a text until what they say is whole.

    That is at a blank line, unless it stands in code or in a comment: no marker goes on behind it.
    """

    def __init__(self) -> None:
        self._lines: list[OutputLine] = []
        self._texts: list[str] = []
        self._marked: OutputLine | None = None
        self._fence = ""
        self._tag = ""

    def line(self, line: OutputLine) -> HeardText | None:
        text = line.raw.decode("utf-8", "replace")
        if not text.strip() and not self._fence and not self._tag:
            return self.end(cut=False)
        self._lines.append(line)
        self._texts.append(text)
        if self._marked is None and _MARKER_START.search(text):
            self._marked = line
        self._fence = update_fence(self._fence, text)
        self._tag = _tag_after(self._tag, text)
        return None

    def end(self, *, cut: bool) -> HeardText | None:
        marked, texts, lines = self._marked, self._texts, self._lines
        self._marked, self._texts, self._lines = None, [], []
        if marked is None:
            return None
        ended = lines[-1].ended
        return HeardText(
            text="\n".join(texts) + ("\n" if ended else ""),
            at=marked.at,
            line=marked.number,
            offset=marked.offset,
            digest=hashlib.sha256(marked.raw).hexdigest(),
            aborted=cut and not ended,
        )


def _tag_after(tag: str, line: str) -> str:
    """Return the end that a comment or code in HTML still waits for behind a line."""
    line = line.lower()
    at = 0
    while True:
        if tag:
            found = line.find(tag, at)
            if found < 0:
                return tag
            at, tag = found + len(tag), ""
        opening = _HTML_START.search(line, at)
        if opening is None:
            return ""
        at, tag = opening.end(), "-->" if opening[1] else f"</{opening[2]}>"
