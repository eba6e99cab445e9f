"""Upkeep of the folder before it is published: every document in the index, no name twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memplane.persona.document import parse
from memplane.persona.document_kinds import INDEX_KEY
from memplane.persona.document_names import with_hash_suffix
from memplane.persona.document_writer import remove_document, write_document
from memplane.persona.folder import DocumentFolder
from memplane.persona.index_file import (
    is_index_part,
    read_links,
    split_overflow,
    with_link,
    with_moved_link,
)
from memplane.persona.merge.index import without_links
from memplane.storage.keys import fold_key


def rename_case_collisions(
    folder: DocumentFolder,
    files: Mapping[str, bytes],
    new: Collection[str],
    taken: Collection[str],
) -> list[str]:
    """Give another name to new documents that some machine could not tell from an older one.

    Returns what was done, in words.
    """
    changes: list[str] = []
    owners = {fold_key(key): key for key in (*sorted(set(files) - set(new)), *sorted(taken))}
    for key in sorted(new):
        owner = owners.setdefault(fold_key(key), key)
        if owner == key:
            continue
        name = with_hash_suffix(key, files[key])
        if write_document(folder, name, files[key], expected=None):
            remove_document(folder, key, expected=files[key])
            changes.append(
                f"{key} is now {name}: on some machines it would be the same as {owner}"
            )
    return changes


def update_index(
    folder: DocumentFolder,
    files: Mapping[str, bytes],
    new: Mapping[str, str | None],
    deleted: Collection[str],
) -> list[str]:
    """Give new documents a line in the index, because nobody would find them otherwise.

    `new` tells what each was called before, if it was: its line follows. Lines of documents that
    were `deleted` here go with them. An index that has grown too long for its reader is divided.
    Returns what was done, in words.
    """
    indexes = {key: text for key, text in files.items() if key == INDEX_KEY or is_index_part(key)}
    updated = {key: _update_links(text, new, deleted) for key, text in indexes.items()}
    index = _with_links(updated.pop(INDEX_KEY, b""), updated, files, new)
    index, split_parts = split_overflow(index, parts=updated)
    targets = {**updated, **split_parts}
    if index or INDEX_KEY in files:
        targets[INDEX_KEY] = index
    changes: list[str] = []
    for key, text in targets.items():  # the index last: it points to the others
        if text == files.get(key):
            continue
        if not write_document(folder, key, text, expected=files.get(key)):
            break  # somebody is at it: next time
        changes.append(f"{key} was brought up to date")
    return changes


def _update_links(index: bytes, new: Mapping[str, str | None], deleted: Collection[str]) -> bytes:
    for key, before in sorted(new.items()):
        if before is not None:
            index = with_moved_link(index, before, key)
    return without_links(index, deleted) if deleted else index


def _with_links(
    index: bytes, parts: Mapping[str, bytes], files: Mapping[str, bytes], new: Collection[str]
) -> bytes:
    linked = {link.key for text in (index, *parts.values()) for link in read_links(text)}
    for key in sorted(new):
        if key != INDEX_KEY and not is_index_part(key) and key not in linked:
            document = parse(files[key])
            index = with_link(index, key, document.name or key, document.description or "")
    return index
