"""A store where the last writer wins, and what it did not expect to replace is kept."""

from __future__ import annotations

import hashlib
import logging
import os
from asyncio import to_thread
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from memplane.errors import ConcurrencyError
from memplane.kit.clock import Clock
from memplane.kit.clock import format_timestamp as time_stamp
from memplane.kit.durable_files import open_folder, replace_file, translate_os_errors
from memplane.kit.retry_clock import RetryClock
from memplane.storage.lineage import Stamp
from memplane.storage.store import (
    NO_METADATA,
    NO_VERSION,
    Absent,
    Anything,
    Expect,
    Matches,
    ObjectInfo,
    ObjectListing,
    ObjectStore,
    StoredObject,
    Version,
)

_MAX_NAME_BYTES: Final = 120

_log = logging.getLogger(__name__)


class ConflictCopyStore:
    """Turns `Anything` into conditional writes and copies aside what the writer had not seen."""

    def __init__(
        self, inner: ObjectStore, conflicts: Path, *, clock: Clock, pacing: RetryClock
    ) -> None:
        self._inner = inner
        self._conflicts = conflicts
        self._clock = clock
        self._pacing = pacing

    async def read(self, key: str) -> StoredObject | None:
        return await self._inner.read(key)

    async def stat(self, key: str) -> ObjectInfo | None:
        return await self._inner.stat(key)

    async def listing(self, prefix: str = "") -> ObjectListing:
        return await self._inner.listing(prefix)

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        await self._inner.append(key, data, stamp=stamp)

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        return await self._inner.delete(key, expect=expect)

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        if not isinstance(expect, Anything):
            return await self._inner.write(key, data, expect=expect, metadata=metadata)
        attempts = self._pacing.for_contention()
        expectation = await self._choose_expectation(key, expect.seen)
        while True:
            try:
                return await self._inner.write(key, data, expect=expectation, metadata=metadata)
            except ConcurrencyError:
                theirs = await self._inner.read(key)
                if theirs is not None and theirs.data != data:
                    await self._keep_copy(key, theirs)
                expectation = Matches(theirs.version) if theirs else Absent()
                if not await attempts.wait_for_next():
                    raise

    async def _choose_expectation(self, key: str, seen: Version | None) -> Absent | Matches:
        if seen is not None:
            return Matches(seen) if seen != NO_VERSION else Absent()
        info = await self._inner.stat(key)
        return Matches(info.version) if info else Absent()

    async def _keep_copy(self, key: str, theirs: StoredObject) -> None:
        time_text = time_stamp(self._clock()).replace(":", "")
        digest = hashlib.sha256(theirs.data).hexdigest()[:12]
        *folders, name = key.split("/")
        suffix = name.encode()[-_MAX_NAME_BYTES:].decode(errors="ignore")
        copy = f"{time_text}-{digest}-{suffix}"
        await to_thread(self._write_copy, tuple(folders), copy, theirs.data)
        _log.warning(
            "%r was changed elsewhere since it was last read here; the last writer wins, and the "
            "replaced version is kept in %s",
            key,
            self._conflicts,
        )

    def _write_copy(self, folders: tuple[str, ...], name: str, data: bytes) -> None:
        with translate_os_errors(name):
            folder = open_folder(self._conflicts, folders, create=True)
            try:
                replace_file(folder, name, data)
            finally:
                os.close(folder)
