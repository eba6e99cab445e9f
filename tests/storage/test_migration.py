"""Migration: every file once, verified, and nothing changed at the source."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memplane import (
    BlobBackend,
    CachedBlobBackend,
    LocalBackend,
    MigrationReport,
    migrate_local_to_backend,
)
from memplane.errors import BackendUnavailable
from memplane.kit.retry_clock import RetryClock
from memplane.service.composition.storage import BlobStorage, _access, open_container
from memplane.storage.azure import open_azure_store
from memplane.storage.backend import KeyInfo, StoreBackend, Versioned
from memplane.storage.store import Absent
from tests.support.azurite import Azurite


@pytest.fixture(params=["local", "blob", "cached"])
def backend(
    request: pytest.FixtureRequest, azurite: Azurite, container: str, tmp_path: Path
) -> Iterator[StoreBackend]:
    blob = azurite.by_key(container)
    kinds: dict[str, Callable[[], StoreBackend]] = {
        "local": lambda: LocalBackend(tmp_path / "destination"),
        "blob": lambda: BlobBackend(blob, cache=tmp_path / "cache"),
        "cached": lambda: CachedBlobBackend(blob, cache=tmp_path / "cache"),
    }
    with kinds[request.param]() as opened:
        yield opened


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    for name, text in {
        "interactions/2026-01-01.jsonl": '{"id":"1"}\n',
        "summaries/2026-01-01.html": "<div>é</div>\r\n",
        "watched_chats": "chat\n",
        "email_cursor.txt": "2026-01-01",
        "behavioral/MEMORY.md": "- old name\n",
        "empty.txt": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return root


def snapshot(root: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


KEYS = [
    "claude_memory/MEMORY.md",
    "email_cursor.txt",
    "empty.txt",
    "interactions/2026-01-01.jsonl",
    "summaries/2026-01-01.html",
    "watched_chats",
]
MIGRATED = sorted(
    {"email_cursor.txt": "state/email_cursor.txt", "watched_chats": "state/watched_chats"}.get(
        key, key
    )
    for key in KEYS
)


def test_everything_is_copied_and_the_source_is_untouched(
    backend: StoreBackend, tree: Path
) -> None:
    before = snapshot(tree)
    report = migrate_local_to_backend(tree, backend)
    assert (report.copied, report.skipped, report.errors) == (6, 0, [])
    assert report.verified == 6
    assert report.bytes_copied == sum(path.stat().st_size for path in tree.rglob("*.*")) + 5
    assert sorted(report.keys_copied) == MIGRATED
    assert backend.list() == MIGRATED
    assert backend.read_text("summaries/2026-01-01.html") == "<div>é</div>\r\n"
    assert snapshot(tree) == before


def test_a_second_run_copies_nothing(backend: StoreBackend, tree: Path) -> None:
    migrate_local_to_backend(tree, backend)
    report = migrate_local_to_backend(tree, backend)
    assert (report.copied, report.skipped, report.errors) == (0, 6, [])


def test_what_is_there_is_not_replaced(backend: StoreBackend, tree: Path) -> None:
    backend.write_text("empty.txt", "theirs")
    report = migrate_local_to_backend(tree, backend)
    assert (report.copied, report.skipped) == (5, 1)
    assert backend.read_text("empty.txt") == "theirs"


def test_pairs_of_folder_and_prefix(backend: StoreBackend, tree: Path, tmp_path: Path) -> None:
    persona = tmp_path / "memory"
    persona.mkdir()
    (persona / "user_style.md").write_text("---\nname: x\ndescription: y\ntype: user\n---\n\nz\n")
    missing = tmp_path / "missing"
    report = migrate_local_to_backend(
        [(tree, ""), (persona, "claude_memory"), (missing, "nothing")], backend
    )
    assert report.copied == 7
    assert backend.exists("claude_memory/user_style.md")


def test_only_the_named_subtrees(backend: StoreBackend, tree: Path) -> None:
    report = migrate_local_to_backend(tree, backend, sources=["summaries", "watched_chats"])
    assert sorted(report.keys_copied) == ["state/watched_chats", "summaries/2026-01-01.html"]


def test_a_missing_root_is_nothing(backend: StoreBackend, tmp_path: Path) -> None:
    assert migrate_local_to_backend(tmp_path / "missing", backend) == MigrationReport()


def test_one_error_does_not_stop_the_rest(backend: StoreBackend, tree: Path) -> None:
    (tree / "link.md").symlink_to(tree / "empty.txt")
    (tree / "linked").symlink_to(tree / "summaries")
    (tree / "trailing. ").write_text("x")
    report = migrate_local_to_backend(tree, backend)
    assert report.copied == 6
    reasons = {Path(path).name: reason for path, reason in report.errors}
    assert set(reasons) == {"link.md", "linked", "trailing. "}
    assert "symbolic link" in reasons["link.md"]
    assert "dot or a space" in reasons["trailing. "]


def test_progress_is_told(backend: StoreBackend, tree: Path) -> None:
    told: list[tuple[int, int]] = []
    migrate_local_to_backend(
        tree, backend, progress=lambda done, of, _key: told.append((done, of))
    )
    assert told == [(number, 6) for number in range(1, 7)]


class Forgetful:
    """Takes everything and gives something else back."""

    def read_versioned(self, key: str) -> Versioned | None:
        return None

    def write_if(
        self, key: str, data: bytes, *, if_match: str | None = None, if_absent: bool = False
    ) -> str:
        return "1"

    def list_meta(self, prefix: str = "") -> list[KeyInfo]:
        return []


def test_a_copy_that_cannot_be_read_back_is_an_error(tree: Path) -> None:
    report = migrate_local_to_backend(tree, Forgetful())
    assert (report.copied, report.verified, len(report.errors)) == (0, 0, 6)


class Silent(Forgetful):
    def list_meta(self, prefix: str = "") -> list[KeyInfo]:
        raise BackendUnavailable("nobody answers")


def test_a_backend_that_cannot_be_listed_stops_it_before_it_begins(tree: Path) -> None:
    with pytest.raises(BackendUnavailable):
        migrate_local_to_backend(tree, Silent())


async def test_the_manifest_then_lists_exactly_the_keys(
    azurite: Azurite, container: str, tmp_path: Path, tree: Path
) -> None:
    blob = azurite.by_key(container)
    with CachedBlobBackend(blob, cache=tmp_path / "cache") as backend:
        migrate_local_to_backend(tree, backend)
    async with open_container(BlobStorage(blob, tmp_path / "cache")) as store:
        assert not await store.verify()


def test_what_is_no_file_is_an_error(backend: StoreBackend, tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    report = migrate_local_to_backend(tree, backend)
    assert [(Path(path).name, reason) for path, reason in report.errors] == [
        ("pipe", "is not an ordinary file")
    ]


def test_two_files_for_one_key_are_told(backend: StoreBackend, tree: Path) -> None:
    (tree / "claude_memory").mkdir()
    (tree / "claude_memory" / "MEMORY.md").write_text("- new name\n")
    (tree / "state").mkdir()
    (tree / "state" / "watched_chats").write_text("chat\n")
    report = migrate_local_to_backend(tree, backend)
    assert backend.read_text("claude_memory/MEMORY.md") == "- new name\n"
    assert [Path(path).parent.name for path, _ in report.errors] == ["behavioral"]
    assert "claude_memory/MEMORY.md" in report.errors[0][1]


def test_rivals_are_not_both_copied(backend: StoreBackend, tmp_path: Path) -> None:
    root = tmp_path / "rivals"
    root.mkdir()
    (root / "Notes.md").write_text("1")
    (root / "notes.md").write_text("2")
    report = migrate_local_to_backend(root, backend)
    assert report.copied == 1
    assert "only by case" in report.errors[0][1]
    assert len(backend.list()) == 1


async def test_what_was_there_before_is_in_the_manifest_too(
    azurite: Azurite, container: str, tmp_path: Path, tree: Path
) -> None:
    blob = azurite.by_key(container)
    access = _access(blob)
    async with open_azure_store(access, pacing=RetryClock()) as plain:
        await plain.write("claude_memory/old.md", b"x", expect=Absent())
    with BlobBackend(blob, cache=tmp_path / "cache") as backend:
        migrate_local_to_backend(tree, backend)
    async with open_container(BlobStorage(blob, tmp_path / "cache")) as store:
        assert not await store.verify()
