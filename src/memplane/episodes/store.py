"""The rows of memory: episodes, what is derived from them, and work that is still to be done.

Every statement names the scope that it is about: an agent's shared memories, or those of one of
its users or views. What a scope derives from its turns, and what scores are relative to, is its
own. Ids of entries, tombstones and markers are the agent's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, partial
from heapq import merge
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.database.interface import Connection, Row, Value
from memplane.episodes.artefacts import Affect, Artefact, ArtefactKind
from memplane.episodes.episode import Episode
from memplane.episodes.provenance import OWN_WORDS, decode_provenance, encode_provenance
from memplane.episodes.scope_store import (
    AgentNumber,
    ScopeNumber,
    VisibleScopes,
    ensure_agent_number,
    ensure_scope_number,
    get_agent_numbers,
    in_parts,
    make_placeholders,
    make_scope_condition,
)
from memplane.search.turn_terms import SearchTurn, TurnTerms, repeat_terms

_EPISODE_COLUMNS: Final = "id, at, question, answer, calls, origins"
_ARTEFACT_COLUMNS: Final = "kind, text, at, sources, salience, valence, arousal, feeling, origins"

_SEARCH_COLUMNS: Final = "key, at, id, length, speaker, signs, asked, told"
_VALUES: Final = f"({', '.join('?' * 14)})"
_KINDS: Final = {kind.value: kind for kind in ArtefactKind}
SALIENT_KINDS: Final = (
    ArtefactKind.AFFECT,
    ArtefactKind.DECISION,
    ArtefactKind.COMMITMENT,
    ArtefactKind.FACT,
)
# One statement for each kind; the index on them has the same words.
_SALIENT_QUERIES: Final = tuple(
    f"SELECT {_ARTEFACT_COLUMNS} FROM artefacts WHERE scope = ? AND kind = '{kind}' "  # noqa: S608
    "AND salience >= 60 ORDER BY salience DESC, at DESC, stretch_id, position LIMIT ?"
    for kind in SALIENT_KINDS
)
_DELETE_INDEXED: Final = (
    "DELETE FROM unindexed WHERE key IN ({keys}) AND {has} (SELECT 1 FROM episodes e "
    "WHERE e.key = unindexed.key AND e.scope = unindexed.scope AND e.state = 0)"
)

INDEX_GENERATION_NOTE: Final = "generation of the text index"
"""The note that says which index is these rows'; where rows are numbered anew it is another."""

MEMORY_TABLES: Final = (
    *("agents", "scopes", "episodes", "markers", "tombstones", "stretches", "artefacts"),
    *("underived", "unindexed", "followed", "notes"),
)

EpisodeKey: TypeAlias = tuple[int, str]
"""The place of a turn among those of its scope: when it was, and its id."""


class EpisodeState(IntEnum):
    """What becomes of an episode."""

    SEARCHABLE = 0
    NOISE = 1
    SILENT = 2
    """It failed, or nobody said anything: known, so that it is not taken in again."""


class RetainOutcome(IntEnum):
    """What became of an entry that was given."""

    RETAINED = 0
    KNOWN = 1
    FORGOTTEN = 2


class StoredEpisode(msgspec.Struct, frozen=True):
    """An episode with what search needs of it."""

    episode: Episode
    state: EpisodeState
    spoken: TurnTerms


class Stretch(msgspec.Struct, frozen=True):
    """Where a group of turns begins and ends."""

    first: EpisodeKey
    last: EpisodeKey
    turns: int


def predict_outcome(rows: Connection, number: AgentNumber | None, entry_id: str) -> RetainOutcome:
    """Say what would become of an entry with that id."""
    return predict_outcomes(rows, number, [entry_id]).get(entry_id, RetainOutcome.RETAINED)


def predict_outcomes(
    rows: Connection, number: AgentNumber | None, ids: Sequence[str]
) -> dict[str, RetainOutcome]:
    """Say of which entries something else would become than that they are retained."""
    found: dict[str, RetainOutcome] = {}
    if number is None:
        return found
    for some in in_parts(ids):
        marks = make_placeholders(some)
        sql = (
            f"SELECT id, 1 FROM episodes WHERE agent = ? AND id IN ({marks}) "  # noqa: S608
            f"UNION ALL SELECT id, 2 FROM tombstones WHERE agent = ? AND id IN ({marks})"
        )
        known = rows.rows(sql, (number, *some, number, *some))
        found.update((entry_id, RetainOutcome(outcome)) for entry_id, outcome in known)
    return found


def insert_episodes(
    rows: Connection, given: Sequence[tuple[MemoryScope, StoredEpisode]]
) -> list[RetainOutcome]:
    """Take in episodes that are neither known nor forgotten; says what became of each.

    An entry is in one scope of its agent, the first that it was given for. They are written
    together: each statement hands the interpreter's lock to and fro.
    """
    by_agent: dict[str, list[str]] = {}
    for scope, one in given:
        by_agent.setdefault(scope.agent, []).append(one.episode.id)
    numbers = get_agent_numbers(rows, by_agent)
    numbers.update(
        (agent, ensure_agent_number(rows, agent)) for agent in by_agent.keys() - numbers.keys()
    )
    known = {
        (agent, entry_id): outcome
        for agent, ours in by_agent.items()
        for entry_id, outcome in predict_outcomes(rows, numbers[agent], ours).items()
    }
    outcomes: list[RetainOutcome] = []
    new: list[_NewEpisode] = []
    scopes: dict[MemoryScope, ScopeNumber] = {}
    for scope, one in given:
        outcomes.append(known.get((scope.agent, one.episode.id), RetainOutcome.RETAINED))
        if outcomes[-1] is RetainOutcome.RETAINED:
            known[scope.agent, one.episode.id] = RetainOutcome.KNOWN
            if scope not in scopes:
                scopes[scope] = ensure_scope_number(rows, scope)
            new.append(_NewEpisode(numbers[scope.agent], scopes[scope], one))
    if new:
        _insert(rows, new)
    return outcomes


class _NewEpisode(msgspec.Struct, frozen=True):
    """An episode that is to be inserted, and where."""

    agent: AgentNumber
    scope: ScopeNumber
    stored: StoredEpisode


def _insert(rows: Connection, new: Sequence[_NewEpisode]) -> None:
    ((before,),) = rows.rows("SELECT COALESCE(MAX(key), 0) FROM episodes")
    for some in in_parts(new):
        sql = (
            "INSERT INTO episodes (agent, scope, id, at, state, question, answer, "  # noqa: S608
            "calls, length, speaker, signs, asked, told, origins) "
            f"VALUES {', '.join([_VALUES] * len(some))}"
        )
        rows.run(sql, [value for one in some for value in _values(one)])
    rows.run(
        "INSERT INTO unindexed SELECT key, scope, 0 FROM episodes WHERE key > ? AND state = 0",
        (before,),
    )
    rows.run(
        "INSERT INTO underived SELECT scope, at, id FROM episodes WHERE key > ? AND state = 0 "
        "ON CONFLICT DO NOTHING",
        (before,),
    )
    for scope in {one.scope for one in new}:
        lengths = [
            one.stored.spoken.length
            for one in new
            if one.scope == scope and one.stored.state is EpisodeState.SEARCHABLE
        ]
        _count(rows, scope, len(lengths), sum(lengths))
    markers = [
        (one.agent, one.stored.episode.id, position, marker.category, marker.service, marker.text)
        for one in new
        for position, marker in enumerate(one.stored.episode.markers)
    ]
    if markers:
        rows.run_many("INSERT INTO markers VALUES (?, ?, ?, ?, ?, ?)", markers)


def _values(new: _NewEpisode) -> tuple[Value, ...]:
    stored = new.stored
    said, spoken = stored.episode, stored.spoken
    return (
        *(new.agent, new.scope, said.id, said.at, stored.state, said.question, said.answer),
        *("\n".join(said.calls), spoken.length, spoken.speaker, spoken.signs),
        *(spoken.user_terms, spoken.agent_terms, encode_provenance(said.provenance)),
    )


def _count(rows: Connection, scope: ScopeNumber, episodes: int, terms: int) -> None:
    sql = "UPDATE scopes SET episodes = episodes + ?, terms = terms + ? WHERE number = ?"
    rows.run(sql, (episodes, terms, scope))


def _count_noise(rows: Connection, scope: ScopeNumber, turns: int) -> None:
    rows.run("UPDATE scopes SET noise = noise + ? WHERE number = ?", (turns, scope))


def delete_entries(rows: Connection, agent: str, ids: Collection[str]) -> int:
    """Forget entries, known or not, and what was derived from them; returns how many were known.

    What else was derived with them is made anew from the others; until then it is not there.
    """
    number = ensure_agent_number(rows, agent)
    buried = 0
    for entry_id in ids:
        rows.run("INSERT INTO tombstones VALUES (?, ?) ON CONFLICT DO NOTHING", (number, entry_id))
        sql = (
            "DELETE FROM episodes WHERE agent = ? AND id = ? "
            "RETURNING key, scope, at, state, length"
        )
        for key, scope, at, state, length in list(rows.rows(sql, (number, entry_id))):
            buried += 1
            rows.run("DELETE FROM markers WHERE agent = ? AND entry = ?", (number, entry_id))
            _take_out(rows, scope, _CountedEpisode(key, at, entry_id, state, length))
    return buried


class _CountedEpisode(msgspec.Struct, frozen=True):
    """Where an episode was in its scope, and what it counted for."""

    key: int
    at: int
    id: str
    state: int
    length: int


def _take_out(rows: Connection, scope: ScopeNumber, place: _CountedEpisode) -> None:
    """Let a scope count and derive without an episode that it had."""
    if place.state == EpisodeState.SEARCHABLE:
        _count(rows, scope, -1, -place.length)
        _drop_artefacts(rows, scope, (place.at, place.id))
    elif place.state == EpisodeState.NOISE:
        _count_noise(rows, scope, -1)
    rows.run("UPDATE scopes SET removals = removals + 1 WHERE number = ?", (scope,))
    _mark_unindexed(rows, scope, place.key)
    if place.state != EpisodeState.SILENT:
        mark_underived(rows, scope, (place.at, place.id))


def move_entries(rows: Connection, agent: str, ids: Iterable[str], to: MemoryScope) -> list[str]:
    """Let entries be in another scope of their agent; returns those that were in another one."""
    number, target = ensure_agent_number(rows, agent), ensure_scope_number(rows, to)
    moved: list[str] = []
    for entry_id in ids:
        sql = (
            "SELECT key, at, id, state, length, scope FROM episodes WHERE agent = ? AND id = ? "
            "AND scope <> ?"
        )
        for *values, scope in list(rows.rows(sql, (number, entry_id, target))):
            place = _CountedEpisode(*values)
            rows.run(
                "UPDATE episodes SET scope = ? WHERE agent = ? AND id = ?",
                (target, number, entry_id),
            )
            rows.run("DELETE FROM vectors WHERE key = ? AND scope = ?", (place.key, scope))
            _take_out(rows, scope, place)
            _put_in(rows, target, place)
            moved.append(entry_id)
    return moved


def _put_in(rows: Connection, scope: ScopeNumber, place: _CountedEpisode) -> None:
    """Let a scope count and derive with an episode that it has from now on."""
    if place.state == EpisodeState.SEARCHABLE:
        _count(rows, scope, 1, place.length)
    elif place.state == EpisodeState.NOISE:
        _count_noise(rows, scope, 1)
    rows.run("UPDATE unindexed SET scope = ? WHERE key = ?", (scope, place.key))
    if place.state != EpisodeState.SILENT:
        mark_underived(rows, scope, (place.at, place.id))


def list_forgotten(rows: Connection) -> dict[str, list[str]]:
    """Return what was forgotten, for each agent."""
    sql = (
        "SELECT a.agent, t.id FROM tombstones t JOIN agents a ON a.number = t.agent ORDER BY 1, 2"
    )
    found: dict[str, list[str]] = {}
    for agent, entry_id in rows.rows(sql):
        found.setdefault(agent, []).append(entry_id)
    return found


def _drop_artefacts(rows: Connection, scope: ScopeNumber, key: EpisodeKey) -> None:
    """Let go of what was derived from the stretch that a turn is in."""
    stretch = get_stretch_at(rows, scope, key)
    if stretch is not None:
        delete_artefacts(rows, scope, stretch)


def _mark_unindexed(rows: Connection, scope: ScopeNumber, key: int) -> None:
    """Let the text index look at an episode again, which it may have."""
    sql = "INSERT INTO unindexed VALUES (?, ?, 1) ON CONFLICT (key) DO UPDATE SET known = 1"
    rows.run(sql, (key, scope))


def change_state(
    rows: Connection, scope: ScopeNumber, key: EpisodeKey, state: EpisodeState
) -> None:
    """Let an episode be searched from now on, or not any more."""
    sql = (
        "UPDATE episodes SET state = ? WHERE scope = ? AND at = ? AND id = ? RETURNING key, length"
    )
    for row, length in list(rows.rows(sql, (state, scope, *key))):
        sign = 1 if state is EpisodeState.SEARCHABLE else -1
        _count(rows, scope, sign, sign * length)
        _count_noise(rows, scope, -sign)
        _mark_unindexed(rows, scope, row)


# Reading turns in their order.


def list_turns_before(
    rows: Connection, scope: ScopeNumber, key: EpisodeKey, limit: int
) -> list[Episode]:
    """Return the turns before one, noise among them, in their order."""
    sql = (
        f"SELECT {_EPISODE_COLUMNS} FROM episodes WHERE scope = ? AND state < 2 AND (at, "  # noqa: S608
        "id) < (?, ?) "
        "ORDER BY at DESC, id DESC LIMIT ?"
    )
    return [_episode(row) for row in rows.rows(sql, (scope, *key, limit))][::-1]


def list_turns_from(
    rows: Connection, scope: ScopeNumber, key: EpisodeKey, limit: int
) -> list[tuple[Episode, EpisodeState]]:
    """Return turns from a place on, noise among them, in their order."""
    sql = (
        f"SELECT {_EPISODE_COLUMNS}, state FROM episodes WHERE scope = ? AND state < 2 "  # noqa: S608
        "AND (at, id) >= (?, ?) ORDER BY at, id LIMIT ?"
    )
    found = rows.rows(sql, (scope, *key, limit))
    return [(_episode(row), EpisodeState(row[-1])) for row in found]


def iterate_searchable_from(
    rows: Connection, scope: ScopeNumber, key: EpisodeKey
) -> Iterator[Episode]:
    """Yield the searchable turns from a place on, in their order."""
    sql = (
        f"SELECT {_EPISODE_COLUMNS} FROM episodes WHERE scope = ? AND state = 0 AND (at, "  # noqa: S608
        "id) >= (?, ?) "
        "ORDER BY at, id LIMIT 64"
    )
    while page := [_episode(row) for row in rows.rows(sql, (scope, *key))]:
        yield from page
        key = page[-1].at, page[-1].id + "\0"


def _episode(row: Row) -> Episode:
    entry_id, at, question, answer, calls, origins = row[:6]
    called = tuple(calls.split("\n")) if calls else ()
    provenance = decode_provenance(origins) if origins else OWN_WORDS
    return Episode(entry_id, at, question, answer, called, provenance=provenance)


# Stretches and what is derived from them.


def get_stretch_at(rows: Connection, scope: ScopeNumber, key: EpisodeKey) -> Stretch | None:
    """Return the last stretch that begins at a place or before it."""
    sql = (
        "SELECT at, id, last_at, last_id, turns FROM stretches WHERE scope = ? "
        "AND (at, id) <= (?, ?) ORDER BY at DESC, id DESC LIMIT 1"
    )
    return next((_stretch(row) for row in rows.rows(sql, (scope, *key))), None)


def begins_stretch(rows: Connection, scope: ScopeNumber, key: EpisodeKey) -> bool:
    """Say whether a stretch begins right there."""
    sql = "SELECT 1 FROM stretches WHERE scope = ? AND at = ? AND id = ?"
    return next(rows.rows(sql, (scope, *key)), None) is not None


def _stretch(row: Row) -> Stretch:
    at, entry_id, last_at, last_id, turns = row
    return Stretch((at, entry_id), (last_at, last_id), turns)


def delete_stretches(
    rows: Connection, scope: ScopeNumber, begin: EpisodeKey, end: EpisodeKey
) -> None:
    """Let go of the stretches that begin between two places, and of what they yielded."""
    sql = "DELETE FROM stretches WHERE scope = ? AND (at, id) >= (?, ?) AND (at, id) < (?, ?)"
    rows.run(sql, (scope, *begin, *end))
    sql = (
        "DELETE FROM artefacts WHERE scope = ? AND (stretch_at, stretch_id) >= (?, ?) "
        "AND (stretch_at, stretch_id) < (?, ?)"
    )
    rows.run(sql, (scope, *begin, *end))


def delete_artefacts(rows: Connection, scope: ScopeNumber, stretch: Stretch) -> None:
    """Let go of what was derived from a stretch."""
    sql = "DELETE FROM artefacts WHERE scope = ? AND stretch_at = ? AND stretch_id = ?"
    rows.run(sql, (scope, *stretch.first))


def insert_stretch(
    rows: Connection, scope: ScopeNumber, turns: Sequence[Episode], derived: Iterable[Artefact]
) -> None:
    """Keep a stretch, and what is derived from it."""
    first, last = turns[0], turns[-1]
    rows.run(
        "INSERT INTO stretches VALUES (?, ?, ?, ?, ?, ?)",
        (scope, first.at, first.id, last.at, last.id, len(turns)),
    )
    rows.run_many(
        "INSERT INTO artefacts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(scope, first.at, first.id, position),
                *(one.kind, one.text, one.at, "\n".join(one.sources), one.salience),
                *((one.affect.valence, one.affect.arousal, one.affect.kind) if one.affect else ()),
                *(() if one.affect else (None, None, None)),
                "\n".join(one.origins),
            )
            for position, one in enumerate(derived)
        ],
    )


def list_salient_artefacts(rows: Connection, seen: VisibleScopes, limit: int) -> list[Artefact]:
    """Return what was said with weight, the most salient first, then the newest."""
    by_kind = (
        rows.rows(sql, (scope, limit)) for scope in seen.numbers for sql in _SALIENT_QUERIES
    )
    found: list[Row] = []
    # Each kind is read only as far as it is needed, with all that are equal to the last.
    for row in merge(*by_kind, key=_by_salience):
        if len(found) >= limit and _by_salience(row) != _by_salience(found[-1]):
            break
        found.append(row)
    whole = list(map(_artefact, found))
    whole.sort(key=lambda one: (-one.salience, -one.at, one.sources, one.text))
    return whole[:limit]


def _by_salience(row: Row) -> tuple[int, int]:
    _, _, at, _, salience, *_ = row
    return -salience, -at


def list_timeline(rows: Connection, seen: VisibleScopes, limit: int) -> list[Artefact]:
    """Return the lines of the newest stretches, the newest first."""
    sql = (
        f"SELECT {_ARTEFACT_COLUMNS}, stretch_at, stretch_id FROM artefacts "  # noqa: S608
        "WHERE scope = ? AND kind = ? ORDER BY stretch_at DESC, stretch_id DESC LIMIT ?"
    )
    found = [
        row
        for scope in seen.numbers
        for row in rows.rows(sql, (scope, ArtefactKind.TIMELINE, limit))
    ]
    found.sort(key=itemgetter(-2, -1), reverse=True)
    return [_artefact(row[:-2]) for row in found[:limit]]


def list_derived_artefacts(rows: Connection, seen: VisibleScopes, key: int) -> list[Artefact]:
    """Return what was derived from the stretch that a turn is in, without its summary."""
    scopes = make_scope_condition(seen)
    sql = (
        f"SELECT {_ARTEFACT_COLUMNS} FROM artefacts WHERE (scope, stretch_at, "  # noqa: S608
        "stretch_id) = (SELECT s.scope, s.at, s.id FROM episodes e CROSS JOIN stretches s "
        f"WHERE e.key = ? AND e.scope {scopes.sql} AND s.scope = e.scope "
        "AND (s.at, s.id) <= (e.at, e.id) ORDER BY s.at DESC, s.id DESC LIMIT 1) "
        "AND kind <> 'episode_summary' ORDER BY position"
    )
    return list(map(_artefact, rows.rows(sql, (key, *scopes.parameters))))


def _artefact(row: Row) -> Artefact:
    kind, text, at, sources, salience, valence, arousal, feeling, origins = row
    affect = None if feeling is None else Affect(valence, arousal, feeling)
    repeated = tuple(origins.split("\n")) if origins else ()
    return Artefact(_KINDS[kind], text, at, tuple(sources.split("\n")), salience, affect, repeated)


# What search reads.

# As `Turn._make`, in a third of the time: a question reads a hundred.
_turn: Final[Callable[[Iterable[Any]], SearchTurn]] = partial(
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
    SearchTurn,
)


def list_searchable(rows: Connection, seen: VisibleScopes) -> list[SearchTurn]:
    """Return what ranking needs of all visible episodes, in their order."""
    scopes = make_scope_condition(seen)
    sql = (
        f"SELECT {_SEARCH_COLUMNS} FROM episodes WHERE scope {scopes.sql} "  # noqa: S608
        "AND state = 0 ORDER BY at, id"
    )
    return list(map(_turn, rows.rows(sql, scopes.parameters)))


def get_searchable(rows: Connection, seen: VisibleScopes, keys: Sequence[int]) -> list[SearchTurn]:
    """Return what ranking needs of those episodes that are there, visible and searchable."""
    scopes = make_scope_condition(seen)
    found: list[SearchTurn] = []
    for some in in_parts(keys):
        sql = (
            # The sign keeps the planner from walking over all of the scope's episodes.
            f"SELECT {_SEARCH_COLUMNS} FROM episodes WHERE +scope {scopes.sql} "  # noqa: S608
            f"AND +state = 0 AND key IN ({make_placeholders(some)})"
        )
        found += map(_turn, rows.rows(sql, (*scopes.parameters, *some)))
    return found


def get_neighbours(
    rows: Connection, seen: VisibleScopes, turns: Sequence[SearchTurn], first: int
) -> list[list[SearchTurn]]:
    """Return runs of turns that follow each other: those given, and two beside the first ones.

    A turn's neighbours are of its own scope.
    """
    known = {one.key: one for one in turns}
    beside = {one.key: [one] for one in turns[:first]}
    if beside:
        scopes = make_scope_condition(seen)
        sql = _two_beside(len(beside), scopes.sql)
        for *row, middle in rows.rows(sql, (*beside, *scopes.parameters)):
            turn = _turn(row)
            known[turn.key] = turn
            beside[middle].append(turn)
    behind: dict[int, int] = {}
    for run in beside.values():
        run.sort(key=itemgetter(1, 2))  # when, and the id
        behind.update((before.key, after.key) for before, after in pairwise(run))
    return _runs(known, behind)


@cache
def _two_beside(turns: int, scopes: str) -> str:
    """Return the statement for two turns before and two behind each of some turns.

    It is one for all of them, because most of the time goes into beginning one.
    """
    keys = ", ".join("?" * turns)
    columns = ", ".join(f"e.{name}" for name in _SEARCH_COLUMNS.split(", "))
    two = (
        f"SELECT {columns}, middle.key FROM middle CROSS JOIN episodes e ON e.key IN ("  # noqa: S608
        "SELECT key FROM episodes WHERE scope = middle.scope AND state = 0 "
        "AND (at, id) {side} (middle.at, middle.id) ORDER BY at {way}, id {way} LIMIT 2)"
    )
    before, behind = two.format(side="<", way="DESC"), two.format(side=">", way="ASC")
    return (
        f"WITH middle AS MATERIALIZED (SELECT key, scope, at, id FROM episodes "  # noqa: S608
        f"WHERE key IN ({keys}) AND +scope {scopes}) {before} UNION ALL {behind}"
    )


def _runs(known: Mapping[int, SearchTurn], behind: Mapping[int, int]) -> list[list[SearchTurn]]:
    """Put turns into runs, by what comes behind each."""
    runs: list[list[SearchTurn]] = []
    for first in known.keys() - {*behind.values()}:
        run, key = [known[first]], first
        while (following := behind.get(key)) is not None:
            run.append(known[following])
            key = following
        runs.append(run)
    return sorted(runs, key=lambda run: run[0][1:3])  # when, and the id


def list_unindexed_keys(rows: Connection, scope: ScopeNumber) -> tuple[list[int], list[int]]:
    """Return the keys that the text index has to look at: new ones, and those it may know."""
    new: list[int] = []
    changed: list[int] = []
    for key, known in rows.rows("SELECT key, known FROM unindexed WHERE scope = ?", (scope,)):
        (changed if known else new).append(key)
    return new, changed


def get_episodes(rows: Connection, seen: VisibleScopes, keys: Sequence[int]) -> list[Episode]:
    """Return visible episodes in the order in which their keys are given."""
    scopes = make_scope_condition(seen)
    sql = (
        f"SELECT {_EPISODE_COLUMNS}, key FROM episodes WHERE +scope {scopes.sql} "  # noqa: S608
        f"AND key IN ({make_placeholders(keys)})"
    )
    found = {row[-1]: _episode(row) for row in rows.rows(sql, (*scopes.parameters, *keys))}
    return [found[key] for key in keys if key in found]


def list_newest(rows: Connection, seen: VisibleScopes, limit: int) -> list[Episode]:
    """Return the newest visible episodes that are searchable, newest first."""
    sql = (
        f"SELECT {_EPISODE_COLUMNS} FROM episodes WHERE scope = ? AND state = 0 "  # noqa: S608
        "ORDER BY at DESC, id DESC LIMIT ?"
    )
    found = [_episode(row) for scope in seen.numbers for row in rows.rows(sql, (scope, limit))]
    found.sort(key=lambda turn: (turn.at, turn.id), reverse=True)
    return found[:limit]


class NoiseSummary(msgspec.Struct, frozen=True):
    """Turns that were folded: how many, and from when to when."""

    turns: int
    first: int
    last: int


def get_noise_summary(rows: Connection, seen: VisibleScopes) -> NoiseSummary | None:
    """Return what is known of the visible turns that were folded; None when there are none."""
    sql = (
        "SELECT (SELECT MIN(at) FROM episodes WHERE scope = ? AND state = 1), "
        "(SELECT MAX(at) FROM episodes WHERE scope = ? AND state = 1)"
    )
    noisy = [scope.number for scope in seen.scopes if scope.noise]
    ends = [row for scope in noisy for row in rows.rows(sql, (scope, scope))]
    if not ends:
        return None
    return NoiseSummary(seen.noise, min(row[0] for row in ends), max(row[1] for row in ends))


# Work that is still to be done.


def find_scope_to_derive(rows: Connection) -> list[ScopeNumber]:
    """Return a scope for which something is to be derived, if there is any."""
    return [scope for (scope,) in rows.rows("SELECT scope FROM underived LIMIT 1")]


def pop_underived(rows: Connection, scope: ScopeNumber, limit: int) -> list[EpisodeKey]:
    """Take changed turns off the list, in their order."""
    sql = "SELECT at, id FROM underived WHERE scope = ? ORDER BY at, id LIMIT ?"
    keys: list[EpisodeKey] = [(at, entry_id) for at, entry_id in rows.rows(sql, (scope, limit))]
    sql = "DELETE FROM underived WHERE scope = ? AND at = ? AND id = ?"
    rows.run_many(sql, [(scope, *key) for key in keys])
    return keys


class UnindexedEpisode(msgspec.Struct, frozen=True):
    """An episode that the text index has to look at, with its terms as they are written down."""

    key: int
    scope: ScopeNumber
    is_searchable: bool
    asked: str
    told: str

    def terms(self, mark: str, max_count: int) -> list[str] | None:
        """Return its terms as the index takes them; None when it is to be left out."""
        if not self.is_searchable:
            return None
        return repeat_terms(self.asked, mark, max_count) + repeat_terms(self.told, mark, max_count)


def get_last_unindexed_key(rows: Connection) -> int:
    """Return the last key that the text index has to look at, of any agent; 0 for none."""
    ((key,),) = rows.rows("SELECT COALESCE(MAX(key), 0) FROM unindexed")
    return int(key)


def list_unindexed(
    rows: Connection, until: int, limit: int, most_bytes: int
) -> list[UnindexedEpisode]:
    """Return what the text index has to look at, of any agent, up to a key."""
    sql = (
        "SELECT u.key, u.scope, e.state, e.asked, e.told FROM unindexed u "
        "LEFT JOIN episodes e ON e.key = u.key AND e.scope = u.scope "
        "WHERE u.key <= ? ORDER BY u.key LIMIT ?"
    )
    found: list[UnindexedEpisode] = []
    size = 0
    for key, scope, state, asked, told in rows.rows(sql, (until, limit)):
        is_searchable = state == EpisodeState.SEARCHABLE
        found.append(UnindexedEpisode(key, scope, is_searchable, asked or "", told or ""))
        size += len(found[-1].asked) + len(found[-1].told)
        if size >= most_bytes:
            break
    return found


def mark_indexed(rows: Connection, seen: Sequence[UnindexedEpisode]) -> None:
    """Take off the list what the text index has looked at, unless it changed meanwhile."""
    for some in in_parts([one.key for one in seen if one.is_searchable]):
        rows.run(_DELETE_INDEXED.format(has="EXISTS", keys=make_placeholders(some)), some)
    for some in in_parts([one.key for one in seen if not one.is_searchable]):
        rows.run(_DELETE_INDEXED.format(has="NOT EXISTS", keys=make_placeholders(some)), some)


class EpisodeTotals(msgspec.Struct, frozen=True):
    """How much there is, of all agents, and how much of it is still to be worked on."""

    agents: int
    episodes: int
    underived: int
    unindexed: int


def count_totals(rows: Connection) -> EpisodeTotals:
    """Count what there is."""
    sql = (
        "SELECT (SELECT COUNT(DISTINCT agent) FROM scopes WHERE episodes > 0), "
        "(SELECT COALESCE(SUM(episodes), 0) FROM scopes), "
        "(SELECT COUNT(*) FROM underived), (SELECT COUNT(*) FROM unindexed)"
    )
    ((agents, episodes, underived, waiting),) = rows.rows(sql)
    return EpisodeTotals(agents, episodes, underived, waiting)


def mark_all_unindexed(rows: Connection) -> None:
    """Let the text index look at every episode of every agent, since it is new."""
    rows.run("DELETE FROM unindexed")
    rows.run("INSERT INTO unindexed SELECT key, scope, 0 FROM episodes WHERE state = 0")


# Vectors.


@dataclass(frozen=True, slots=True)
class UnembeddedEpisode:
    """An episode that has no vector of a model."""

    key: int
    scope: ScopeNumber
    question: str
    answer: str


def list_unembedded(
    rows: Connection, model: str, behind: int, limit: int
) -> list[UnembeddedEpisode]:
    """Return searchable episodes behind a key that have no vector of a model, of any agent."""
    sql = (
        "SELECT e.key, e.scope, e.question, e.answer FROM episodes e LEFT JOIN vectors v "
        "ON v.key = e.key AND v.scope = e.scope AND v.model = ? "
        "WHERE e.key > ? AND e.state = 0 AND v.key IS NULL ORDER BY e.key LIMIT ?"
    )
    return [
        UnembeddedEpisode(key, scope, question, answer)
        for key, scope, question, answer in rows.rows(sql, (model, behind, limit))
    ]


def count_unembedded(rows: Connection, model: str) -> int:
    """Count the searchable episodes of any agent that have no vector of a model."""
    sql = (
        "SELECT (SELECT COALESCE(SUM(episodes), 0) FROM scopes) - (SELECT COUNT(*) FROM vectors v "
        "JOIN episodes e ON e.key = v.key AND e.scope = v.scope "
        "WHERE v.model = ? AND e.state = 0)"
    )
    ((left,),) = rows.rows(sql, (model,))
    return int(left)


def insert_vectors(
    rows: Connection, model: str, made: Iterable[tuple[UnembeddedEpisode, bytes]]
) -> None:
    """Keep vectors of episodes that are still there; a rebuild may have numbered them anew."""
    new = list(made)
    rows.run_many(
        "DELETE FROM vectors WHERE key = ? AND scope = ?", [(one.key, one.scope) for one, _ in new]
    )
    sql = (
        "INSERT INTO vectors (key, scope, model, vector) SELECT key, scope, ?, ? FROM episodes "
        "WHERE key = ? AND scope = ? AND question = ? AND answer = ?"
    )
    rows.run_many(
        sql,
        [(model, vector, one.key, one.scope, one.question, one.answer) for one, vector in new],
    )


class AddedVector(NamedTuple):
    """A vector of an episode; of two, the one that was added later has the larger number."""

    added: int
    key: int
    vector: bytes


def list_vectors(
    rows: Connection, scope: ScopeNumber, model: str, after: int
) -> list[AddedVector]:
    """Return a scope's vectors of a model that were added after one, in their order."""
    sql = (
        "SELECT added, key, vector FROM vectors "
        "WHERE scope = ? AND added > ? AND model = ? ORDER BY added"
    )
    return [AddedVector(*row) for row in rows.rows(sql, (scope, after, model))]


# How far the ledgers were read, and other notes.


def get_cursor(rows: Connection, ledger: str, agent: str) -> str:
    """Return how far an agent's ledger was read; empty is not at all."""
    sql = "SELECT cursor FROM followed WHERE ledger = ? AND agent = ?"
    return next((cursor for (cursor,) in rows.rows(sql, (ledger, agent))), "")


def set_cursor(rows: Connection, ledger: str, agent: str, cursor: str) -> None:
    """Note how far an agent's ledger was read."""
    sql = (
        "INSERT INTO followed VALUES (?, ?, ?) "
        "ON CONFLICT (ledger, agent) DO UPDATE SET cursor = excluded.cursor"
    )
    rows.run(sql, (ledger, agent, cursor))


def list_cursors(rows: Connection) -> list[Row]:
    """Return how far each ledger was read."""
    return list(rows.rows("SELECT ledger, agent, cursor FROM followed ORDER BY ledger, agent"))


def mark_underived(rows: Connection, scope: ScopeNumber, key: EpisodeKey) -> None:
    """Let deriving go on at a turn, another time."""
    sql = "INSERT INTO underived VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    rows.run(sql, (scope, *key))


def get_note(rows: Connection, name: str) -> str:
    """Return a note; empty when there is none."""
    found = rows.rows("SELECT value FROM notes WHERE name = ?", (name,))
    return next((value for (value,) in found), "")


def set_note(rows: Connection, name: str, value: str) -> None:
    """Keep a note."""
    sql = "INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    rows.run(sql, (name, value))
