"""MemoryBackend: the small synchronous protocol for text, over any object store."""

from __future__ import annotations

import asyncio
import builtins
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from memplane.errors import InvalidText
from memplane.kit.atexit_hooks import register_exit_hook, unregister_exit_hook
from memplane.kit.background_loop import run_in_background
from memplane.storage.lineage import Stamp
from memplane.storage.manifest import MANIFEST_KEY
from memplane.storage.store import (
    DELETED_METADATA,
    Absent,
    Anything,
    Expect,
    IndexedStore,
    Matches,
    ObjectStore,
    Version,
)


@runtime_checkable
class MemoryBackend(Protocol):
    """Text behind keys. Every method may raise a StorageError that names the key.

    Text is strict UTF-8, and newlines stay as they are.
    """

    def read_text(self, key: str) -> str | None:
        """Return the text, or None only when the key is known to be absent."""
        ...

    def write_text(self, key: str, content: str) -> None:
        """Replace the whole text, atomically. The last writer wins."""
        ...

    def append_text(self, key: str, content: str) -> None:
        """Add to the end, creating the key; lossless against every other writer."""
        ...

    def exists(self, key: str) -> bool:
        """Say whether there is a text at the key. A folder is not a key."""
        ...

    def list(self, prefix: str = "") -> builtins.list[str]:
        """Return the keys that start with the prefix, sorted; all of them, or it raises.

        The store's own index, `manifest.json`, is not among them.
        """
        ...


@dataclass(frozen=True, slots=True)
class Versioned:
    """Bytes with the version they were read at."""

    data: bytes
    etag: str
    size: int
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """What a listing knows of one key."""

    key: str
    etag: str
    size: int
    last_modified: datetime


@runtime_checkable
class VersionedBackend(Protocol):
    """What backends with versions can do besides; all of memplane's are such."""

    def read_versioned(self, key: str) -> Versioned | None:
        """Return bytes and version, or None only when the key is known to be absent."""
        ...

    def write_if(
        self, key: str, data: bytes, *, if_match: str | None = None, if_absent: bool = False
    ) -> str:
        """Write if the condition holds, or always without one; return the new ETag.

        Raises:
            ConcurrencyError: The condition does not hold. Nothing was written.
        """
        ...

    def delete(self, key: str, *, if_match: str | None = None) -> bool:
        """Remove the key; False when it was absent. ConcurrencyError on another version."""
        ...

    def list_meta(self, prefix: str = "") -> list[KeyInfo]:
        """List like `list`, with what is known of each key."""
        ...


StoreOpener = Callable[[], AbstractAsyncContextManager[ObjectStore]]


class StoreBackend:
    """MemoryBackend and VersionedBackend over a store that lives on the background loop.

    The store opens at the first call and closes with `close()`, at the end of a `with` block or
    when the process exits. A forked child opens its own.
    """

    def __init__(self, open_store: StoreOpener, *, new_writer: Callable[[], str]) -> None:
        self._open_store = open_store
        self._new_writer = new_writer
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._opened: _OpenBackend | None = None
        self._seen: dict[str, Version] = {}

    def read_text(self, key: str) -> str | None:
        versioned = self.read_versioned(key)
        if versioned is None:
            return None
        try:
            return versioned.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidText(f"byte {error.start} is not UTF-8", key=key) from error

    def write_text(self, key: str, content: str) -> None:
        self._write(key, _encode(key, content), Anything(self._seen.get(key)))

    def append_text(self, key: str, content: str) -> None:
        data = _encode(key, content)
        run_in_background(self._open().append(key, data))

    def exists(self, key: str) -> bool:
        found = run_in_background(self._open().store.stat(key))
        return found is not None and DELETED_METADATA not in found.metadata

    def list(self, prefix: str = "") -> builtins.list[str]:
        return [info.key for info in self.list_meta(prefix)]

    def read_versioned(self, key: str) -> Versioned | None:
        stored = run_in_background(self._open().store.read(key))
        if stored is None or DELETED_METADATA in stored.metadata:
            self._seen.pop(key, None)
            return None
        self._seen[key] = stored.version
        return Versioned(stored.data, stored.version, len(stored.data), stored.modified)

    def write_if(
        self, key: str, data: bytes, *, if_match: str | None = None, if_absent: bool = False
    ) -> str:
        if if_match is not None and if_absent:
            raise ValueError("if_match and if_absent exclude each other")
        if if_absent:
            return self._write(key, data, Absent())
        return self._write(key, data, _match_or_any(if_match))

    def delete(self, key: str, *, if_match: str | None = None) -> bool:
        self._seen.pop(key, None)
        expect = _match_or_any(if_match)
        return run_in_background(self._open().store.delete(key, expect=expect))

    def list_meta(self, prefix: str = "") -> builtins.list[KeyInfo]:
        listing = run_in_background(self._open().store.listing(prefix))
        listed = (
            info
            for info in listing.entries
            if info.key != MANIFEST_KEY and DELETED_METADATA not in info.metadata
        )
        return [KeyInfo(info.key, info.version, info.size, info.modified) for info in listed]

    def settle(self) -> None:
        """Send what waits, and bring the store's own index up to date with what is there."""
        store = self._open().store
        if isinstance(store, IndexedStore):
            run_in_background(store.settle())

    def close(self) -> None:
        """Send what waits and let go of connections and locks. The next call opens it again."""
        self._close(patience=None)

    def leave(self, patience: float) -> None:
        """Close, but give up after so long: what was acknowledged is safe on this machine."""
        with suppress(TimeoutError):
            self._close(patience)

    def _close(self, patience: float | None) -> None:
        backend, self._opened = self._opened, None
        if backend is not None and backend.process == os.getpid():
            run_in_background(backend.stack.aclose(), patience=patience)
        unregister_exit_hook(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, key: str, data: bytes, expect: Expect) -> Version:
        version = run_in_background(self._open().store.write(key, data, expect=expect))
        self._seen[key] = version
        return version

    def _open(self) -> _OpenBackend:
        if self._process != os.getpid():
            # A forked child: some thread of the parent may have held the lock, and is not here.
            self._process, self._lock = os.getpid(), threading.RLock()
        with self._lock:
            if self._opened is None or self._opened.process != os.getpid():
                self._opened = run_in_background(self._enter())
                register_exit_hook(self)
            return self._opened

    async def _enter(self) -> _OpenBackend:
        stack = AsyncExitStack()
        store = await stack.enter_async_context(self._open_store())
        turns = defaultdict[str, asyncio.Lock](asyncio.Lock)
        return _OpenBackend(store, stack, os.getpid(), self._new_writer(), count(1), turns)


@dataclass(frozen=True, slots=True)
class _OpenBackend:
    store: ObjectStore
    stack: AsyncExitStack
    process: int
    writer: str
    numbers: Iterator[int]
    turns: defaultdict[str, asyncio.Lock]

    async def append(self, key: str, data: bytes) -> None:
        # One at a time: a later stamp that lands first would make an earlier one look landed.
        async with self.turns[key]:
            await self.store.append(key, data, stamp=Stamp(self.writer, next(self.numbers)))


def _match_or_any(etag: str | None) -> Matches | Anything:
    return Anything() if etag is None else Matches(Version(etag))


def _encode(key: str, content: str) -> bytes:
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidText(
            f"character {error.start} is half of a surrogate pair and has no UTF-8 form", key=key
        ) from error
