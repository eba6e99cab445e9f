"""Looking everywhere for what was forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from memplane.database.interface import Connection
from memplane.episodes import store as table
from memplane.episodes.api_types import ForgetCheck
from memplane.episodes.entry_parser import decode_entry
from memplane.episodes.episode import Episode, build_episode
from memplane.episodes.ledger_follower import OWN_LEDGER, RECEIVED_LEDGER, MemorySources
from memplane.episodes.scope_store import get_agent_number
from memplane.episodes.store import RetainOutcome
from memplane.ledger.purge import list_erased_ids
from memplane.ledger.reader import open_entries_by_id
from memplane.ledger.tombstones import read_tombstones

_MIN_PHRASE_CHARS: Final = 24
_MAX_PHRASE_CHARS: Final = 120
_ROWS_THAT_NAME_IT: Final[Mapping[str, str]] = {
    "episodes": "SELECT COUNT(*) FROM episodes WHERE agent = ? AND id = ?",
    "markers": "SELECT COUNT(*) FROM markers WHERE agent = ? AND entry = ?",
    "artefacts": (
        "SELECT COUNT(*) FROM artefacts f JOIN scopes s ON s.number = f.scope WHERE s.agent = ? "
        "AND instr(char(10) || f.sources || char(10), char(10) || ? || char(10))"
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


class ForgottenTexts(msgspec.Struct, frozen=True):
    """What ledgers said of entries before these were forgotten.

    Of those that were `erased` earlier nobody knows the words any more.
    """

    tellings: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()

    def judged(self, checked: ForgetCheck) -> ForgetCheck:
        """Say of a place without the words whether that means anything (pure)."""
        if not checked.clean or not self.erased:
            return checked
        note = f"the words of {', '.join(self.erased)} were erased before: nothing to look for"
        return msgspec.structs.replace(checked, clean=False, unsure=True, note=note)


def collect_forgotten_texts(
    places: MemorySources, agent: str, ids: Sequence[str]
) -> ForgottenTexts:
    """Read what the ledgers still have of some entries."""
    read = _read_episodes(places, agent, ids)
    gone = [one for one, episodes in read.items() if not episodes]
    folders = (
        [places.folder(ledger, agent) for ledger in (OWN_LEDGER, RECEIVED_LEDGER)] if gone else []
    )
    erased = frozenset[str]().union(*map(list_erased_ids, folders))
    said = extract_unique_phrases(episode for episodes in read.values() for episode in episodes)
    return ForgottenTexts(tuple(said), tuple(one for one in gone if one in erased))


def _read_episodes(
    places: MemorySources, agent: str, ids: Sequence[str]
) -> dict[str, list[Episode]]:
    """Read what the ledgers have of each entry, in one walk over each of them."""
    read: dict[str, list[Episode]] = {one: [] for one in ids}
    for ledger in (OWN_LEDGER, RECEIVED_LEDGER):
        with open_entries_by_id(places.folder(ledger, agent), *ids) as page:
            for found, line in page.with_ids():
                members = decode_entry(line) if found in read else None
                if members is not None:
                    read[found].append(build_episode(members))
    return read


def check_tombstones(places: MemorySources, agent: str, ids: Sequence[str]) -> ForgetCheck:
    """Check that each entry has its tombstone, which every replay looks at."""
    told = read_tombstones(places.tombstones, agent)
    missing = [one for one in ids if one not in told]
    note = f"no tombstone for {', '.join(missing)}" if missing else ""
    return ForgetCheck(place="tombstones", clean=not missing, note=note)


def check_rows(rows: Connection, agent: str, ids: Sequence[str]) -> list[ForgetCheck]:
    """Check that no row names an entry, and that none would be taken in again."""
    number = get_agent_number(rows, agent)
    if number is None:
        return [ForgetCheck(place="database", clean=False, note="the agent is unknown to it")]
    checked: list[ForgetCheck] = []
    for name, sql in _ROWS_THAT_NAME_IT.items():
        named = sum(count for one in ids for (count,) in rows.rows(sql, (number, one)))
        note = f"{named} rows name it" if named else ""
        checked.append(ForgetCheck(place=f"database: {name}", clean=not named, note=note))
    alive = [
        one for one in ids if table.predict_outcome(rows, number, one) != RetainOutcome.FORGOTTEN
    ]
    note = f"{', '.join(alive)} would be taken in again" if alive else ""
    return [*checked, ForgetCheck(place="replay and rebuild", clean=not alive, note=note)]


def extract_unique_phrases(episodes: Iterable[Episode]) -> list[str]:
    """Return parts of what was said that are long enough to be nobody else's words."""
    lines = (
        line
        for one in episodes
        for text in (one.question, one.answer)
        for line in text.splitlines()
    )
    return [
        line.strip()[:_MAX_PHRASE_CHARS]
        for line in lines
        if len(line.strip()) >= _MIN_PHRASE_CHARS
    ]


def occurs_elsewhere(rows: Connection, agent: str, telling: str, ids: Collection[str]) -> bool:
    """Say whether a turn that was not forgotten has the same words."""
    number = get_agent_number(rows, agent)
    sql = (
        "SELECT id FROM episodes WHERE agent = ? AND (instr(question, ?) OR instr(answer, ?)) "
        "LIMIT ?"
    )
    found = rows.rows(sql, (number, telling, telling, len(ids) + 1))
    return any(entry_id not in ids for (entry_id,) in found)
