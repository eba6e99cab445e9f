"""What every MemoryBackend must do. Subclass it and provide the fixtures `backend` and `rival`.

Both are backends of one place, empty at first; `rival` stands for another process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest

from memplane.errors import ConcurrencyError, InvalidKey, InvalidText
from memplane.storage.backend import MemoryBackend, StoreBackend, VersionedBackend

TEXTS = ["", "one\r\ntwo", "no newline", "\U0001f9e0 \u65e5\u672c\n", "\ufeffbom"]


class MemoryBackendConformance:
    """The contract as tests."""

    def test_it_is_recognised(self, backend: StoreBackend) -> None:
        assert isinstance(backend, MemoryBackend)
        assert isinstance(backend, VersionedBackend)

    def test_a_missing_key(self, backend: StoreBackend) -> None:
        assert backend.read_text("a/b.md") is None
        assert not backend.exists("a/b.md")
        assert backend.read_versioned("a/b.md") is None
        assert backend.delete("a/b.md") is False

    @pytest.mark.parametrize(
        "text", ["", "one\r\ntwo", "no newline", "\U0001f9e0 \u65e5\u672c\n", "\ufeffbom"]
    )
    def test_text_is_read_back_as_written(self, backend: StoreBackend, text: str) -> None:
        backend.write_text("deep/er/a.md", text)
        assert backend.read_text("deep/er/a.md") == text
        assert backend.exists("deep/er/a.md")
        assert not backend.exists("deep/er")

    def test_append_creates_and_extends(self, backend: StoreBackend) -> None:
        backend.append_text("log.jsonl", "one\n")
        backend.append_text("log.jsonl", "two\n")
        assert backend.exists("log.jsonl")
        assert backend.read_text("log.jsonl") == "one\ntwo\n"

    def test_appends_follow_a_write(self, backend: StoreBackend) -> None:
        backend.write_text("log.jsonl", "head\n")
        backend.append_text("log.jsonl", "tail\n")
        assert backend.read_text("log.jsonl") == "head\ntail\n"
        backend.write_text("log.jsonl", "new\n")
        assert backend.read_text("log.jsonl") == "new\n"

    def test_list_is_sorted_and_its_prefix_is_a_string(self, backend: StoreBackend) -> None:
        for key in ("b/2.md", "a.md", "b/1.md", "b2.md"):
            backend.write_text(key, "x")
        assert backend.list() == ["a.md", "b/1.md", "b/2.md", "b2.md"]
        assert backend.list("b/") == ["b/1.md", "b/2.md"]
        assert [one.key for one in backend.list_meta("b2")] == ["b2.md"]

    def test_list_hides_the_index_of_the_store(self, backend: StoreBackend) -> None:
        backend.write_text("a.md", "x")
        backend.settle()  # where there is such an index, it is there now
        if not backend.exists("manifest.json"):
            backend.write_text("manifest.json", "{}")
        backend.write_text("sub/manifest.json", "{}")
        assert backend.exists("manifest.json")
        assert backend.list() == ["a.md", "sub/manifest.json"]
        assert backend.list("manifest") == []
        assert [one.key for one in backend.list_meta()] == ["a.md", "sub/manifest.json"]

    def test_text_that_is_not_utf8_is_reported(self, backend: StoreBackend) -> None:
        backend.write_if("raw.bin", b"ok \xff\xfe")
        with pytest.raises(InvalidText, match=r"raw\.bin.*byte 3"):
            backend.read_text("raw.bin")
        found = backend.read_versioned("raw.bin")
        assert found is not None
        assert found.data == b"ok \xff\xfe"
        with pytest.raises(InvalidText, match="surrogate"):
            backend.write_text("raw.bin", "\ud83d")

    def test_bad_keys_are_refused(self, backend: StoreBackend) -> None:
        for attempt in (
            lambda: backend.read_text("../x"),
            lambda: backend.write_text("../x", ""),
            lambda: backend.append_text("../x", ""),
            lambda: backend.exists("../x"),
        ):
            with pytest.raises(InvalidKey, match=r"\.\./x"):
                attempt()

    def test_versions(self, backend: StoreBackend) -> None:
        first = backend.write_if("a.md", b"1", if_absent=True)
        found = backend.read_versioned("a.md")
        assert found is not None
        assert (found.data, found.etag, found.size) == (b"1", first, 1)
        with pytest.raises(ConcurrencyError):
            backend.write_if("a.md", b"2", if_absent=True)
        second = backend.write_if("a.md", b"2", if_match=first)
        assert second != first
        with pytest.raises(ConcurrencyError):
            backend.write_if("a.md", b"3", if_match=first)
        with pytest.raises(ConcurrencyError):
            backend.write_if("absent.md", b"3", if_match=first)
        with pytest.raises(ValueError, match="exclude"):
            backend.write_if("a.md", b"3", if_match=first, if_absent=True)
        with pytest.raises(ConcurrencyError):
            backend.delete("a.md", if_match=first)
        assert backend.delete("a.md", if_match=second) is True

    def test_the_last_writer_wins(self, backend: StoreBackend, rival: StoreBackend) -> None:
        backend.write_text("a.md", "1")
        assert rival.read_text("a.md") == "1"
        rival.write_text("a.md", "2")
        backend.write_text("a.md", "3")
        assert backend.read_text("a.md") == "3"

    def test_eight_appenders_lose_no_line(
        self, backend: StoreBackend, rival: StoreBackend
    ) -> None:
        def lines(one: StoreBackend, name: str) -> None:
            for number in range(200):
                one.append_text("log.txt", f"{name}-{number}\n")

        run_in_threads(
            [
                partial(lines, one, f"{who}{thread}")
                for who, one in (("a", backend), ("b", rival))
                for thread in range(4)
            ]
        )
        backend.close()
        rival.close()
        text = backend.read_text("log.txt") or ""
        expected = {
            f"{who}{thread}-{n}" for who in "ab" for thread in range(4) for n in range(200)
        }
        assert len(text.splitlines()) == 1600
        assert set(text.splitlines()) == expected

    async def test_it_works_inside_a_running_event_loop(self, backend: StoreBackend) -> None:
        backend.write_text("a.md", "inside")
        assert await asyncio.to_thread(backend.read_text, "a.md") == "inside"
        assert backend.read_text("a.md") == "inside"

    def test_it_opens_again_after_close(self, backend: StoreBackend) -> None:
        backend.write_text("a.md", "kept")
        backend.close()
        assert backend.read_text("a.md") == "kept"


def run_in_threads(tasks: list[Callable[[], None]]) -> None:
    """Run the tasks in threads and raise the first error."""
    errors: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
