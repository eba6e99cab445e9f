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

from memplane.objects.keys import collisions
from memplane.persona.model import Base, Remote, State
from memplane.persona.steps import Believed

MOST_DELETIONS: Final = 10
MOST_DELETED_SHARE: Final = 0.30


class Action(Enum):
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


SENDS: Final = frozenset(
    {
        *(Action.CREATE, Action.PUT, Action.REPUBLISH, Action.MERGE, Action.DELETE),
        *(Action.SAME, Action.SETTLE),
    }
)
"""What a push does."""

BRINGS: Final = frozenset(
    {Action.PULL, Action.MERGE, Action.REMOVE, Action.RESTORE, Action.SAME, Action.SETTLE}
)
"""What a pull does. What changed on both sides goes both ways."""


class Listed(msgspec.Struct, frozen=True):
    """What a complete listing says of one object."""

    etag: str
    size: int
    tombstone: bool
    covers: str = ""
    """Of a tombstone: the SHA-256 of the text that was deleted."""
    sha256: str = ""
    """Of a text, as whoever wrote it said; empty when that is not known."""


class Planned(msgspec.Struct, frozen=True):
    """One document of a plan. `believed` saves the steps a read."""

    key: str
    action: Action
    believed: Believed | None = None
    moved_to: str | None = None


def plan(
    states: Mapping[str, State],
    local: Mapping[str, bytes],
    listing: Mapping[str, Listed],
    *,
    unclear: Collection[str] = (),
) -> tuple[Planned, ...]:
    """Say what is to do for every document that is remembered, here or there.

    Nothing is done about what is `unclear`: documents, and folders of them, of which it is not
    known what they are here or there.
    """
    keys = sorted({*states, *local, *listing})
    rows = (
        _planned(key, states.get(key, State()), local, listing)
        for key in keys
        if not _is_any_of(key, unclear)
    )
    return _with_moves(tuple(rows), states, local)


def _is_any_of(key: str, unclear: Collection[str]) -> bool:
    parts = key.split("/")
    return any("/".join(parts[:end]) in unclear for end in range(1, len(parts) + 1))


def _planned(
    key: str, state: State, local: Mapping[str, bytes], listing: Mapping[str, Listed]
) -> Planned:
    listed = listing.get(key)
    text = local.get(key)
    if state.apply is not None or state.adopted is not None:
        kept = text is None or text != state.adopted or listed is None or not listed.tombstone
        return Planned(key, Action.SETTLE if kept else Action.REMOVE)
    if listed is None:
        return Planned(key, _without_object(state.base, here=text is not None), Believed(None))
    base = state.base
    if base is not None and base.etag == listed.etag:
        action = _unless_changed_there(base, text)
        return Planned(key, action, Believed(remembered(base, listed.etag)))
    return Planned(key, _changed_there(base, text, listed))


def remembered(base: Base, etag: str) -> Remote:
    """Return the object as it was when it was last in step with this machine."""
    return Remote(base.text, etag, base.lineage, base.changed)


def _without_object(base: Base | None, *, here: bool) -> Action:
    if not here:
        return Action.NOTHING
    return Action.CREATE if base is None else Action.REPUBLISH


def _unless_changed_there(base: Base, text: bytes | None) -> Action:
    if text == base.text:
        return Action.NOTHING
    if text is None:
        return Action.DELETE
    return Action.CREATE if base.text is None else Action.PUT


def _changed_there(base: Base | None, text: bytes | None, listed: Listed) -> Action:
    if text is None:
        if listed.tombstone:
            return Action.SETTLE
        return Action.PULL if base is None or base.text is None else Action.RESTORE
    if base is None:
        content = hashlib.sha256(text).hexdigest()
        if listed.tombstone:
            return Action.REMOVE if content == listed.covers else Action.MERGE
        return Action.SAME if content == listed.sha256 else Action.MERGE
    if text == base.text:
        return Action.REMOVE if listed.tombstone else Action.PULL
    return Action.MERGE


def _with_moves(
    rows: tuple[Planned, ...], states: Mapping[str, State], local: Mapping[str, bytes]
) -> tuple[Planned, ...]:
    """Recognise a document that was deleted here and appears under another name.

    Of several with the same text each goes to one place, so that a deletion stays one.
    """
    created: dict[bytes, list[str]] = {}
    for row in reversed(rows):
        if row.action is Action.CREATE:
            created.setdefault(local[row.key], []).append(row.key)

    def moved(row: Planned) -> Planned:
        base = states[row.key].base if row.action is Action.DELETE else None
        places = created.get(base.text) if base is not None and base.text else None
        return replace(row, moved_to=places.pop()) if places else row

    return tuple(moved(row) for row in rows)


def unwelcome(
    listing: Mapping[str, Listed], states: Mapping[str, State], *, limit: int
) -> dict[str, str]:
    """Say which objects are not brought here, and why: too large, or one name twice.

    Of two names that differ only by case, the one stays that this machine knows.
    """
    found = {
        key: f"it has {one.size} bytes in the container, which is more than {limit}"
        for key, one in listing.items()
        if one.size > limit and not _has(states, key, one.etag)
    }
    for keys in collisions(listing):
        alive = [key for key in keys if not listing[key].tombstone]
        first, *others = sorted(alive or keys, key=lambda key: (key not in states, key))
        found |= {
            key: f"on some machines it is the same file as {first}, and so it was not brought"
            for key in others
            if key not in states
        }
    return found


def _has(states: Mapping[str, State], key: str, etag: str) -> bool:
    base = states[key].base if key in states else None
    return base is not None and base.etag == etag


def too_many_deletions(rows: tuple[Planned, ...], known: int) -> str | None:
    """Say why a plan deletes too much to be carried out unasked; None when it does not.

    A move is no deletion. One document may always go.
    """
    here = sum(row.action is Action.REMOVE for row in rows)
    there = sum(row.action is Action.DELETE and row.moved_to is None for row in rows)
    for count, where in ((there, "in the container"), (here, "in the folder")):
        share = count / max(known, 1)
        if count > MOST_DELETIONS or (count > 1 and share > MOST_DELETED_SHARE):
            return f"{count} of {known} documents would be deleted {where}"
    return None
