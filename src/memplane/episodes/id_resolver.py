"""Which entries an operator means: whole ids, or as much of one as tells it from all others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from memplane.episodes.ledger_follower import OWN_LEDGER, RECEIVED_LEDGER, MemorySources
from memplane.errors import InvalidRequest, UnknownMemory
from memplane.ledger.reader import open_entries_by_id
from memplane.ledger.tombstones import read_tombstones

_ID_PREFIX: Final = "hist1_"
_ABBREVIATED: Final = re.compile(r"(?:hist1_)?[0-9a-f]{1,63}", re.ASCII)
_MAX_SHOWN_IDS: Final = 4


def resolve_entry_ids(places: MemorySources, agent: str, given: Sequence[str]) -> list[str]:
    """Find the entries of an agent that some ids mean, in its ledgers and among the forgotten.

    Raises:
        UnknownMemory: There is none for an id.
        InvalidRequest: There is more than one.
        UnknownAgent: That is no agent's name.
    """
    starts = [*given, *(f"{_ID_PREFIX}{one}" for one in given)]
    known = {one for root in places.tombstone_roots for one in read_tombstones(root, agent)}
    for ledger in (OWN_LEDGER, RECEIVED_LEDGER):
        with open_entries_by_id(places.folder(ledger, agent), *starts) as page:
            known.update(found.cursor.id for found in page.entries)
    return resolve_prefixes(given, known)


def resolve_prefixes(given: Iterable[str], known: Collection[str]) -> list[str]:
    """Find the one known id for each that was given (pure).

    Only an id that is a hash may be abbreviated: the beginning of any other may be somebody's.

    Raises:
        UnknownMemory: There is none for an id.
        InvalidRequest: There is more than one.
    """
    found = {one: _match_prefix(one, known) for one in given}
    for one, fitting in found.items():
        if len(fitting) > 1:
            shown = ", ".join(fitting[:_MAX_SHOWN_IDS])
            more = ", …" if len(fitting) > _MAX_SHOWN_IDS else ""
            raise InvalidRequest(
                f"{len(fitting)} entries begin with {one}: {shown}{more}. Give more of the id"
            )
    unknown = [one for one, fitting in found.items() if not fitting]
    if unknown:
        raise UnknownMemory(f"history does not contain entry id(s) {', '.join(unknown)}")
    return list(dict.fromkeys(fitting[0] for fitting in found.values()))


def _match_prefix(given: str, known: Collection[str]) -> list[str]:
    if given in known:
        return [given]
    if not _ABBREVIATED.fullmatch(given):
        return []
    start = _ID_PREFIX + given.removeprefix(_ID_PREFIX)
    return sorted(one for one in known if one.startswith(start))
