"""Every way in which documents leave a machine: what the gate refuses goes by none of them."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import memplane
from memplane import BlobBackend, PersonaBackend, migrate_local_to_backend
from memplane.errors import BackendUnavailable, PersonaError
from memplane.home import Home
from memplane.kit.clock import system_clock
from memplane.persona.project_match import Project
from memplane.service import worker
from memplane.service.composition.persona import persona_desk, watch_persona
from memplane.service.spool import enqueue_job
from memplane.settings import Settings, load_settings
from tests.persona.machines import memory
from tests.support.azurite import Azurite
from tests.support.faulty import Quick
from tests.support.in_process import Done, memplane_here

CANARY = (
    "xoxc" + "-2345678901-2345678901234-3456789012345-" + "0f1e2d3c4b5a69788796a5b4c3d2e1f0" * 2
)
ROLE = memory("Role", "Works on sync.", kind="user")
DEPLOY = memory("Deploy", f"The session token is {CANARY}", kind="reference")
BARE = "# Notes\n\nwritten without frontmatter\n"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine with three documents, of which one may be published."""

    home: Path
    folder: Path
    env: dict[str, str]
    azurite: Azurite
    container: str

    @property
    def settings(self) -> Settings:
        return load_settings({"home": str(self.home)}, self.env)

    def run(self, *words: str, **more: str) -> Done:
        return memplane_here(self.home, *words, env={**self.env, **more})

    def backend(self) -> BlobBackend:
        return BlobBackend(self.azurite.by_key(self.container), cache=self.home / "cache")

    def write_all(self) -> None:
        for key, text in (("user_role.md", ROLE), ("reference_deploy.md", DEPLOY), ("b.md", BARE)):
            (self.folder / key).write_text(text)

    def uploaded(self) -> dict[str, bytes]:
        """Return everything that the container holds."""
        with self.backend() as backend:
            found = {key: backend.read_versioned(key) for key in backend.list()}
        return {key: object_.data for key, object_ in found.items() if object_ is not None}


@pytest.fixture
def machine(tmp_path: Path, azurite: Azurite, container: str) -> Machine:
    folder = tmp_path / "memory"
    folder.mkdir()
    env = {
        "MEMPLANE_BLOB_CONNECTION_STRING": azurite.connection_string,
        "MEMPLANE_BLOB_CONTAINER": container,
        "MEMPLANE_PERSONA_DIR": str(folder),
        "MEMPLANE_PERSONA_PROJECT": "demo",
    }
    made = Machine(tmp_path / "home", folder, env, azurite, container)
    made.write_all()
    return made


def sync(machine: Machine) -> None:
    assert machine.run("persona", "sync").returncode == 1


def push(machine: Machine) -> None:
    assert machine.run("persona", "push").returncode == 1


def push_paths(machine: Machine) -> None:
    machine.run("persona", "push", "user_role.md", "reference_deploy.md", "b.md")


def push_one(machine: Machine) -> None:
    for key in ("user_role.md", "reference_deploy.md", "b.md"):
        machine.run("persona", "push-one", key)


def queue(machine: Machine) -> None:
    """The first sync claims the container; the second fails, and the third drains the queue."""
    role = (machine.folder / "user_role.md").read_text()
    for path in machine.folder.glob("*.md"):
        path.unlink()
    (machine.folder / "user_role.md").write_text(memory("Role", "Works.", kind="user"))
    assert machine.run("persona", "sync").returncode == 0
    machine.write_all()
    assert (machine.folder / "user_role.md").read_text() == role
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memplane.storage.azure.AzureStore.write", _no_answer)
        machine.run("persona", "push")
    machine.run("persona", "sync")


async def _no_answer(*_: object, **__: object) -> None:
    raise BackendUnavailable("no answer")


def watch(machine: Machine) -> None:
    async def until_the_role_is_there() -> None:
        stop, synced = asyncio.Event(), asyncio.Event()
        watching = asyncio.create_task(
            watch_persona(
                machine.settings,
                machine.folder,
                Project("demo"),
                stop=stop,
                tell=lambda _: synced.set(),
                warn=lambda _: synced.set(),
                greet=lambda: None,
            )
        )
        await asyncio.wait_for(synced.wait(), 60)
        stop.set()
        await watching

    asyncio.run(until_the_role_is_there())


def persona(machine: Machine) -> PersonaBackend:
    return PersonaBackend(machine.backend(), local_root=machine.folder, settings=machine.settings)


def program_push_all(machine: Machine) -> None:
    persona(machine).push_all()


def program_push_one(machine: Machine) -> None:
    for key in ("user_role.md", "reference_deploy.md", "b.md"):
        persona(machine).push_one(machine.folder / key)


def program_put(machine: Machine) -> None:
    persona(machine).push_with_etag("user_role.md", ROLE, None)
    for key, text in (("reference_deploy.md", DEPLOY), ("b.md", BARE)):
        with pytest.raises(PersonaError):
            persona(machine).push_with_etag(key, text, None)


def dashboard(machine: Machine) -> None:
    """The page syncs a folder that was synced before; the documents are typed afterwards."""
    for path in machine.folder.glob("*.md"):
        path.unlink()
    (machine.folder / "user_first.md").write_text(ROLE)
    assert machine.run("persona", "sync").returncode == 0
    machine.write_all()

    async def press_the_button() -> None:
        desk = persona_desk(machine.settings, machine.folder)
        (folder,) = await asyncio.to_thread(desk.folders)
        desk.start(folder)
        for _ in range(3000):
            ran = desk.ran(folder)
            if ran is not None and ran.state != "running":
                return
            await asyncio.sleep(0.02)
        pytest.fail("the sync did not end")

    asyncio.run(press_the_button())


def background(machine: Machine) -> None:
    spool = Home(machine.settings.home).spool
    Home(machine.settings.home).create()
    details = {"folder": str(machine.folder), "name": "demo", "origin": ""}
    enqueue_job(spool, "persona", details, now=system_clock())
    asyncio.run(worker.run_worker(machine.settings, pacing=Quick().pacing(), quiet_seconds=0))


def migrate(machine: Machine) -> None:
    done = machine.run("cloud", "migrate", "--from", f"{machine.folder}=claude_memory")
    assert done.returncode == 1, done.stdout
    assert "held back 2" in done.stdout
    assert "slack-token" in done.stdout
    assert CANARY not in done.stdout + done.stderr


def migrate_by_program(machine: Machine) -> None:
    with machine.backend() as backend:
        report = migrate_local_to_backend([(machine.folder, "claude_memory")], backend)
    assert sorted(Path(path).name for path, _ in report.held) == ["b.md", "reference_deploy.md"]
    assert (report.copied, report.errors) == (1, [])


WAYS: tuple[Callable[[Machine], None], ...] = (
    sync,
    push,
    push_paths,
    push_one,
    queue,
    watch,
    program_push_all,
    program_push_one,
    program_put,
    dashboard,
    background,
    migrate,
    migrate_by_program,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_may_not_be_published_leaves_in_no_way(
    way: Callable[[Machine], None], machine: Machine
) -> None:
    before = {path.name: path.read_text() for path in machine.folder.glob("*.md")}
    way(machine)
    uploaded = machine.uploaded()
    assert uploaded["claude_memory/user_role.md"] == ROLE.encode()  # harmless ones go through
    assert not [key for key, data in uploaded.items() if CANARY.encode() in data]
    bare = [key for key, data in uploaded.items() if data == BARE.encode()]
    assert all(key.startswith("held/") for key in bare)
    kept = {path.name: path.read_text() for path in machine.folder.glob("*.md")}
    assert {key: kept[key] for key in before if key != "MEMORY.md"} == before


def test_what_was_held_back_can_be_let_go(machine: Machine) -> None:
    words = ("cloud", "migrate", "--from", f"{machine.folder}=claude_memory")
    assert machine.run(*words).returncode == 1
    allowed = machine.run(*words, "--allow-secrets", "claude_memory/reference_deploy.md")
    assert allowed.returncode == 1  # the one without frontmatter stays
    assert machine.uploaded()["claude_memory/reference_deploy.md"] == DEPLOY.encode()
    (machine.folder / "b.md").unlink()
    assert machine.run(*words).returncode == 0


def test_a_migration_holds_back_other_files_with_secrets_too(
    machine: Machine, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "notes.txt").write_text(f"token {CANARY}\n")
    (data / "plain.txt").write_text("nothing to hide, and no frontmatter\n")
    done = machine.run("cloud", "migrate", "--from", str(data))
    assert (done.returncode, "held back: " in done.stdout) == (1, True)
    assert sorted(machine.uploaded()) == ["plain.txt"]


# What opens a container for writing, and what of it documents can leave by.
_OPENERS = {
    "service/backends.py": "a program's own texts; its documents go by PersonaBackend",
    "service/checks.py": "writes a probe",
    "cli/cloud_migration.py": "migrate",
    "cli/manifest.py": "writes the manifest",
    "cli/queue.py": "sends what the ledger's outbox has, which is redacted",
    "service/composition/cloud.py": "writes a probe",
    "service/composition/persona.py": "all of sync: WAYS",
    "service/composition/storage.py": "opens it for the others",
    "service/worker.py": "sends what the ledger's outbox has, which is redacted",
    "storage/azure.py": "opens it for the others",
}
_OPENING = {"open_container", "open_store", "open_azure_store", "BlobBackend", "CachedBlobBackend"}


def test_every_module_that_opens_a_container_is_known() -> None:
    """A new one is a new way out: add it to WAYS when documents can leave by it."""
    root = Path(memplane.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if _names_called(path.read_text("utf-8")) & _OPENING
    }
    assert found == _OPENERS.keys()


def test_a_new_way_out_is_noticed() -> None:
    assert _names_called("with memplane.BlobBackend(x) as b:\n    pass\n") & _OPENING


def _names_called(source: str) -> set[str]:
    called = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {
        name.attr if isinstance(name, ast.Attribute) else name.id
        for name in called
        if isinstance(name, ast.Attribute | ast.Name)
    }
