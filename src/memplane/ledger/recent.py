"""The ids of the last hour, so that two equal turns of one second get two ids (pure)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from memplane.ledger.entry import Entry, Turn, again, entry_of, id_of, without_id
from memplane.ledger.heads import Head, hydrated, instant, is_erased

KEPT_FOR: Final = timedelta(minutes=60)
_SWEPT_AT: Final = 4096


class RecentIds:
    """How often each turn of the last hour occurred, by the id of its first occurrence.

    Of a turn that was erased nobody knows which occurrence it was; its id is not given again.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, datetime]] = {}
        self._erased: dict[str, datetime] = {}
        self._sweep_at = _SWEPT_AT

    def learn(self, line: bytes, head: Head) -> None:
        """Take in a line that is in the ledger already."""
        told = instant(head.ts)
        if told is None:
            return
        if is_erased(line, head):
            self._erased[head.id] = told
            return
        plain = hydrated(line, head)[0] if head.occurrence == 1 else _first_id(line, head)
        self._count(plain, max(head.occurrence, self._seen.get(plain, (0, told))[0]), told)

    def entry_for(self, turn: Turn) -> Entry:
        """Write a turn as its entry, told apart from equal ones that came before.

        Raises:
            ValueError: A body that must be JSON is not.
        """
        first = entry_of(turn)
        occurrence = self._seen.get(first.id, (0, turn.ts))[0] + 1
        entry = first if occurrence == 1 else entry_of(again(turn, occurrence))
        while entry.id in self._erased:
            occurrence += 1
            entry = entry_of(again(turn, occurrence))
        self._count(first.id, occurrence, turn.ts)
        return entry

    def _count(self, plain: str, occurrence: int, told: datetime) -> None:
        self._seen[plain] = occurrence, told
        if len(self._seen) > self._sweep_at:
            newest = max(one for _, one in self._seen.values())
            self._seen = {
                plain: (count, one)
                for plain, (count, one) in self._seen.items()
                if one >= newest - KEPT_FOR
            }
            self._erased = {
                erased: one for erased, one in self._erased.items() if one >= newest - KEPT_FOR
            }
            self._sweep_at = max(_SWEPT_AT, 2 * len(self._seen))


def _first_id(line: bytes, head: Head) -> str:
    bare = without_id(line.strip())
    return id_of(bare.removesuffix(b',"occurrence":%d}' % head.occurrence) + b"}")
