"""Looking everywhere for what was forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from memplane.ledger.purging import erased_ids
from memplane.ledger.reader import open_entry
from memplane.ledger.tombstones import read_tombstones
from memplane.memory import rows as table
from memplane.memory.contract import Checked
from memplane.memory.episode import Episode, episode_of
from memplane.memory.following import OWN, RECEIVED, Places
from memplane.memory.retaining import decoded
from memplane.memory.rows import Outcome
from memplane.records.store import Connection

_TELLING: Final = 24
_LONGEST: Final = 120
_ROWS_THAT_NAME_IT: Final[Mapping[str, str]] = {
    "episodes": "SELECT COUNT(*) FROM episodes WHERE agent = ? AND id = ?",
    "markers": "SELECT COUNT(*) FROM markers WHERE agent = ? AND entry = ?",
    "artefacts": (
        "SELECT COUNT(*) FROM artefacts "
        "WHERE agent = ? AND instr(char(10) || sources || char(10), char(10) || ? || char(10))"
    ),
    "injections": (
        "SELECT COUNT(*) FROM injected_from i JOIN agents a ON a.agent = i.agent WHERE "
        "a.number = ? AND instr(char(10) || i.entries || char(10), "
        "char(10) || substr(?, -16) || char(10))"
    ),
    "said": (
        "SELECT COUNT(*) FROM said s JOIN agents a ON a.agent = s.agent "
        "WHERE a.number = ? AND s.entry = ?"
    ),
}


class Before(msgspec.Struct, frozen=True):
    """What ledgers said of entries before these were forgotten.

    Of those that were `erased` earlier nobody knows the words any more.
    """

    tellings: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()

    def judged(self, checked: Checked) -> Checked:
        """Say of a place without the words whether that means anything (pure)."""
        if not checked.clean or not self.erased:
            return checked
        note = f"the words of {', '.join(self.erased)} were erased before: nothing to look for"
        return msgspec.structs.replace(checked, clean=False, unsure=True, note=note)


def looked_at(places: Places, agent: str, ids: Sequence[str]) -> Before:
    """Read what the ledgers still have of some entries."""
    read = {one: list(_recorded(places, agent, one)) for one in ids}
    gone = [one for one, episodes in read.items() if not episodes]
    folders = [places.folder(ledger, agent) for ledger in (OWN, RECEIVED)] if gone else []
    erased = frozenset[str]().union(*map(erased_ids, folders))
    said = tellings(episode for episodes in read.values() for episode in episodes)
    return Before(tuple(said), tuple(one for one in gone if one in erased))


def _recorded(places: Places, agent: str, entry_id: str) -> Iterator[Episode]:
    for ledger in (OWN, RECEIVED):
        with open_entry(places.folder(ledger, agent), entry_id) as page:
            for found, line in page.identified():
                members = decoded(line) if found == entry_id else None
                if members is not None:
                    yield episode_of(members)


def check_tombstones(places: Places, agent: str, ids: Sequence[str]) -> Checked:
    """Check that each entry has its tombstone, which every replay looks at."""
    told = read_tombstones(places.tombstones, agent)
    missing = [one for one in ids if one not in told]
    note = f"no tombstone for {', '.join(missing)}" if missing else ""
    return Checked(place="tombstones", clean=not missing, note=note)


def check_rows(rows: Connection, agent: str, ids: Sequence[str]) -> list[Checked]:
    """Check that no row names an entry, and that none would be taken in again."""
    known = table.about(rows, agent)
    if known is None:
        return [Checked(place="database", clean=False, note="the agent is unknown to it")]
    checked: list[Checked] = []
    for name, sql in _ROWS_THAT_NAME_IT.items():
        named = sum(count for one in ids for (count,) in rows.rows(sql, (known.number, one)))
        note = f"{named} rows name it" if named else ""
        checked.append(Checked(place=f"database: {name}", clean=not named, note=note))
    alive = [one for one in ids if table.outcome_of(rows, known.number, one) != Outcome.FORGOTTEN]
    note = f"{', '.join(alive)} would be taken in again" if alive else ""
    return [*checked, Checked(place="replay and rebuild", clean=not alive, note=note)]


def tellings(episodes: Iterable[Episode]) -> list[str]:
    """Return parts of what was said that are long enough to be nobody else's words."""
    lines = (
        line
        for one in episodes
        for text in (one.question, one.answer)
        for line in text.splitlines()
    )
    return [line.strip()[:_LONGEST] for line in lines if len(line.strip()) >= _TELLING]


def told_elsewhere(rows: Connection, agent: str, telling: str, ids: Collection[str]) -> bool:
    """Say whether a turn that was not forgotten has the same words."""
    known = table.about(rows, agent)
    sql = (
        "SELECT id FROM episodes WHERE agent = ? AND (instr(question, ?) OR instr(answer, ?)) "
        "LIMIT ?"
    )
    number = known.number if known else -1
    found = rows.rows(sql, (number, telling, telling, len(ids) + 1))
    return any(entry_id not in ids for (entry_id,) in found)
