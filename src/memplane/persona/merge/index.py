"""The index: one line for each document that is linked (pure)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from memplane.persona.index_file import read_links
from memplane.persona.merge.conflict_resolver import ConflictResolver, MergeInput
from memplane.persona.merge.item_moves import PlacedItem, choose_place, settle_moves
from memplane.persona.merge.merge_order import merge_orders
from memplane.persona.merge.outline import (
    ITEM_PREFIX,
    OutlineGrammar,
    OutlineSection,
    map_sections,
    normalise_text,
    read_outline,
    walk_blocks,
)
from memplane.persona.merge.sections import BaseItem, merge_outlines, read_outlines, write_body

HOOK_SEPARATOR: Final = " — also: "
"""What stands between two hooks of one document, when two machines wrote different ones."""

HOOK_DASH: Final = " — "
"""What stands between a link and its hook."""

_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")
_ENTRY: Final = re.compile(
    r"(?P<link> ?[-*+][ \t]+\[(?:\\.|[^\]\\\n])*\]\([^()\n]*\))"
    r"(?P<dash>[ \t]*(?:—|\u2013|--?|:)?[ \t]*)(?P<hooks>[^\n]*)"
)


def merge_index(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Merge links by what they lead to. Where hooks differ both stay, the newer one first."""
    outlines = read_outlines(versions, _read)
    merged = merge_outlines(settle_moves(outlines, resolver, _agree), resolver)
    return write_body(merged, versions, resolver)


def without_links(index: bytes, removed: Collection[str]) -> bytes:
    """Return the index without the entries that lead to documents which are gone."""
    remaining: list[bytes] = []
    is_dead = False
    for line in _LINE.findall(index):
        if is_dead and line[:1] in {b" ", b"\t"} and line.strip():
            continue  # It belongs to the entry above.
        keys = {link.key for link in read_links(line)}
        is_dead = bool(keys) and keys <= set(removed) and _is_entry(line)
        if not is_dead:
            remaining.append(line)
    return b"".join(remaining)


class _IndexEntry(msgspec.Struct, frozen=True):
    """A line of the index: the link, the hooks behind it, and what hangs below."""

    link: str
    dash: str
    hooks: Mapping[str, str]
    rest: str

    def render(self) -> str:
        hooks = HOOK_SEPARATOR.join(self.hooks.values())
        return self.link + ((self.dash or HOOK_DASH) + hooks if hooks else "") + self.rest


_NO_ENTRY: Final = _IndexEntry("", "", {}, "")


@lru_cache(maxsize=8)  # a merge that is checked reads each text three times
def _read(body: str) -> OutlineSection:
    """Take an index apart. What is linked twice becomes one entry, with all its hooks."""
    outline = read_outline(body, OutlineGrammar(name_item=_target))
    entries: dict[str, list[_IndexEntry]] = {}
    for _, block in walk_blocks(outline):
        if block.key.startswith(ITEM_PREFIX):
            entries.setdefault(block.key.partition("\t")[0], []).append(_entry(block.text))
    return map_sections(outline, lambda section: _merge_duplicates(section, entries))


def _merge_duplicates(
    section: OutlineSection, entries: Mapping[str, Sequence[_IndexEntry]]
) -> OutlineSection:
    blocks = (
        replace(block, text=_join_entries(entries[block.key])) if block.key in entries else block
        for block in section.blocks
        if block.key in entries or not block.key.startswith(ITEM_PREFIX)
    )
    return replace(section, blocks=tuple(blocks))


def _join_entries(entries: Sequence[_IndexEntry]) -> str:
    first = entries[0]
    hooks = {key: hook for entry in entries for key, hook in entry.hooks.items()}
    rest = "".join(dict.fromkeys(entry.rest for entry in entries))
    return replace(first, hooks=hooks, rest=rest).render()


def _target(text: str) -> str | None:
    match = _ENTRY.match(text)
    links = read_links(match["link"].encode()) if match else ()
    return links[0].key if links else None


def _entry(text: str) -> _IndexEntry:
    match = _ENTRY.match(text)
    if not match:
        return _NO_ENTRY
    hooks = (hook.strip() for hook in match["hooks"].split(HOOK_SEPARATOR.strip()))
    named = {normalise_text(hook): hook for hook in hooks if hook}
    return _IndexEntry(match["link"], match["dash"], named, text[match.end() :])


def _is_entry(line: bytes) -> bool:
    return _ENTRY.match(line.decode(errors="replace")) is not None


def _agree(
    known: BaseItem | None, newer: PlacedItem, older: PlacedItem, resolver: ConflictResolver
) -> PlacedItem:
    base = _entry(known.text) if known else _NO_ENTRY
    ours, theirs = _entry(newer.text), _entry(older.text)
    losing = normalise_text(ours.link) != normalise_text(theirs.link)
    agreed = _IndexEntry(
        resolver.three_way(base.link, ours.link, theirs.link, losing=losing),
        resolver.three_way(base.dash, ours.dash, theirs.dash, losing=False),
        _hooks(base, ours, theirs, resolver),
        resolver.three_way(base.rest, ours.rest, theirs.rest),
    )
    return replace(newer, text=agreed.render(), at=choose_place(known, newer, older, resolver))


def _hooks(
    base: _IndexEntry, newer: _IndexEntry, older: _IndexEntry, resolver: ConflictResolver
) -> dict[str, str]:
    """Return the hooks that are new on one side, or that both sides have."""
    ours, theirs = newer.hooks.keys(), older.hooks.keys()
    surviving = (ours & theirs) | ((ours ^ theirs) - base.hooks.keys())
    hooks = {**older.hooks, **newer.hooks}
    order = merge_orders(list(ours), list(theirs), surviving, tied=resolver.tied)
    return {key: hooks[key] for key in order}
