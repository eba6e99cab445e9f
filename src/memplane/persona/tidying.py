"""Upkeep of the folder before it is published: every document in the index, no name twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memplane.ids import new_id
from memplane.objects.keys import folded
from memplane.persona.document import parse
from memplane.persona.folder import Folder
from memplane.persona.index import is_part, links, split_overflow, with_link, with_moved_link
from memplane.persona.kinds import INDEX_KEY
from memplane.persona.naming import suffixed


def rename_rivals(
    folder: Folder, files: Mapping[str, bytes], new: Collection[str], taken: Collection[str]
) -> list[str]:
    """Give another name to new documents that some machine could not tell from an older one.

    Returns what was done, in words.
    """
    told: list[str] = []
    owners = {folded(key): key for key in (*sorted(set(files) - set(new)), *sorted(taken))}
    for key in sorted(new):
        owner = owners.setdefault(folded(key), key)
        if owner == key:
            continue
        name = suffixed(key, files[key])
        if _write(folder, name, files[key], expected=None):
            away = new_id()
            if folder.discard(key, away, files[key]):
                folder.bury(key, away)
            told.append(f"{key} is now {name}: on some machines it would be the same as {owner}")
    return told


def link_new_documents(
    folder: Folder, files: Mapping[str, bytes], new: Mapping[str, str | None]
) -> list[str]:
    """Give new documents a line in the index, because nobody would find them otherwise.

    `new` tells what each was called before, if it was. An index that has grown too long for its
    reader is divided. Returns what was done, in words.
    """
    index = files.get(INDEX_KEY, b"")
    parts = {key: text for key, text in files.items() if is_part(key)}
    text = _with_links(index, parts, files, new)
    text, moved = split_overflow(text, parts=parts)
    if text == index:
        return []
    for key, part in moved.items():
        if not _write(folder, key, part, expected=files.get(key)):
            return []  # somebody is at it: next time
    if not _write(folder, INDEX_KEY, text, expected=files.get(INDEX_KEY)):
        return []
    divided = [f"{INDEX_KEY} was too long: a part of it is now {key}" for key in sorted(moved)]
    return [f"{INDEX_KEY} links to what is new", *divided]


def _with_links(
    index: bytes,
    parts: Mapping[str, bytes],
    files: Mapping[str, bytes],
    new: Mapping[str, str | None],
) -> bytes:
    linked = {link.key for text in (index, *parts.values()) for link in links(text)}
    for key, before in sorted(new.items()):
        if key == INDEX_KEY or is_part(key) or key in linked:
            continue
        if before in linked:
            index = with_moved_link(index, before or "", key)
        else:
            about = parse(files[key])
            index = with_link(index, key, about.name or key, about.description or "")
    return index


def _write(folder: Folder, key: str, text: bytes, *, expected: bytes | None) -> bool:
    """Write a document unless somebody else does."""
    name = folder.stage(key, text)
    if folder.swap(key, name, expected) is not None:
        return True
    folder.unstage(key, name)
    return False
