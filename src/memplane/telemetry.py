"""What memory and the proxy tell about themselves: an event each, as a JSON line, and counters.

Neither holds a question, a memory or the id of an entry, and the counters name no agent.
"""

from __future__ import annotations

import fcntl
import logging
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import BinaryIO, Final

import msgspec

ROTATED_SUFFIX: Final = ".1"
"""What stands behind the name of a file that was set aside."""

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
LATENCY_BUCKETS_S: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Upper ends of the latency buckets, in seconds; one more has no end."""

_MAX_FIELD_CHARS: Final = {"claw_id": 128, "model": 128, "error": 300, "memory_service": 128}
_MAX_QUEUED_LINES: Final = 100_000
_BATCH_WAIT_S: Final = 0.05
_MAX_IDLE_POLLS: Final = 40
"""So often it is looked for lines that come while others do, before somebody has to say so."""
_MAX_BATCH_LINES: Final = 256
_SECOND_ATTEMPT: Final = 2

_log = logging.getLogger(__name__)


class MemoryOperation(StrEnum):
    """What was asked of a memory service."""

    RECALL = "recall"
    RETAIN = "retain"
    FORGET = "forget"


class OperationStatus(StrEnum):
    """How it ended."""

    SKIPPED = "skipped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


_SUCCESSFUL_RECALL: Final = (MemoryOperation.RECALL, OperationStatus.SUCCEEDED)


class MemoryEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation. What is 0, empty or not said is left out of its line.

    `memory_blocks` and `memory_bytes` belong to a recall that succeeded, and are there even when
    they are 0; something that was skipped took no time. Both hold whatever was given.
    """

    ts: datetime
    claw_id: str
    # A member with a factory is written also when it has its default.
    type: str = msgspec.field(default_factory=lambda: "memory_op")
    model: str = ""
    latency_ms: int = 0
    status_code: int = 0
    intervention: None = msgspec.field(default_factory=lambda: None)
    error: str = ""
    memory_service: str
    memory_op: MemoryOperation
    memory_status: OperationStatus
    memory_blocks: int | None = None
    memory_bytes: int | None = None
    memory_removed: int = 0
    memory_attempt: int = 0
    memory_queue: int | None = None
    memory_redacted: int = 0

    def __post_init__(self) -> None:
        """Keep the format's rules."""
        _shorten(self)
        kept: dict[str, object] = {"ts": self.ts.astimezone(UTC).replace(microsecond=0)}
        if (self.memory_op, self.memory_status) == _SUCCESSFUL_RECALL:
            kept["memory_blocks"] = self.memory_blocks or 0
            kept["memory_bytes"] = self.memory_bytes or 0
        elif self.memory_blocks is not None or self.memory_bytes is not None:
            kept["memory_blocks"] = kept["memory_bytes"] = None
        if self.memory_status is OperationStatus.SKIPPED:
            kept["latency_ms"] = 0
        if self.memory_attempt == 1:
            kept["memory_attempt"] = 0
        for name, value in kept.items():
            msgspec.structs.force_setattr(self, name, value)


class TurnEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A moment of a turn that passes through the proxy: `request`, `response` or `error`.

    What is 0, empty or not said is left out of its line. `outcome` says of a response what became
    of it: recorded, or why not. Where another model was asked than the one that was wanted, an
    `intervention` or a `failover` says why.
    """

    ts: datetime
    claw_id: str
    type: str
    model: str = ""
    latency_ms: int = 0
    status_code: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    intervention: str | None = msgspec.field(default_factory=lambda: None)
    error: str = ""
    outcome: str = ""
    first_byte_ms: int = 0
    auxiliary: str = ""

    def __post_init__(self) -> None:
        """Keep the format's rules."""
        at = self.ts.astimezone(UTC).replace(microsecond=0)
        msgspec.structs.force_setattr(self, "ts", at)
        _shorten(self)


def _shorten(event: MemoryEvent | TurnEvent) -> None:
    """Cut what is too long; half a surrogate pair could not be written."""
    for name, max_chars in _MAX_FIELD_CHARS.items():
        text = getattr(event, name, "")
        if len(text) > max_chars or not text.isascii():
            shortened = text[:max_chars].encode("utf-8", "replace").decode()
            msgspec.structs.force_setattr(event, name, shortened)


def encode_event(event: MemoryEvent | TurnEvent) -> bytes:
    """Write an event as a line."""
    return msgspec.json.encode(event) + b"\n"


class OperationStats(msgspec.Struct, frozen=True):
    """What was counted of one operation since the start.

    `within` holds, for each end of a bucket and then for all, how many took at most that long;
    what was skipped took no time and is not in it.
    """

    by_status: Mapping[OperationStatus, int]
    blocks: int
    bytes: int
    removed: int
    redacted: int
    retried: int
    seconds: float
    within: tuple[int, ...]


class TelemetryStats(msgspec.Struct, frozen=True):
    """What was counted since the start; `queue` is the outbox's depth as last told."""

    operations: Mapping[MemoryOperation, OperationStats]
    turns: Mapping[tuple[str, str], int]
    """How many moments of turns there were, by their type and outcome."""
    queue: int
    unwritten: int


class Telemetry:
    """Takes events. It never fails its caller: what cannot be written is counted.

    Any thread may emit.
    """

    def __init__(
        self,
        file: Path | None = None,
        *,
        stream: BinaryIO | None = None,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self._file = None if file is None else _EventFile(file, max_bytes)
        self._stream = stream
        self._lock = Lock()
        self._counters = {operation: _OperationCounters() for operation in MemoryOperation}
        self._turns: Counter[tuple[str, str]] = Counter()
        self._queue = 0
        self._unwritten = 0
        self._behind: _BackgroundWriter | None = None

    def start_background_writer(self) -> None:
        """Write in a thread of its own from now on, so that nobody who emits waits for a disk."""
        self._behind = _BackgroundWriter(self._write)

    def emit(self, event: MemoryEvent, *, seconds: float | None = None) -> None:
        """Count an event and write it; `seconds` is what it took, where that is known exactly."""
        took = event.latency_ms / 1000 if seconds is None else seconds
        with self._lock:
            self._counters[event.memory_op].add(event, took)
            if event.memory_queue is not None:
                self._queue = event.memory_queue
            self._tell(event)

    def tell(self, event: TurnEvent) -> None:
        """Count a moment of a turn, and write it."""
        with self._lock:
            self._turns[event.type, event.outcome] += 1
            self._tell(event)

    def _tell(self, event: MemoryEvent | TurnEvent) -> None:
        try:
            line = encode_event(event)
        except (ValueError, OverflowError) as error:
            self._failed(1, error)
            return
        if self._behind is None:
            self._write([line])
        elif not self._behind.take(line):
            self._failed(1, OSError("the disk is too slow for it"))

    def _write(self, lines: Sequence[bytes]) -> None:
        try:
            self._write_together(b"".join(lines))
        except (OSError, ValueError) as error:
            self._failed(len(lines), error)

    def _failed(self, lines: int, error: Exception) -> None:
        if not self._unwritten:
            _log.warning("telemetry is not written: %s", error)
        self._unwritten += lines

    def _write_together(self, lines: bytes) -> None:
        try:
            if self._file is not None:
                self._file.append(lines)
        finally:
            if self._stream is not None:
                self._stream.write(lines)
                self._stream.flush()

    def figures(self) -> TelemetryStats:
        """Return what was counted up to now."""
        with self._lock:
            operations = {
                operation: counters.figures() for operation, counters in self._counters.items()
            }
            return TelemetryStats(operations, dict(self._turns), self._queue, self._unwritten)

    def close(self) -> None:
        """Write what waits and let go of the file; a later event opens it again."""
        if self._behind is not None:
            self._behind.end()
            self._behind = None
        with self._lock:
            if self._file is not None:
                self._file.close()


class _BackgroundWriter:
    """Writes lines in a thread of its own; what waits for the disk is bounded.

    A thread that is woken takes the interpreter from whoever emits, and that costs more than the
    line. So lines wait a moment for others, and where some came the thread looks again by itself;
    it is woken only after some time in which there were none.
    """

    def __init__(self, write: Callable[[Sequence[bytes]], None]) -> None:
        self._write = write
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._is_ending = Event()
        self._thread = Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def take(self, line: bytes) -> bool:
        """Have a line written soon; False when too many wait."""
        if self._waiting.qsize() >= _MAX_QUEUED_LINES:
            return False
        self._waiting.put(line)
        return True

    def end(self) -> None:
        """Return when everything is written."""
        self._is_ending.set()
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        more = True
        while more:
            lines, more = self._take()
            if lines:
                self._write(lines)

    def _take(self) -> tuple[list[bytes], bool]:
        """Wait for lines and take those that there are; False when no more will come."""
        for _ in range(_MAX_IDLE_POLLS):
            if self._is_ending.wait(_BATCH_WAIT_S) or not self._waiting.empty():
                break
        lines: list[bytes] = []
        line = self._waiting.get()
        try:
            while line is not None:
                lines.append(line)
                if len(lines) == _MAX_BATCH_LINES:
                    return lines, True
                line = self._waiting.get_nowait()
        except Empty:
            return lines, True
        return lines, False


class _OperationCounters:
    """The counters of one operation."""

    def __init__(self) -> None:
        self.by_status = dict.fromkeys(OperationStatus, 0)
        self.blocks = self.bytes = self.removed = self.redacted = self.retried = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(LATENCY_BUCKETS_S) + 1)

    def add(self, event: MemoryEvent, seconds: float) -> None:
        self.by_status[event.memory_status] += 1
        self.blocks += event.memory_blocks or 0
        self.bytes += event.memory_bytes or 0
        self.removed += event.memory_removed
        self.redacted += event.memory_redacted
        self.retried += event.memory_attempt >= _SECOND_ATTEMPT
        if event.memory_status is not OperationStatus.SKIPPED:
            self.seconds += seconds
            self.buckets[bisect_left(LATENCY_BUCKETS_S, seconds)] += 1

    def figures(self) -> OperationStats:
        return OperationStats(
            by_status=dict(self.by_status),
            blocks=self.blocks,
            bytes=self.bytes,
            removed=self.removed,
            redacted=self.redacted,
            retried=self.retried,
            seconds=self.seconds,
            within=tuple(accumulate(self.buckets)),
        )


class _EventFile:
    """A file of lines, for this user alone, that is set aside when it is full."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._name = str(path)
        self._max_bytes = max_bytes
        self._descriptor: int | None = None
        self._status: os.stat_result | None = None
        self._torn = False

    def append(self, lines: bytes) -> None:
        """Add lines in one write.

        Raises:
            OSError: They were not written, or only the beginning of them.
        """
        descriptor = self._current(len(lines))
        # The rest of a line that was cut off must not swallow these.
        data = b"\n" + lines if self._torn else lines
        written = os.write(descriptor, data)
        self._torn = written != len(data)
        if self._torn:
            raise OSError(f"only {written} of {len(data)} bytes could be written")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _current(self, following: int) -> int:
        """Return the descriptor of the file that has the name now and has room."""
        there = self._named()
        if self._descriptor is None or there is None:
            self.close()
            self._descriptor = self._opened()
            there = os.fstat(self._descriptor)
        if there.st_size and there.st_size + following > self._max_bytes:
            self._set_aside(self._descriptor)
            self.close()
            self._descriptor = self._opened()
        return self._descriptor

    def _opened(self) -> int:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        self._status = os.fstat(descriptor)
        size = self._status.st_size
        self._torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        return descriptor

    def _set_aside(self, descriptor: int) -> None:
        # Another process may have done it meanwhile; its new file must not replace the full one.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if self._named() is not None:
            self._path.rename(self._path.with_name(self._path.name + ROTATED_SUFFIX))

    def _named(self) -> os.stat_result | None:
        """Return the status of what has the name, when that is the file that was opened."""
        if self._status is None:
            return None
        try:
            there = os.lstat(self._name)
        except FileNotFoundError:
            return None
        return there if os.path.samestat(there, self._status) else None
