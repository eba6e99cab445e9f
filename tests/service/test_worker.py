"""The worker: wakes for jobs, does them together, and leaves when all is quiet."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from memplane import BlobBackend
from memplane.errors import BackendUnavailable
from memplane.home import Home
from memplane.kit.clock import system_clock
from memplane.service import worker
from memplane.service.composition.storage import fingerprint
from memplane.service.spool import SpooledJob, enqueue_job, list_jobs
from memplane.service.worker_process import worker_lock
from memplane.settings import Settings, load_settings
from memplane.storage.outbox import Outbox
from tests.persona.machines import memory
from tests.support.azurite import Azurite
from tests.support.faulty import Quick
from tests.support.running import memplane


@pytest.fixture
def settings(home: Path) -> Settings:
    Home(home).create()
    return load_settings({"home": str(home)}, {})


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    calls: list[list[str]] = []

    async def note(_settings: Settings, jobs: list[SpooledJob]) -> None:
        calls.append([job.details["n"] for job in jobs])

    monkeypatch.setattr(worker, "JOB_HANDLERS", {"note": note})
    return calls


async def test_jobs_of_a_kind_are_done_together(settings: Settings, done: list[list[str]]) -> None:
    spool = Home(settings.home).spool
    for number in range(3):
        enqueue_job(spool, "note", {"n": str(number)}, now=system_clock())
    quick = Quick()
    await worker.run_worker(settings, pacing=quick.pacing(), quiet_seconds=30)
    assert done == [["0", "1", "2"]]
    assert list_jobs(spool) == []
    assert 30 <= quick.now < 32


async def test_a_job_that_fails_stays(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_settings: Settings, _jobs: list[SpooledJob]) -> None:
        raise BackendUnavailable("nobody answers")

    monkeypatch.setattr(worker, "JOB_HANDLERS", {"note": fail})
    spool = Home(settings.home).spool
    enqueue_job(spool, "note", {}, now=system_clock())
    enqueue_job(spool, "of a newer version", {}, now=system_clock())
    await worker.run_worker(settings, pacing=Quick().pacing(), quiet_seconds=2)
    assert [job.kind for job in list_jobs(spool)] == ["note", "of a newer version"]


async def test_a_job_left_while_it_was_leaving_is_done(
    settings: Settings, done: list[list[str]]
) -> None:
    spool = Home(settings.home).spool
    quick = Quick()
    late = iter([True])

    def elapsed() -> float:
        # The last look before leaving is over, and then somebody leaves a job.
        if quick.now >= 1 and next(late, False):
            enqueue_job(spool, "note", {"n": "late"}, now=system_clock())
        return quick.now

    pacing = type(quick.pacing())(sleep=quick.sleep, elapsed=elapsed, chance=lambda: 0.5)
    await worker.run_worker(settings, pacing=pacing, quiet_seconds=1)
    assert done == [["late"]]


async def test_a_second_worker_leaves_at_once(settings: Settings, done: list[list[str]]) -> None:
    spool = Home(settings.home).spool
    enqueue_job(spool, "note", {"n": "1"}, now=system_clock())
    with worker_lock(spool) as first:
        assert first
        await worker.run_worker(settings, pacing=Quick().pacing(), quiet_seconds=0)
    assert done == []


@pytest.fixture
def started_workers(home: Path) -> Iterator[None]:
    """End the worker a test woke, and no other process."""
    yield
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"worker" in words and os.fsencode(home) in words:
            os.kill(int(entry.parent.name), signal.SIGTERM)


def test_the_outbox_is_delivered_in_the_background(
    azurite: Azurite, container: str, home: Path, started_workers: None
) -> None:
    env = {
        "MEMPLANE_BLOB_CONNECTION_STRING": azurite.connection_string,
        "MEMPLANE_BLOB_CONTAINER": container,
    }
    memplane(home, "status")
    cache = home / "cache" / "blob" / fingerprint(azurite.by_key(container))
    left = Outbox(cache / "outbox", "dead", clock=system_clock)
    left.append("log.txt", b"one\n")
    left.close()
    ran = memplane(home, "queue", "retry", "--background", env=env)
    assert ran.returncode == 0, ran.stderr
    while list_jobs(home / "spool"):
        pass
    with BlobBackend(azurite.by_key(container), cache=home / "c") as backend:
        assert backend.read_text("log.txt") == "one\n"
    assert "Traceback" not in (home / "logs" / "worker.log").read_text()


# Folders of documents


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "user_role.md").write_text(memory("Role", "Works on sync.", kind="user"))
    return folder


@pytest.fixture
def cloud(azurite: Azurite, container: str) -> dict[str, str]:
    return {
        "MEMPLANE_BLOB_CONNECTION_STRING": azurite.connection_string,
        "MEMPLANE_BLOB_CONTAINER": container,
    }


def keys_in(azurite: Azurite, container: str, cache: Path) -> list[str]:
    with BlobBackend(azurite.by_key(container), cache=cache) as backend:
        return [key for key in backend.list("claude_memory/") if key.endswith(".md")]


async def test_documents_are_synced_in_the_background(
    settings: Settings,
    documents: Path,
    cloud: dict[str, str],
    azurite: Azurite,
    container: str,
    tmp_path: Path,
) -> None:
    settings = load_settings({"home": str(settings.home)}, cloud)
    spool = Home(settings.home).spool
    details = {"folder": str(documents), "name": "shop", "origin": "abc"}
    enqueue_job(spool, "persona", {**details, "keys": "user_role.md"}, now=system_clock())
    enqueue_job(spool, "persona", details, now=system_clock())
    await worker.run_worker(settings, pacing=Quick().pacing(), quiet_seconds=1)
    assert list_jobs(spool) == []
    expected = ["claude_memory/MEMORY.md", "claude_memory/user_role.md"]
    assert keys_in(azurite, container, tmp_path / "c") == expected

    # Jobs that name documents send those alone.
    for name in ("user_one.md", "user_two.md", "user_three.md"):
        (documents / name).write_text(memory(name, "x", kind="user"))
    for name in ("user_one.md", "user_two.md"):
        enqueue_job(spool, "persona", {**details, "keys": name}, now=system_clock())
    await worker.run_worker(settings, pacing=Quick().pacing(), quiet_seconds=1)
    expected = [*expected[:1], "claude_memory/user_one.md", *expected[1:]]
    found = keys_in(azurite, container, tmp_path / "c")
    assert found == [*expected, "claude_memory/user_two.md"]


async def test_documents_wait_while_the_container_is_away(
    settings: Settings, documents: Path, cloud: dict[str, str]
) -> None:
    away = {**cloud, "MEMPLANE_BLOB_CONNECTION_STRING": _NOBODY}
    chosen = load_settings({"home": str(settings.home)}, away)
    spool = Home(settings.home).spool
    enqueue_job(spool, "persona", {"folder": str(documents)}, now=system_clock())
    await worker.run_worker(chosen, pacing=Quick().pacing(), quiet_seconds=0)
    assert [job.kind for job in list_jobs(spool)] == ["persona"]


@pytest.mark.parametrize("variables", [{}, {"MEMPLANE_PERSONA_SYNC": "off"}])
async def test_what_no_later_try_would_mend_does_not_stay(
    settings: Settings, documents: Path, cloud: dict[str, str], variables: dict[str, str]
) -> None:
    chosen = load_settings({"home": str(settings.home)}, {**(variables and cloud), **variables})
    spool = Home(settings.home).spool
    enqueue_job(spool, "persona", {"folder": str(documents)}, now=system_clock())
    await worker.run_worker(chosen, pacing=Quick().pacing(), quiet_seconds=0)
    assert list_jobs(spool) == []


_NOBODY = (
    "DefaultEndpointsProtocol=http;AccountName=nobody;AccountKey=bm9ib2R5;"
    "BlobEndpoint=http://127.0.0.1:9/nobody;"
)
