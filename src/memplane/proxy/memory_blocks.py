"""From recalled blocks to the text of a prompt: policy first, then one of two forms (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from memplane.episodes.api_types import DEFAULT_RECALL_BYTES, MAX_BLOCKS, MemoryBlock
from memplane.episodes.provenance import Trust
from memplane.episodes.untrusted_share import MAX_UNTRUSTED_PERCENT, limit_untrusted
from memplane.exchange.prompt_cleanup import INJECTED_BLOCK_HEADING
from memplane.exchange.sanitizer import (
    finite_score,
    rfc3339_or_none,
    sanitize_label,
    sanitize_text,
)
from memplane.redaction.redactor import RedactionResult

_LABEL_CACHE_SIZE: Final = 64
"""Kinds and sources that are remembered: there are a dozen, unless a service makes them up."""
_QUOTATION_MARK: Final = "> "
_BLOCKED_SOURCES: Final = frozenset({"raw_transcript", "session_tail"})
_BLOCKED_KINDS: Final = _BLOCKED_SOURCES | {"transcript_tail"}


class BlockDropReason(StrEnum):
    """Why a block was not taken."""

    SOURCE = "blocked source"
    KIND = "blocked kind"
    EMPTY = "empty"
    BLOCKS = f"over {MAX_BLOCKS} blocks"
    BYTES = f"over {DEFAULT_RECALL_BYTES} bytes"
    UNTRUSTED = f"over {MAX_UNTRUSTED_PERCENT} % untrusted"


class RejectedBlock(msgspec.Struct, frozen=True):
    """A block that was not taken; a service need not have given it an id."""

    id: str
    reason: BlockDropReason


class FilteredBlocks(msgspec.Struct, frozen=True):
    """What policy left of a recall: blocks that are safe to show, and what was dropped.

    `redacted` counts the secrets that were taken out of the blocks that were kept.
    """

    blocks: tuple[MemoryBlock, ...] = ()
    dropped: tuple[RejectedBlock, ...] = ()
    redacted: int = 0

    @property
    def removed(self) -> int:
        """How many blocks were dropped."""
        return len(self.dropped)


Redact: TypeAlias = Callable[[Sequence[str]], Sequence[RedactionResult[str]]]
"""Takes the secrets out of each of the texts."""


def filter_blocks(blocks: Sequence[MemoryBlock], redact: Redact) -> FilteredBlocks:
    """Apply the policy to each block, in the order in which they were returned."""
    reasons = [_find_block_reason(block) for block in blocks]
    texts = [
        "" if blocked else _sanitise_text(block.text)
        for block, blocked in zip(blocks, reasons, strict=True)
    ]
    kept: list[MemoryBlock] = []
    dropped: list[RejectedBlock] = []
    size = redacted = 0
    for block, blocked, shown in zip(
        blocks, reasons, map(_unless_blank, redact(texts)), strict=True
    ):
        length = len(shown.value.encode())
        reason = blocked or _find_limit_reason(length, len(kept), size)
        if reason is not None:
            dropped.append(RejectedBlock(block.id, reason))
            continue
        kept.append(_clean_block(block, shown.value))
        size += length
        redacted += sum(shown.counts.values())
    told = limit_untrusted(kept)
    dropped += [
        RejectedBlock(one.id, BlockDropReason.UNTRUSTED) for one in kept if one not in told
    ]
    return FilteredBlocks(tuple(told), tuple(dropped), redacted)


def format_fenced_blocks(kept: FilteredBlocks, *, service: str, nonce: str) -> str:
    """Write the block that stays in its conversation; empty when nothing was kept.

    The nonce is some lower-case hex digits that nobody who wrote a memory could know.
    """
    if not kept.blocks:
        return ""
    return "\n".join(
        (
            f"--- BEGIN MEMORY (from {_clean_label_text(service)}) {nonce} ---",
            INJECTED_BLOCK_HEADING,
            *map(_format_block, kept.blocks),
            f"--- END MEMORY {nonce} ---",
        )
    )


def format_context_blocks(kept: FilteredBlocks, *, service: str, time_line: str = "") -> str:
    """Write the block of a message of its own, as Clawdapus does; empty when nothing was kept.

    A time line may stand alone.
    """
    parts: list[str] = []
    if kept.blocks:
        begin = f"--- BEGIN MEMORY (from {_clean_label_text(service)}) ---"
        parts.append("\n".join((begin, *map(_format_block, kept.blocks), "--- END MEMORY ---")))
    if time_line:
        parts.append(time_line)
    return "\n\n".join(parts)


def format_time_line(moment: datetime) -> str:
    """Tell a model the time, in the zone of the moment: `Current time: 2026-11-15 7:57 PM UTC`."""
    hour, half = moment.hour % 12 or 12, "AM" if moment.hour < 12 else "PM"  # noqa: PLR2004 - noon
    short, name = moment.tzname() or "UTC", str(moment.tzinfo or "UTC")
    place = "" if name == short else f" ({name})"
    return f"Current time: {moment:%Y-%m-%d} {hour}:{moment:%M} {half} {short}{place}"


@lru_cache(_LABEL_CACHE_SIZE)
def _clean_label_text(label: str) -> str:
    """Return a name as it may stand in a mark or a header, where it must not look like a mark."""
    name = sanitize_label(label.strip())
    return name.replace("--", "__") if "memory" in name.lower() else name


def _find_block_reason(block: MemoryBlock) -> BlockDropReason | None:
    if _normalise_label(block.source) in _BLOCKED_SOURCES:
        return BlockDropReason.SOURCE
    return BlockDropReason.KIND if _normalise_label(block.kind) in _BLOCKED_KINDS else None


@lru_cache(_LABEL_CACHE_SIZE)
def _normalise_label(label: str) -> str:
    return sanitize_text(label).strip().lower()


def _sanitise_text(text: str) -> str:
    """Return a text as a model may see it; what nobody sees may have hidden blanks at its end."""
    return sanitize_text(_replace_surrogates(text.strip())).rstrip()


def _unless_blank(shown: RedactionResult[str]) -> RedactionResult[str]:
    return shown if shown.value.strip() else RedactionResult("", {})


def _replace_surrogates(text: str) -> str:
    # Half a surrogate pair could not be sent.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _find_limit_reason(length: int, blocks: int, size: int) -> BlockDropReason | None:
    if not length:
        return BlockDropReason.EMPTY
    if blocks == MAX_BLOCKS:
        return BlockDropReason.BLOCKS
    return BlockDropReason.BYTES if size + length > DEFAULT_RECALL_BYTES else None


def _clean_block(block: MemoryBlock, text: str) -> MemoryBlock:
    return msgspec.structs.replace(
        block,
        text=text,
        score=finite_score(block.score),
        kind=_clean_label_text(block.kind),
        source=_clean_label_text(block.source),
        ts=rfc3339_or_none(block.ts) or "",
        sources=tuple(map(_clean_label_text, block.sources)),
    )


def _format_block(block: MemoryBlock) -> str:
    parts = {"kind": block.kind, "source": block.source, "ts": block.ts}
    said = [f"{name}={value}" for name, value in parts.items() if value]
    if block.score:
        said.append(f"score={block.score:.2f}")
    if block.trust == Trust.UNTRUSTED:
        # Somebody else's words: each line says that it is a quotation.
        origin = next(iter(block.sources), block.origin) or "unknown"
        quoted = "\n".join(f"{_QUOTATION_MARK}{line}" for line in block.text.split("\n"))
        said = said or ["kind=quotation"]
        return f"[{', '.join(said)}, origin={origin}, trust={block.trust}]\n{quoted}"
    return f"[{', '.join(said)}]\n{block.text}" if said else block.text
