"""The ids of the last hour, so that two equal turns of one second get two ids (pure)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from memplane.ledger.entry import (
    Entry,
    Turn,
    compute_entry_id,
    make_entry,
    strip_entry_id,
    with_occurrence,
)
from memplane.ledger.entry_head import EntryHead, add_missing_id, is_erased_line, parse_rfc3339

MAX_ID_AGE: Final = timedelta(minutes=60)
_MIN_SWEEP_IDS: Final = 4096


class RecentIds:
    """How often each turn of the last hour occurred, by the id of its first occurrence.

    Of a turn that was erased nobody knows which occurrence it was; its id is not given again.
    """

    def __init__(self) -> None:
        self._occurrences: dict[str, tuple[int, datetime]] = {}
        self._erased: dict[str, datetime] = {}
        self._sweep_at = _MIN_SWEEP_IDS

    def learn(self, line: bytes, head: EntryHead) -> None:
        """Take in a line that is in the ledger already."""
        entry_time = parse_rfc3339(head.ts)
        if entry_time is None:
            return
        if is_erased_line(line, head):
            self._erased[head.id] = entry_time
            return
        plain = add_missing_id(line, head)[0] if head.occurrence == 1 else _first_id(line, head)
        self._count(
            plain,
            max(head.occurrence, self._occurrences.get(plain, (0, entry_time))[0]),
            entry_time,
        )

    def entry_for(self, turn: Turn) -> Entry:
        """Write a turn as its entry, told apart from equal ones that came before.

        Raises:
            ValueError: A body that must be JSON is not.
        """
        first = make_entry(turn)
        occurrence = self._occurrences.get(first.id, (0, turn.ts))[0] + 1
        entry = first if occurrence == 1 else make_entry(with_occurrence(turn, occurrence))
        while entry.id in self._erased:
            occurrence += 1
            entry = make_entry(with_occurrence(turn, occurrence))
        self._count(first.id, occurrence, turn.ts)
        return entry

    def _count(self, plain: str, occurrence: int, entry_time: datetime) -> None:
        self._occurrences[plain] = occurrence, entry_time
        if len(self._occurrences) > self._sweep_at:
            newest = max(seen_at for _, seen_at in self._occurrences.values())
            self._occurrences = {
                plain: (count, seen_at)
                for plain, (count, seen_at) in self._occurrences.items()
                if seen_at >= newest - MAX_ID_AGE
            }
            self._erased = {
                erased_id: seen_at
                for erased_id, seen_at in self._erased.items()
                if seen_at >= newest - MAX_ID_AGE
            }
            self._sweep_at = max(_MIN_SWEEP_IDS, 2 * len(self._occurrences))


def _first_id(line: bytes, head: EntryHead) -> str:
    bare = strip_entry_id(line.strip())
    return compute_entry_id(bare.removesuffix(b',"occurrence":%d}' % head.occurrence) + b"}")
