"""A machine on which Claude Code works with memplane's hooks: its home, project and worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memplane import BlobBackend
from memplane.home import Home
from memplane.integrations.claude_code.memory_folder import claude_code_memory_dir
from memplane.service.spool import list_jobs
from tests.support.azurite import Azurite
from tests.support.claude_code import PINNED, ClaudeCode


@dataclass(frozen=True, slots=True)
class Workstation:
    """One machine: a user's home with memplane's in it, and a checkout of the project."""

    user: Path
    project: Path
    version: Path = PINNED
    """Where its Claude Code is installed."""

    @property
    def home(self) -> Path:
        return self.user / ".memplane"

    @property
    def folder(self) -> Path:
        """The folder of documents."""
        return claude_code_memory_dir(self.project, environ={}, home=self.user)

    @property
    def log(self) -> str:
        path = self.home / "logs" / "hooks.log"
        return path.read_text() if path.exists() else ""

    @property
    def events(self) -> list[str]:
        """The events that hooks were run for, in their order."""
        return [line.split()[1] for line in self.log.splitlines()]

    def memplane(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "memplane", *words],
            cwd=self.project,
            env={"PATH": os.environ["PATH"], "HOME": str(self.user)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def configure(self, **settings: Mapping[str, object]) -> None:
        """Write memplane's settings, section by section."""
        Home(self.home).create()
        lines: list[str] = []
        for section, values in settings.items():
            lines.append(f"[{section}]")
            lines += [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        (self.home / "config.toml").write_text("\n".join(lines) + "\n")

    def use_container(self, azurite: Azurite, container: str) -> None:
        own = {"connection_string": azurite.connection_string, "container": container}
        self.configure(blob=own)

    def install(self, *words: str) -> None:
        ran = self.memplane("claude", "install", "--yes", *words)
        assert ran.returncode == 0, ran.stderr

    def claude(self, address: str, **environment: str) -> ClaudeCode:
        return ClaudeCode(
            address, self.user, self.project, environment=environment, version=self.version
        )

    def end_worker(self) -> None:
        """End the worker that hooks woke for this home, and no other process."""
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = entry.read_bytes().split(b"\0")
                if b"worker" in words and os.fsencode(self.home) in words:
                    os.kill(int(entry.parent.name), signal.SIGTERM)

    def wait_for_worker(self) -> None:
        """Wait until nothing is left to do; the limit is the test's own."""
        while list_jobs(self.home / "spool"):
            os.sched_yield()


def make_workstations(root: Path, *names: str) -> list[Workstation]:
    """Make machines that have the same project: the first commit of its repository is the same."""
    first, *others = (Workstation(root / name, root / name / "shop") for name in names)
    first.project.mkdir(parents=True)
    git = (
        "git",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "-c",
        "commit.gpgsign=false",
    )
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run([*git, *words], cwd=first.project, check=True)
    for other in others:
        other.user.mkdir(parents=True)
        subprocess.run([*git, "clone", "-q", str(first.project), str(other.project)], check=True)
    return [first, *others]


def read_container(azurite: Azurite, container: str, cache: Path) -> dict[str, str]:
    """Return the documents in a container, by their names."""
    with BlobBackend(azurite.by_key(container), cache=cache) as backend:
        keys = [key for key in backend.list("claude_memory/") if key.endswith(".md")]
        texts = {key: backend.read_text(key) for key in keys}
    return {key.removeprefix("claude_memory/"): text or "" for key, text in texts.items()}
