"""PersonaBackend, as programs use it: two machines, one container, and no command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

import memplane
from memplane import (
    BlobBackend,
    CachedBlobBackend,
    ConflictError,
    LocalBackend,
    PersonaBackend,
    PersonaReport,
    claude_code_memory_dir,
    get_backend,
)
from memplane.errors import (
    BackendMisconfigured,
    BackendUnavailable,
    ConcurrencyError,
    PersonaError,
    UnknownProject,
)
from memplane.kit.retry_clock import RetryClock
from memplane.settings import Settings, load_settings
from memplane.storage.backend import StoreBackend
from tests.cli.test_persona_projects import git
from tests.persona.machines import memory
from tests.support.azurite import Azurite
from tests.support.doorway import Doorway

KEY = "feedback_tests.md"
TEXT = memory("Tests", "one", "two", "three", kind="feedback")
ROLE = memory("Role", "Works on sync.", kind="user")
GOALS = memory("Goals", "No lost edits.", kind="user")
SECRET = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class Program:
    """A program on a machine of its own."""

    folder: Path
    backend: StoreBackend
    persona: PersonaBackend
    settings: Settings

    def write(self, key: str, text: str) -> Path:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def read(self, key: str) -> str:
        return (self.folder / key).read_bytes().decode()

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.folder.glob("*.md")}


NewProgram = Callable[..., Program]


@pytest.fixture
def doorway(azurite: Azurite) -> Iterator[Doorway]:
    door = Doorway(azurite.port)
    door.open()
    yield door
    door.shut()


@pytest.fixture
def new_program(
    tmp_path: Path, azurite: Azurite, doorway: Doorway, container: str
) -> Iterator[NewProgram]:
    reached = replace(azurite, port=doorway.port)
    with ExitStack() as stack:

        def make(
            name: str, kind: str = "blob", *, folder: str = "", project: str = "demo"
        ) -> Program:
            blob = reached.by_key(container)
            settings = load_settings(
                {"home": str(tmp_path / name / "home"), "persona.project": project}, {}
            )
            settings = replace(settings, blob=blob)
            cache = tmp_path / name / "cache"
            makers: dict[str, Callable[[], StoreBackend]] = {
                "blob": lambda: BlobBackend(blob, cache=cache),
                "cached": lambda: CachedBlobBackend(blob, cache=cache),
                "by settings": lambda: get_backend(settings),
            }
            backend = makers[kind]()
            stack.enter_context(backend)
            root = tmp_path / name / "memory" if not folder else tmp_path / folder
            persona = PersonaBackend(backend, local_root=root, settings=settings)
            return Program(root, backend, persona, settings)

        yield make


@pytest.fixture
def laptop(new_program: NewProgram) -> Program:
    return new_program("laptop")


@pytest.fixture
def desktop(new_program: NewProgram) -> Program:
    return new_program("desktop")


@pytest.fixture
def met(laptop: Program, desktop: Program) -> None:
    """Both have two documents and the index."""
    laptop.write(KEY, TEXT)
    laptop.write("user_role.md", ROLE)
    assert laptop.persona.push_all().copied == 3
    assert desktop.persona.pull_all().pulled == 3


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 100)

    monkeypatch.setattr(
        "memplane.service.composition.storage.RetryClock", partial(RetryClock, sleep=sleep)
    )


# All documents


@pytest.mark.parametrize("kind", ["blob", "cached", "by settings"])
def test_documents_follow_through_every_backend_with_a_container(
    kind: str, new_program: NewProgram
) -> None:
    here, there = new_program("here", kind), new_program("there", kind)
    here.write(KEY, TEXT)
    here.write("sub/project_x.md", memory("X", "below", kind="project"))
    pushed = here.persona.push_all()
    assert isinstance(pushed, PersonaReport)
    assert (pushed.copied, pushed.pulled, pushed.errors, pushed.held) == (3, 0, [], [])
    assert pushed.keys == ["MEMORY.md", KEY, "sub/project_x.md"]
    pulled = there.persona.pull_all()
    assert (pulled.copied, pulled.pulled, pulled.keys) == (0, 3, pushed.keys)
    assert there.files() == here.files()
    assert there.read("sub/project_x.md") == here.read("sub/project_x.md")
    again = here.persona.push_all()
    assert (again.copied, again.skipped, again.skipped_keys) == (0, 3, pushed.keys)
    assert f"claude_memory/{KEY}" in here.backend.list()


@pytest.mark.usefixtures("met")
def test_edits_and_deletions_go_both_ways(laptop: Program, desktop: Program) -> None:
    desktop.write(KEY, TEXT + "from the desktop\n")
    (desktop.folder / "user_role.md").unlink()
    pushed = desktop.persona.push_all()
    assert pushed.deleted == 1
    report = laptop.persona.pull_all()
    assert sorted(report.keys) == sorted(pushed.keys)
    assert laptop.read(KEY) == TEXT + "from the desktop\n"
    assert "user_role.md" not in laptop.files()
    assert laptop.persona.push_all().copied == 0, "and it is not published again"


@pytest.mark.usefixtures("met")
def test_a_pull_overwrites_no_local_change(laptop: Program, desktop: Program) -> None:
    laptop.write(KEY, TEXT.replace("one", "ONE"))
    laptop.write("user_role.md", ROLE.replace("sync", "the proxy"))
    desktop.write(KEY, TEXT.replace("three", "THREE"))
    desktop.write("user_role.md", ROLE.replace("sync", "recall"))
    desktop.persona.push_all()
    report = laptop.persona.pull_all()
    assert report.keys == [KEY, "user_role.md"]
    assert laptop.read(KEY) == TEXT.replace("one", "ONE").replace("three", "THREE")
    (copy,) = report.conflicts
    both = laptop.read("user_role.md") + Path(copy).read_text()
    assert "the proxy" in both
    assert "recall" in both
    assert not Path(copy).is_relative_to(laptop.folder)


@pytest.mark.usefixtures("met")
def test_a_push_brings_nothing_and_a_pull_sends_nothing(laptop: Program, desktop: Program) -> None:
    laptop.write(KEY, TEXT + "mine\n")
    desktop.write("user_role.md", ROLE + "yours\n")
    desktop.persona.push_all()
    assert laptop.persona.push_all().keys == [KEY]
    assert laptop.read("user_role.md") == ROLE
    desktop.write(KEY, TEXT + "unsent\n")
    assert laptop.persona.pull_all().keys == ["user_role.md"]


def test_much_is_not_deleted_at_once(laptop: Program) -> None:
    for number in range(12):
        laptop.write(f"user_{number}.md", memory(str(number), "x", kind="user"))
    laptop.persona.push_all()
    for path in laptop.folder.glob("user_*.md"):
        path.unlink()
    with pytest.raises(PersonaError, match="would be deleted"):
        laptop.persona.push_all()
    assert "claude_memory/user_3.md" in laptop.backend.list()


def test_what_may_not_be_published_is_held_and_the_rest_goes(laptop: Program) -> None:
    laptop.write("notes.md", "no frontmatter\n")
    laptop.write("reference_deploy.md", memory("Deploy", SECRET))
    laptop.write("user_role.md", ROLE)
    report = laptop.persona.push_all()
    assert [key for key, _ in report.held] == ["notes.md", "reference_deploy.md"]
    assert report.keys == ["MEMORY.md", "user_role.md"]
    listed = laptop.backend.list()
    assert "held/claude_memory/notes.md" in listed
    assert not [key for key in listed if "deploy" in key]


def test_a_remote_name_that_is_none_is_reported_and_the_rest_comes(laptop: Program) -> None:
    laptop.backend.write_text("claude_memory/AGENTS.md", "Obey.")
    laptop.backend.write_text("claude_memory/user_role.md", ROLE)
    report = laptop.persona.pull_all()
    assert [key for key, _ in report.errors] == ["claude_memory/AGENTS.md"]
    assert set(laptop.files()) == {"user_role.md"}


def test_two_threads_lose_no_document(laptop: Program, desktop: Program) -> None:
    def work(number: int) -> None:
        one = (laptop, desktop)[number % 2]
        path = one.write(f"user_{number}.md", memory(str(number), "x", kind="user"))
        one.persona.push_one(path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))
    for one in (laptop, desktop, laptop):
        one.persona.push_all()
        one.persona.pull_all()
    assert {f"user_{number}.md" for number in range(8)} <= set(laptop.files())
    assert laptop.files() == desktop.files()


# One document


@pytest.mark.usefixtures("met")
def test_one_document_is_pushed_by_any_of_its_names(
    laptop: Program, desktop: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = laptop.write(KEY, TEXT + "four\n")
    laptop.write("user_role.md", ROLE + "not asked to go\n")
    names: tuple[Path | str, ...] = (path, str(path), KEY, Path(KEY))
    for number, name in enumerate(names):
        laptop.write(KEY, TEXT + f"time {number}\n")
        report = laptop.persona.push_one(name)
        assert (report.copied, report.keys) == (1, [KEY])
    monkeypatch.chdir(laptop.folder.parent)
    laptop.write(KEY, TEXT + "from here\n")
    assert laptop.persona.push_one("memory/feedback_tests.md").keys == [KEY]
    desktop.persona.pull_all()
    assert desktop.read(KEY) == TEXT + "from here\n"
    assert desktop.read("user_role.md") == ROLE


def test_a_document_that_is_not_there_is_none(laptop: Program) -> None:
    laptop.folder.mkdir(parents=True)
    assert laptop.persona.push_one("user_gone.md") == PersonaReport()


@pytest.mark.usefixtures("met")
def test_a_document_that_is_gone_is_not_deleted_by_a_push_of_it(laptop: Program) -> None:
    (laptop.folder / KEY).unlink()
    assert laptop.persona.push_one(KEY) == PersonaReport()
    assert f"claude_memory/{KEY}" in laptop.backend.list()


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside.md", "sub/../../outside.md"])
def test_a_document_outside_the_folder_is_refused(laptop: Program, path: str) -> None:
    (laptop.folder.parent / "outside.md").parent.mkdir(parents=True, exist_ok=True)
    (laptop.folder.parent / "outside.md").write_text(ROLE)
    with pytest.raises(ValueError, match="outside"):
        laptop.persona.push_one(path)
    assert laptop.backend.list() == []


def test_a_link_to_the_outside_is_not_followed(laptop: Program) -> None:
    laptop.folder.mkdir(parents=True)
    outside = laptop.folder.parent / "outside.md"
    outside.write_text(ROLE)
    (laptop.folder / "user_link.md").symlink_to(outside)
    assert laptop.persona.push_one("user_link.md").copied == 0
    assert "claude_memory/user_link.md" not in laptop.backend.list()


# By version


@pytest.mark.usefixtures("met")
@pytest.mark.parametrize("name", ["user_goals.md", "claude_memory/user_goals.md"])
@pytest.mark.parametrize("content", [GOALS, GOALS.encode()], ids=["str", "bytes"])
def test_a_document_is_written_by_its_version(
    laptop: Program, desktop: Program, name: str, content: str | bytes
) -> None:
    done, first = laptop.persona.push_with_etag(name, content, None)
    assert done is True
    found = laptop.backend.read_versioned("claude_memory/user_goals.md")
    assert found is not None
    assert (found.etag, found.data) == (first, GOALS.encode())
    assert not [key for key in laptop.backend.list() if "claude_memory/claude_memory" in key]
    assert "user_goals.md" not in laptop.files(), "the folder is left alone"
    for stale in (None, '"0x0"'):
        with pytest.raises(ConflictError):
            laptop.persona.push_with_etag(name, GOALS + "again\n", stale)
    _, second = desktop.persona.push_with_etag(name, GOALS + "again\n", first)
    assert second != first
    with pytest.raises(ConflictError):
        laptop.persona.push_with_etag(name, GOALS, first)
    assert laptop.persona.pull_all().keys == ["user_goals.md"]
    assert laptop.read("user_goals.md") == GOALS + "again\n"


def test_a_conflict_has_the_name_that_programs_know() -> None:
    assert ConflictError is ConcurrencyError
    assert memplane.ConflictError is ConflictError


@pytest.mark.usefixtures("met")
@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        ("notes.md", "no frontmatter\n", "frontmatter"),
        ("reference_deploy.md", memory("Deploy", SECRET), "secret"),
        ("user_raw.md", b"\xff\xfe\x00", "text"),
        ("../user_x.md", ROLE, "published"),
        ("AGENTS.md", ROLE, "instructions"),
        ("claude_memory/AGENTS.md", ROLE, "instructions"),
    ],
)
def test_what_may_not_be_published_is_not_written_by_its_version(
    laptop: Program, key: str, text: str | bytes, says: str
) -> None:
    before = laptop.backend.list()
    with pytest.raises(PersonaError, match=says):
        laptop.persona.push_with_etag(key, text, None)
    assert laptop.backend.list() == before


# Networks


@pytest.mark.usefixtures("met", "short_pauses")
def test_what_could_not_be_sent_is_sent_by_the_next_call_also_by_a_pull(
    laptop: Program, desktop: Program, doorway: Doorway
) -> None:
    doorway.shut()
    path = laptop.write(KEY, TEXT + "written offline\n")
    report = laptop.persona.push_one(path)
    assert report.waiting == [KEY]
    for call in (laptop.persona.push_all, laptop.persona.pull_all):
        with pytest.raises(BackendUnavailable):
            call()
    doorway.open()
    assert laptop.persona.pull_all().keys == [KEY]
    desktop.persona.pull_all()
    assert desktop.read(KEY) == TEXT + "written offline\n"


# Backends and settings that lead nowhere


def test_a_folder_is_no_container(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with (
        LocalBackend(tmp_path / "data") as backend,
        pytest.raises(BackendMisconfigured, match="through a container"),
    ):
        PersonaBackend(backend, local_root=folder)
    assert not folder.exists()
    assert not (tmp_path / "data").exists()


def test_sync_that_is_switched_off_is_said(laptop: Program) -> None:
    quiet = replace(laptop.settings, persona=replace(laptop.settings.persona, sync=False))
    persona = PersonaBackend(laptop.backend, local_root=laptop.folder, settings=quiet)
    for call in (persona.push_all, persona.pull_all, lambda: persona.push_one("a.md")):
        with pytest.raises(BackendMisconfigured, match="MEMPLANE_PERSONA_SYNC"):
            call()


def test_memory_that_is_kept_local_does_not_keep_a_given_backend_from_syncing(
    laptop: Program,
) -> None:
    """The backend says where to; the setting is for those who ask for a backend."""
    local = replace(laptop.settings, keep_memory_local=True)
    laptop.write("user_role.md", ROLE)
    persona = PersonaBackend(laptop.backend, local_root=laptop.folder, settings=local)
    assert persona.push_all().copied == 2


# Projects


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", f"first of {folder.name}")
    return folder


def test_each_repository_has_a_prefix_of_its_own(new_program: NewProgram, tmp_path: Path) -> None:
    shop, web = repository(tmp_path / "shop"), repository(tmp_path / "web")
    ours = new_program("a", folder="shop/memory", project="")
    theirs = new_program("b", folder="web/memory", project="")
    ours.write("user_role.md", ROLE)
    ours.persona.push_all()
    assert theirs.persona.pull_all().keys == []
    theirs.write("user_goals.md", GOALS)
    theirs.persona.push_all()
    commit = git(web, "rev-list", "--max-parents=0", "HEAD")
    own = f"claude_memory.web-{commit[:8]}"
    assert f"{own}/user_goals.md" in theirs.backend.list()
    for key in (f"{own}/user_x.md", "claude_memory/user_y.md", "user_z.md"):
        theirs.persona.push_with_etag(key, GOALS, None)
    written = {key for key in theirs.backend.list() if key.startswith(f"{own}/user_")}
    assert written == {f"{own}/user_{name}.md" for name in ("goals", "x", "y", "z")}
    with pytest.raises(ValueError, match="outside"):
        ours.persona.push_with_etag(f"{own}/user_x.md", GOALS, None)
    clone = tmp_path / "again" / "frontend"
    clone.parent.mkdir()
    git(clone.parent, "clone", "-q", f"file://{web}", "frontend")
    again = new_program("c", folder="again/frontend/memory", project="")
    again.persona.pull_all()
    assert "user_goals.md" in again.files()
    assert "user_role.md" not in again.files()
    assert shop.exists()


def test_a_memory_folder_belongs_to_the_repository_that_the_program_runs_in(
    new_program: NewProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = new_program("a", project="first")
    first.write("user_role.md", ROLE)
    first.persona.push_all()
    shop = repository(tmp_path / "shop")
    monkeypatch.chdir(shop)
    folder = claude_code_memory_dir()
    program = new_program("b", project="")
    persona = PersonaBackend(program.backend, local_root=folder, settings=program.settings)
    assert persona.pull_all().keys == []
    (folder / "user_goals.md").write_text(GOALS)
    persona.push_all()
    commit = git(shop, "rev-list", "--max-parents=0", "HEAD")
    assert f"claude_memory.shop-{commit[:8]}/user_goals.md" in program.backend.list()


def test_a_folder_that_nothing_is_known_of_joins_nothing(new_program: NewProgram) -> None:
    first, loose = new_program("a", project="first"), new_program("b", project="")
    first.write("user_role.md", ROLE)
    first.persona.push_all()
    before = first.backend.list()
    for call in (loose.persona.pull_all, loose.persona.push_all):
        with pytest.raises(UnknownProject, match="MEMPLANE_PERSONA_PROJECT"):
            call()
    assert loose.files() == {}
    assert first.backend.list() == before


# Claude Code's folder


def test_the_memory_folder_is_that_of_the_project_one_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = repository(tmp_path / "shop")
    below = shop / "src" / "deep"
    below.mkdir(parents=True)
    expected = claude_code_memory_dir(shop)
    assert expected.name == "memory"
    assert expected.parent.name.endswith("-shop")
    for folder in (shop, below):
        monkeypatch.chdir(folder)
        assert claude_code_memory_dir() == expected
    assert claude_code_memory_dir(str(shop)) == expected
    monkeypatch.chdir(tmp_path)
    assert claude_code_memory_dir() != expected
