"""The first commit of a repository, which tells the same project on every machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from memplane.integrations.claude_code import root_commit
from memplane.integrations.claude_code.root_commit import find_root_commit


def git(folder: Path, *words: str, date: str = "") -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    if date:
        env["GIT_COMMITTER_DATE"] = date
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    ran = subprocess.run(
        ["git", *names, *words], cwd=folder, env=env, check=True, timeout=30, capture_output=True
    )
    return ran.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for message in ("first", "second"):
        git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return folder


def test_every_clone_has_the_same(repository: Path, tmp_path: Path) -> None:
    first = git(repository, "rev-list", "--max-parents=0", "HEAD")
    assert find_root_commit(repository) == first
    git(tmp_path, "clone", "-q", str(repository), "clone")
    git(tmp_path / "clone", "commit", "-q", "--allow-empty", "-m", "third")
    assert find_root_commit(tmp_path / "clone") == first


def test_a_shallow_clone_does_not_know_it(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "shallow")
    assert find_root_commit(tmp_path / "shallow") == ""


def test_a_history_that_was_merged_in_later_changes_nothing(repository: Path) -> None:
    first = find_root_commit(repository)
    git(repository, "checkout", "-q", "--orphan", "other")
    git(repository, "commit", "-q", "--allow-empty", "-m", "another first")
    git(repository, "checkout", "-q", "main")
    git(repository, "merge", "-q", "--allow-unrelated-histories", "-m", "both", "other")
    assert len(git(repository, "rev-list", "--max-parents=0", "HEAD").split()) == 2
    assert find_root_commit(repository) == first


def test_an_older_history_that_was_merged_in_changes_nothing(repository: Path) -> None:
    first = find_root_commit(repository)
    git(repository, "checkout", "-q", "--orphan", "other")
    old = "2001-01-01T00:00:00+00:00"
    git(repository, "commit", "-q", "--allow-empty", "-m", "older", date=old)
    git(repository, "checkout", "-q", "main")
    git(repository, "merge", "-q", "--allow-unrelated-histories", "-m", "both", "other")
    assert git(repository, "rev-list", "--max-parents=0", "HEAD").split()[-1] != first
    assert find_root_commit(repository) == first


def test_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_root_commit(tmp_path) == ""
    git(tmp_path, "init", "-q", "empty")
    assert find_root_commit(tmp_path / "empty") == ""
    assert find_root_commit(tmp_path / "nowhere") == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_root_commit(tmp_path) == ""


def test_variables_lead_nowhere_else(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    assert find_root_commit(tmp_path) == ""


def test_one_that_takes_too_long_is_not_waited_for(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_commit, "_GIT_TIMEOUT_S", 0.0)
    assert find_root_commit(repository) == ""
