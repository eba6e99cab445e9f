"""What there is to do, from what is remembered, what is here and what is there (pure).

A plan only chooses which documents to look at, and says so to people before anything happens.
What really becomes of each is decided by the steps, which look again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from memplane.persona.document_kinds import OTHER_KIND, detect_kind
from memplane.persona.model import DocumentState, MergeBase, RemoteDocument
from memplane.persona.steps import AssumedRemote
from memplane.storage.keys import find_collisions

MAX_DELETIONS: Final = 10
MAX_DELETED_SHARE: Final = 0.30


class SyncAction(Enum):
    """What will become of a document, as far as can be seen beforehand."""

    NOTHING = "nothing"
    CREATE = "create"
    PUT = "put"
    REPUBLISH = "republish"
    PULL = "pull"
    MERGE = "merge"
    SAME = "same"
    DELETE = "delete"
    REMOVE = "remove"
    RESTORE = "restore"
    SETTLE = "settle"


PUSH_ACTIONS: Final = frozenset(
    {
        *(
            SyncAction.CREATE,
            SyncAction.PUT,
            SyncAction.REPUBLISH,
            SyncAction.MERGE,
            SyncAction.DELETE,
        ),
        *(SyncAction.SAME, SyncAction.SETTLE),
    }
)
"""What a push does."""

PULL_ACTIONS: Final = frozenset(
    {
        SyncAction.PULL,
        SyncAction.MERGE,
        SyncAction.REMOVE,
        SyncAction.RESTORE,
        SyncAction.SAME,
        SyncAction.SETTLE,
    }
)
"""What a pull does. What changed on both sides goes both ways."""


class ListedObject(msgspec.Struct, frozen=True):
    """What a complete listing says of one object."""

    etag: str
    size: int
    tombstone: bool
    covers: str = ""
    """Of a tombstone: the SHA-256 of the text that was deleted."""
    sha256: str = ""
    """Of a text, as whoever wrote it said; empty when that is not known."""


class PlannedDocument(msgspec.Struct, frozen=True):
    """One document of a plan. `believed` saves the steps a read."""

    key: str
    action: SyncAction
    believed: AssumedRemote | None = None
    moved_to: str | None = None


def plan_sync(
    states: Mapping[str, DocumentState],
    local: Mapping[str, bytes],
    listing: Mapping[str, ListedObject],
    *,
    unclear: Collection[str] = (),
) -> tuple[PlannedDocument, ...]:
    """Say what is to do for every document that is remembered, here or there.

    Nothing is done about what is `unclear`: documents, and folders of them, of which it is not
    known what they are here or there.
    """
    keys = sorted({*states, *local, *listing})
    rows = (
        _plan_document(key, states.get(key, DocumentState()), local, listing)
        for key in keys
        if not _is_any_of(key, unclear)
    )
    return _with_moves(tuple(rows), states, local)


def _is_any_of(key: str, unclear: Collection[str]) -> bool:
    parts = key.split("/")
    return any("/".join(parts[:end]) in unclear for end in range(1, len(parts) + 1))


def _plan_document(
    key: str, state: DocumentState, local: Mapping[str, bytes], listing: Mapping[str, ListedObject]
) -> PlannedDocument:
    listed = listing.get(key)
    text = local.get(key)
    if state.apply is not None or state.adopted is not None:
        keeps_text = (
            text is None or text != state.adopted or listed is None or not listed.tombstone
        )
        return PlannedDocument(key, SyncAction.SETTLE if keeps_text else SyncAction.REMOVE)
    if listed is None:
        return PlannedDocument(
            key, _without_object(state.base, is_local=text is not None), AssumedRemote(None)
        )
    base = state.base
    if base is not None and base.etag == listed.etag:
        action = _delete_unless_changed(base, text)
        return PlannedDocument(key, action, AssumedRemote(expected_remote(base, listed.etag)))
    return PlannedDocument(key, _merge_or_pull(base, text, listed))


def expected_remote(base: MergeBase, etag: str) -> RemoteDocument:
    """Return the object as it was when it was last in step with this machine."""
    return RemoteDocument(base.text, etag, base.lineage, base.changed)


def _without_object(base: MergeBase | None, *, is_local: bool) -> SyncAction:
    if not is_local:
        return SyncAction.NOTHING
    return SyncAction.CREATE if base is None else SyncAction.REPUBLISH


def _delete_unless_changed(base: MergeBase, text: bytes | None) -> SyncAction:
    if text == base.text:
        return SyncAction.NOTHING
    if text is None:
        return SyncAction.DELETE
    return SyncAction.CREATE if base.text is None else SyncAction.PUT


def _merge_or_pull(base: MergeBase | None, text: bytes | None, listed: ListedObject) -> SyncAction:
    if text is None:
        if listed.tombstone:
            return SyncAction.SETTLE
        return SyncAction.PULL if base is None or base.text is None else SyncAction.RESTORE
    if base is None:
        content = hashlib.sha256(text).hexdigest()
        if listed.tombstone:
            return SyncAction.REMOVE if content == listed.covers else SyncAction.MERGE
        return SyncAction.SAME if content == listed.sha256 else SyncAction.MERGE
    if text == base.text:
        return SyncAction.REMOVE if listed.tombstone else SyncAction.PULL
    return SyncAction.MERGE


def _with_moves(
    rows: tuple[PlannedDocument, ...],
    states: Mapping[str, DocumentState],
    local: Mapping[str, bytes],
) -> tuple[PlannedDocument, ...]:
    """Recognise a document that was deleted here and appears under another name.

    Of several with the same text each goes to one place, so that a deletion stays one.
    """
    created: dict[bytes, list[str]] = {}
    for row in reversed(rows):
        if row.action is SyncAction.CREATE:
            created.setdefault(local[row.key], []).append(row.key)

    def with_move(row: PlannedDocument) -> PlannedDocument:
        base = states[row.key].base if row.action is SyncAction.DELETE else None
        new_keys = created.get(base.text) if base is not None and base.text else None
        return replace(row, moved_to=new_keys.pop()) if new_keys else row

    return tuple(with_move(row) for row in rows)


def find_unsyncable(
    listing: Mapping[str, ListedObject], states: Mapping[str, DocumentState], *, limit: int
) -> dict[str, str]:
    """Say which objects are not brought here, and why: too large, or one name twice.

    Of two names that differ only by case, the one stays that this machine knows, or else the one
    that is called as documents of its kind are, or else the one in lower case.
    """
    problems = {
        key: f"it has {listed.size} bytes in the container, which is more than {limit}"
        for key, listed in listing.items()
        if listed.size > limit and not _has(states, key, listed.etag)
    }
    for keys in find_collisions(listing):
        live = [key for key in keys if not listing[key].tombstone]
        first, *others = sorted(
            live or keys, key=lambda key: (key not in states, *_name_rank(key))
        )
        problems |= {
            key: f"on some machines it is the same file as {first}, and so it was not brought"
            for key in others
            if key not in states
        }
    return problems


def _name_rank(key: str) -> tuple[bool, bool, str]:
    """Rank names of one document: those that a kind of document has come first."""
    return detect_kind(key, None) is OTHER_KIND, key != key.lower(), key


def _has(states: Mapping[str, DocumentState], key: str, etag: str) -> bool:
    base = states[key].base if key in states else None
    return base is not None and base.etag == etag


def explain_excess_deletions(rows: tuple[PlannedDocument, ...], known: int) -> str | None:
    """Say why a plan deletes too much to be carried out unasked; None when it does not.

    A move is no deletion. One document may always go.
    """
    local_count = sum(row.action is SyncAction.REMOVE for row in rows)
    remote_count = sum(row.action is SyncAction.DELETE and row.moved_to is None for row in rows)
    for count, location in ((remote_count, "in the container"), (local_count, "in the folder")):
        share = count / max(known, 1)
        if count > MAX_DELETIONS or (count > 1 and share > MAX_DELETED_SHARE):
            return f"{count} of {known} documents would be deleted {location}"
    return None
