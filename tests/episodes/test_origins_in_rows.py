"""Homes of older versions learn where the words of their turns come from."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

from memplane.episodes.provenance import Trust
from tests.episodes.proofs.test_p17 import asked, count_poisoned, honest, poisoned
from tests.episodes.remembering import give, memory_in
from tests.support.old_schema import take_back_schema


def rows_of(path: Path, columns: str) -> list[tuple[object, ...]]:
    with closing(apsw.Connection(str(path))) as database:
        return list(database.execute(f"SELECT {columns} FROM episodes ORDER BY key"))  # noqa: S608


async def test_a_home_from_before_is_brought_up_to_date_and_nothing_else_is_derived_again(
    tmp_path: Path,
) -> None:
    database = tmp_path / "memplane.db"
    turns = [honest(at, minutes=60 * at) for at in range(9)]
    async with memory_in(tmp_path) as memory:
        await give(memory, *turns, *(poisoned(at, minutes=700 + at) for at in range(3)))
        await memory.settle()
    now = rows_of(database, "key, id, origins, asked, told")
    take_back_schema(database, 7)
    async with memory_in(tmp_path) as memory:
        await memory.settle()
        blocks = await asked(memory, None)
        assert count_poisoned(blocks) == sum(one.trust == Trust.UNTRUSTED for one in blocks) == 1
        assert (await memory.rebuild()).same
    assert rows_of(database, "key, id, origins, asked, told") == now


async def test_an_update_that_is_cut_short_goes_on_at_the_next_start(tmp_path: Path) -> None:
    database = tmp_path / "memplane.db"
    async with memory_in(tmp_path) as memory:
        await give(memory, *(poisoned(at, minutes=at) for at in range(4)))
        await memory.settle()
    now = rows_of(database, "id, origins")
    with closing(apsw.Connection(str(database))) as cut:
        cut.execute("UPDATE episodes SET origins = NULL WHERE key > 2")
        cut.execute("DELETE FROM followed")
    async with memory_in(tmp_path) as memory:
        await memory.settle()
        assert (await memory.rebuild()).same
    assert rows_of(database, "id, origins") == now
