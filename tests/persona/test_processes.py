"""P4 with real processes: homes that share the emulator, are killed, cut off and typed into.

What the user wrote into a file counts as acknowledged: in the end it is on every machine, or kept
aside on one. What the user deleted is on none.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.persona.machines import memory
from tests.support.azurite import ROOT, Azurite
from tests.support.blob_proxy import BlobProxy, running_blob_proxy

SHARED = "self_observations.md"
START = (
    "---\nname: Self\ndescription: what I noticed\ntype: self_observations\n---\n\n"
    "## Failure modes\n\n- none yet\n\n## Open questions\n\n"
)
TROUBLES = ("", "", "unreachable", "answers lost", "500")
MOST_DELETIONS = 6
"""In one phase: more than ten at once would be asked about."""


@dataclass(slots=True)
class Home:
    """One machine: a folder, a state, a process, and a line to the container that may fail."""

    name: str
    base: Path
    proxy: BlobProxy
    container: str
    process: Process | None = None

    @property
    def folder(self) -> Path:
        return self.base / "memory"

    async def start(self) -> None:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.base),
            "MEMPLANE_HOME": str(self.base / "home"),
            "MEMPLANE_BLOB_CONNECTION_STRING": self.proxy.azurite.connection_string,
            "MEMPLANE_BLOB_CONTAINER": self.container,
            "PYTHONPATH": str(ROOT),
        }
        with (self.base / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "tests.persona.syncer", str(self.folder)),
                env=environ,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    async def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            await self.process.wait()
            self.process = None

    def files(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for path in self.folder.glob("*.md"):
            with suppress(FileNotFoundError):  # it went while we looked
                found[path.name] = path.read_bytes()
        return found

    def aside(self) -> bytes:
        found = (path for path in self.base.rglob("conflicts/**/*.md") if path.is_file())
        return b"".join(path.read_bytes() for path in found)

    def log(self) -> str:
        return (self.base / "log").read_text()


@dataclass(slots=True)
class Users:
    """The people at all homes, and what they did."""

    chance: random.Random
    homes: list[Home]
    typed: set[str] = field(default_factory=set[str])
    removed: set[str] = field(default_factory=set[str])
    created: dict[str, bytes] = field(default_factory=dict[str, bytes])
    deleted: set[str] = field(default_factory=set[str])
    left: int = MOST_DELETIONS
    count: int = 0

    def _new(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count:05d}x"

    def append(self, home: Home) -> None:
        """Add a line to the file as it is at this very moment, whatever sync does to it."""
        path = home.folder / SHARED
        if path.exists():
            word = self._new("word")
            with path.open("ab") as file:
                file.write(f"- {word}\n".encode())
            self.typed.add(word)

    def create(self, home: Home) -> None:
        name = self._new("reference_") + ".md"
        text = memory(name, f"written at {home.name}").encode()
        (home.folder / name).write_bytes(text)
        self.created[name] = text

    # These take some time, and are done while nobody syncs.

    def remove(self, home: Home) -> None:
        path = home.folder / SHARED
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        words = [line[2:].strip() for line in lines if line.startswith("- word")]
        if words:
            word = self.chance.choice(words)
            path.write_text("".join(line for line in lines if word not in line))
            self.removed.add(word)

    def delete(self, home: Home) -> None:
        names = sorted(set(home.files()) & set(self.created))
        if names and self.left:
            self.left -= 1
            name = self.chance.choice(names)
            (home.folder / name).unlink()
            self.deleted.add(name)

    async def act(self) -> None:
        home = self.chance.choice(self.homes)
        home.proxy.trouble = self.chance.choice(TROUBLES)
        quick: list[Callable[[Home], None]] = [self.append, self.append, self.create]
        self.chance.choice(quick)(home)
        if self.chance.random() < 0.4:
            await home.kill()
            slow: list[Callable[[Home], None]] = [self.remove, self.delete, self.append]
            for do in self.chance.choices(slow, k=2):
                do(home)
            await home.start()
        await asyncio.sleep(self.chance.uniform(0.0, 0.4))


async def quiet(homes: list[Home], patience: float, *, looks: int = 6) -> bool:
    """Wait until every home has the same documents, and has had them for a while."""
    until = time.monotonic() + patience
    same, before = 0, None
    while time.monotonic() < until:
        first, *others = [home.files() for home in homes]
        same = same + 1 if first == before and all(other == first for other in others) else 0
        before = first
        if same >= looks:
            return True
        await asyncio.sleep(0.3)
    return False


def judge(users: Users) -> None:
    final = users.homes[0].files()
    text = final[SHARED].decode()
    aside = b"".join(home.aside() for home in users.homes).decode()
    lost = {one for one in users.typed - users.removed if one not in text + aside}
    back = {one for one in users.removed if one in text}
    assert (lost, back) == (set(), set())
    missing = {name for name in users.created if final.get(name) != users.created[name]}
    assert missing == users.deleted


async def live(users: Users, phases: int, moments: int) -> None:
    for _ in range(phases):
        users.left = MOST_DELETIONS
        for _ in range(moments):
            await users.act()
        for home in users.homes:
            home.proxy.trouble = ""
        agreed = await quiet(users.homes, patience=90)
        logs = "\n".join(f"{home.name}: {home.log()[-1500:]}" for home in users.homes)
        assert agreed, logs
        judge(users)
        assert not [home.name for home in users.homes if "Traceback" in home.log()], logs


async def run(
    where: tuple[Azurite, str, Path], seed: int, *, homes: int, phases: int, moments: int
) -> None:
    print(f"seed {seed}")
    azurite, container, base = where
    chance = random.Random(seed)  # noqa: S311 - what users do must be repeatable
    async with AsyncExitStack() as stack:
        made: list[Home] = []
        for number in range(homes):
            proxy = await stack.enter_async_context(running_blob_proxy(azurite))
            home = Home(f"home{number}", base / f"home{number}", proxy, container)
            home.folder.mkdir(parents=True)
            stack.push_async_callback(home.kill)
            made.append(home)
        users = Users(chance, made)
        (made[0].folder / SHARED).write_text(START)
        for _ in range(25):
            users.create(made[0])
        for home in made:
            await home.start()
        assert await quiet(made, patience=60, looks=1), [home.log() for home in made]
        await live(users, phases, moments)


@pytest.mark.parametrize("wrong", ["lost", "back", "document lost", "document back"])
async def test_the_judge_sees_what_went_wrong(
    azurite: Azurite, container: str, tmp_path: Path, wrong: str
) -> None:
    async with running_blob_proxy(azurite) as proxy:
        home = Home("home", tmp_path, proxy, container)
        home.folder.mkdir()
        (home.folder / SHARED).write_text(START)
        users = Users(random.Random(1), [home])  # noqa: S311 - repeatable
        users.append(home)
        users.create(home)
        judge(users)
        match wrong:
            case "lost":
                users.typed.add("word99999x")
            case "back":
                users.removed |= users.typed
            case "document lost":
                users.created["reference_99999x.md"] = b"x"
            case _:
                users.deleted |= set(users.created)
        with pytest.raises(AssertionError):
            judge(users)


@pytest.mark.parametrize("homes", [2, 3])
async def test_homes_that_are_killed_and_cut_off_agree_in_the_end(
    azurite: Azurite, container: str, tmp_path: Path, homes: int
) -> None:
    await run((azurite, container, tmp_path), 4_711 + homes, homes=homes, phases=1, moments=20)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(6))
async def test_homes_agree_after_many_troubles(
    azurite: Azurite, container: str, tmp_path: Path, seed: int
) -> None:
    await run((azurite, container, tmp_path), seed, homes=2 + seed % 2, phases=3, moments=60)
