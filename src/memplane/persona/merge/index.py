"""The index: one line for each document that is linked (pure)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from memplane.persona.index import links
from memplane.persona.merge.contest import Contest, Versions
from memplane.persona.merge.moves import Placed, place_of, settle
from memplane.persona.merge.order import in_order
from memplane.persona.merge.outline import (
    ITEM,
    Grammar,
    Section,
    all_blocks,
    mapped,
    normalised,
    read_outline,
)
from memplane.persona.merge.sections import Known, body_of, merge_outlines, outlines_of

ALSO: Final = " — also: "
"""What stands between two hooks of one document, when two machines wrote different ones."""

DASH: Final = " — "
"""What stands between a link and its hook."""

_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")
_ENTRY: Final = re.compile(
    r"(?P<link> ?[-*+][ \t]+\[(?:\\.|[^\]\\\n])*\]\([^()\n]*\))"
    r"(?P<dash>[ \t]*(?:—|\u2013|--?|:)?[ \t]*)(?P<hooks>[^\n]*)"
)


def merge_index(versions: Versions, contest: Contest) -> str:
    """Merge links by what they lead to. Where hooks differ both stay, the newer one first."""
    outlines = outlines_of(versions, _read)
    merged = merge_outlines(settle(outlines, contest, _agree), contest)
    return body_of(merged, versions, contest)


def without_links(index: bytes, gone: Collection[str]) -> bytes:
    """Return the index without the entries that lead to documents which are gone."""
    kept: list[bytes] = []
    is_dead = False
    for line in _LINE.findall(index):
        if is_dead and line[:1] in {b" ", b"\t"} and line.strip():
            continue  # It belongs to the entry above.
        keys = {one.key for one in links(line)}
        is_dead = bool(keys) and keys <= set(gone) and _is_entry(line)
        if not is_dead:
            kept.append(line)
    return b"".join(kept)


class _Entry(msgspec.Struct, frozen=True):
    """A line of the index: the link, the hooks behind it, and what hangs below."""

    link: str
    dash: str
    hooks: Mapping[str, str]
    rest: str

    def written(self) -> str:
        hooks = ALSO.join(self.hooks.values())
        return self.link + ((self.dash or DASH) + hooks if hooks else "") + self.rest


_NOTHING: Final = _Entry("", "", {}, "")


@lru_cache(maxsize=8)  # a merge that is checked reads each text three times
def _read(body: str) -> Section:
    """Take an index apart. What is linked twice becomes one entry, with all its hooks."""
    outline = read_outline(body, Grammar(name_item=_target))
    entries: dict[str, list[_Entry]] = {}
    for _, block in all_blocks(outline):
        if block.key.startswith(ITEM):
            entries.setdefault(block.key.partition("\t")[0], []).append(_entry(block.text))
    return mapped(outline, lambda section: _once(section, entries))


def _once(section: Section, entries: Mapping[str, Sequence[_Entry]]) -> Section:
    blocks = (
        replace(block, text=_joined(entries[block.key])) if block.key in entries else block
        for block in section.blocks
        if block.key in entries or not block.key.startswith(ITEM)
    )
    return replace(section, blocks=tuple(blocks))


def _joined(entries: Sequence[_Entry]) -> str:
    first = entries[0]
    hooks = {key: hook for one in entries for key, hook in one.hooks.items()}
    rest = "".join(dict.fromkeys(one.rest for one in entries))
    return replace(first, hooks=hooks, rest=rest).written()


def _target(text: str) -> str | None:
    found = _ENTRY.match(text)
    led = links(found["link"].encode()) if found else ()
    return led[0].key if led else None


def _entry(text: str) -> _Entry:
    found = _ENTRY.match(text)
    if not found:
        return _NOTHING
    hooks = (hook.strip() for hook in found["hooks"].split(ALSO.strip()))
    named = {normalised(hook): hook for hook in hooks if hook}
    return _Entry(found["link"], found["dash"], named, text[found.end() :])


def _is_entry(line: bytes) -> bool:
    return _ENTRY.match(line.decode(errors="replace")) is not None


def _agree(known: Known | None, newer: Placed, older: Placed, contest: Contest) -> Placed:
    base = _entry(known.text) if known else _NOTHING
    ours, theirs = _entry(newer.text), _entry(older.text)
    losing = normalised(ours.link) != normalised(theirs.link)
    agreed = _Entry(
        contest.three_way(base.link, ours.link, theirs.link, losing=losing),
        contest.three_way(base.dash, ours.dash, theirs.dash, losing=False),
        _hooks(base, ours, theirs, contest),
        contest.three_way(base.rest, ours.rest, theirs.rest),
    )
    return replace(newer, text=agreed.written(), at=place_of(known, newer, older, contest))


def _hooks(base: _Entry, newer: _Entry, older: _Entry, contest: Contest) -> dict[str, str]:
    """Return the hooks that are new on one side, or that both sides have."""
    ours, theirs = newer.hooks.keys(), older.hooks.keys()
    alive = (ours & theirs) | ((ours ^ theirs) - base.hooks.keys())
    said = {**older.hooks, **newer.hooks}
    order = in_order(list(ours), list(theirs), alive, tied=contest.tied)
    return {key: said[key] for key in order}
