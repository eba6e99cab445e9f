"""Whose a row is: agents, and below each its scopes, which are shared or of a user or a view.

Rows name an agent or a scope by a number. Every other statement about memory takes these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NewType, TypeVar

import msgspec

from memplane.auth.memory_scope import MemoryScope, ReadScope
from memplane.database.interface import Connection, Value

_T = TypeVar("_T")

_MAX_ROWS_PER_STATEMENT: Final = 100
_MAX_NAMED_SCOPES: Final = 8

AgentNumber = NewType("AgentNumber", int)
"""An agent's number in the database."""
ScopeNumber = NewType("ScopeNumber", int)
"""A scope's number in the database; the text index writes its terms behind it."""


class ScopeStats(msgspec.Struct, frozen=True):
    """What is known of a scope: its searchable episodes, the terms in them, noise.

    `removals` grows whenever an episode is forgotten or moved to another scope.
    """

    number: ScopeNumber
    episodes: int
    terms: int
    noise: int
    removals: int = 0


class VisibleScopes(msgspec.Struct, frozen=True):
    """The scopes that a read may see, and what is known of all of them together."""

    scopes: tuple[ScopeStats, ...]

    @property
    def numbers(self) -> tuple[ScopeNumber, ...]:
        """Their numbers."""
        return tuple(scope.number for scope in self.scopes)

    @property
    def episodes(self) -> int:
        """How many searchable episodes they have."""
        return sum(scope.episodes for scope in self.scopes)

    @property
    def terms(self) -> int:
        """How many terms are in these."""
        return sum(scope.terms for scope in self.scopes)

    @property
    def noise(self) -> int:
        """How many of their turns are noise."""
        return sum(scope.noise for scope in self.scopes)


class ScopeCondition(msgspec.Struct, frozen=True):
    """The end of a condition that a column names a visible scope, and its parameters."""

    sql: str
    parameters: tuple[Value, ...]


def make_scope_condition(seen: VisibleScopes) -> ScopeCondition:
    """Return the condition that a row is of a visible scope."""
    numbers = seen.numbers
    if len(numbers) <= _MAX_NAMED_SCOPES:
        return ScopeCondition(f"IN ({make_placeholders(numbers)})", numbers)
    # All users of an agent may be many thousands.
    listed = msgspec.json.encode(numbers).decode()
    return ScopeCondition("IN (SELECT value FROM json_each(?))", (listed,))


def get_agent_numbers(rows: Connection, agents: Collection[str]) -> dict[str, AgentNumber]:
    """Return the numbers of those agents that are known."""
    found: dict[str, AgentNumber] = {}
    for some in in_parts(list(agents)):
        sql = f"SELECT agent, number FROM agents WHERE agent IN ({make_placeholders(some)})"  # noqa: S608
        found.update(rows.rows(sql, some))
    return found


def get_agent_number(rows: Connection, agent: str) -> AgentNumber | None:
    """Return an agent's number; None when nothing is known of the agent."""
    return get_agent_numbers(rows, [agent]).get(agent)


def ensure_agent_number(rows: Connection, agent: str) -> AgentNumber:
    """Return an agent's number; one that is new is given the next."""
    known = get_agent_number(rows, agent)
    if known is not None:
        return known
    rows.run("INSERT INTO agents (agent) VALUES (?)", (agent,))
    return ensure_agent_number(rows, agent)


def ensure_scope_number(rows: Connection, scope: MemoryScope) -> ScopeNumber:
    """Return a scope's number; one that is new is given the next."""
    agent = ensure_agent_number(rows, scope.agent)
    sql = "SELECT number FROM scopes WHERE agent = ? AND end_user = ? AND view = ?"
    key = (agent, scope.user, scope.view)
    for (number,) in rows.rows(sql, key):
        return ScopeNumber(number)
    rows.run("INSERT INTO scopes (agent, end_user, view) VALUES (?, ?, ?)", key)
    return ensure_scope_number(rows, scope)


def get_visible_scopes(rows: Connection, scope: ReadScope) -> VisibleScopes:
    """Return the scopes that a read may see: those of its user and view, and the shared ones."""
    columns = "SELECT s.number, s.episodes, s.terms, s.noise, s.removals FROM scopes s "
    sql = f"{columns}JOIN agents a ON a.number = s.agent WHERE a.agent = ?"
    parameters: tuple[Value, ...] = (scope.agent,)
    if isinstance(scope, MemoryScope):
        sql += " AND s.end_user IN ('', ?) AND s.view IN ('', ?)"
        parameters = (scope.agent, scope.user, scope.view)
    found = rows.rows(f"{sql} ORDER BY s.number", parameters)
    return VisibleScopes(tuple(ScopeStats(*row) for row in found))


class ScopeCounts(msgspec.Struct, frozen=True):
    """How much is remembered in a scope."""

    agent: str
    user: str
    view: str
    episodes: int
    noise: int


def list_scope_counts(rows: Connection, agent: str) -> list[ScopeCounts]:
    """Return the scopes of an agent that have turns, the shared one first."""
    sql = (
        "SELECT a.agent, s.end_user, s.view, s.episodes, s.noise FROM scopes s "
        "JOIN agents a ON a.number = s.agent WHERE a.agent = ? "
        "AND (s.episodes > 0 OR s.noise > 0) ORDER BY s.end_user, s.view"
    )
    return [ScopeCounts(*row) for row in rows.rows(sql, (agent,))]


def list_entry_ids(rows: Connection, agent: str, user: str) -> list[str]:
    """Return the entries of a user of an agent, in all of the user's views, in their order."""
    sql = (
        "SELECT e.id FROM episodes e JOIN scopes s ON s.number = e.scope "
        "JOIN agents a ON a.number = s.agent WHERE a.agent = ? AND s.end_user = ? "
        "ORDER BY e.at, e.id"
    )
    return [entry_id for (entry_id,) in rows.rows(sql, (agent, user))]


def get_entry_scopes(rows: Connection, agent: str, ids: Sequence[str]) -> dict[str, MemoryScope]:
    """Return in which scope each entry is, of those that are known."""
    number = get_agent_number(rows, agent)
    found: dict[str, MemoryScope] = {}
    for some in in_parts(ids):
        sql = (
            "SELECT e.id, s.end_user, s.view FROM episodes e "  # noqa: S608 - marks
            "JOIN scopes s ON s.number = e.scope AND s.agent = e.agent "
            f"WHERE e.agent = ? AND e.id IN ({make_placeholders(some)})"
        )
        for entry_id, user, view in rows.rows(sql, (number, *some)):
            found[entry_id] = MemoryScope(agent, user, view)
    return found


def delete_empty_scopes(rows: Connection, agent: str, user: str) -> int:
    """Let go of a user's scopes that have nothing any more; returns how many are left."""
    number = get_agent_number(rows, agent)
    rows.run(
        "DELETE FROM scopes WHERE agent = ? AND end_user = ? AND end_user <> '' AND NOT ("
        "EXISTS (SELECT 1 FROM episodes e WHERE e.scope = number) "
        "OR EXISTS (SELECT 1 FROM underived u WHERE u.scope = number) "
        "OR EXISTS (SELECT 1 FROM unindexed u WHERE u.scope = number) "
        "OR EXISTS (SELECT 1 FROM stretches s WHERE s.scope = number))",
        (number, user),
    )
    sql = "SELECT COUNT(*) FROM scopes WHERE agent = ? AND end_user = ?"
    ((left,),) = rows.rows(sql, (number, user))
    return int(left)


def in_parts(many: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield as many as go into one statement at a time."""
    return (
        many[first : first + _MAX_ROWS_PER_STATEMENT]
        for first in range(0, len(many), _MAX_ROWS_PER_STATEMENT)
    )


def make_placeholders(values: Sequence[object]) -> str:
    """Return a placeholder for each of some values."""
    return ", ".join("?" * len(values))
