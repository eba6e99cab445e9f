"""Philosophical threads: the newer thought stands, the older one is kept below it (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from msgspec.structs import replace

from memplane.persona.merge.contest import Contest, Versions
from memplane.persona.merge.outline import (
    Block,
    Grammar,
    Section,
    all_blocks,
    mapped,
    normalised,
    read_outline,
    write_outline,
)
from memplane.persona.merge.sections import Base, Outlines, body_of, merge_outlines, outlines_of

_THREAD: Final = 2
"""The level of the headings that name a thread."""
_EARLIER: Final = "> **Earlier**"


def merge_threads(versions: Versions, contest: Contest) -> str:
    """Merge threads by heading. A text that another one replaced becomes history, once."""
    outlines = outlines_of(versions, _read)
    merged = merge_outlines(_settled(outlines, contest), contest)
    return body_of(mapped(merged, _in_order), versions, contest)


def _read(body: str) -> Section:
    """Take a body apart; a thread is whole, but for its history."""
    return mapped(read_outline(body, Grammar(name_whole=_name)), _told_apart)


def _name(section: Section) -> str | None:
    return f"thread {normalised(section.heading)}" if section.level == _THREAD else None


def _told_apart(thread: Section) -> Section:
    """Take the history out of a thread's text."""
    if not thread.is_whole:
        return thread
    told = read_outline(thread.heading)
    history = {one.text for _, one in all_blocks(told) if one.text.startswith(_EARLIER)}
    current = mapped(told, lambda section: _without(section, history))
    blocks = tuple(_history(thread, text) for text in sorted(history))
    return replace(thread, heading=write_outline(current).removesuffix("\n"), blocks=blocks)


def _in_order(thread: Section) -> Section:
    """Put the history of a thread in one order, whoever remembers it."""
    if not thread.is_whole:
        return thread
    return replace(thread, blocks=tuple(sorted(thread.blocks, key=lambda one: one.text)))


def _without(section: Section, texts: Collection[str]) -> Section:
    return replace(section, blocks=tuple(one for one in section.blocks if one.text not in texts))


def _history(thread: Section, text: str) -> Block:
    return Block(f"{thread.key}\thistory {text}", text)


def _settled(outlines: Outlines, contest: Contest) -> Outlines:
    """Take the newer text of every thread that both sides changed, and note the older one."""
    ours, theirs = dict(_threads(outlines.newer)), dict(_threads(outlines.older))
    clashing = {
        key for key in ours.keys() & theirs.keys() if _clash(outlines.base, ours[key], theirs[key])
    }
    for key in sorted(clashing):
        contest.decide(ours[key].heading, theirs[key].heading, losing=False)

    def remembering(thread: Section) -> Section:
        if thread.key not in clashing:
            return thread
        told = _quoted(theirs[thread.key])
        history = {one.text for one in thread.blocks} | ({told} if told else set[str]())
        return replace(thread, blocks=tuple(_history(thread, one) for one in sorted(history)))

    def giving_way(thread: Section) -> Section:
        if thread.key not in clashing:
            return thread
        return replace(thread, heading=ours[thread.key].heading)

    newer, older = mapped(outlines.newer, remembering), mapped(outlines.older, giving_way)
    return Outlines(outlines.base, newer, older)


def _threads(section: Section) -> Iterator[tuple[str, Section]]:
    if section.is_whole:
        yield section.key, section
    for child in section.children:
        yield from _threads(child)


def _clash(base: Base, newer: Section, older: Section) -> bool:
    """Say whether both sides changed a thread, and not in the same way."""
    known = base.get(newer.key)
    texts = {newer.heading, older.heading, *([known.text] if known else [])}
    return len(texts) == (3 if known else 2)


def _quoted(thread: Section) -> str:
    """Write a thread's text as history, without the heading that both have."""
    lines = thread.heading.split("\n")[1:]
    while lines and not lines[0].strip():
        del lines[0]
    return "\n".join([_EARLIER, *(f"> {line}".rstrip() for line in lines)]) if lines else ""
