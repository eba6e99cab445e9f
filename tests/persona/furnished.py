"""A folder of documents in every state that an operator may find them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memplane.errors import BackendUnavailable
from memplane.kit.background_loop import run_in_background
from memplane.kit.clock import system_clock
from memplane.kit.retry_clock import RetryClock
from memplane.persona.baseline_reader import read_facts
from memplane.storage.in_memory_store import InMemoryStore
from memplane.storage.store import NO_METADATA, Expect, Version
from tests.persona.machines import Machine, memory, new_store

ADDRESS = "https://example.blob.core.windows.net/agents"
BACKUPS = [f"Step {number}: what is done then." for number in range(1, 31)]


@dataclass(frozen=True, slots=True)
class Furnished:
    """A folder, where its syncs are remembered, and the name that pages have for it."""

    machine: Machine
    memory: Path

    @property
    def id(self) -> str:
        return self.memory.name

    @property
    def snapshot(self) -> str:
        """The name of the only earlier text there is, of the backups."""
        (found,) = (self.memory / "snapshots" / "reference_backups.md").iterdir()
        return found.name

    @property
    def folder(self) -> Path:
        return self.machine.folder


class Refusing(InMemoryStore):
    """A container that never takes one of the documents."""

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        if key.endswith("reference_later.md"):
            raise BackendUnavailable("no answer from the container", key=key)
        return await super().write(key, data, expect=expect, metadata=metadata)


def furnish_persona(folder: Path, state: Path) -> Furnished:
    """Make a folder that was synced, with something of everything in it.

    In step: the index, Backups (with an earlier text) and Role (with a conflict copy). Tone was
    changed, Roadmap is new, Old was deleted; Later waits; notes and Door are held.
    """
    return run_in_background(_furnish(folder, state))


async def _furnish(folder: Path, state: Path) -> Furnished:
    store = Refusing(clock=system_clock, pacing=RetryClock())
    here = Machine(folder, store, state, clock=system_clock)
    other = folder.parent / "there"
    there = Machine(other / "memory", store, other / "sync")
    there.clock = system_clock
    here.write("user_role.md", _role("Prefers short answers."))
    here.write("feedback_tone.md", memory("Tone", "No emoji.", kind="feedback"))
    here.write("reference_backups.md", memory("Backups", *BACKUPS))
    here.write("reference_old.md", memory("Old", "Of no use."))
    await here.sync()
    there.folder.mkdir(parents=True)
    await there.sync()
    there.write("user_role.md", _role("Prefers long answers, with reasons."))
    there.write("reference_backups.md", memory("Backups", *BACKUPS[:-1], "Step 30: rest."))
    await there.sync()
    here.write("user_role.md", _role("Prefers short answers, and tables."))
    here.write("reference_later.md", memory("Later", "It cannot be sent."))
    here.write("notes.md", "No frontmatter.\n")
    here.write("reference_door.md", memory("Door", "The password is hunter2."))
    (folder / "picture.png").write_bytes(b"")
    (folder / "link.md").symlink_to("/etc/hostname")
    await here.sync()
    here.write("feedback_tone.md", memory("Tone", "No emoji at all.", kind="feedback"))
    here.write("project_roadmap.md", memory("Roadmap", "What comes next.", kind="project"))
    (folder / "reference_old.md").unlink()
    return await _furnished(here)


async def _furnished(machine: Machine) -> Furnished:
    async with machine.engine() as engine:
        engine.baseline.note("address", ADDRESS)
        project = engine.baseline.fact("project") or ""
    memories = (machine.state / project).glob("*")
    own = str(machine.folder)
    (found,) = (one for one in memories if read_facts(one).get("folder") == own)
    return Furnished(machine, found)


def _role(line: str) -> str:
    return memory("Role", "Runs the homelab.", line, kind="user", description="who they are")


def furnish_hostile(folder: Path, state: Path, payloads: list[str]) -> Furnished:
    """Make a folder all of whose words are hostile: names, frontmatter, texts, conflict copies."""
    return run_in_background(_furnish_hostile(folder, state, payloads))


async def _furnish_hostile(folder: Path, state: Path, payloads: list[str]) -> Furnished:
    store = new_store()
    here = Machine(folder, store, state, clock=system_clock)
    whole = " ".join(payloads)
    here.write("hostile.md", _hostile(whole))
    here.write("held.md", f"{whole}\n")
    for number, payload in enumerate(payloads):
        here.write(f"reference_{number}.md", _hostile(payload))
    await here.sync()
    for payload in payloads:
        name = payload.replace("/", "")[:100]
        (folder / f"{name}.md").write_text(payload)
    async with here.engine() as engine:
        for payload in (whole, *payloads[:3]):
            now, label = here.clock(), "merge"
            engine.folder.keep_copy("hostile.md", _hostile(payload).encode(), label=label, now=now)
        name = engine.folder.stage("hostile.md", _hostile(f"{whole} again").encode())
        engine.folder.swap("hostile.md", name, _hostile(whole).encode())
    return await _furnished(here)


def _hostile(words: str) -> str:
    text = words.replace("\\", "").replace('"', "'")
    line = "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)
    fields = "".join(f'{name}: "{line}"\n' for name in ("name", "description", "type", "mood"))
    return f'---\n{fields}list:\n  - "{line}"\n"{line}": x\n---\n{words}\n'
