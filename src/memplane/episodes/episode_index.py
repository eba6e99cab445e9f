"""The text index of a database: it catches up with the episodes, and is made anew when it breaks.

Which index belongs to a database stands in the database; any other is erased.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from memplane.database.interface import Connection, RecordStore
from memplane.episodes import store as table
from memplane.errors import IndexUnusable
from memplane.kit.ids import new_id
from memplane.search.index import TextIndex, erase_index, open_index

_log = logging.getLogger(__name__)

# Each time makes a piece of the index, and the more of them, the longer it searches.
_BATCH_EPISODES: Final = 4_000
_BATCH_BYTES: Final = 16 << 20
_COMMIT_NOTE: Final = "commit of the text index"


class EpisodeIndex:
    """Holds the text index, and keeps it up with the database."""

    def __init__(self, records: RecordStore, folder: Path) -> None:
        self.is_broken = False
        self._records = records
        self._folder = folder
        self._index: TextIndex | None = None
        self._changing = asyncio.Lock()

    @property
    def current(self) -> TextIndex:
        """The index to search in."""
        assert self._index is not None  # noqa: S101 - it was opened first
        return self._index

    async def open(self) -> None:
        """Open the index that belongs to the database; when there is none it is made anew."""
        wanted = await self._records.read(
            lambda rows: table.get_note(rows, table.INDEX_GENERATION_NOTE)
        )
        index = await asyncio.to_thread(open_index, self._folder / wanted) if wanted else None
        if index is None or index.generation != wanted:
            index = await self._new()
        await asyncio.to_thread(_erase_others, self._folder, index.generation)
        self._index = index

    async def close(self) -> None:
        """Let go of it."""
        if self._index is not None:
            await asyncio.to_thread(self._index.close)

    def give_up(self, error: IndexUnusable) -> None:
        """Let a new index be made when it is to catch up; until then everything is scored."""
        _log.warning("the text index is made anew: %s", error)
        self.is_broken = True

    async def begin_anew(self) -> None:
        """Make an index that has to take in everything."""
        async with self._changing:
            old, self._index = self._index, await self._new()
            self.is_broken = False
            if old is not None:
                await asyncio.to_thread(old.close)
            await asyncio.to_thread(_erase_others, self._folder, self._index.generation)

    async def catch_up(self) -> None:
        """Let the index take in what changed up to now."""
        if self.is_broken:
            await self.begin_anew()
        try:
            # What comes meanwhile is for the next time, or this would never end.
            until = await self._records.read(table.get_last_unindexed_key, quick=True)
            while await self._take_in_some(until):
                pass
        except IndexUnusable as error:
            self.give_up(error)

    async def _take_in_some(self, until: int) -> bool:
        """Let the index take in changed episodes; says whether there were any."""
        async with self._changing:
            changed = await self._records.read(
                lambda rows: table.list_unindexed(rows, until, _BATCH_EPISODES, _BATCH_BYTES),
                patient=True,
            )
            if not changed:
                return False
            await asyncio.to_thread(self.current.apply, changed)
            await self._records.write(partial(_mark_indexed, changed=changed))
            return True

    async def _new(self) -> TextIndex:
        generation = new_id()

        def begin_anew(rows: Connection) -> None:
            table.mark_all_unindexed(rows)
            table.set_note(rows, table.INDEX_GENERATION_NOTE, generation)

        index = await asyncio.to_thread(TextIndex.create, self._folder / generation, generation)
        await self._records.write(begin_anew)
        return index


class ReadOnlyIndex:
    """The text index as another process sees it, which only reads.

    What stands in the database as indexed is in the index that this gives: the two are written in
    that order, and the database says which of its states they are at.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: TextIndex | None = None
        self._at = ("", "")

    def current(self, rows: Connection) -> TextIndex | None:
        """Return the index for the rows of a transaction; None when it cannot be had.

        Raises:
            IndexUnusable: It cannot be read.
        """
        at = table.get_note(rows, table.INDEX_GENERATION_NOTE), table.get_note(rows, _COMMIT_NOTE)
        if at[0] != self._at[0]:
            self._index = open_index(self._folder / at[0]) if at[0] else None
        elif at != self._at and self._index is not None:
            self._index.refresh()
        # One that could not be opened is tried again next time.
        self._at = at if self._index is not None else ("", "")
        return self._index


def _mark_indexed(rows: Connection, changed: Sequence[table.UnindexedEpisode]) -> None:
    table.mark_indexed(rows, changed)
    table.set_note(rows, _COMMIT_NOTE, new_id())


def _erase_others(folder: Path, generation: str) -> None:
    """Erase the indexes that belong to no database any more."""
    for one in folder.iterdir():
        if one.name != generation:
            erase_index(one)
