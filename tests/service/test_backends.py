"""The synchronous protocol, against every backend; what it survives is in test_processes.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memplane import (
    BlobBackend,
    BlobSettings,
    CachedBlobBackend,
    LocalBackend,
    Secret,
    get_backend,
)
from memplane.service.composition.storage import fingerprint
from memplane.settings import load_settings
from memplane.storage.backend import StoreBackend
from memplane.testing.backend_conformance import MemoryBackendConformance
from tests.support.azurite import Azurite


class TestLocal(MemoryBackendConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[StoreBackend]:
        with LocalBackend(tmp_path / "data") as backend:
            yield backend

    @pytest.fixture
    def rival(self, tmp_path: Path) -> Iterator[StoreBackend]:
        with LocalBackend(tmp_path / "data") as backend:
            yield backend


class TestBlob(MemoryBackendConformance):
    @pytest.fixture
    def backend(self, azurite: Azurite, container: str, tmp_path: Path) -> Iterator[StoreBackend]:
        with BlobBackend(azurite.by_key(container), cache=tmp_path / "a") as backend:
            yield backend

    @pytest.fixture
    def rival(self, azurite: Azurite, container: str, tmp_path: Path) -> Iterator[StoreBackend]:
        with BlobBackend(azurite.by_key(container), cache=tmp_path / "b") as backend:
            yield backend


class TestCachedBlob(MemoryBackendConformance):
    @pytest.fixture
    def backend(self, azurite: Azurite, container: str, tmp_path: Path) -> Iterator[StoreBackend]:
        with CachedBlobBackend(azurite.by_key(container), cache=tmp_path / "a") as backend:
            yield backend

    @pytest.fixture
    def rival(self, azurite: Azurite, container: str, tmp_path: Path) -> Iterator[StoreBackend]:
        with CachedBlobBackend(azurite.by_key(container), cache=tmp_path / "a") as backend:
            yield backend


def test_what_an_overwrite_replaced_unseen_is_kept(
    azurite: Azurite, container: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blob = azurite.by_key(container)
    with (
        BlobBackend(blob, cache=tmp_path / "a") as ours,
        BlobBackend(blob, cache=tmp_path / "b") as theirs,
    ):
        ours.write_text("state/cursor.txt", "one")
        theirs.read_text("state/cursor.txt")
        theirs.write_text("state/cursor.txt", "theirs")
        ours.write_text("state/cursor.txt", "ours")
        assert theirs.read_text("state/cursor.txt") == "ours"
    (kept,) = (tmp_path / "a" / "conflicts" / "state").iterdir()
    assert kept.read_text() == "theirs"
    assert kept.name.endswith("-cursor.txt")
    assert "'state/cursor.txt' was changed elsewhere" in caplog.text


def test_an_overwrite_of_what_was_seen_keeps_nothing(
    azurite: Azurite, container: str, tmp_path: Path
) -> None:
    with BlobBackend(azurite.by_key(container), cache=tmp_path / "a") as backend:
        backend.write_text("a.md", "one")
        backend.write_text("a.md", "two")
    assert not (tmp_path / "a" / "conflicts").exists()


def test_settings_choose_the_backend(azurite: Azurite, container: str, home: Path) -> None:
    local = load_settings({"home": str(home)}, {})
    assert isinstance(get_backend(local), LocalBackend)
    cloud = {
        "MEMPLANE_BLOB_CONNECTION_STRING": azurite.connection_string,
        "MEMPLANE_BLOB_CONTAINER": container,
    }
    backend = get_backend(load_settings({"home": str(home)}, cloud))
    assert isinstance(backend, CachedBlobBackend)
    with backend:
        backend.write_text("a.md", "x")
    keep = {**cloud, "MEMPLANE_KEEP_MEMORY_LOCAL": "yes"}
    assert isinstance(get_backend(load_settings({"home": str(home)}, keep)), LocalBackend)


def test_asked_twice_for_the_same_storage_it_is_the_same_backend(home: Path) -> None:
    settings = load_settings({"home": str(home)}, {})
    assert get_backend(settings) is get_backend(settings)
    other = load_settings({"home": str(home), "data_dir": str(home / "other")}, {})
    assert get_backend(other) is not get_backend(settings)


def test_without_a_place_the_cache_lies_in_the_home(
    azurite: Azurite, container: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMPLANE_HOME", str(home))
    blob = BlobSettings(connection_string=Secret(azurite.connection_string), container=container)
    with CachedBlobBackend(blob) as backend:
        backend.write_text("a.md", "x")
    assert (home / "cache" / "blob" / fingerprint(blob) / "mirror" / "objects").is_dir()
