"""Where Claude Code keeps a project's memory; the program itself is asked too."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from memplane.integrations.claude_code.memory_folder import (
    claude_code_memory_dir,
    find_main_root,
    memory_dir_for_hook,
)
from memplane.integrations.claude_code.project_slug import make_slug
from tests.support.claude_code import find_program


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "top"
    made.mkdir()
    return made


@pytest.fixture
def home(top: Path) -> Path:
    made = top / "home"
    made.mkdir()
    return made


@pytest.fixture
def repository(top: Path) -> Path:
    made = top / "my.repo"
    git(top, "init", "-q", str(made))
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    git(made, *author, "commit", "-q", "--allow-empty", "-m", "first")
    return made


def git(folder: Path, *words: str) -> None:
    nothing_of_the_developer = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    subprocess.run(
        ["git", *words],
        cwd=folder,
        env={**nothing_of_the_developer, "GIT_CONFIG_NOSYSTEM": "1"},
        check=True,
        capture_output=True,
    )


def worktree(repository: Path, name: str = "tree") -> Path:
    made = repository.parent / name
    git(repository, "worktree", "add", "-q", "--detach", str(made))
    return made


def settle(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"autoMemoryDirectory": value}))


def trust(home: Path, folder: Path) -> None:
    said = {"projects": {str(folder): {"hasTrustDialogAccepted": True}}}
    (home / ".claude.json").write_text(json.dumps(said))


def ruled(home: Path, root: Path) -> Path:
    return home / ".claude" / "projects" / make_slug(str(root)) / "memory"


def memory_of(root: Path, home: Path, **environ: str) -> Path:
    return claude_code_memory_dir(root, environ=environ, home=home)


# The rule


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("dots.and_under", "-dots-and-under"),
        ("space and é", "-space-and--"),
        ("Case-Kept", "-Case-Kept"),
        ("runs...kept", "-runs---kept"),
        ("emoji😀", "-emoji--"),
    ],
)
def test_without_git_the_folder_is_named_after_the_project(
    top: Path, home: Path, name: str, ending: str
) -> None:
    project = top / name
    project.mkdir()
    found = memory_of(project, home)
    assert found == ruled(home, project)
    assert found.parent.name.endswith(ending)
    assert not found.exists()


def test_a_folder_in_a_repository_shares_its_memory(home: Path, repository: Path) -> None:
    deep = repository / "a" / "b"
    deep.mkdir(parents=True)
    assert memory_of(deep, home) == memory_of(repository, home) == ruled(home, repository)


def test_a_worktree_shares_the_memory_of_the_main_one(home: Path, repository: Path) -> None:
    tree = worktree(repository, "tree one")
    deep = tree / "a"
    deep.mkdir()
    assert memory_of(tree, home) == memory_of(deep, home) == ruled(home, repository)
    inside = worktree(repository, "my.repo/.claude/worktrees/x")
    assert memory_of(inside, home) == ruled(home, repository)


def test_a_worktree_of_a_bare_repository_is_known_by_the_repository(
    top: Path, home: Path, repository: Path
) -> None:
    bare = top / "bare.git"
    git(top, "clone", "-q", "--bare", str(repository), str(bare))
    assert memory_of(worktree(bare), home) == ruled(home, bare)


def test_a_submodule_is_a_project_of_its_own(home: Path, repository: Path) -> None:
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "-q")
    git(repository, *add, str(repository), "inner")
    assert (repository / "inner" / ".git").is_file()
    assert memory_of(repository / "inner", home) == ruled(home, repository / "inner")


def test_a_linked_folder_is_where_it_leads(top: Path, home: Path, repository: Path) -> None:
    (repository / "sub").mkdir()
    (top / "link").symlink_to(repository / "sub")
    assert memory_of(top / "link", home) == ruled(home, repository)


def test_a_git_file_that_is_not_pointed_back_at_leads_nowhere(
    top: Path, home: Path, repository: Path
) -> None:
    tree = worktree(repository)
    stranger = top / "stranger"
    stranger.mkdir()
    (stranger / ".git").write_text((tree / ".git").read_text())
    assert memory_of(stranger, home) == ruled(home, stranger)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"gitdir:",
        b"gitdir: /nowhere",
        b"gitdir: ../nowhere\n",
        b"gitdir: .",
        b"gitdir: a\0b",
        b"\xff\xfe",
        b"something else",
        b"gitdir: " + b"x" * 200_000,
    ],
)
def test_an_odd_git_file_leads_nowhere(top: Path, home: Path, content: bytes) -> None:
    project = top / "project"
    project.mkdir()
    (project / ".git").write_bytes(content)
    assert memory_of(project, home) == ruled(home, project)
    assert find_main_root(project) == project


def test_outside_of_all_repositories_there_is_no_root(top: Path, repository: Path) -> None:
    assert find_main_root(top) is None
    assert find_main_root(top / "not" / "there") is None
    assert find_main_root(repository / "not" / "there") == repository


# A long name


def long_project(top: Path) -> Path:
    made = top.joinpath(*["x" * 60] * 4)
    made.mkdir(parents=True)
    assert len(make_slug(str(made))) > 200
    return made


@pytest.mark.parametrize(
    ("root", "digits"),
    [("/" + "/".join(["x" * 60] * 5), "xv7lrj"), ("/" + "é😀" * 120, "8ybdin")],
)
def test_a_long_name_ends_in_the_hash_that_claude_code_makes(
    home: Path, root: str, digits: str
) -> None:
    assert memory_of(Path(root), home).parent.name == f"{make_slug(root)[:200]}-{digits}"


def test_of_a_long_name_the_one_folder_that_begins_so_is_taken(top: Path, home: Path) -> None:
    project = long_project(top)
    likely = memory_of(project, home)
    beginning = make_slug(str(project))[:200]
    other = likely.parent.with_name(f"{beginning}-0ther")
    other.mkdir(parents=True)
    assert memory_of(project, home) == other / "memory"
    other.with_name(f"{beginning}-another").mkdir()
    assert memory_of(project, home) == likely
    likely.parent.mkdir()
    assert memory_of(project, home) == likely


# Where it all lies


def test_the_configuration_may_lie_elsewhere(top: Path, home: Path, repository: Path) -> None:
    found = memory_of(repository, home, CLAUDE_CONFIG_DIR=str(top / "conf"))
    assert found == top / "conf" / "projects" / make_slug(str(repository)) / "memory"
    assert memory_of(repository, home, CLAUDE_CONFIG_DIR="") == ruled(home, repository)


@pytest.mark.parametrize("name", ["a", "My_project-1", "x" * 64])
def test_the_project_may_be_named(top: Path, home: Path, repository: Path, name: str) -> None:
    named = {"CLAUDE_CODE_PROJECT_DIR_NAME": name}
    found = memory_of(repository, home, CLAUDE_CONFIG_DIR=str(top / "conf"), **named)
    assert found == top / "conf" / "projects" / name / "memory"
    assert memory_of(repository, home, **named) == ruled(home, repository)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a.b", "x" * 65, "é"])
def test_a_name_that_could_be_a_path_is_none(
    top: Path, home: Path, repository: Path, name: str
) -> None:
    conf = str(top / "conf")
    named = {"CLAUDE_CODE_PROJECT_DIR_NAME": name, "CLAUDE_CONFIG_DIR": conf}
    assert memory_of(repository, home, **named) == memory_of(
        repository, home, CLAUDE_CONFIG_DIR=conf
    )


# The setting


def test_the_users_setting_wins_over_the_rule(top: Path, home: Path, repository: Path) -> None:
    settle(home / ".claude" / "settings.json", "~/mine")
    assert memory_of(repository, home) == home / "mine"
    settle(top / "conf" / "settings.json", "/elsewhere/memory")
    elsewhere = memory_of(repository, home, CLAUDE_CONFIG_DIR=str(top / "conf"))
    assert elsewhere == Path("/elsewhere/memory")


def test_a_projects_setting_counts_once_the_user_trusts_it(home: Path, repository: Path) -> None:
    settle(home / ".claude" / "settings.json", "/user/memory")
    settle(repository / ".claude" / "settings.json", "/project/memory")
    assert memory_of(repository, home) == Path("/user/memory")
    trust(home, repository)
    assert memory_of(repository, home) == Path("/project/memory")
    settle(repository / ".claude" / "settings.local.json", "/local/memory")
    assert memory_of(repository, home) == Path("/local/memory")


def test_trust_in_a_folder_is_trust_in_what_lies_below(
    top: Path, home: Path, repository: Path
) -> None:
    settle(repository / ".claude" / "settings.json", "/project/memory")
    trust(home, top / "my")
    assert memory_of(repository, home) == ruled(home, repository)
    trust(home, top)
    assert memory_of(repository, home) == Path("/project/memory")
    tree = worktree(repository, "elsewhere")
    settle(tree / ".claude" / "settings.json", "/tree/memory")
    trust(home, repository)
    assert memory_of(tree, home) == Path("/tree/memory")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("/a/b/../c/", "/a/c"),
        ("//double/x", "/double/x"),
        ("/ab", "/ab"),
        ("/e\u0301/x", "/\u00e9/x"),
        ("~/x/../y", "{home}/y"),
    ],
)
def test_a_setting_is_a_path_from_the_root_or_from_home(
    home: Path, repository: Path, value: str, path: str
) -> None:
    settle(home / ".claude" / "settings.json", value)
    assert memory_of(repository, home) == Path(path.format(home=home))


@pytest.mark.parametrize(
    "value",
    ["", "~", "~/", "~/..", "~/x/../../y", "relative", "./x", "/", "/a", "/a\0b", "~ada/x"],
)
def test_a_setting_of_no_use_leaves_the_rule(home: Path, repository: Path, value: str) -> None:
    settle(home / ".claude" / "settings.json", "/user/memory")
    settle(repository / ".claude" / "settings.local.json", value)
    trust(home, repository)
    assert memory_of(repository, home) == ruled(home, repository)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"autoMemoryDirectory": 5}', "[" * 100_000, "\ud800"]
)
def test_damaged_settings_say_nothing(home: Path, repository: Path, text: str) -> None:
    settle(home / ".claude" / "settings.json", "/user/memory")
    (repository / ".claude").mkdir()
    trust(home, repository)
    settings = repository / ".claude" / "settings.json"
    settings.write_bytes(text.encode(errors="surrogatepass"))
    assert memory_of(repository, home) == Path("/user/memory")
    settings.unlink()
    settings.mkdir()
    assert memory_of(repository, home) == Path("/user/memory")
    (home / ".claude.json").write_bytes(text.encode(errors="surrogatepass"))
    assert memory_of(repository, home) == Path("/user/memory")


# For a hook


def test_a_hook_finds_the_folder_step_by_step(top: Path, home: Path, repository: Path) -> None:
    transcript = home / ".claude" / "projects" / "-tmp-sub" / "session.jsonl"

    def found(explicit: Path | None = None) -> Path:
        return memory_dir_for_hook(
            repository, environ={}, home=home, explicit=explicit, transcript=transcript
        )

    assert found() == transcript.parent / "memory"
    ruled(home, repository).mkdir(parents=True)
    assert found() == ruled(home, repository)
    settle(home / ".claude" / "settings.json", "/user/memory")
    assert found() == Path("/user/memory")
    settle(repository / ".claude" / "settings.json", "/project/memory")
    assert found() == Path("/project/memory")
    assert found(top / "explicit") == top / "explicit"


def test_a_hook_without_a_transcript_goes_by_the_rule(home: Path, repository: Path) -> None:
    found = memory_dir_for_hook(repository, environ={}, home=home)
    assert found == ruled(home, repository)
    assert not found.exists()


def test_a_hook_goes_by_the_project_and_not_by_where_the_agent_went(
    top: Path, home: Path, repository: Path
) -> None:
    settle(repository / ".claude" / "settings.json", "/project/memory")
    environ = {"CLAUDE_PROJECT_DIR": str(repository)}
    found = memory_dir_for_hook(top, environ=environ, home=home)
    assert found == Path("/project/memory")


# The program itself


def told_by_claude_code(folder: Path, home: Path) -> Path:
    """Start the real program, let it say where it keeps its memory, and end it."""
    process = subprocess.Popen(
        [
            *(str(find_program()), "-p", "--output-format", "stream-json", "--verbose"),
            *("--model", "claude-sonnet-4-5", "--", "hello"),
        ],
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            # Nobody listens there, and it says hello before it asks.
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
            "ANTHROPIC_API_KEY": "sk-ant-dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        events = (json.loads(line) for line in process.stdout)
        init = next(event for event in events if event.get("subtype") == "init")
        return Path(init["memory_paths"]["auto"])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_claude_code_says_the_same(top: Path, home: Path, repository: Path) -> None:
    bare = top / "bare.git"
    git(top, "clone", "-q", "--bare", str(repository), str(bare))
    deep, plain, own = repository / "a" / "b", top / "plain é 😀", top / "own"
    for made in (deep, plain, own):
        made.mkdir(parents=True)
    (top / "link").symlink_to(deep)
    settle(own / ".claude" / "settings.json", f"{top}/x/../memory/")
    for folder in (
        deep,
        plain,
        own,
        top / "link",
        long_project(top),
        worktree(repository, "tree one"),
        worktree(bare, "bare tree"),
    ):
        found = memory_dir_for_hook(folder, environ={}, home=home)
        assert found == told_by_claude_code(folder, home), folder
