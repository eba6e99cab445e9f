"""What a user of memplane writes. It is not run; it must type-check under mypy and pyright.

Every construct here is one that users rely on. When a line stops type-checking, their code did
too.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import assert_type

import memplane
from memplane import (
    BlobBackend,
    CachedBlobBackend,
    Client,
    KeyInfo,
    LocalBackend,
    MemoryBackend,
    MemplaneError,
    MigrationReport,
    Settings,
    Status,
    SyncClient,
    Versioned,
    VersionedBackend,
    get_backend,
    load_settings,
    migrate_local_to_backend,
)
from memplane.errors import BackendUnavailable, ConcurrencyError, StorageError

VERSION: str = memplane.__version__


# Text behind keys


def remember(backend: MemoryBackend, line: str) -> None:
    backend.append_text("interactions/2026-01-31.jsonl", line + "\n")
    if not backend.exists("claude_memory/MEMORY.md"):
        backend.write_text("claude_memory/MEMORY.md", "# Memory\n")


def everything(backend: MemoryBackend, prefix: str = "") -> dict[str, str]:
    assert_type(backend.list(), list[str])
    found = {key: backend.read_text(key) for key in backend.list(prefix)}
    return {key: text for key, text in found.items() if text is not None}


class Recording:
    """A backend of the user's own: keeping the five methods is enough."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def read_text(self, key: str) -> str | None:
        return self.texts.get(key)

    def write_text(self, key: str, content: str) -> None:
        self.texts[key] = content

    def append_text(self, key: str, content: str) -> None:
        self.texts[key] = self.texts.get(key, "") + content

    def exists(self, key: str) -> bool:
        return key in self.texts

    def list(self, prefix: str = "") -> list[str]:
        return sorted(key for key in self.texts if key.startswith(prefix))


OWN: MemoryBackend = Recording()


def use_each(settings: Settings) -> None:
    cache = settings.cache_dir / "mine"
    backends: Sequence[MemoryBackend] = [
        LocalBackend(settings.data_dir),
        LocalBackend("/var/lib/memories"),
        BlobBackend(settings.blob, cache=cache),
        CachedBlobBackend(settings.blob, cache=cache),
        get_backend(),
        get_backend(settings),
        OWN,
    ]
    for backend in backends:
        remember(backend, "hello")
    with get_backend(settings) as chosen:
        remember(chosen, "hello")
        versioned: VersionedBackend = chosen
        assert_type(versioned.read_versioned("a.md"), Versioned | None)
    with LocalBackend(settings.data_dir) as local:
        assert_type(local, LocalBackend)
        assert_type(local.read_text("a.md"), str | None)


# Versions


def bump(backend: VersionedBackend, key: str) -> str:
    """Count up, losing no race."""
    while True:
        seen = backend.read_versioned(key)
        try:
            if seen is None:
                return backend.write_if(key, b"1", if_absent=True)
            number = int(seen.data) + 1
            return backend.write_if(key, str(number).encode(), if_match=seen.etag)
        except ConcurrencyError as error:
            assert_type(error.key, str)


def bump_where_possible(backend: MemoryBackend) -> str | None:
    if isinstance(backend, VersionedBackend):
        return bump(backend, "state/count.txt")
    return None


def clean_up(backend: VersionedBackend, before: datetime) -> int:
    old: list[KeyInfo] = [
        info for info in backend.list_meta("tmp/") if info.last_modified < before
    ]
    return sum(backend.delete(info.key, if_match=info.etag) for info in old if info.size > 0)


# Settings


def settings_for_tests(home: Path) -> Settings:
    settings = load_settings({"http.port": "0"}, {**os.environ, "MEMPLANE_HOME": str(home)})
    assert_type(settings.home, Path)
    assert_type(settings.http.port, int)
    assert_type(settings.http.allowed_hosts, tuple[str, ...])
    assert_type(settings.blob.connection_string.reveal(), str)
    assert_type(settings.blob.ca_file, Path | None)
    assert_type(settings.keep_memory_local, bool)
    return replace(settings, keep_memory_local=True)


def ready_made() -> Settings:
    return Settings(agent="ada", keep_memory_local=True)


# Moving


def move(settings: Settings) -> bool:
    def shown(done: int, total: int, key: str) -> None:
        print(f"{done}/{total} {key}")

    with get_backend(settings) as backend:
        report = migrate_local_to_backend(settings.data_dir, backend, progress=shown)
        assert_type(report, MigrationReport)
        several = migrate_local_to_backend(
            [(settings.data_dir, ""), ("/old/memories", "claude_memory")],
            backend,
            sources=["claude_memory", "interactions"],
        )
    for name, reason in [*report.errors, *several.errors]:
        print(f"{name}: {reason}")
    print(f"{report.copied} copied ({report.bytes_copied} bytes), {report.skipped} skipped")
    return report.verified == report.copied == len(report.keys_copied)


# The client


async def where_state_lives() -> str:
    async with Client() as memory:
        status = await memory.status()
        assert_type(status, Status)
        return (
            f"{status.storage.kind} {status.storage.where}: {status.storage.complaint or 'fine'}"
        )


async def ask(memory: Client) -> int:
    return (await memory.status()).storage.waiting


async def ask_later(memory: Client) -> str:
    receipt = await memory.retain("The staging database is on port 5433", agent="ops")
    found = await memory.recall("which port has staging?", agent="ops", limit=3)
    assert_type(receipt.id, str)
    await memory.forget(receipt.id, agent="ops", reason="asked for")
    return "\n".join(block.text for block in found.memories)


def remember_without_waiting() -> bool:
    with SyncClient(url="http://127.0.0.1:6367", token="of the other machine") as memory:
        return bool(memory.recall("which port has staging?", agent="ops").memories)


async def statuses(homes: Sequence[Settings]) -> AsyncIterator[Status]:
    for settings in homes:
        async with Client(settings) as memory:
            yield await memory.status()


# Errors


def read_or_explain(backend: MemoryBackend, key: str) -> str:
    try:
        return backend.read_text(key) or ""
    except BackendUnavailable as error:
        assert_type(error.retry_after, float | None)
        return f"try again in {error.retry_after or 1.0} s"
    except StorageError as error:
        return f"{error.key}: {error}"
    except MemplaneError as error:
        return str(error)
