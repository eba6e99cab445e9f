"""Everything of one user of an agent: where it is, how much, and whether it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from memplane.database.interface import Connection
from memplane.episodes.api_types import ForgetCheck
from memplane.episodes.ledger_follower import OWN_LEDGER, RECEIVED_LEDGER, MemorySources
from memplane.errors import LedgerError
from memplane.kit.clock import Clock
from memplane.ledger.note_changes import erase_notes
from memplane.ledger.note_reader import NoteReader
from memplane.ledger.segments import FileModes

_BY_SCOPE: Final = (
    "JOIN scopes s ON s.number = t.scope JOIN agents a ON a.number = s.agent "
    "WHERE a.agent = ? AND s.end_user = ?"
)
_COUNTS: Final[Mapping[str, str]] = {
    name: f"SELECT COUNT(*) FROM {name} t {_BY_SCOPE}"  # noqa: S608 - our own names
    for name in ("episodes", "stretches", "artefacts", "vectors", "underived", "unindexed")
} | {
    name: f"SELECT COUNT(*) FROM {name} WHERE agent = ? AND end_user = ?"  # noqa: S608
    for name in (
        *("injections", "said", "memory_events", "memories", "sessions", "conflicts"),
        "memory_rejects",
    )
}


class PlaceCount(msgspec.Struct, frozen=True, kw_only=True):
    """How much was deleted in one place."""

    place: str
    deleted: int


class UserForgetReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted of a user of an agent, place by place, and whether it is gone.

    `ids` are the turns. `repeated` are turns of others that say the same words, and were left.
    """

    agent: str
    user: str
    at: str
    ids: tuple[str, ...] = ()
    deleted: tuple[PlaceCount, ...] = ()
    repeated: tuple[str, ...] = ()
    checked: tuple[ForgetCheck, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether every place that was searched is clean."""
        return all(one.clean for one in self.checked)


def count_rows(rows: Connection, agent: str, user: str) -> dict[str, int]:
    """Count the rows of a user, by table."""
    counted: dict[str, int] = {}
    for name, sql in _COUNTS.items():
        ((counted[name],),) = rows.rows(sql, (agent, user))
    return counted


def list_noted_turns(places: MemorySources, agent: str, user: str) -> dict[str, list[str]]:
    """Return the turns that notes say are a user's, for each of the two ledgers."""
    return {
        ledger: NoteReader(places.folder(ledger, agent)).list_turns_of(user)
        for ledger in (OWN_LEDGER, RECEIVED_LEDGER)
    }


async def erase_user_notes(
    places: MemorySources,
    agent: str,
    noted: Mapping[str, list[str]],
    *,
    modes: FileModes,
    clock: Clock,
) -> int:
    """Erase what is said about turns; returns how many lines went.

    Raises:
        LedgerError: It failed, and some may be left. The same again goes on.
    """
    gone = 0
    for ledger, ids in noted.items():
        folder = places.folder(ledger, agent)
        erase = partial(erase_notes, folder, frozenset(ids), modes=modes, clock=clock)
        try:
            gone += await asyncio.to_thread(erase) if ids else 0
        except OSError as error:
            raise LedgerError(
                f"notes of {agent} were not erased from {folder.path}: {error.strerror}. "
                "The same again goes on where this ended"
            ) from error
    return gone


def check_user_is_gone(
    places: MemorySources, agent: str, user: str, left: Mapping[str, int]
) -> list[ForgetCheck]:
    """Check that no row and no note names the user."""
    held = {name: count for name, count in left.items() if count}
    note = ", ".join(f"{count} in {name}" for name, count in held.items())
    noted = sum(map(len, list_noted_turns(places, agent, user).values()))
    return [
        ForgetCheck(place="database: rows of the user", clean=not held, note=note),
        ForgetCheck(
            place="ledgers: notes of the user",
            clean=not noted,
            note=f"{noted} notes name them" if noted else "",
        ),
    ]


def list_deleted(
    before: Mapping[str, int], after: Mapping[str, int], others: Mapping[str, int]
) -> tuple[PlaceCount, ...]:
    """Say how much went, place by place."""
    gone = {f"database: {name}": count - after[name] for name, count in before.items()}
    return tuple(
        PlaceCount(place=place, deleted=count) for place, count in (*others.items(), *gone.items())
    )
