"""Frontmatter, key by key, with every line as it was written (pure).

What only one side changed is taken from it, unknown keys included. Lists are sets: what was added
on either side is there, what was removed on either side is not. Of two values the newer stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from memplane.persona.document import (
    STAMP_FIELDS,
    Document,
    FrontmatterField,
    FrontmatterValue,
    parse,
    render_scalar,
    without_stamps,
)
from memplane.persona.merge.conflict_resolver import ConflictResolver, MergeInput
from memplane.persona.merge.merge_order import merge_orders

_ITEM: Final = re.compile(r"(?P<dash>[ ]*-[ ]+)(?P<token>\S(?:.*\S)?)[ ]*")
_LAST_WRITER_FIELDS: Final = STAMP_FIELDS | {"duration_hours"}
"""What is written anew with every change: nothing is lost when one value gives way."""


def merge_frontmatter(
    versions: MergeInput, resolver: ConflictResolver
) -> tuple[FrontmatterField, ...]:
    """Return the keys that both versions have together."""
    base, newer, older = versions.base or Document(), versions.newer, versions.older
    if newer.fields == older.fields:
        return newer.fields
    keys = (_FieldSet(document.fields, document.values) for document in (base, newer, older))
    merged = _FieldMerge(resolver, *keys).merge_fields()
    if merged in (newer.fields, older.fields) or newer.flaw or older.flaw:
        return merged
    if _is_flawed(merged):
        # Each side is sound, and together they are not: they set the same keys differently.
        resolver.decide(_render(newer.fields), _render(older.fields))
        return newer.fields
    return merged


class _FieldSet(msgspec.Struct, frozen=True):
    """The keys of one level in one version, and what they mean."""

    fields: Sequence[FrontmatterField]
    values: FrontmatterValue | None

    def nested_under(self, key: str) -> _FieldSet:
        nested = next((field.fields for field in self.fields if field.key == key), ())
        return _FieldSet(nested, self.value(key))

    def value(self, key: str) -> FrontmatterValue | None:
        return self.values.get(key) if isinstance(self.values, Mapping) else None

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts; None when the value is something else."""
        value = self.value(key)
        if not isinstance(value, tuple):
            return None
        texts = tuple(text for text in value if isinstance(text, str))
        return texts if len(texts) == len(value) else None


class _FieldMerge(msgspec.Struct, frozen=True):
    """The keys of one level in the three versions."""

    resolver: ConflictResolver
    base: _FieldSet
    newer: _FieldSet
    older: _FieldSet

    def merge_fields(self) -> tuple[FrontmatterField, ...]:
        # A stamp is never taken for removed: whoever has one, the result has one.
        known = _by_key(without_stamps(self.base.fields))
        ours, theirs = _by_key(self.newer.fields), _by_key(self.older.fields)
        surviving: dict[str, FrontmatterField] = {}
        for key in ours.keys() | theirs.keys():
            our_field, their_field = ours.get(key), theirs.get(key)
            if our_field and their_field:
                surviving[key] = self._both(known.get(key), our_field, their_field)
            elif (field := our_field or their_field) and _is_new(known.get(key), field):
                surviving[key] = field
        order = merge_orders(list(ours), list(theirs), surviving, tied=self.resolver.tied)
        return tuple(surviving[key] for key in order)

    def _both(
        self, base: FrontmatterField | None, newer: FrontmatterField, older: FrontmatterField
    ) -> FrontmatterField:
        if newer.fields and older.fields:
            known = base.text if base else None
            text = self.resolver.three_way(known, newer.text, older.text, losing=False)
            return FrontmatterField(newer.key, text, self._nested_under(newer.key).merge_fields())
        before, ours, theirs = (
            field.render() if field else None for field in (base, newer, older)
        )
        if ours in {theirs, before}:
            return older
        return newer if theirs == before else self._chosen(newer, older)

    def _nested_under(self, key: str) -> _FieldMerge:
        field_sets = (
            field_set.nested_under(key) for field_set in (self.base, self.newer, self.older)
        )
        return _FieldMerge(self.resolver, *field_sets)

    def _chosen(self, newer: FrontmatterField, older: FrontmatterField) -> FrontmatterField:
        """Choose when both sides changed a value."""
        ours, theirs = self.newer.texts(newer.key), self.older.texts(newer.key)
        if ours is None or theirs is None:
            losing = newer.key not in _LAST_WRITER_FIELDS
            self.resolver.decide(newer.render(), older.render(), losing=losing)
            return newer
        removed = set(self.base.texts(newer.key) or ()) - (set(ours) & set(theirs))
        surviving = {*ours, *theirs} - removed
        order = merge_orders(_dedupe(ours), _dedupe(theirs), surviving, tied=self.resolver.tied)
        for field, texts in ((newer, ours), (older, theirs)):
            if order == list(texts):
                return field
        return _listing(newer, older, order)


def _listing(
    newer: FrontmatterField, older: FrontmatterField, texts: Sequence[str]
) -> FrontmatterField:
    """Write a list the way that the newer side does, or the one that has something in it."""
    tokens = {**_tokens(older), **_tokens(newer)}
    style = newer if _tokens(newer) or "[" in newer.text else older
    head, *lines = style.text.removesuffix("\n").split("\n")
    if not _tokens(style):
        listed = ", ".join(_flow_scalar(text) for text in texts)
        return FrontmatterField(newer.key, f"{head.partition(':')[0]}: [{listed}]\n")
    match = _ITEM.match(lines[0])
    dash = match["dash"] if match else "  - "
    items = (f"{dash}{tokens.get(text, render_scalar(text))}\n" for text in texts)
    return FrontmatterField(newer.key, "".join((f"{head}\n", *items)))


def _tokens(field: FrontmatterField) -> dict[str, str]:
    """Return how each text of a list with one item on a line is written."""
    matches = [_ITEM.fullmatch(line) for line in field.text.removesuffix("\n").split("\n")[1:]]
    written = [match["token"] for match in matches if match]
    read = parse(f"---\n{field.text}---\n".encode()).value(field.key)
    if len(written) < len(matches) or not isinstance(read, tuple) or len(read) != len(written):
        return {}
    return {
        text: token for text, token in zip(read, written, strict=True) if isinstance(text, str)
    }


def _flow_scalar(text: str) -> str:
    written = render_scalar(text)
    return f'"{text}"' if written == text and ":" in text else written


def _by_key(fields: Iterable[FrontmatterField]) -> dict[str, FrontmatterField]:
    """Give every key a place of its own, also one that is written twice."""
    fields_by_key: dict[str, FrontmatterField] = {}
    for field in fields:
        key = field.key
        while key in fields_by_key:
            key += "\n"
        fields_by_key[key] = field
    return fields_by_key


def _is_new(base: FrontmatterField | None, field: FrontmatterField) -> bool:
    return base is None or _render(without_stamps([base])) != _render(without_stamps([field]))


def _is_flawed(fields: Sequence[FrontmatterField]) -> bool:
    return parse(f"---\n{_render(fields)}---\n".encode()).flaw is not None


def _render(fields: Iterable[FrontmatterField]) -> str:
    return "".join(field.render() for field in fields)


def _dedupe(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
