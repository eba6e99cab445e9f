"""The rows of memory: episodes, what is derived from them, and work that is still to be done.

Every statement names the agent that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, partial
from heapq import merge
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from memplane.memory.artefacts import Affect, Artefact, Kind
from memplane.memory.episode import Episode
from memplane.records.store import Connection, Row, Value
from memplane.retrieval.turns import Spoken, Turn, repeated

_T = TypeVar("_T")

_AT_ONCE: Final = 100
_EPISODE: Final = "id, at, question, answer, calls"
_ARTEFACT: Final = "kind, text, at, sources, salience, valence, arousal, feeling"

_SEARCHABLE: Final = "key, at, id, length, speaker, signs, asked, told"
_VALUES: Final = f"({', '.join('?' * 12)})"
_KINDS: Final = {kind.value: kind for kind in Kind}
WEIGHTY_KINDS: Final = (Kind.AFFECT, Kind.DECISION, Kind.COMMITMENT, Kind.FACT)
# One statement for each kind; the index on them has the same words.
_WEIGHTY: Final = tuple(
    f"SELECT {_ARTEFACT} FROM artefacts WHERE agent = ? AND kind = '{kind}' "  # noqa: S608
    "AND salience >= 60 ORDER BY salience DESC, at DESC, stretch_id, position LIMIT ?"
    for kind in WEIGHTY_KINDS
)
_INDEXED: Final = (
    "DELETE FROM unindexed WHERE key IN ({keys}) AND {has} (SELECT 1 FROM episodes e "
    "WHERE e.key = unindexed.key AND e.agent = unindexed.agent AND e.state = 0)"
)

GENERATION: Final = "generation of the text index"
"""The note that says which index is these rows'; where rows are numbered anew it is another."""

TABLES: Final = (
    *("agents", "episodes", "markers", "tombstones", "stretches", "artefacts"),
    *("underived", "unindexed", "followed", "notes"),
)

Key: TypeAlias = tuple[int, str]
"""The place of a turn among its agent's: when it was, and its id."""


class State(IntEnum):
    """What becomes of an episode."""

    SEARCHABLE = 0
    NOISE = 1
    SILENT = 2
    """It failed, or nobody said anything: known, so that it is not taken in again."""


class Outcome(IntEnum):
    """What became of an entry that was given."""

    RETAINED = 0
    KNOWN = 1
    FORGOTTEN = 2


class Stored(msgspec.Struct, frozen=True):
    """An episode with what search needs of it."""

    episode: Episode
    state: State
    spoken: Spoken


class About(msgspec.Struct, frozen=True):
    """What is known of an agent: its number, its searchable episodes, the terms in them, noise."""

    number: int
    episodes: int
    terms: int
    noise: int


class Stretch(msgspec.Struct, frozen=True):
    """Where a group of turns begins and ends."""

    first: Key
    last: Key
    turns: int


def about(rows: Connection, agent: str) -> About | None:
    """Return what is known of an agent; None when nothing is."""
    sql = "SELECT number, episodes, terms, noise FROM agents WHERE agent = ?"
    found = next(rows.rows(sql, (agent,)), None)
    return None if found is None else About(*found)


def number_of(rows: Connection, agent: str) -> int:
    """Return an agent's number; one that is new is given the next."""
    known = about(rows, agent)
    if known is not None:
        return known.number
    rows.run("INSERT INTO agents (agent) VALUES (?)", (agent,))
    return number_of(rows, agent)


def numbers_of(rows: Connection, agents: Collection[str]) -> dict[str, int]:
    """Return the numbers of those agents that are known."""
    found: dict[str, int] = {}
    for some in _in_parts(list(agents)):
        sql = f"SELECT agent, number FROM agents WHERE agent IN ({_marks(some)})"  # noqa: S608
        found.update(rows.rows(sql, some))
    return found


def outcome_of(rows: Connection, number: int | None, entry_id: str) -> Outcome:
    """Say what would become of an entry with that id."""
    return outcomes_of(rows, number, [entry_id]).get(entry_id, Outcome.RETAINED)


def outcomes_of(rows: Connection, number: int | None, ids: Sequence[str]) -> dict[str, Outcome]:
    """Say of which entries something else would become than that they are retained."""
    found: dict[str, Outcome] = {}
    if number is None:
        return found
    for some in _in_parts(ids):
        sql = (
            f"SELECT id, 1 FROM episodes WHERE agent = ? AND id IN ({_marks(some)}) "  # noqa: S608
            f"UNION ALL SELECT id, 2 FROM tombstones WHERE agent = ? AND id IN ({_marks(some)})"
        )
        known = rows.rows(sql, (number, *some, number, *some))
        found.update((entry_id, Outcome(outcome)) for entry_id, outcome in known)
    return found


def take_in(rows: Connection, given: Sequence[tuple[str, Stored]]) -> list[Outcome]:
    """Take in agents' episodes that are neither known nor forgotten; says what became of each.

    They are written together: each statement hands the interpreter's lock to and fro.
    """
    by_agent: dict[str, list[Stored]] = {}
    for agent, one in given:
        by_agent.setdefault(agent, []).append(one)
    numbers = numbers_of(rows, by_agent)
    numbers.update((agent, number_of(rows, agent)) for agent in by_agent.keys() - numbers.keys())
    known = {
        (agent, entry_id): outcome
        for agent, ours in by_agent.items()
        for entry_id, outcome in outcomes_of(
            rows, numbers[agent], [one.episode.id for one in ours]
        ).items()
    }
    outcomes: list[Outcome] = []
    new: list[tuple[int, Stored]] = []
    for agent, one in given:
        outcomes.append(known.get((agent, one.episode.id), Outcome.RETAINED))
        if outcomes[-1] is Outcome.RETAINED:
            known[agent, one.episode.id] = Outcome.KNOWN
            new.append((numbers[agent], one))
    if new:
        _insert(rows, new)
    return outcomes


def _insert(rows: Connection, new: Sequence[tuple[int, Stored]]) -> None:
    ((before,),) = rows.rows("SELECT COALESCE(MAX(key), 0) FROM episodes")
    for some in _in_parts(new):
        sql = (
            "INSERT INTO episodes (agent, id, at, state, question, answer, calls, length, "  # noqa: S608
            f"speaker, signs, asked, told) VALUES {', '.join([_VALUES] * len(some))}"
        )
        rows.run(sql, [value for number, one in some for value in _values(number, one)])
    rows.run(
        "INSERT INTO unindexed SELECT key, agent, 0 FROM episodes WHERE key > ? AND state = 0",
        (before,),
    )
    rows.run(
        "INSERT INTO underived SELECT agent, at, id FROM episodes WHERE key > ? AND state = 0 "
        "ON CONFLICT DO NOTHING",
        (before,),
    )
    for number in {number for number, _ in new}:
        lengths = [
            one.spoken.length
            for owner, one in new
            if owner == number and one.state is State.SEARCHABLE
        ]
        _count(rows, number, len(lengths), sum(lengths))
    markers = [
        (number, one.episode.id, position, marker.category, marker.service, marker.text)
        for number, one in new
        for position, marker in enumerate(one.episode.markers)
    ]
    if markers:
        rows.run_each("INSERT INTO markers VALUES (?, ?, ?, ?, ?, ?)", markers)


def _values(number: int, one: Stored) -> tuple[Value, ...]:
    said, spoken = one.episode, one.spoken
    return (
        *(number, said.id, said.at, one.state, said.question, said.answer),
        *("\n".join(said.calls), spoken.length, spoken.speaker, spoken.signs),
        *(spoken.asked, spoken.told),
    )


def _in_parts(many: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (many[first : first + _AT_ONCE] for first in range(0, len(many), _AT_ONCE))


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _count(rows: Connection, number: int, episodes: int, terms: int) -> None:
    sql = "UPDATE agents SET episodes = episodes + ?, terms = terms + ? WHERE number = ?"
    rows.run(sql, (episodes, terms, number))


def _count_noise(rows: Connection, number: int, turns: int) -> None:
    rows.run("UPDATE agents SET noise = noise + ? WHERE number = ?", (turns, number))


def bury(rows: Connection, agent: str, ids: Collection[str]) -> int:
    """Forget entries, known or not, and what was derived from them; returns how many were known.

    What else was derived with them is made anew from the others; until then it is not there.
    """
    number = number_of(rows, agent)
    buried = 0
    for entry_id in ids:
        rows.run("INSERT INTO tombstones VALUES (?, ?) ON CONFLICT DO NOTHING", (number, entry_id))
        sql = (
            "DELETE FROM episodes WHERE agent = ? AND id = ? RETURNING key, at, id, state, length"
        )
        for key, at, _, state, length in list(rows.rows(sql, (number, entry_id))):
            buried += 1
            rows.run("DELETE FROM markers WHERE agent = ? AND entry = ?", (number, entry_id))
            if state == State.SEARCHABLE:
                _count(rows, number, -1, -length)
                _drop_artefacts(rows, number, (at, entry_id))
            elif state == State.NOISE:
                _count_noise(rows, number, -1)
            _to_index(rows, number, key)
            if state != State.SILENT:
                sql = "INSERT INTO underived VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
                rows.run(sql, (number, at, entry_id))
    return buried


def buried(rows: Connection) -> dict[str, list[str]]:
    """Return what was forgotten, for each agent."""
    sql = (
        "SELECT a.agent, t.id FROM tombstones t JOIN agents a ON a.number = t.agent ORDER BY 1, 2"
    )
    found: dict[str, list[str]] = {}
    for agent, entry_id in rows.rows(sql):
        found.setdefault(agent, []).append(entry_id)
    return found


def _drop_artefacts(rows: Connection, number: int, key: Key) -> None:
    """Let go of what was derived from the stretch that a turn is in."""
    stretch = stretch_at(rows, number, key)
    if stretch is not None:
        drop_artefacts(rows, number, stretch)


def _to_index(rows: Connection, number: int, key: int) -> None:
    """Let the text index look at an episode again, which it may have."""
    sql = "INSERT INTO unindexed VALUES (?, ?, 1) ON CONFLICT (key) DO UPDATE SET known = 1"
    rows.run(sql, (key, number))


def change_state(rows: Connection, number: int, entry_id: str, state: State) -> None:
    """Let an episode be searched from now on, or not any more."""
    sql = "UPDATE episodes SET state = ? WHERE agent = ? AND id = ? RETURNING key, length"
    for key, length in list(rows.rows(sql, (state, number, entry_id))):
        sign = 1 if state is State.SEARCHABLE else -1
        _count(rows, number, sign, sign * length)
        _count_noise(rows, number, -sign)
        _to_index(rows, number, key)


# Reading turns in their order.


def turns_before(rows: Connection, number: int, key: Key, limit: int) -> list[Episode]:
    """Return the turns before one, noise among them, in their order."""
    sql = (
        f"SELECT {_EPISODE} FROM episodes WHERE agent = ? AND state < 2 AND (at, id) < (?, ?) "  # noqa: S608
        "ORDER BY at DESC, id DESC LIMIT ?"
    )
    return [_episode(row) for row in rows.rows(sql, (number, *key, limit))][::-1]


def turns_from(rows: Connection, number: int, key: Key, limit: int) -> list[tuple[Episode, State]]:
    """Return turns from a place on, noise among them, in their order."""
    sql = (
        f"SELECT {_EPISODE}, state FROM episodes WHERE agent = ? AND state < 2 "  # noqa: S608
        "AND (at, id) >= (?, ?) ORDER BY at, id LIMIT ?"
    )
    found = rows.rows(sql, (number, *key, limit))
    return [(_episode(row), State(row[-1])) for row in found]


def searchable_from(rows: Connection, number: int, key: Key) -> Iterator[Episode]:
    """Yield the searchable turns from a place on, in their order."""
    sql = (
        f"SELECT {_EPISODE} FROM episodes WHERE agent = ? AND state = 0 AND (at, id) >= (?, ?) "  # noqa: S608
        "ORDER BY at, id LIMIT 64"
    )
    while page := [_episode(row) for row in rows.rows(sql, (number, *key))]:
        yield from page
        key = page[-1].at, page[-1].id + "\0"


def _episode(row: Row) -> Episode:
    entry_id, at, question, answer, calls = row[:5]
    return Episode(entry_id, at, question, answer, tuple(calls.split("\n")) if calls else ())


# Stretches and what is derived from them.


def stretch_at(rows: Connection, number: int, key: Key) -> Stretch | None:
    """Return the last stretch that begins at a place or before it."""
    sql = (
        "SELECT at, id, last_at, last_id, turns FROM stretches WHERE agent = ? "
        "AND (at, id) <= (?, ?) ORDER BY at DESC, id DESC LIMIT 1"
    )
    return next((_stretch(row) for row in rows.rows(sql, (number, *key))), None)


def begins_stretch(rows: Connection, number: int, key: Key) -> bool:
    """Say whether a stretch begins right there."""
    sql = "SELECT 1 FROM stretches WHERE agent = ? AND at = ? AND id = ?"
    return next(rows.rows(sql, (number, *key)), None) is not None


def _stretch(row: Row) -> Stretch:
    at, entry_id, last_at, last_id, turns = row
    return Stretch((at, entry_id), (last_at, last_id), turns)


def drop_stretches(rows: Connection, number: int, begin: Key, end: Key) -> None:
    """Let go of the stretches that begin between two places, and of what they yielded."""
    sql = "DELETE FROM stretches WHERE agent = ? AND (at, id) >= (?, ?) AND (at, id) < (?, ?)"
    rows.run(sql, (number, *begin, *end))
    sql = (
        "DELETE FROM artefacts WHERE agent = ? AND (stretch_at, stretch_id) >= (?, ?) "
        "AND (stretch_at, stretch_id) < (?, ?)"
    )
    rows.run(sql, (number, *begin, *end))


def drop_artefacts(rows: Connection, number: int, stretch: Stretch) -> None:
    """Let go of what was derived from a stretch."""
    sql = "DELETE FROM artefacts WHERE agent = ? AND stretch_at = ? AND stretch_id = ?"
    rows.run(sql, (number, *stretch.first))


def keep_stretch(
    rows: Connection, number: int, turns: Sequence[Episode], derived: Iterable[Artefact]
) -> None:
    """Keep a stretch, and what is derived from it."""
    first, last = turns[0], turns[-1]
    rows.run(
        "INSERT INTO stretches VALUES (?, ?, ?, ?, ?, ?)",
        (number, first.at, first.id, last.at, last.id, len(turns)),
    )
    rows.run_each(
        "INSERT INTO artefacts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(number, first.at, first.id, position),
                *(one.kind, one.text, one.at, "\n".join(one.sources), one.salience),
                *((one.affect.valence, one.affect.arousal, one.affect.kind) if one.affect else ()),
                *(() if one.affect else (None, None, None)),
            )
            for position, one in enumerate(derived)
        ],
    )


def weighty(rows: Connection, number: int, limit: int) -> list[Artefact]:
    """Return what was said with weight, the most salient first, then the newest."""
    by_kind = (rows.rows(sql, (number, limit)) for sql in _WEIGHTY)
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


def timeline(rows: Connection, number: int, limit: int) -> list[Artefact]:
    """Return the lines of the newest stretches, the newest first."""
    sql = (
        f"SELECT {_ARTEFACT} FROM artefacts WHERE agent = ? AND kind = ? "  # noqa: S608
        "ORDER BY stretch_at DESC, stretch_id DESC LIMIT ?"
    )
    return list(map(_artefact, rows.rows(sql, (number, Kind.TIMELINE, limit))))


def derived_from(rows: Connection, number: int, key: Key) -> list[Artefact]:
    """Return what was derived from the stretch that a turn is in, without its summary."""
    sql = (
        f"SELECT {_ARTEFACT} FROM artefacts WHERE agent = ? AND (stretch_at, stretch_id) = "  # noqa: S608
        "(SELECT at, id FROM stretches WHERE agent = ? AND (at, id) <= (?, ?) "
        "ORDER BY at DESC, id DESC LIMIT 1) AND kind <> 'episode_summary' ORDER BY position"
    )
    return list(map(_artefact, rows.rows(sql, (number, number, *key))))


def _artefact(row: Row) -> Artefact:
    kind, text, at, sources, salience, valence, arousal, feeling = row
    affect = None if feeling is None else Affect(valence, arousal, feeling)
    return Artefact(_KINDS[kind], text, at, tuple(sources.split("\n")), salience, affect)


# What search reads.

# As `Turn._make`, in a third of the time: a question reads a hundred.
_turn: Final[Callable[[Iterable[Any]], Turn]] = partial(
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
    Turn,
)


def all_searchable(rows: Connection, number: int) -> list[Turn]:
    """Return what ranking needs of all of an agent's episodes, in their order."""
    sql = (
        f"SELECT {_SEARCHABLE} FROM episodes WHERE agent = ? AND state = 0 "  # noqa: S608
        "ORDER BY at, id"
    )
    return list(map(_turn, rows.rows(sql, (number,))))


def searchable_in(rows: Connection, number: int, keys: Sequence[int]) -> list[Turn]:
    """Return what ranking needs of those episodes that are there, and searchable."""
    found: list[Turn] = []
    for some in _in_parts(keys):
        sql = (
            # The sign keeps the planner from walking over all of the agent's episodes.
            f"SELECT {_SEARCHABLE} FROM episodes WHERE +agent = ? AND +state = 0 "  # noqa: S608
            f"AND key IN ({_marks(some)})"
        )
        found += map(_turn, rows.rows(sql, (number, *some)))
    return found


def around(rows: Connection, number: int, turns: Sequence[Turn], first: int) -> list[list[Turn]]:
    """Return runs of turns that follow each other: those given, and two beside the first ones."""
    known = {one.key: one for one in turns}
    beside = {one.id: [one] for one in turns[:first]}
    if beside:
        places = [value for one in turns[:first] for value in (one.at, one.id)]
        for *row, middle in rows.rows(_two_beside(len(beside)), (number, *places)):
            turn = _turn(row)
            known[turn.key] = turn
            beside[middle].append(turn)
    behind: dict[int, int] = {}
    for run in beside.values():
        run.sort(key=itemgetter(1, 2))  # when, and the id
        behind.update((before.key, after.key) for before, after in pairwise(run))
    return _runs(known, behind)


@cache
def _two_beside(places: int) -> str:
    """Return the statement for two turns before and two behind each place.

    It is one for all of them, because most of the time goes into beginning one.
    """
    each = ", ".join(f"(?{2 * place}, ?{2 * place + 1})" for place in range(1, places + 1))
    columns = ", ".join(f"e.{name}" for name in _SEARCHABLE.split(", "))
    two = (
        f"SELECT {columns}, middle.id FROM middle CROSS JOIN episodes e ON e.key IN ("  # noqa: S608
        "SELECT key FROM episodes WHERE agent = ?1 AND state = 0 "
        "AND (at, id) {side} (middle.at, middle.id) ORDER BY at {way}, id {way} LIMIT 2)"
    )
    before, behind = two.format(side="<", way="DESC"), two.format(side=">", way="ASC")
    return f"WITH middle (at, id) AS (VALUES {each}) {before} UNION ALL {behind}"


def _runs(known: Mapping[int, Turn], behind: Mapping[int, int]) -> list[list[Turn]]:
    """Put turns into runs, by what comes behind each."""
    runs: list[list[Turn]] = []
    for first in known.keys() - {*behind.values()}:
        run, key = [known[first]], first
        while (following := behind.get(key)) is not None:
            run.append(known[following])
            key = following
        runs.append(run)
    return sorted(runs, key=lambda run: run[0][1:3])  # when, and the id


def unindexed_of(rows: Connection, number: int) -> tuple[list[int], list[int]]:
    """Return the keys that the text index has to look at: new ones, and those it may know."""
    new: list[int] = []
    changed: list[int] = []
    for key, known in rows.rows("SELECT key, known FROM unindexed WHERE agent = ?", (number,)):
        (changed if known else new).append(key)
    return new, changed


def episodes_by_key(rows: Connection, number: int, keys: Sequence[int]) -> list[Episode]:
    """Return episodes in the order in which their keys are given."""
    sql = (
        f"SELECT {_EPISODE}, key FROM episodes WHERE +agent = ? "  # noqa: S608
        f"AND key IN ({_marks(keys)})"
    )
    found = {row[-1]: _episode(row) for row in rows.rows(sql, (number, *keys))}
    return [found[key] for key in keys if key in found]


def newest(rows: Connection, number: int, limit: int) -> list[Episode]:
    """Return the newest searchable episodes, newest first."""
    sql = (
        f"SELECT {_EPISODE} FROM episodes WHERE agent = ? AND state = 0 "  # noqa: S608
        "ORDER BY at DESC, id DESC LIMIT ?"
    )
    return [_episode(row) for row in rows.rows(sql, (number, limit))]


class Noise(msgspec.Struct, frozen=True):
    """Turns that were folded: how many, and from when to when."""

    turns: int
    first: int
    last: int


def noise_of(rows: Connection, known: About) -> Noise | None:
    """Return what is known of the turns of an agent that were folded; None when there are none."""
    if not known.noise:
        return None
    sql = (
        "SELECT (SELECT MIN(at) FROM episodes WHERE agent = ? AND state = 1), "
        "(SELECT MAX(at) FROM episodes WHERE agent = ? AND state = 1)"
    )
    ((first, last),) = rows.rows(sql, (known.number, known.number))
    return Noise(known.noise, first, last)


# Work that is still to be done.


def agents_to_derive(rows: Connection) -> list[int]:
    """Return the number of an agent for which something is to be derived, if there is any."""
    return [number for (number,) in rows.rows("SELECT agent FROM underived LIMIT 1")]


def take_underived(rows: Connection, number: int, limit: int) -> list[Key]:
    """Take changed turns off the list, in their order."""
    sql = "SELECT at, id FROM underived WHERE agent = ? ORDER BY at, id LIMIT ?"
    keys: list[Key] = [(at, entry_id) for at, entry_id in rows.rows(sql, (number, limit))]
    sql = "DELETE FROM underived WHERE agent = ? AND at = ? AND id = ?"
    rows.run_each(sql, [(number, *key) for key in keys])
    return keys


class Unindexed(msgspec.Struct, frozen=True):
    """An episode that the text index has to look at, with its terms as they are written down."""

    key: int
    agent: int
    is_searchable: bool
    asked: str
    told: str

    def terms(self, mark: str, most: int) -> list[str] | None:
        """Return its terms as the index takes them; None when it is to be left out."""
        if not self.is_searchable:
            return None
        return repeated(self.asked, mark, most) + repeated(self.told, mark, most)


def last_unindexed(rows: Connection) -> int:
    """Return the last key that the text index has to look at, of any agent; 0 for none."""
    ((key,),) = rows.rows("SELECT COALESCE(MAX(key), 0) FROM unindexed")
    return int(key)


def unindexed(rows: Connection, until: int, limit: int, most_bytes: int) -> list[Unindexed]:
    """Return what the text index has to look at, of any agent, up to a key."""
    sql = (
        "SELECT u.key, u.agent, e.state, e.asked, e.told FROM unindexed u "
        "LEFT JOIN episodes e ON e.key = u.key AND e.agent = u.agent "
        "WHERE u.key <= ? ORDER BY u.key LIMIT ?"
    )
    found: list[Unindexed] = []
    size = 0
    for key, agent, state, asked, told in rows.rows(sql, (until, limit)):
        is_searchable = state == State.SEARCHABLE
        found.append(Unindexed(key, agent, is_searchable, asked or "", told or ""))
        size += len(found[-1].asked) + len(found[-1].told)
        if size >= most_bytes:
            break
    return found


def mark_indexed(rows: Connection, seen: Sequence[Unindexed]) -> None:
    """Take off the list what the text index has looked at, unless it changed meanwhile."""
    for some in _in_parts([one.key for one in seen if one.is_searchable]):
        rows.run(_INDEXED.format(has="EXISTS", keys=_marks(some)), some)
    for some in _in_parts([one.key for one in seen if not one.is_searchable]):
        rows.run(_INDEXED.format(has="NOT EXISTS", keys=_marks(some)), some)


class Totals(msgspec.Struct, frozen=True):
    """How much there is, of all agents, and how much of it is still to be worked on."""

    agents: int
    episodes: int
    underived: int
    unindexed: int


def totals(rows: Connection) -> Totals:
    """Count what there is."""
    sql = (
        "SELECT (SELECT COUNT(*) FROM agents WHERE episodes > 0), "
        "(SELECT COALESCE(SUM(episodes), 0) FROM agents), "
        "(SELECT COUNT(*) FROM underived), (SELECT COUNT(*) FROM unindexed)"
    )
    ((agents, episodes, underived, waiting),) = rows.rows(sql)
    return Totals(agents, episodes, underived, waiting)


def everything_to_index(rows: Connection) -> None:
    """Let the text index look at every episode of every agent, since it is new."""
    rows.run("DELETE FROM unindexed")
    rows.run("INSERT INTO unindexed SELECT key, agent, 0 FROM episodes WHERE state = 0")


# Vectors.


@dataclass(frozen=True, slots=True)
class Unembedded:
    """An episode that has no vector of a model, and what the vector is to be of."""

    key: int
    agent: int
    text: str


def unembedded(rows: Connection, model: str, behind: int, limit: int) -> list[Unembedded]:
    """Return searchable episodes behind a key that have no vector of a model, of any agent."""
    sql = (
        "SELECT e.key, e.agent, e.question, e.answer FROM episodes e LEFT JOIN vectors v "
        "ON v.key = e.key AND v.agent = e.agent AND v.model = ? "
        "WHERE e.key > ? AND e.state = 0 AND v.key IS NULL ORDER BY e.key LIMIT ?"
    )
    return [
        Unembedded(key, agent, f"{question}\n{answer}")
        for key, agent, question, answer in rows.rows(sql, (model, behind, limit))
    ]


def count_unembedded(rows: Connection, model: str) -> int:
    """Count the searchable episodes of any agent that have no vector of a model."""
    sql = (
        "SELECT (SELECT COALESCE(SUM(episodes), 0) FROM agents) - (SELECT COUNT(*) FROM vectors v "
        "JOIN episodes e ON e.key = v.key AND e.agent = v.agent "
        "WHERE v.model = ? AND e.state = 0)"
    )
    ((left,),) = rows.rows(sql, (model,))
    return int(left)


def keep_vectors(rows: Connection, model: str, made: Iterable[tuple[Unembedded, bytes]]) -> None:
    """Keep vectors of episodes that are still there; a rebuild may have numbered them anew."""
    sql = (
        "INSERT INTO vectors SELECT key, agent, ?, ? FROM episodes WHERE key = ? AND agent = ? "
        "AND question || char(10) || answer = ? "
        "ON CONFLICT (key) DO UPDATE SET model = excluded.model, vector = excluded.vector"
    )
    rows.run_each(sql, [(model, vector, one.key, one.agent, one.text) for one, vector in made])


def vectors_of(rows: Connection, number: int, model: str, keys: Sequence[int]) -> dict[int, bytes]:
    """Return the vectors of those episodes that have one of a model."""
    found: dict[int, bytes] = {}
    for some in _in_parts(keys):
        sql = (
            "SELECT key, vector FROM vectors WHERE agent = ? AND model = ? "  # noqa: S608
            f"AND key IN ({_marks(some)})"
        )
        found.update(rows.rows(sql, (number, model, *some)))
    return found


# How far the ledgers were read, and other notes.


def cursor_of(rows: Connection, ledger: str, agent: str) -> str:
    """Return how far an agent's ledger was read; empty is not at all."""
    sql = "SELECT cursor FROM followed WHERE ledger = ? AND agent = ?"
    return next((cursor for (cursor,) in rows.rows(sql, (ledger, agent))), "")


def keep_cursor(rows: Connection, ledger: str, agent: str, cursor: str) -> None:
    """Note how far an agent's ledger was read."""
    sql = (
        "INSERT INTO followed VALUES (?, ?, ?) "
        "ON CONFLICT (ledger, agent) DO UPDATE SET cursor = excluded.cursor"
    )
    rows.run(sql, (ledger, agent, cursor))


def cursors(rows: Connection) -> list[Row]:
    """Return how far each ledger was read."""
    return list(rows.rows("SELECT ledger, agent, cursor FROM followed ORDER BY ledger, agent"))


def keep_underived(rows: Connection, number: int, key: Key) -> None:
    """Let deriving go on at a turn, another time."""
    sql = "INSERT INTO underived VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    rows.run(sql, (number, *key))


def note(rows: Connection, name: str) -> str:
    """Return a note; empty when there is none."""
    found = rows.rows("SELECT value FROM notes WHERE name = ?", (name,))
    return next((value for (value,) in found), "")


def keep_note(rows: Connection, name: str, value: str) -> None:
    """Keep a note."""
    sql = "INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    rows.run(sql, (name, value))
