"""Which entries an operator means: whole ids, or as much of one as tells it from all others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from memplane.errors import InvalidRequest
from memplane.ledger.reader import open_entry
from memplane.ledger.tombstones import read_tombstones
from memplane.memory.following import OWN, RECEIVED, Places

_OURS: Final = "hist1_"
_ABBREVIATED: Final = re.compile(r"(?:hist1_)?[0-9a-f]{1,63}", re.ASCII)
_SHOWN: Final = 4


def entries_meant(places: Places, agent: str, given: Sequence[str]) -> list[str]:
    """Find the entries of an agent that some ids mean, in its ledgers and among the forgotten.

    Raises:
        InvalidRequest: There is none for an id, or more than one.
        UnknownAgent: That is no agent's name.
    """
    starts = [*given, *(f"{_OURS}{one}" for one in given)]
    known = {one for root in places.told_in for one in read_tombstones(root, agent)}
    for ledger in (OWN, RECEIVED):
        with open_entry(places.folder(ledger, agent), *starts) as page:
            known.update(found.cursor.id for found in page.entries)
    return meant(given, known)


def meant(given: Iterable[str], known: Collection[str]) -> list[str]:
    """Find the one known id for each that was given (pure).

    Only an id that is a hash may be abbreviated: the beginning of any other may be somebody's.

    Raises:
        InvalidRequest: There is none for an id, or more than one.
    """
    found = {one: _fitting(one, known) for one in given}
    for one, fitting in found.items():
        if len(fitting) > 1:
            shown = ", ".join(fitting[:_SHOWN])
            more = ", …" if len(fitting) > _SHOWN else ""
            raise InvalidRequest(
                f"{len(fitting)} entries begin with {one}: {shown}{more}. Give more of the id"
            )
    unknown = [one for one, fitting in found.items() if not fitting]
    if unknown:
        raise InvalidRequest(f"history does not contain entry id(s) {', '.join(unknown)}")
    return list(dict.fromkeys(fitting[0] for fitting in found.values()))


def _fitting(given: str, known: Collection[str]) -> list[str]:
    if given in known:
        return [given]
    if not _ABBREVIATED.fullmatch(given):
        return []
    start = _OURS + given.removeprefix(_OURS)
    return sorted(one for one in known if one.startswith(start))
