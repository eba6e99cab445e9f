"""The real Claude Code, run without a terminal, in a home of its own, against a given address."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.azurite import ROOT

_PACKAGES = Path("node_modules", "@anthropic-ai")
PINNED, NEWEST = ROOT, ROOT / "tools" / "newest-clients"
"""Where the versions are installed: that of every test, and that of the long ones."""
_KEY = "sk-ant-dummy"
MODEL = "claude-sonnet-4-5"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run of the program left: its events are the lines that it printed."""

    code: int
    events: list[dict[str, Any]]
    stderr: str
    stdout: bytes

    @property
    def result(self) -> dict[str, Any]:
        """The last event, which says how it went."""
        return self.of_type("result")[-1]

    @property
    def session(self) -> str:
        return str(self.result["session_id"])

    def of_type(self, kind: str, subtype: str = "") -> list[dict[str, Any]]:
        found = (one for one in self.events if one["type"] == kind)
        return [one for one in found if not subtype or one.get("subtype") == subtype]


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """Claude Code of a user whose home is `home`, at work in `project`; both are made.

    Its environment has only what it needs, so nothing of the developer's reaches it. Runs in equal
    folders with the same `--session-id` send the same bytes. `within` is a program that runs it.
    """

    address: str
    home: Path
    project: Path
    within: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    version: Path = PINNED

    @property
    def is_newest(self) -> bool:
        return self.version == NEWEST

    async def ask(self, prompt: str, *options: str, model: str = MODEL) -> Ran:
        """Run `claude -p` with a prompt, and wait for its end."""
        code, stdout, stderr = await self.print(
            *("--output-format", "stream-json", "--verbose", "--model", model),
            *options,
            "--",
            prompt,
        )
        events = [json.loads(line) for line in stdout.splitlines() if line.strip()]
        return Ran(code, events, stderr, stdout)

    async def print(self, *words: str) -> tuple[int, bytes, str]:
        """Run `claude -p` to its end; returns its exit code, its output and its complaints."""
        self._settle()
        process = await asyncio.create_subprocess_exec(
            *self.within,
            str(find_program(self.version)),
            "-p",
            *words,
            cwd=self.project,
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            stdout, stderr = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        assert process.returncode is not None
        return process.returncode, stdout, stderr.decode()

    @asynccontextmanager
    async def at_a_terminal(self, prompt: str) -> AsyncIterator[None]:
        """Open it on a terminal, with a first prompt; it is ended afterwards."""
        self._settle()
        terminal, its = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            str(find_program(self.version)),
            *("--model", MODEL, prompt),
            cwd=self.project,
            env={**self._environment(), "TERM": "xterm-256color"},
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)
        loop = asyncio.get_running_loop()
        loop.add_reader(terminal, _read_off, terminal)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            loop.remove_reader(terminal)
            os.close(terminal)

    def leave(self) -> None:
        """Remove both folders, so that the next run is the first one again."""
        shutil.rmtree(self.home)
        shutil.rmtree(self.project)

    def _settle(self) -> None:
        self.project.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)
        own = self.home / ".claude.json"
        if not own.exists():
            settled = {
                # Otherwise it makes a number up, which is in every request.
                "userID": "0" * 64,
                # Otherwise it asks a user at a terminal about all this first.
                "hasCompletedOnboarding": True,
                "customApiKeyResponses": {"approved": [_KEY], "rejected": []},
                "projects": {str(self.project): {"hasTrustDialogAccepted": True}},
            }
            own.write_text(json.dumps(settled))

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": self.address,
            "ANTHROPIC_API_KEY": _KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **self.environment,
        }


def _read_off(terminal: int) -> None:
    # The end of the program is the end of its terminal, which is an error here.
    with suppress(OSError):
        os.read(terminal, 1 << 16)


def find_program(version: Path = PINNED) -> Path:
    """Find the program in the package for this platform; npm's link needs a script to have run."""
    found = next(iter(sorted((version / _PACKAGES).glob("claude-code-*/claude"))), None)
    if found is None:
        target = "test-long" if version == NEWEST else "test"
        raise RuntimeError(f"no claude below {version}; run `make {target}`, which installs it")
    return found
