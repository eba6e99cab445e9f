"""Records in a SQLite file: whole transactions, one writer, nothing left of what is deleted."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from memplane.database.interface import Connection
from memplane.database.migrations import Migration, load_migrations, migrate
from memplane.database.sqlite import open_sqlite
from memplane.errors import RecordsError

AGENT = "INSERT INTO agents (agent) VALUES (?)"


def agents(rows: Connection) -> list[str]:
    return [name for (name,) in rows.rows("SELECT agent FROM agents ORDER BY number")]


def _add(rows: Connection, name: str) -> None:
    rows.run(AGENT, (name,))


async def test_what_was_written_is_there_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "memplane.db"
    async with open_sqlite(path) as records:
        await records.write(lambda rows: rows.run(AGENT, ("a",)))
        assert await records.read(agents) == ["a"]
        assert await records.read(agents, quick=True) == ["a"]
        assert await records.read(agents, patient=True) == ["a"]
    async with open_sqlite(path) as records:
        assert await records.read(agents) == ["a"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_work_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def half(rows: Connection) -> None:
        rows.run(AGENT, ("a",))
        raise RuntimeError("in the middle")

    async with open_sqlite(tmp_path / "memplane.db") as records:
        with pytest.raises(RuntimeError, match="in the middle"):
            await records.write(half)
        assert await records.read(agents) == []
        await records.write(lambda rows: rows.run(AGENT, ("b",)))
        assert await records.read(agents) == ["b"]


async def test_readers_write_nothing(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "memplane.db") as records:
        for more in ({}, {"quick": True}, {"patient": True}):
            with pytest.raises(RecordsError, match="readonly"):
                await records.read(lambda rows: rows.run(AGENT, ("a",)), **more)


async def test_many_at_once_are_all_written(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "memplane.db") as records:
        names = [f"agent{number}" for number in range(50)]
        added = (partial(_add, name=name) for name in names)
        await asyncio.gather(*(records.write(one) for one in added))
        assert len(await records.read(agents)) == 50


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from memplane.database.sqlite import open_sqlite\n"
        "async def main():\n"
        "    async with open_sqlite(Path(sys.argv[1])) as records:\n"
        "        for number in range(100000):\n"
        "            sql = 'INSERT INTO agents (agent) VALUES (?)'\n"
        "            await records.write(lambda rows: rows.run(sql, (str(number),)))\n"
        "            print(number, flush=True)\n"
        "asyncio.run(main())\n"
    )
    path = tmp_path / "memplane.db"
    writing = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writing.stdout is not None
    acknowledged = [writing.stdout.readline().strip() for _ in range(40)]
    os.kill(writing.pid, signal.SIGKILL)
    acknowledged += writing.stdout.read().split()
    writing.wait()
    writing.stdout.close()
    async with open_sqlite(path) as records:
        assert set(acknowledged) <= set(await records.read(agents))


async def test_a_file_that_is_no_database_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "memplane.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(RecordsError, match="move it away"):
        async with open_sqlite(path):
            pass
    assert path.read_bytes() == b"not a database" * 100


async def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memplane.db"
    async with open_sqlite(path) as records:
        await records.write(
            lambda rows: rows.run("INSERT INTO migrations VALUES (9999, 'from_the_future')")
        )
    with pytest.raises(RecordsError, match="newer version"):
        async with open_sqlite(path):
            pass


async def test_steps_are_taken_once_and_in_order(tmp_path: Path) -> None:
    known = load_migrations("sqlite")
    statements = ("CREATE TABLE more (n INTEGER)", "INSERT INTO more VALUES (1)")
    more = Migration(known[-1].number + 1, "more", statements)
    async with open_sqlite(tmp_path / "memplane.db") as records:
        for _ in range(2):
            await records.write(lambda rows: migrate(rows, [*known, more], where="here"))
        assert await records.read(lambda rows: list(rows.rows("SELECT n FROM more"))) == [(1,)]


async def test_one_beside_it_takes_its_place(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "memplane.db") as records:
        await records.write(lambda rows: rows.run(AGENT, ("old",)))
        async with records.aside() as other:
            await other.write(lambda rows: rows.run(AGENT, ("new",)))
            assert await records.read(agents) == ["old"]
            await records.replace_tables_from(other, ["agents"])
        assert await records.read(agents) == ["new"]
    assert [path.name for path in tmp_path.glob("memplane*")] == ["memplane.db"]


async def test_nothing_of_what_is_deleted_stays_in_the_files(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "memplane.db") as records:
        names = [f"canary-{number}-of-many" for number in range(200)]
        await records.write(lambda rows: rows.run_many(AGENT, [(name,) for name in names]))
        assert await records.holds(b"canary-150-of-many")
        await records.write(lambda rows: rows.run("DELETE FROM agents WHERE number > 100"))
        await records.wipe()
        assert not await records.holds(b"canary-150-of-many")
        assert await records.holds(b"canary-50-of-many")
    assert b"canary-150" not in b"".join(path.read_bytes() for path in tmp_path.glob("memplane*"))
