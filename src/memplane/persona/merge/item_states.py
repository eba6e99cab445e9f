"""Commitments, things to carry forward, and running jokes: items with a state (pure).

An item's state is the section that it stands in. It is known by its id, its title or its words,
and keeps that name when it moves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from memplane.persona.merge.conflict_resolver import ConflictResolver, MergeInput
from memplane.persona.merge.item_moves import (
    ItemMerge,
    PlacedItem,
    choose_place,
    choose_text,
    settle_moves,
)
from memplane.persona.merge.outline import OutlineGrammar, normalise_text, read_outline
from memplane.persona.merge.sections import BaseItem, merge_outlines, read_outlines, write_body

_ID: Final = re.compile(r"<!--\s*id:\s*([\w.-]+)\s*-->")
_TITLE: Final = re.compile(r"[^*]{0,20}\*\*(.+?)\*\*")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_BOX: Final = re.compile(r"\[[ xX]\]")
_TAIL_CHARS: Final = 120
"""How far from its end an item may say that it is done."""
_SETTLED: Final = re.compile(
    r"\s*[(\[\u2013—-]+\s*(?:consumed|done|delivered|handled|mentioned|dropped)\b[^()\[\]]{0,80}[)\]]?$"
)


def merge_commitments(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Merge promises by their id. What was delivered on one side is delivered."""
    return _merge(versions, resolver, _commitment, _by_rank("delivered"))


def merge_carry_forward(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Merge what must not be forgotten by its words. What was consumed on one side is consumed."""
    return _merge(versions, resolver, _plain_text, _by_rank("consumed"))


def merge_callbacks(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Merge running jokes by their title. The one that was referred to last is how it stands."""
    return _merge(versions, resolver, _title, _by_last_reference)


def _merge(
    versions: MergeInput,
    resolver: ConflictResolver,
    name_item: Callable[[str], str | None],
    agree: ItemMerge,
) -> str:
    grammar = OutlineGrammar(name_item=name_item)
    outlines = read_outlines(versions, lambda body: read_outline(body, grammar))
    merged = merge_outlines(settle_moves(outlines, resolver, agree), resolver)
    return write_body(merged, versions, resolver)


def _commitment(text: str) -> str:
    match = _ID.search(text)
    return f"id {match[1].casefold()}" if match else _plain_text(text)


def _plain_text(text: str) -> str:
    """Return the words of an item, without what is added when it is done."""
    plain_text = _ID.sub("", normalise_text(text).replace("~~", "")).strip()
    return plain_text[:-_TAIL_CHARS] + _SETTLED.sub("", plain_text[-_TAIL_CHARS:])


def _title(text: str) -> str | None:
    match = _TITLE.search(text.partition("\n")[0])
    return normalise_text(match[1]).rstrip(".:") if match else None


def _by_rank(final: str) -> ItemMerge:
    """Let the state that is called so beat every other; beside that, changes count."""

    def agree(
        known: BaseItem | None, newer: PlacedItem, older: PlacedItem, resolver: ConflictResolver
    ) -> PlacedItem:
        ranks = newer.section.startswith(final), older.section.startswith(final)
        if ranks[0] == ranks[1]:
            at = choose_place(known, newer, older, resolver)
            text = _reworded(known, newer, older) or choose_text(known, newer, older, resolver)
            return PlacedItem(text, at, "")
        lead, follower = (newer, older) if ranks[0] else (older, newer)
        if known == BaseItem(lead.text, lead.at):
            return follower
        text = _choose_wording(known, lead, follower)
        if _plain_text(follower.text) not in {
            _plain_text(text),
            _plain_text(known.text) if known else None,
        }:
            resolver.lose(newer=follower is newer)
        return replace(lead, text=text)

    return agree


def _choose_wording(known: BaseItem | None, lead: PlacedItem, follower: PlacedItem) -> str:
    """Return what the leading side says, unless only the other one changed the words."""
    if known and _plain_text(known.text) == _plain_text(lead.text) != _plain_text(follower.text):
        return _boxed(follower.text, lead.text)
    return lead.text


def _by_last_reference(
    known: BaseItem | None, newer: PlacedItem, older: PlacedItem, resolver: ConflictResolver
) -> PlacedItem:
    if known == BaseItem(newer.text, newer.at):
        return older
    if known == BaseItem(older.text, older.at):
        return newer
    losing = _undated(newer) != _undated(older)
    dates = _last_date(newer), _last_date(older)
    if dates[0] == dates[1]:
        texts = [f"{item.at}\n{item.text}" for item in (newer, older)]
        resolver.decide(*texts, losing=losing)
        return newer
    lead = newer if dates[0] > dates[1] else older
    if losing:
        resolver.lose(newer=lead is older)
    return lead


def _reworded(known: BaseItem | None, newer: PlacedItem, older: PlacedItem) -> str | None:
    """Return the item when one side changed its words and the other at most checked it off."""
    base_text = _plain_text(known.text) if known else ""
    edited = [item for item in (newer, older) if _plain_text(item.text) != base_text]
    if known is None or len(edited) != 1:
        return None
    other = older if edited[0] is newer else newer
    is_marked = _box_of(other.text) != _box_of(known.text)
    return _boxed(edited[0].text, other.text if is_marked else edited[0].text)


def _box_of(text: str) -> str:
    match = _BOX.search(text)
    return match[0] if match else ""


def _boxed(text: str, like: str) -> str:
    """Return an item's text, checked off as another one is."""
    box = _BOX.search(like)
    return _BOX.sub(box[0], text, count=1) if box else text


def _last_date(item: PlacedItem) -> str:
    return max(_DATE.findall(item.text), default="")


def _undated(item: PlacedItem) -> str:
    return normalise_text(_DATE.sub("", item.text))
