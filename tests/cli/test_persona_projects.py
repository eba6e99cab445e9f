"""Several projects in one container: each has a prefix of its own, and none gets another's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from memplane import BlobBackend
from memplane.integrations.claude_code.memory_folder import claude_code_memory_dir
from tests.persona.machines import memory
from tests.support.azurite import Azurite
from tests.support.in_process import Done, memplane_here
from tests.support.running import memplane

ROLE = memory("Role", "Works on the shop.", kind="user")
SECRET = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    ran = subprocess.run(
        ["git", *names, *words], cwd=folder, env=env, check=True, timeout=30, capture_output=True
    )
    return ran.stdout.decode().strip()


@dataclass(frozen=True, slots=True)
class Checkout:
    """A project's folder on a machine, and Claude Code's memory of it."""

    home: Path
    project: Path
    env: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def folder(self) -> Path:
        return claude_code_memory_dir(self.project, environ={}, home=self.home.parent)

    @property
    def first_commit(self) -> str:
        return git(self.project, "rev-list", "--max-parents=0", "HEAD")

    def __call__(self, *words: str, **more: str) -> Done:
        return self.run("persona", *words, **more)

    def run(self, *words: str, **more: str) -> Done:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.project)
            ran = memplane_here(self.home, *words, env={**self.env, **more})
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran

    def status(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self("status", "--json").stdout)
        return found

    def write(self, key: str, text: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / key).write_text(text)

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.folder.glob("*.md")}


@dataclass(frozen=True, slots=True)
class World:
    """Machines that share a container."""

    top: Path
    azurite: Azurite
    container: str

    @property
    def env(self) -> dict[str, str]:
        return {
            "MEMPLANE_BLOB_CONNECTION_STRING": self.azurite.connection_string,
            "MEMPLANE_BLOB_CONTAINER": self.container,
        }

    def folder(self, machine: str, name: str) -> Checkout:
        """Make a project's folder without git."""
        project = self.top / machine / name
        project.mkdir(parents=True)
        return Checkout(self.top / machine / "home", project, self.env)

    def repository(self, machine: str, name: str) -> Checkout:
        """Make a project with a first commit of its own."""
        made = self.folder(machine, name)
        git(made.project, "init", "-q", "-b", "main")
        git(made.project, "commit", "-q", "--allow-empty", "-m", f"first of {machine} {name}")
        return made

    def clone(self, of: Checkout, machine: str, name: str, *words: str) -> Checkout:
        (self.top / machine).mkdir(parents=True, exist_ok=True)
        git(self.top / machine, "clone", "-q", *words, f"file://{of.project}", name)
        return Checkout(self.top / machine / "home", self.top / machine / name, self.env)

    def backend(self) -> BlobBackend:
        return BlobBackend(self.azurite.by_key(self.container), cache=self.top / "cache")

    def object_keys(self) -> list[str]:
        with self.backend() as backend:
            return [key for key in backend.list() if key != "manifest.json"]

    def bodies(self) -> bytes:
        with self.backend() as backend:
            found = [backend.read_versioned(key) for key in backend.list()]
            return b"\n".join(one.data for one in found if one is not None)


@pytest.fixture
def world(tmp_path: Path, azurite: Azurite, container: str) -> World:
    return World(tmp_path / "world", azurite, container)


@pytest.fixture
def shop(world: World) -> Checkout:
    """The container's first project, with one document and the index."""
    shop = world.repository("laptop", "shop")
    shop.write("user_role.md", ROLE)
    assert shop("sync").returncode == 0
    return shop


def own_prefix(project: Checkout) -> str:
    return f"claude_memory.{project.project.name}-{project.first_commit[:8]}"


def test_the_first_project_keeps_the_plain_prefix_and_its_record_says_whose_it_is(
    world: World, shop: Checkout
) -> None:
    assert world.object_keys() == [
        "claude_memory/.project.json",
        "claude_memory/MEMORY.md",
        "claude_memory/user_role.md",
    ]
    with world.backend() as backend:
        record = json.loads(backend.read_text("claude_memory/.project.json") or "")
    assert record["origin"] == shop.first_commit
    assert record["name"] == "shop"


def test_an_unrelated_repository_with_an_empty_folder_gets_a_prefix_of_its_own(
    world: World, shop: Checkout
) -> None:
    web = world.repository("laptop", "web")
    done = web("sync")
    assert done.returncode == 0, done.stderr
    assert web.files() == {}
    assert own_prefix(web) in done.stdout, "a person is told where the documents are"
    web.write("user_web.md", memory("Web", "Only here.", kind="user"))
    assert web("sync").returncode == 0
    assert f"{own_prefix(web)}/user_web.md" in world.object_keys()
    assert shop("sync").returncode == 0
    assert set(shop.files()) == {"MEMORY.md", "user_role.md"}
    assert web.status()["prefix"] == own_prefix(web)
    assert shop.status()["prefix"] == "claude_memory"


def test_a_deletion_in_the_second_project_deletes_nothing_in_the_first(
    world: World, shop: Checkout
) -> None:
    web = world.repository("laptop", "web")
    web.write("user_role.md", memory("Role", "Works on the web.", kind="user"))
    assert web("sync").returncode == 0
    (web.folder / "user_role.md").unlink()
    assert web("sync", "--force").returncode == 0
    assert shop("sync").returncode == 0
    assert shop.files()["user_role.md"] == ROLE


def test_a_clone_with_another_name_finds_the_prefix_of_its_first_commit(
    world: World, shop: Checkout
) -> None:
    assert shop.files()
    web = world.repository("laptop", "web")
    web.write("user_web.md", memory("Web", "Only here.", kind="user"))
    assert web("sync").returncode == 0
    for machine, name in (("desktop", "frontend"), ("tablet", "web")):
        other = world.clone(web, machine, name)
        assert other("sync").returncode == 0
        assert other.files() == web.files()
        assert other.status()["prefix"] == own_prefix(web)
    again = world.clone(shop, "desktop", "another-name")
    assert again("sync").returncode == 0
    assert again.files() == shop.files()


@pytest.mark.parametrize("has_documents", [False, True])
def test_a_folder_without_an_id_asks_for_a_name_and_joins_nothing(
    world: World, shop: Checkout, *, has_documents: bool
) -> None:
    web = world.repository("laptop", "web")
    assert web("sync").returncode == 0
    loose = world.folder("desktop", "loose")
    if has_documents:
        loose.write("user_loose.md", memory("Loose", "Only here.", kind="user"))
    before, keys = loose.files(), world.object_keys()
    for words in (("sync",), ("pull",), ("push",), ("sync", "--dry-run")):
        refused = loose(*words)
        assert refused.returncode == 2
        assert "--join NAME" in refused.stderr
        assert "shop" in refused.stderr
        assert "web" in refused.stderr
        assert "MEMPLANE_PERSONA_PROJECT" in refused.stderr
    assert (loose.files(), world.object_keys()) == (before, keys)
    unknown = loose("sync", "--join", "nobody")
    assert unknown.returncode == 2
    assert "shop" in unknown.stderr
    joined = loose("sync", "--join", "shop")
    assert joined.returncode == 0, joined.stderr
    assert "user_role.md" in loose.files()
    assert loose("sync").returncode == 0, "the folder's marker says it from now on"
    assert shop("sync").returncode == 0
    assert ("user_loose.md" in shop.files()) is has_documents


def test_a_name_that_two_projects_have_is_not_enough_to_join(world: World, shop: Checkout) -> None:
    namesake = world.repository("desktop", "shop")
    assert namesake("sync").returncode == 0
    assert namesake.files() == {}
    loose = world.folder("tablet", "loose")
    refused = loose("sync", "--join", "shop")
    assert refused.returncode == 2
    assert own_prefix(namesake) in refused.stderr
    assert loose("sync", "--join", "claude_memory").returncode == 0
    assert loose.files() == shop.files()


def test_a_shallow_clone_is_known_by_the_setting(world: World, shop: Checkout) -> None:
    git(shop.project, "commit", "-q", "--allow-empty", "-m", "second")
    shallow = world.clone(shop, "desktop", "shop", "--depth", "1")
    assert shallow("sync").returncode == 2
    joined = shallow("sync", MEMPLANE_PERSONA_PROJECT=shop.first_commit)
    assert joined.returncode == 0, joined.stderr
    assert shallow.files() == shop.files()


def test_a_project_without_git_is_what_the_setting_says(world: World, shop: Checkout) -> None:
    env = {"MEMPLANE_PERSONA_PROJECT": "notes"}
    here, there = world.folder("laptop", "a"), world.folder("desktop", "b")
    here.write("user_notes.md", memory("Notes", "Only here.", kind="user"))
    assert here("sync", **env).returncode == 0
    assert there("sync", **env).returncode == 0
    assert there.files() == here.files()
    assert set(shop.files()) == {"MEMORY.md", "user_role.md"}
    (prefix,) = {key.partition("/")[0] for key in world.object_keys()} - {"claude_memory"}
    assert prefix.startswith("claude_memory.notes-")


@pytest.mark.parametrize("kind", ["shallow clone", "folder without git"])
def test_where_no_first_commit_is_known_the_marker_of_the_folder_says_it(
    world: World, shop: Checkout, kind: str
) -> None:
    assert shop.files()
    web = world.repository("laptop", "web")
    git(web.project, "commit", "-q", "--allow-empty", "-m", "second")
    web.write("user_web.md", memory("Web", "Only here.", kind="user"))
    assert web("sync").returncode == 0
    if kind == "shallow clone":
        copy = world.clone(web, "desktop", "web", "--depth", "1")
    else:
        copy = world.folder("desktop", "web")
    shutil.copytree(web.folder, copy.folder)  # with its marker, and nothing else of the machine
    done = copy("sync")
    assert done.returncode == 0, done.stderr
    assert copy.status()["prefix"] == own_prefix(web)
    assert copy.files() == web.files()
    (copy.folder / ".memplane-persona.json").unlink()
    assert copy("sync").returncode != 0, "without it, nothing says which project it is"


def test_a_setting_does_not_make_one_project_of_two_repositories(
    world: World, shop: Checkout
) -> None:
    web = world.repository("laptop", "web")
    done = web("sync", MEMPLANE_PERSONA_PROJECT=shop.first_commit)
    assert done.returncode == 0
    assert web.files() == {}


def test_a_container_without_a_record_belongs_to_the_first_project_that_syncs(
    world: World,
) -> None:
    with world.backend() as backend:
        backend.write_text("claude_memory/user_role.md", ROLE)
    shop, web = world.repository("laptop", "shop"), world.repository("laptop", "web")
    assert shop("sync").returncode == 0
    assert "user_role.md" in shop.files()
    assert web("sync").returncode == 0
    assert web.files() == {}


def test_first_devices_that_race_agree_on_the_prefixes(world: World) -> None:
    shop, web = world.repository("laptop", "shop"), world.repository("laptop", "web")
    clones = [world.clone(web, f"m{number}", f"web{number}") for number in range(3)]
    clones += [world.clone(shop, f"n{number}", f"shop{number}") for number in range(3)]

    def sync(one: Checkout) -> int:
        env = {**one.env, "MEMPLANE_PERSONA_DIR": str(one.project / "memory")}
        return memplane(one.home, "persona", "sync", env=env).returncode

    with ThreadPoolExecutor(len(clones)) as pool:
        assert list(pool.map(sync, clones)) == [0] * len(clones)
    records = [key for key in world.object_keys() if key.endswith("/.project.json")]
    assert len(records) == 2


def test_a_record_written_before_the_first_commit_learns_it(world: World) -> None:
    shop = world.folder("laptop", "shop")
    git(shop.project, "init", "-q", "-b", "main")
    shop.write("user_role.md", ROLE)
    assert shop("sync").returncode == 0
    git(shop.project, "commit", "-q", "--allow-empty", "-m", "first")
    assert shop("sync").returncode == 0
    clone = world.clone(shop, "desktop", "shop")
    assert clone("sync").returncode == 0
    assert clone.files() == shop.files()


def test_homes_that_share_a_prefix_already_go_on_and_are_warned(
    world: World, shop: Checkout
) -> None:
    web = world.repository("laptop", "web")
    # An earlier version let an empty folder join whatever was there.
    web.folder.mkdir(parents=True)
    project = shop.status()["project"]
    marker = {"project": project, "device": "d"}
    (web.folder / ".memplane-persona.json").write_text(json.dumps(marker))
    for _ in range(2):
        warned = web("sync")
        assert warned.returncode == 0, warned.stderr
        assert "another project" in warned.stdout
        assert "shop" in warned.stdout
    assert web.files() == shop.files()
    web.write("user_web.md", memory("Web", "From the web.", kind="user"))
    assert web("sync").returncode == 0
    done = shop("sync")
    assert "user_web.md" in shop.files()
    assert "another project" not in done.stdout
    # The way out that the warning names.
    (web.folder / ".memplane-persona.json").unlink()
    assert web("sync").returncode == 0
    assert f"{own_prefix(web)}/user_web.md" in world.object_keys()
    assert "another project" not in web("sync").stdout


def test_a_folder_moves_to_a_container_in_which_another_project_is_the_first(
    world: World, shop: Checkout
) -> None:
    other = f"{world.container}-b"
    web = world.repository("laptop", "web")
    assert web("sync", MEMPLANE_BLOB_CONTAINER=other).returncode == 0
    assert shop("sync", MEMPLANE_BLOB_CONTAINER=other).returncode == 0
    with BlobBackend(world.azurite.by_key(other), cache=world.top / "c") as backend:
        assert f"{own_prefix(shop)}/user_role.md" in backend.list()
    assert shop("sync").returncode == 0
    assert shop.status()["prefix"] == "claude_memory"


# Moving what was kept on one machine into the container


def migrate(project: Checkout, *words: str, folder: Path | None = None, **more: str) -> Done:
    source = f"{folder or project.folder}=claude_memory"
    return project.run("cloud", "migrate", "--from", source, *words, **more)


def test_a_second_project_is_migrated_to_the_prefix_that_sync_gives_it(
    world: World, shop: Checkout
) -> None:
    web = world.repository("laptop", "web")
    web.write("user_role.md", memory("Role", "Works on the web.", kind="user"))
    web.write("MEMORY.md", "- [Role](user_role.md) — of the web\n")
    done = migrate(web)
    assert done.returncode == 0, done.stderr
    prefix = own_prefix(web)
    assert [key for key in world.object_keys() if key.startswith(prefix)] == [
        f"{prefix}/.project.json",
        f"{prefix}/MEMORY.md",
        f"{prefix}/user_role.md",
    ]
    with world.backend() as backend:
        assert backend.read_text("claude_memory/user_role.md") == ROLE
    before = web.files()
    assert web("sync").returncode == 0
    assert (web.files(), web.status()["prefix"]) == (before, prefix)
    clone = world.clone(web, "desktop", "frontend")
    assert clone("sync").returncode == 0
    assert clone.files() == before
    assert shop("sync").returncode == 0
    assert shop.files()["user_role.md"] == ROLE
    assert "0 objects" in migrate(web).stdout


def test_the_first_project_is_migrated_to_the_plain_prefix_and_recorded(world: World) -> None:
    shop, web = world.repository("laptop", "shop"), world.repository("laptop", "web")
    shop.write("user_role.md", ROLE)
    assert migrate(shop).returncode == 0
    assert world.object_keys() == ["claude_memory/.project.json", "claude_memory/user_role.md"]
    assert web("sync").returncode == 0
    assert web.files() == {}
    assert shop("sync").returncode == 0
    assert shop.status()["prefix"] == "claude_memory"


@pytest.mark.parametrize("below", ["claude_memory", "behavioral"])
def test_documents_in_the_data_folder_go_to_the_project_one_is_in(
    world: World, shop: Checkout, below: str
) -> None:
    web = world.repository("laptop", "web")
    data = web.home / "data"
    (data / below).mkdir(parents=True)
    (data / below / "user_web.md").write_text(memory("Web", "Only here.", kind="user"))
    (data / "notes.txt").write_text("no document")
    done = web.run("cloud", "migrate")
    assert done.returncode == 0, done.stderr
    keys = set(world.object_keys())
    assert {f"{own_prefix(web)}/user_web.md", "notes.txt"} <= keys
    assert "claude_memory/user_web.md" not in keys
    assert shop("sync").returncode == 0
    assert set(shop.files()) == {"MEMORY.md", "user_role.md"}


def test_of_two_documents_for_one_key_the_one_in_the_newer_folder_is_migrated(
    world: World, shop: Checkout
) -> None:
    assert shop.files()
    web = world.repository("laptop", "web")
    for below in ("behavioral", "claude_memory"):
        (web.home / "data" / below).mkdir(parents=True)
        (web.home / "data" / below / "user_web.md").write_text(memory("Web", below, kind="user"))
    done = web.run("cloud", "migrate")
    assert done.returncode == 2, "it says that one of the two was left"
    with world.backend() as backend:
        text = backend.read_text(f"{own_prefix(web)}/user_web.md") or ""
    assert "behavioral" not in text


def test_documents_of_an_unknown_project_are_migrated_only_when_it_is_named(
    world: World, shop: Checkout
) -> None:
    assert shop.files()
    loose = world.folder("desktop", "loose")
    loose.write("user_loose.md", memory("Loose", "Only here.", kind="user"))
    before = world.object_keys()
    refused = migrate(loose)
    assert refused.returncode == 2
    assert "--join NAME" in refused.stderr
    assert "shop" in refused.stderr
    assert world.object_keys() == before
    assert migrate(loose, "--join", "shop").returncode == 0
    assert "claude_memory/user_loose.md" in world.object_keys()
    named = migrate(world.folder("tablet", "b"), folder=loose.folder, MEMPLANE_PERSONA_PROJECT="n")
    assert named.returncode == 0
    assert [key for key in world.object_keys() if key.startswith("claude_memory.n-")]


def test_what_is_no_document_is_migrated_without_a_question(world: World, shop: Checkout) -> None:
    assert shop.files()
    loose = world.folder("desktop", "loose")
    (loose.home / "data").mkdir(parents=True)
    loose.home.chmod(0o700)
    (loose.home / "data" / "notes.txt").write_text("no document")
    assert loose.run("cloud", "migrate").returncode == 0
    other = loose.run("cloud", "migrate", "--from", f"{loose.home / 'data'}=archive")
    assert other.returncode == 0
    (loose.home / "data" / "claude_memory").mkdir()
    (loose.home / "data" / "claude_memory" / "user_x.md").write_text(ROLE)
    assert loose.run("cloud", "migrate").returncode == 2
    assert loose.run("cloud", "migrate", "--source", "notes.txt").returncode == 0
    assert {"notes.txt", "archive/notes.txt"} <= set(world.object_keys())


# One id for two repositories


def test_a_setting_that_names_another_repository_does_not_lead_to_it_later(
    world: World, shop: Checkout
) -> None:
    web = world.repository("laptop", "web")
    setting = {"MEMPLANE_PERSONA_PROJECT": shop.first_commit}
    assert web("sync", **setting).returncode == 0
    web.write("user_web.md", memory("Web", "Only here.", kind="user"))
    assert web("sync", **setting).returncode == 0
    shutil.rmtree(web.home / "state" / "sync")  # what this machine remembers is lost
    assert web("sync", **setting).returncode == 0
    assert web.status()["prefix"] == own_prefix(web)
    assert "user_role.md" not in web.files()
    assert shop("sync").returncode == 0
    assert "user_web.md" not in shop.files()
