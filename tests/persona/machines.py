"""Machines that share one container: each with a folder and a memory of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from memplane.kit.clock import Clock
from memplane.kit.retry_clock import RetryClock
from memplane.persona.engine import SyncEngine
from memplane.persona.open_sync import SyncTarget, open_engine
from memplane.persona.project_match import Project
from memplane.persona.report import PersonaReport
from memplane.storage.in_memory_store import InMemoryStore
from memplane.storage.store import ObjectStore

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def clock() -> datetime:
    return NOW


def new_store() -> InMemoryStore:
    return InMemoryStore(clock=clock, pacing=RetryClock())


def memory(
    name: str, *lines: str, kind: str = "reference", description: str = "what it says"
) -> str:
    """A document with frontmatter and a few lines."""
    head = f"---\nname: {name}\ndescription: {description}\ntype: {kind}\n---\n"
    return head + "".join(f"{line}\n" for line in lines)


def no_secrets(text: str) -> Mapping[str, int]:
    return {"password": 1} if "hunter2" in text else {}


@dataclass(slots=True)
class Machine:
    """One machine of one project."""

    folder: Path
    store: ObjectStore
    state: Path
    mine: Project = field(default_factory=lambda: Project("", "demo", "origin-1"))
    prefix: str = "claude_memory"
    limit: int = 256 * 1024
    clock: Clock = clock
    box: str = "box"

    @asynccontextmanager
    async def engine(self, *, join: str = "", force: bool = False) -> AsyncGenerator[SyncEngine]:
        place = SyncTarget(self.folder, self.state, self.box, self.prefix, self.mine, self.limit)
        async with open_engine(
            place,
            self.store,
            find_secrets=no_secrets,
            clock=self.clock,
            pacing=RetryClock(),
            join=join,
            force=force,
        ) as engine:
            yield engine

    async def sync(self, *, force: bool = False, join: str = "") -> PersonaReport:
        async with self.engine(join=join, force=force) as engine:
            return await engine.sync(force=force)

    def write(self, key: str, text: str) -> None:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())

    def read(self, key: str) -> str | None:
        path = self.folder / key
        return path.read_bytes().decode() if path.exists() else None

    def delete(self, *keys: str) -> None:
        for key in keys:
            (self.folder / key).unlink()

    def conflicts(self) -> list[str]:
        """The texts that wait for a person."""
        return [path.read_bytes().decode() for path in self.state.rglob("conflicts/**/*.md")]

    def trash(self) -> list[str]:
        found = (path for path in self.state.rglob("trash/**/*.md") if path.is_file())
        return [path.read_bytes().decode() for path in found]

    async def waiting(self) -> list[str]:
        async with self.engine() as engine:
            return [row.key for row in engine.baseline.waiting()]

    async def held(self) -> list[str]:
        async with self.engine() as engine:
            return [row.key for row in engine.baseline.held()]

    def files(self) -> dict[str, str]:
        """The documents, as a person sees them."""
        found = (path for path in self.folder.rglob("*.md") if not path.name.startswith("."))
        return {path.relative_to(self.folder).as_posix(): path.read_text() for path in found}


def machine(tmp_path: Path, name: str, store: ObjectStore) -> Machine:
    return Machine(tmp_path / name / "memory", store, tmp_path / name / "sync")
