"""What this process knows of a container, and for how long it believes that.

An answer that was on its way while something was written here is older than the write; every
question and every change gets a number, so that the newer one wins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from memplane.errors import AuthError, BackendUnavailable
from memplane.storage.store import ObjectInfo, ObjectListing

_FRESH_S: Final = 5.0
_MAX_AWAY_S: Final = 60.0

_log = logging.getLogger(__name__)


class RemoteView:
    """The objects of the last listing and of what passed since, and whether anybody answers."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._until = float("-inf")
        self._away_for = 0.0
        self._numbers = count(1)
        self._changed: dict[str, int] = {}
        self.known: dict[str, ObjectInfo] = {}
        self.refused: tuple[str, ...] = ()
        self.entries_by_key = False

    @property
    def recent(self) -> bool:
        """Whether what was last learned still counts."""
        return self._elapsed() < self._until

    @property
    def away(self) -> bool:
        """Whether the container was found not to answer, a short while ago."""
        return bool(self._away_for) and self.recent

    def start_request(self) -> int:
        """Number a question."""
        return next(self._numbers)

    def is_outdated(self, key: str, request_number: int) -> bool:
        """Say whether the key was written here since the question, so that the answer is old."""
        return self._changed.get(key, 0) > request_number

    def record_write(self, key: str, info: ObjectInfo | None) -> None:
        """Note what this process made of a key; None when it is gone."""
        self._changed[key] = next(self._numbers)
        self.record_read(key, info)

    def record_read(self, key: str, info: ObjectInfo | None) -> None:
        """Note what is at a key; None when nothing is, or nothing is known."""
        if info is None:
            self.known.pop(key, None)
        else:
            self.known[key] = info

    def learn(self, listing: ObjectListing, request_number: int) -> tuple[bool, set[str]]:
        """Take in a complete listing; return whether anything is new, and what vanished."""
        entries_by_key = {info.key: info for info in listing.entries}
        for key in [key for key in self._changed if self.is_outdated(key, request_number)]:
            entries_by_key.pop(key, None)
            if key in self.known:
                entries_by_key[key] = self.known[key]
        before, self.known, self.refused = self.known, entries_by_key, listing.refused
        new = before != entries_by_key or not self.entries_by_key
        if self._away_for:
            _log.warning("the container answers again")
        self.entries_by_key, self._away_for = True, 0.0
        self._until = self._elapsed() + _FRESH_S
        return new, before.keys() - entries_by_key.keys()

    def recall(self, entries: Iterable[ObjectInfo]) -> None:
        """Begin with what an earlier process knew, when nothing better is to be had."""
        if not self.entries_by_key:
            self.entries_by_key = True
            self.known = {info.key: info for info in entries}

    def mark_unreachable(self, error: BackendUnavailable | AuthError) -> None:
        """Note that nobody answers; each time in a row it is believed for longer."""
        if not self._away_for:
            _log.warning("%s; working from what this machine last knew", error)
        self._away_for = min(max(self._away_for * 2, _FRESH_S), _MAX_AWAY_S)
        self._until = self._elapsed() + self._away_for
