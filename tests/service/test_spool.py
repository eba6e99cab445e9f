"""Jobs left by short-lived processes: durable, in order, and none lost to a damaged neighbour."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from pathlib import Path

import pytest

from memplane import errors
from memplane.kit import durable_files
from memplane.service.spool import enqueue_job, list_jobs, remove_job


@pytest.fixture
def spool(home: Path) -> Path:
    return home / "spool"


START = datetime(2026, 1, 31, 12, tzinfo=UTC)
STEP = timedelta(microseconds=1)


def leave(spool: Path, *, number: str = "0", now: datetime = START) -> None:
    enqueue_job(spool, "deliver", {"number": number}, now=now)


def left(spool: Path) -> list[str]:
    return sorted(path.name for path in spool.iterdir())


def numbers(spool: Path) -> list[str]:
    return [job.details["number"] for job in list_jobs(spool)]


# Leaving


def test_a_job_is_found_as_it_was_left(spool: Path) -> None:
    enqueue_job(spool, "deliver", {"session": "é 😀 \n \0", "empty": ""}, now=START)
    (job,) = list_jobs(spool)
    assert job.kind == "deliver"
    assert job.details == {"session": "é 😀 \n \0", "empty": ""}
    assert job.path.parent == spool


def test_without_a_spool_no_job_waits_and_none_is_made(spool: Path) -> None:
    assert list_jobs(spool) == []
    assert not spool.exists()


def test_each_job_is_one_file_and_nothing_else_is_left_behind(spool: Path) -> None:
    for number in range(3):
        leave(spool, number=str(number), now=START + number * STEP)
    assert len(left(spool)) == 3
    assert all(name.endswith(".job") for name in left(spool))


def test_jobs_are_private_whatever_the_umask(spool: Path) -> None:
    before = os.umask(0o000)
    try:
        leave(spool)
    finally:
        os.umask(before)
    (job,) = list_jobs(spool)
    assert stat.S_IMODE(job.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(spool.stat().st_mode) == 0o700


def test_a_job_and_its_name_are_synced_before_it_is_left(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    really = durable_files.sync_file

    def noting(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        really(descriptor)

    monkeypatch.setattr(durable_files, "sync_file", noting)
    leave(spool)
    (job,) = list_jobs(spool)
    assert synced[-2:] == [job.path.stat().st_ino, spool.stat().st_ino]


LEAVE_AND_DIE = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from memplane.service.spool import enqueue_job
enqueue_job(Path(sys.argv[1]), "deliver", {"number": "1"}, now=datetime(2026, 1, 31, tzinfo=UTC))
os.kill(os.getpid(), 9)
"""


def test_a_job_outlives_a_process_that_is_killed_after_leaving_it(spool: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", LEAVE_AND_DIE, str(spool)], check=False)
    assert ran.returncode == -9
    assert numbers(spool) == ["1"]


def test_a_spool_that_cannot_be_is_an_error_of_ours(home: Path) -> None:
    home.mkdir()
    (home / "spool").write_text("a file")
    with pytest.raises(errors.StorageError):
        leave(home / "spool")


# Order


def test_the_oldest_job_comes_first_whoever_left_it_first(spool: Path) -> None:
    for number in (3, 0, 4, 1, 2):
        leave(spool, number=str(number), now=START + number * STEP)
    assert numbers(spool) == ["0", "1", "2", "3", "4"]


def test_the_order_is_by_time_and_not_by_spelling(spool: Path) -> None:
    moments = [
        datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=9),
        datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=10),
        datetime(1999, 12, 31, tzinfo=UTC),
        datetime(2026, 1, 31, tzinfo=UTC),
        datetime(2026, 1, 31, tzinfo=timezone(timedelta(hours=-5))),
        datetime(2300, 1, 1, tzinfo=UTC),
    ]
    for number, moment in reversed(list(enumerate(moments))):
        leave(spool, number=str(number), now=moment)
    assert numbers(spool) == ["0", "1", "2", "3", "4", "5"]


def test_jobs_of_one_moment_are_all_kept(spool: Path) -> None:
    for number in range(20):
        leave(spool, number=str(number))
    assert sorted(numbers(spool)) == sorted(str(number) for number in range(20))


# Finishing


def test_a_finished_job_is_gone_and_the_others_stay(spool: Path) -> None:
    for number in range(3):
        leave(spool, number=str(number), now=START + number * STEP)
    remove_job(list_jobs(spool)[1])
    assert numbers(spool) == ["0", "2"]
    assert len(left(spool)) == 2


def test_finishing_a_job_twice_is_harmless(spool: Path) -> None:
    leave(spool)
    (job,) = list_jobs(spool)
    remove_job(job)
    remove_job(job)
    assert list_jobs(spool) == []


def test_looking_does_not_take(spool: Path) -> None:
    leave(spool, number="1")
    assert numbers(spool) == numbers(spool) == ["1"]


# Damage

DAMAGED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"1",
    b"\xff\xfe",
    b"\0" * 100,
    b"{}",
    b'{"kind": "deliver"}',
    b'{"details": {}}',
    b'{"kind": "deliver", "details": null}',
    b'{"kind": "deliver", "details": 1}',
    b'{"kind": "deliver", "details": "text"}',
    b'{"kind": "deliver", "details": ["ab", 1]}',
]


@pytest.mark.parametrize("damage", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_job_is_put_aside_whole_and_the_others_are_found(
    spool: Path, damage: bytes
) -> None:
    leave(spool, number="first")
    (spool / "5.job").write_bytes(damage)
    leave(spool, number="last", now=START + STEP)
    assert numbers(spool) == ["first", "last"]
    assert (spool / "5.damaged").read_bytes() == damage
    assert not (spool / "5.job").exists()
    assert numbers(spool) == ["first", "last"]


def test_a_damaged_job_is_named_in_the_log(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool.mkdir(parents=True)
    (spool / "5.job").write_bytes(b"{")
    assert list_jobs(spool) == []
    assert "5.damaged" in caplog.text or "5.job" in caplog.text


def test_a_job_cut_off_anywhere_is_put_aside(spool: Path) -> None:
    leave(spool, number="1")
    (job,) = list_jobs(spool)
    whole = job.path.read_bytes()
    names = count()
    for length in range(len(whole)):
        (spool / f"{next(names)}.job").write_bytes(whole[:length])
    assert list_jobs(spool) == [job]
    assert sum(name.endswith(".damaged") for name in left(spool)) == len(whole)


@pytest.mark.parametrize(
    "name", ["lock", "5.damaged", ".memplane-new-1234", "notes.txt", "5.job~"]
)
def test_what_is_not_called_a_job_is_left_alone(spool: Path, name: str) -> None:
    spool.mkdir(parents=True)
    (spool / name).write_bytes(b"{")
    assert list_jobs(spool) == []
    assert left(spool) == [name]


def test_a_job_is_json_that_any_program_can_leave(spool: Path) -> None:
    spool.mkdir(parents=True)
    body = {"kind": "sync", "details": {"number": "1"}, "more": True}
    (spool / "1.job").write_text(json.dumps(body))
    assert numbers(spool) == ["1"]
