"""From recalled blocks to the text of a prompt: policy first, then one of two forms (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from memplane.memory.contract import MOST_BLOCKS, MOST_BYTES, Block
from memplane.memory.injected import WHAT_FOLLOWS
from memplane.memory.sanitising import clean_label, finite_score, rfc3339_or_none, sanitised
from memplane.redaction.redactor import Redacted

_LABELS: Final = 64
"""Kinds and sources that are remembered: there are a dozen, unless a service makes them up."""
_BLOCKED_SOURCES: Final = frozenset({"raw_transcript", "session_tail"})
_BLOCKED_KINDS: Final = _BLOCKED_SOURCES | {"transcript_tail"}


class Reason(StrEnum):
    """Why a block was not taken."""

    SOURCE = "blocked source"
    KIND = "blocked kind"
    EMPTY = "empty"
    BLOCKS = f"over {MOST_BLOCKS} blocks"
    BYTES = f"over {MOST_BYTES} bytes"


class Dropped(msgspec.Struct, frozen=True):
    """A block that was not taken; a service need not have given it an id."""

    id: str
    reason: Reason


class Kept(msgspec.Struct, frozen=True):
    """What policy left of a recall: blocks that are safe to show, and what was dropped.

    `redacted` counts the secrets that were taken out of the blocks that were kept.
    """

    blocks: tuple[Block, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    redacted: int = 0

    @property
    def removed(self) -> int:
        """How many blocks were dropped."""
        return len(self.dropped)


Redact: TypeAlias = Callable[[Sequence[str]], Sequence[Redacted[str]]]
"""Takes the secrets out of each of the texts."""


def kept_of(blocks: Sequence[Block], redact: Redact) -> Kept:
    """Apply the policy to each block, in the order in which they were returned."""
    reasons = [_blocked(block) for block in blocks]
    texts = [
        "" if blocked else _seen(block.text)
        for block, blocked in zip(blocks, reasons, strict=True)
    ]
    kept: list[Block] = []
    dropped: list[Dropped] = []
    size = redacted = 0
    for block, blocked, shown in zip(
        blocks, reasons, map(_unless_blank, redact(texts)), strict=True
    ):
        length = len(shown.value.encode())
        reason = blocked or _no_room(length, len(kept), size)
        if reason is not None:
            dropped.append(Dropped(block.id, reason))
            continue
        kept.append(_cleaned(block, shown.value))
        size += length
        redacted += sum(shown.counts.values())
    return Kept(tuple(kept), tuple(dropped), redacted)


def fenced(kept: Kept, *, service: str, nonce: str) -> str:
    """Write the block that stays in its conversation; empty when nothing was kept.

    The nonce is some lower-case hex digits that nobody who wrote a memory could know.
    """
    if not kept.blocks:
        return ""
    return "\n".join(
        (
            f"--- BEGIN MEMORY (from {_named(service)}) {nonce} ---",
            WHAT_FOLLOWS,
            *map(_written, kept.blocks),
            f"--- END MEMORY {nonce} ---",
        )
    )


def contextual(kept: Kept, *, service: str, time_line: str = "") -> str:
    """Write the block of a message of its own, as Clawdapus does; empty when nothing was kept.

    A time line may stand alone.
    """
    parts: list[str] = []
    if kept.blocks:
        begin = f"--- BEGIN MEMORY (from {_named(service)}) ---"
        parts.append("\n".join((begin, *map(_written, kept.blocks), "--- END MEMORY ---")))
    if time_line:
        parts.append(time_line)
    return "\n\n".join(parts)


def time_line(moment: datetime) -> str:
    """Tell a model the time, in the zone of the moment: `Current time: 2026-11-15 7:57 PM UTC`."""
    hour, half = moment.hour % 12 or 12, "AM" if moment.hour < 12 else "PM"  # noqa: PLR2004 - noon
    short, name = moment.tzname() or "UTC", str(moment.tzinfo or "UTC")
    place = "" if name == short else f" ({name})"
    return f"Current time: {moment:%Y-%m-%d} {hour}:{moment:%M} {half} {short}{place}"


@lru_cache(_LABELS)
def _named(label: str) -> str:
    """Return a name as it may stand in a mark or a header, where it must not look like a mark."""
    name = clean_label(label.strip())
    return name.replace("--", "__") if "memory" in name.lower() else name


def _blocked(block: Block) -> Reason | None:
    if _plain(block.source) in _BLOCKED_SOURCES:
        return Reason.SOURCE
    return Reason.KIND if _plain(block.kind) in _BLOCKED_KINDS else None


@lru_cache(_LABELS)
def _plain(label: str) -> str:
    return sanitised(label).strip().lower()


def _seen(text: str) -> str:
    """Return a text as a model may see it; what nobody sees may have hidden blanks at its end."""
    return sanitised(_writable(text.strip())).rstrip()


def _unless_blank(shown: Redacted[str]) -> Redacted[str]:
    return shown if shown.value.strip() else Redacted("", {})


def _writable(text: str) -> str:
    # Half a surrogate pair could not be sent.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _no_room(length: int, blocks: int, size: int) -> Reason | None:
    if not length:
        return Reason.EMPTY
    if blocks == MOST_BLOCKS:
        return Reason.BLOCKS
    return Reason.BYTES if size + length > MOST_BYTES else None


def _cleaned(block: Block, text: str) -> Block:
    return msgspec.structs.replace(
        block,
        text=text,
        score=finite_score(block.score),
        kind=_named(block.kind),
        source=_named(block.source),
        ts=rfc3339_or_none(block.ts) or "",
    )


def _written(block: Block) -> str:
    parts = {"kind": block.kind, "source": block.source, "ts": block.ts}
    said = [f"{name}={value}" for name, value in parts.items() if value]
    if block.score:
        said.append(f"score={block.score:.2f}")
    return f"[{', '.join(said)}]\n{block.text}" if said else block.text
