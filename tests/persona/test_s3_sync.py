"""Two machines share an agent's memory through an S3 bucket, and nothing of Azure's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from memplane import PersonaBackend, get_backend
from memplane.secret import Secret
from memplane.service.backends import CachedBlobBackend
from memplane.settings import load_settings
from tests.persona.machines import memory
from tests.support.in_process import Done, memplane_here
from tests.support.s3_server import SECRET_KEY, S3Server

ROLE = memory("Role", "Works on sync.", kind="user")


@dataclass(frozen=True, slots=True)
class Machine:
    """A home, a folder of documents, and the bucket."""

    home: Path
    folder: Path
    env: dict[str, str]

    def __call__(self, *words: str) -> Done:
        return memplane_here(self.home, *words, env=self.env)


def new_machine(top: Path, s3_server: S3Server, bucket: str) -> Machine:
    folder = top / "documents"
    folder.mkdir(parents=True)
    env = {
        **s3_server.variables(bucket),
        "MEMPLANE_PERSONA_DIR": str(folder),
        "MEMPLANE_PERSONA_PROJECT": "demo",
    }
    return Machine(top / "home", folder, env)


@pytest.fixture
def laptop(tmp_path: Path, s3_server: S3Server, bucket: str) -> Machine:
    return new_machine(tmp_path / "laptop", s3_server, bucket)


@pytest.fixture
def desktop(tmp_path: Path, s3_server: S3Server, bucket: str) -> Machine:
    return new_machine(tmp_path / "desktop", s3_server, bucket)


def test_documents_follow_the_agent_over_a_bucket(laptop: Machine, desktop: Machine) -> None:
    (laptop.folder / "user_role.md").write_text(ROLE)
    (laptop.folder / "reference_old.md").write_text(memory("Old", "out of date"))
    assert laptop("persona", "sync").returncode == 0
    assert desktop("persona", "sync").returncode == 0
    assert (desktop.folder / "user_role.md").read_text() == ROLE
    (desktop.folder / "user_role.md").write_text(ROLE + "On the desktop.\n")
    (desktop.folder / "reference_old.md").unlink()
    (laptop.folder / "reference_new.md").write_text(memory("New", "from the laptop"))
    for machine in (desktop, laptop, desktop):
        synced = machine("persona", "sync")
        assert synced.returncode == 0, synced.stderr
    for machine in (desktop, laptop):
        assert (machine.folder / "user_role.md").read_text().endswith("On the desktop.\n")
        assert (machine.folder / "reference_new.md").exists()
        assert not (machine.folder / "reference_old.md").exists()


def test_objects_written_on_one_machine_are_read_on_the_other(
    laptop: Machine, desktop: Machine
) -> None:
    first, second = (
        get_backend(load_settings({"home": str(machine.home)}, machine.env))
        for machine in (laptop, desktop)
    )
    assert isinstance(first, CachedBlobBackend)
    with first, second:
        first.write_text("summaries/a.md", "from the laptop")
        first.append_text("log.jsonl", "one\n")
        first.settle()
        second.append_text("log.jsonl", "two\n")
        second.settle()
        assert second.read_text("summaries/a.md") == "from the laptop"
        assert second.read_text("log.jsonl") == "one\ntwo\n"


def test_the_public_backend_of_documents_takes_a_bucket(laptop: Machine, desktop: Machine) -> None:
    (laptop.folder / "user_role.md").write_text(ROLE)
    assert laptop("persona", "sync").returncode == 0
    settings = load_settings({"home": str(desktop.home)}, desktop.env)
    with get_backend(settings) as backend:
        PersonaBackend(backend, local_root=desktop.folder, settings=settings).pull_all()
    assert (desktop.folder / "user_role.md").read_text() == ROLE


def test_status_doctor_and_migrate_work_with_a_bucket(laptop: Machine, bucket: str) -> None:
    data = laptop.home / "data" / "summaries"
    data.mkdir(parents=True)
    laptop.home.chmod(0o700)
    (data / "a.md").write_text("local until now")
    assert laptop("cloud", "migrate", "--yes").returncode == 0
    status = json.loads(laptop("status", "--json").stdout)
    assert status["storage"]["kind"] == "s3"
    assert status["storage"]["where"].endswith(f"/{bucket}")
    doctor = laptop("doctor").stdout
    assert "conditional writes" in doctor
    assert "conditional deletes" in doctor
    assert "the service honours them" in doctor
    for done in (laptop("status"), laptop("doctor"), laptop("settings", "show")):
        assert SECRET_KEY not in done.stdout + done.stderr


def test_a_service_that_ignores_conditions_gets_no_documents(
    laptop: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memplane.storage.s3_objects.condition_headers", lambda _: {})
    (laptop.folder / "user_role.md").write_text(ROLE)
    synced = laptop("persona", "sync")
    assert synced.returncode != 0
    assert "ignores the conditions" in synced.stdout + synced.stderr
    doctor = laptop("doctor")
    assert doctor.returncode == 1
    assert "failed  conditional writes: the S3 service ignores" in doctor.stdout
    assert (laptop.folder / "user_role.md").read_text() == ROLE


def test_doctor_says_when_deleting_is_overwriting(
    laptop: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ignores_conditions(*_: object) -> bool:
        return False

    monkeypatch.setattr("memplane.storage.s3.is_delete_conditional", ignores_conditions)
    doctor = laptop("doctor")
    assert "stands for the deletion" in doctor.stdout
    assert Secret(SECRET_KEY).reveal() not in doctor.stdout
