"""Philosophical threads: the newer thought stands, the older one is kept below it (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from msgspec.structs import replace

from memplane.persona.merge.conflict_resolver import ConflictResolver, MergeInput
from memplane.persona.merge.outline import (
    OutlineBlock,
    OutlineGrammar,
    OutlineSection,
    map_sections,
    normalise_text,
    read_outline,
    walk_blocks,
    write_outline,
)
from memplane.persona.merge.sections import (
    BaseItems,
    MergeOutlines,
    merge_outlines,
    read_outlines,
    write_body,
)

_THREAD_LEVEL: Final = 2
"""The level of the headings that name a thread."""
_HISTORY_MARK: Final = "> **Earlier**"


def merge_threads(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Merge threads by heading. A text that another one replaced becomes history, once."""
    outlines = read_outlines(versions, _read)
    merged = merge_outlines(_settled(outlines, resolver), resolver)
    return write_body(map_sections(merged, _in_order), versions, resolver)


def _read(body: str) -> OutlineSection:
    """Take a body apart; a thread is whole, but for its history."""
    return map_sections(read_outline(body, OutlineGrammar(name_whole=_name)), _split_history)


def _name(section: OutlineSection) -> str | None:
    return f"thread {normalise_text(section.heading)}" if section.level == _THREAD_LEVEL else None


def _split_history(thread: OutlineSection) -> OutlineSection:
    """Take the history out of a thread's text."""
    if not thread.is_whole:
        return thread
    outline = read_outline(thread.heading)
    history = {
        block.text for _, block in walk_blocks(outline) if block.text.startswith(_HISTORY_MARK)
    }
    current = map_sections(outline, lambda section: _without(section, history))
    blocks = tuple(_history(thread, text) for text in sorted(history))
    return replace(thread, heading=write_outline(current).removesuffix("\n"), blocks=blocks)


def _in_order(thread: OutlineSection) -> OutlineSection:
    """Put the history of a thread in one order, whoever remembers it."""
    if not thread.is_whole:
        return thread
    return replace(thread, blocks=tuple(sorted(thread.blocks, key=lambda block: block.text)))


def _without(section: OutlineSection, texts: Collection[str]) -> OutlineSection:
    return replace(
        section, blocks=tuple(block for block in section.blocks if block.text not in texts)
    )


def _history(thread: OutlineSection, text: str) -> OutlineBlock:
    return OutlineBlock(f"{thread.key}\thistory {text}", text)


def _settled(outlines: MergeOutlines, resolver: ConflictResolver) -> MergeOutlines:
    """Take the newer text of every thread that both sides changed, and note the older one."""
    ours, theirs = dict(_threads(outlines.newer)), dict(_threads(outlines.older))
    clashing = {
        key
        for key in ours.keys() & theirs.keys()
        if _has_conflict(outlines.base, ours[key], theirs[key])
    }
    for key in sorted(clashing):
        resolver.decide(ours[key].heading, theirs[key].heading, losing=False)

    def with_other_text(thread: OutlineSection) -> OutlineSection:
        if thread.key not in clashing:
            return thread
        other_text = _quoted(theirs[thread.key])
        history = {block.text for block in thread.blocks} | (
            {other_text} if other_text else set[str]()
        )
        return replace(thread, blocks=tuple(_history(thread, block) for block in sorted(history)))

    def without_other_text(thread: OutlineSection) -> OutlineSection:
        if thread.key not in clashing:
            return thread
        return replace(thread, heading=ours[thread.key].heading)

    newer, older = (
        map_sections(outlines.newer, with_other_text),
        map_sections(outlines.older, without_other_text),
    )
    return MergeOutlines(outlines.base, newer, older)


def _threads(section: OutlineSection) -> Iterator[tuple[str, OutlineSection]]:
    if section.is_whole:
        yield section.key, section
    for child in section.children:
        yield from _threads(child)


def _has_conflict(base: BaseItems, newer: OutlineSection, older: OutlineSection) -> bool:
    """Say whether both sides changed a thread, and not in the same way."""
    known = base.get(newer.key)
    texts = {newer.heading, older.heading, *([known.text] if known else [])}
    return len(texts) == (3 if known else 2)


def _quoted(thread: OutlineSection) -> str:
    """Write a thread's text as history, without the heading that both have."""
    lines = thread.heading.split("\n")[1:]
    while lines and not lines[0].strip():
        del lines[0]
    return "\n".join([_HISTORY_MARK, *(f"> {line}".rstrip() for line in lines)]) if lines else ""
