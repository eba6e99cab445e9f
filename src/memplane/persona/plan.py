"""What there is to do, from what is remembered, what is here and what is there (pure).

A plan only chooses which documents to look at, and says so to people before anything happens.
What really becomes of each is decided by the steps, which look again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

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
    DELETE = "delete"
    REMOVE = "remove"
    RESTORE = "restore"
    SETTLE = "settle"


SENDS: Final = frozenset(
    {Action.CREATE, Action.PUT, Action.REPUBLISH, Action.MERGE, Action.DELETE, Action.SETTLE}
)
"""What a push does."""

BRINGS: Final = frozenset(
    {Action.PULL, Action.MERGE, Action.REMOVE, Action.RESTORE, Action.SETTLE}
)
"""What a pull does. What changed on both sides goes both ways."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a complete listing says of one object."""

    etag: str
    size: int
    tombstone: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """One document of a plan. `believed` saves the steps a read."""

    key: str
    action: Action
    believed: Believed | None = None
    moved_to: str | None = None


def plan(
    states: Mapping[str, State], local: Mapping[str, bytes], listing: Mapping[str, Listed]
) -> tuple[Planned, ...]:
    """Say what is to do for every document that is remembered, here or there."""
    keys = sorted({*states, *local, *listing})
    rows = (_planned(key, states.get(key, State()), local, listing) for key in keys)
    return _with_moves(tuple(rows), states, local)


def _planned(
    key: str, state: State, local: Mapping[str, bytes], listing: Mapping[str, Listed]
) -> Planned:
    listed = listing.get(key)
    if state.apply is not None or state.adopted is not None:
        return Planned(key, Action.SETTLE)
    if listed is None:
        return Planned(key, _without_object(state.base, here=key in local), Believed(None))
    text = local.get(key)
    base = state.base
    if base is not None and base.etag == listed.etag:
        action = _unless_changed_there(base, text)
        return Planned(key, action, Believed(remembered(base, listed.etag)))
    return Planned(key, _changed_there(base, text, tombstone=listed.tombstone))


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


def _changed_there(base: Base | None, text: bytes | None, *, tombstone: bool) -> Action:
    if text is None:
        if tombstone:
            return Action.SETTLE
        return Action.PULL if base is None else Action.RESTORE
    if base is not None and text == base.text:
        return Action.REMOVE if tombstone else Action.PULL
    return Action.MERGE


def _with_moves(
    rows: tuple[Planned, ...], states: Mapping[str, State], local: Mapping[str, bytes]
) -> tuple[Planned, ...]:
    """Recognise a document that was deleted here and appears under another name."""
    created = {local[row.key]: row.key for row in rows if row.action is Action.CREATE}

    def moved(row: Planned) -> Planned:
        base = states[row.key].base if row.action is Action.DELETE else None
        to = created.get(base.text) if base is not None and base.text else None
        return row if to is None else Planned(row.key, row.action, row.believed, to)

    return tuple(moved(row) for row in rows)


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
