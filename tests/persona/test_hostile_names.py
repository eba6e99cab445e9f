"""T1: whatever somebody puts into the container, nothing leaves the folder; the rest goes on."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from azure.storage.blob.aio import ContainerClient

from memplane.kit.retry_clock import RetryClock
from memplane.service.composition.storage import _access
from memplane.storage.azure import open_azure_store
from memplane.storage.store import DELETED_METADATA
from tests.persona.machines import Machine, machine, memory
from tests.support.azurite import Azurite

TEXT = memory("API", "one")

# As a name, not as a path: `..` written openly would be resolved by the client's own library.
HOSTILE = (
    "%2e%2e/escaped.md",
    "..%2fescaped.md",
    "a/%2e%2e/%2e%2e/escaped.md",
    "/etc/escaped.md",
    "//server/share/escaped.md",
    "C:/escaped.md",
    "C:escaped.md",
    "a\\..\\..\\escaped.md",
    ".bashrc",
    ".ssh/authorized_keys",
    ".git/hooks/pre-commit.md",
    ".memplane-persona.json",
    ".memplane-new-abc-0123456789abcdef",
    "sub/.memplane-gone-abc",
    "CLAUDE.md",
    "claude.MD",
    "sub/AGENTS.md",
    "con.md",
    "sub/NUL.md",
    "lpt1.notes.md",
    "script.sh",
    "settings.json",
    "a/b/c/d/too_deep.md",
    "folder.md/inner.md",
    "trailing.md.",
    "trailing .md ",
    "new\nline.md",
    "tab\t.md",
    "right\u202eleft.md",
    "zero\u200bwidth.md",
    "cafe\u0301.md",
    "名前.md",
    "x" * 300 + ".md",
    "-rf.md",
    "$(touch escaped).md",
    "`id`.md",
    "; rm -rf ~.md",
    "?.md",
    "#fragment.md",
    "%00.md",
    "%n%s.md",
    "<script>.md",
    "'quote\".md",
)


@pytest.fixture
async def raw(azurite: Azurite, container: str) -> AsyncIterator[ContainerClient]:
    """Another client, which keeps no rules."""
    async with ContainerClient.from_connection_string(
        azurite.connection_string, container, api_version="2025-01-05"
    ) as client:
        yield client


@pytest.fixture
async def laptop(azurite: Azurite, container: str, tmp_path: Path) -> AsyncIterator[Machine]:
    async with open_azure_store(_access(azurite.by_key(container)), pacing=RetryClock()) as store:
        one = machine(tmp_path, "laptop", store)
        one.write("reference_api.md", TEXT)
        await one.sync()
        yield one


@contextmanager
def watched(*allowed: Path) -> Iterator[list[str]]:
    """Collect every file that is opened for writing, made or renamed anywhere else."""
    outside: list[str] = []
    watching = True

    def look(event: str, words: tuple[object, ...]) -> None:
        if not watching or event not in _EVENTS:
            return
        if event == "open" and not _writes(words):
            return
        path = words[0]
        if isinstance(path, str) and os.path.isabs(path):  # noqa: PTH117 - it is no path yet
            if not any(Path(path).is_relative_to(one) for one in allowed):
                outside.append(f"{event} {path}")
        elif isinstance(path, str) and (".." in path or "/" in path):
            outside.append(f"{event} {path}")

    sys.addaudithook(look)
    try:
        yield outside
    finally:
        watching = False


_EVENTS = {"open", "os.rename", "os.mkdir", "os.symlink", "os.link", "os.remove", "os.truncate"}


def _writes(words: tuple[object, ...]) -> bool:
    flags = words[2] if len(words) > 2 else 0
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


async def put(raw: ContainerClient, name: str, body: bytes = b"hostile") -> bool:
    """Put something there under any name; some the service itself refuses."""
    try:
        await raw.upload_blob(f"claude_memory/{name}", body, overwrite=True)
    except Exception as error:  # noqa: BLE001 - then nobody can attack with it
        print(f"{name!r}: {type(error).__name__}")
        return False
    return True


async def test_hostile_names_are_refused_and_told_and_the_rest_comes(
    laptop: Machine, raw: ContainerClient, tmp_path: Path
) -> None:
    landed = [name for name in HOSTILE if await put(raw, name)]
    assert len(landed) > 30
    await put(raw, "reference_good.md", memory("Good", "x").encode())
    before = tree(tmp_path)
    with watched(laptop.folder.parent) as outside:
        report = await laptop.sync()
    assert outside == []
    assert laptop.read("reference_good.md") == memory("Good", "x")
    new = tree(tmp_path) - before
    assert {one for one in new if not one.is_relative_to(laptop.state)} == {
        laptop.folder / "reference_good.md"
    }
    listed = [blob.name async for blob in raw.list_blobs(name_starts_with="claude_memory/")]
    hostile = {
        name.removeprefix("claude_memory/")
        for name in listed
        if not name.endswith((".project.json", "MEMORY.md", "_api.md", "_good.md"))
    }
    told = {key.removeprefix("claude_memory/") for key, _ in report.errors}
    assert told == hostile
    await asyncio.sleep(0)


def tree(root: Path) -> set[Path]:
    return set(root.rglob("*"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00" * 100,
        b"\xff\xfe\x00",
        b"---\n" + b"a: &a [" * 50 + b"\n---\n",
        b"---\nname: x\n" + b"k: {" * 5_000 + b"\n---\n",
        b"---\r\n---\r\n",
        b'{"memplane_tombstone":1,',
        b'{"memplane_tombstone":1,"sha256":5}',
    ],
    ids=["empty", "nuls", "no text", "anchors", "deep", "bare", "torn tombstone", "odd tombstone"],
)
async def test_hostile_content_is_data(laptop: Machine, raw: ContainerClient, body: bytes) -> None:
    """It comes or stays, and the sync ends either way; the document beside it is as it was."""
    await put(raw, "reference_odd.md", body)
    for _ in range(2):
        await laptop.sync()
    assert laptop.read("reference_api.md") == TEXT
    laptop.write("reference_odd.md", TEXT)
    for _ in range(2):
        await laptop.sync()
    laptop.write("reference_api.md", TEXT + "two\n")
    await laptop.sync()


async def test_hostile_metadata_is_read_as_none(laptop: Machine, raw: ContainerClient) -> None:
    """A lineage that claims everything, or nothing that can be read, deletes no line."""
    lineages = (
        "x:99999999999999999999",
        "x:999999999999999999",
        ":::,,,",
        "a:-1,b:1e9",
        "," * 500,
    )
    for number, lineage in enumerate(lineages):
        blob = raw.get_blob_client(f"claude_memory/reference_{number}.md")
        await blob.upload_blob(
            memory("M", str(number)).encode(),
            metadata={"memplane_lineage": lineage, "memplane_changed": "yesterday"},
        )
    await laptop.sync()
    for number in range(len(lineages)):
        text = memory("M", str(number))
        assert laptop.read(f"reference_{number}.md") == text
        laptop.write(f"reference_{number}.md", text + "more\n")
    report = await laptop.sync()
    assert (report.errors, report.conflicts) == ([], [])


async def test_a_forged_tombstone_takes_no_edit(laptop: Machine, raw: ContainerClient) -> None:
    """Whoever may write may delete; but what was typed here and not sent is kept."""
    laptop.write("reference_api.md", TEXT + "typed\n")
    blob = raw.get_blob_client("claude_memory/reference_api.md")
    forged = hashlib.sha256(b"").hexdigest()
    await blob.upload_blob(b"{}", overwrite=True, metadata={DELETED_METADATA: forged})
    await laptop.sync()
    assert laptop.read("reference_api.md") == TEXT + "typed\n"
