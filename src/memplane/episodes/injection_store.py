"""What stands in conversations: memory that was put there, and the turns that were said there.

The one is kept so that it can stand there again with the same bytes, the other so that no
conversation is told what it can read in itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from memplane.auth.memory_scope import MemoryScope, ReadScope
from memplane.database.interface import Connection
from memplane.ledger.turn_note import InjectedBlock

MAX_INJECTION_AGE_US: Final = 90 * 24 * 3600 * 1_000_000
"""Microseconds; no provider remembers a conversation for so long."""

_IN_JSON_LIST: Final = "IN (SELECT value FROM json_each(?))"
"""A conversation may have thousands of places."""
_WHERE_SCOPE: Final = "agent = ? AND end_user = ? AND view = ?"
_WHERE_PLACE: Final = f"{_WHERE_SCOPE} AND place = ? AND session = ?"
_ID_SUFFIX_CHARS: Final = 16
"""By so much of its end an id is told from others; who shares it only loses a text too soon."""
_blocks: Final = msgspec.json.Decoder(tuple[InjectedBlock, ...])


@dataclass(frozen=True, slots=True)
class Injection:
    """A text that stands at one place of a conversation, and the memories in it.

    An empty one says that nothing stands there in this session. The blocks may name only some of
    the entries that it was `made_of`; all of them count when one is forgotten.
    """

    scope: MemoryScope
    place: str
    session: str
    at: int
    service: str
    text: str
    blocks: tuple[InjectedBlock, ...] = ()
    made_of: frozenset[str] = frozenset()

    @property
    def cited(self) -> frozenset[str]:
        """The entries that it names or was made of."""
        return self.made_of.union(*(block.entry_ids for block in self.blocks))


class TurnPlace(msgspec.Struct, frozen=True):
    """A turn that was recorded, the place of its answer in its conversation, and when.

    The place is over all that was said until then: where it is found again, the turn stands. So
    does what stands at the places `after` which it was said.
    """

    scope: MemoryScope
    place: str
    entry: str
    at: int
    after: tuple[str, ...] = ()


def save_turn_places(rows: Connection, turns: Iterable[TurnPlace]) -> None:
    """Keep where turns were said; nothing is kept of one that was forgotten meanwhile."""
    for one in turns:
        whose = _whose(one.scope)
        if not any_forgotten(rows, one.scope.agent, (one.entry,)):
            rows.run(
                "INSERT INTO said (agent, end_user, view, place, entry, at) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (*whose, one.place, one.entry, one.at),
            )
        for before in one.after:
            rows.run(
                "INSERT INTO said (agent, end_user, view, place, entry, at) "
                "SELECT agent, end_user, view, ?, entry, ? FROM said WHERE agent = ? "
                "AND end_user = ? AND view = ? AND place = ? ON CONFLICT DO NOTHING",
                (one.place, one.at, *whose, before),
            )


def find_turns_at(rows: Connection, scope: ReadScope, places: Sequence[str]) -> frozenset[str]:
    """Return the turns whose answers stand at places of an agent's conversations.

    A conversation of a user or a view has turns of that user and view only.
    """
    where = _WHERE_SCOPE if isinstance(scope, MemoryScope) else "agent = ?"
    whose = _whose(scope) if isinstance(scope, MemoryScope) else (scope.agent,)
    sql = f"SELECT entry FROM said WHERE {where} AND place {_IN_JSON_LIST}"  # noqa: S608 - ours
    return frozenset(entry for (entry,) in rows.rows(sql, (*whose, _listed(places))))


def insert_injections(rows: Connection, injections: Iterable[Injection]) -> None:
    """Keep texts; what cites an entry that was forgotten meanwhile is not kept."""
    for one in injections:
        whose = _whose(one.scope)
        rows.run(
            f"DELETE FROM injections WHERE {_WHERE_PLACE}",  # noqa: S608 - ours
            (*whose, one.place, one.session),
        )
        cited = one.cited
        if any_forgotten(rows, one.scope.agent, cited):
            continue
        rows.run(
            "INSERT INTO injections (agent, end_user, view, place, session, at, service, "
            "text, blocks) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(*whose, one.place, one.session, one.at, one.service, one.text),
                msgspec.json.encode(one.blocks),
            ),
        )
        if cited:
            rows.run(
                "INSERT INTO injected_from (injection, agent, entries) "  # noqa: S608 - ours
                f"SELECT key, agent, ? FROM injections WHERE {_WHERE_PLACE}",
                ("\n".join(_ends(cited)), *whose, one.place, one.session),
            )


def find_injections(
    rows: Connection, scope: MemoryScope, places: Sequence[str]
) -> list[Injection]:
    """Return what stands at places of the conversations of a scope, the newest first.

    Users may begin alike: what one was told at a place is nothing that stands there for another.
    """
    sql = (
        "SELECT place, session, at, service, text, blocks FROM injections "  # noqa: S608 - ours
        f"WHERE {_WHERE_SCOPE} AND place {_IN_JSON_LIST} ORDER BY at DESC, key DESC"
    )
    held = rows.rows(sql, (*_whose(scope), _listed(places)))
    return [
        Injection(scope, place, session, at, service, text, _blocks.decode(blocks))
        for place, session, at, service, text, blocks in held
    ]


def delete_citing(rows: Connection, agent: str, entries: Collection[str]) -> None:
    """Drop what says something of entries, which are being forgotten, or may say it.

    Another service need not name what its memories come from.
    """
    rows.run(
        "DELETE FROM injections WHERE agent = ? AND text <> '' "
        "AND key NOT IN (SELECT injection FROM injected_from WHERE agent = ?)",
        (agent, agent),
    )
    rows.run_many(
        "DELETE FROM injections WHERE key = ?", [(one,) for one in _citing(rows, agent, entries)]
    )
    rows.run_many(
        "DELETE FROM said WHERE agent = ? AND entry = ?", [(agent, entry) for entry in entries]
    )


def delete_user(rows: Connection, agent: str, user: str) -> None:
    """Drop what stands in the conversations of a user."""
    rows.run("DELETE FROM injections WHERE agent = ? AND end_user = ?", (agent, user))
    rows.run("DELETE FROM said WHERE agent = ? AND end_user = ?", (agent, user))


def delete_older(rows: Connection, at: int) -> None:
    """Drop the texts of conversations that nobody goes on with, of every agent."""
    rows.run("DELETE FROM injections WHERE at < ?", (at,))
    rows.run("DELETE FROM said WHERE at < ?", (at,))


def any_forgotten(rows: Connection, agent: str, entries: Collection[str]) -> bool:
    """Say whether any of an agent's entries was forgotten."""
    if not entries:
        return False
    marks = ", ".join("?" * len(entries))
    sql = (
        "SELECT 1 FROM tombstones t JOIN agents a ON a.number = t.agent "  # noqa: S608 - marks
        f"WHERE a.agent = ? AND t.id IN ({marks}) LIMIT 1"
    )
    return any(True for _ in rows.rows(sql, (agent, *entries)))


def _citing(rows: Connection, agent: str, entries: Iterable[str]) -> list[int]:
    wanted = _ends(entries)
    held = rows.rows("SELECT injection, entries FROM injected_from WHERE agent = ?", (agent,))
    return [injection for injection, cited in held if not wanted.isdisjoint(cited.split("\n"))]


def _whose(scope: MemoryScope) -> tuple[str, str, str]:
    return scope.agent, scope.user, scope.view


def _listed(places: Iterable[str]) -> str:
    return msgspec.json.encode(list(dict.fromkeys(places))).decode()


def _ends(entries: Iterable[str]) -> set[str]:
    return {entry[-_ID_SUFFIX_CHARS:] for entry in entries}
