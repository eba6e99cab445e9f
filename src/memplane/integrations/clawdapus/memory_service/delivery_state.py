"""How far each agent's ledger was delivered to its memory service, and what never will be.

<folder>/<agent>-<hash>.json         the last entry that was dealt with, for each service
<folder>/dead/<agent>-<hash>.jsonl   entries that a service did not take, one a line

The ledger itself is the outbox: nothing of what was said is kept here a second time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from memplane.errors import InvalidCursor, LedgerError
from memplane.kit.clock import format_timestamp, parse_timestamp
from memplane.kit.durable_files import (
    append_to_file,
    hold_lock,
    open_folder,
    read_file,
    replace_file,
)
from memplane.ledger.cursor import BEGINNING, Cursor, decode_cursor, encode_cursor

_VERSION: Final = 1
_DEAD_FOLDER: Final = "dead"
_LOCK_FILE: Final = "lock"
_log = logging.getLogger(__name__)


class DeliveryRoute(msgspec.Struct, frozen=True):
    """From an agent's ledger to a service."""

    service: str
    agent: str

    @property
    def name(self) -> str:
        """The name of its files."""
        data = f"{self.service}\n{self.agent}".encode("utf-8", "surrogatepass")
        return f"{self.agent}-{hashlib.sha256(data).hexdigest()[:16]}"


class DeliveryProgress(msgspec.Struct, frozen=True):
    """The last entry that was dealt with, and since when the next one has failed, how often."""

    cursor: Cursor = BEGINNING
    since: datetime | None = None
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An entry that a service did not take; `ts` is when that was given up.

    `before` is where reading has to start to find it again. A status of 0 is no answer.
    """

    service: str
    agent: str
    entry_id: str
    ts: str
    status: int
    reason: str
    before: str

    @property
    def route(self) -> DeliveryRoute:
        """Where it was going."""
        return DeliveryRoute(self.service, self.agent)


class _ProgressRecord(msgspec.Struct, omit_defaults=True):
    version: int
    service: str
    agent: str
    cursor: str
    since: str = ""
    attempts: int = 0


def read_progress(folder: Path, route: DeliveryRoute) -> DeliveryProgress | None:
    """Read how far a delivery came; None when there was none yet.

    One that is damaged starts at the beginning: a service knows what it has by the ids.

    Raises:
        LedgerError: The file is there and cannot be read.
    """
    with _translate_os_errors(folder, "read"):
        try:
            data = _read(folder, (), f"{route.name}.json")
        except FileNotFoundError:
            return None
    try:
        wire = msgspec.json.decode(data, type=_ProgressRecord)
        since = parse_timestamp(wire.since) if wire.since else None
        return DeliveryProgress(decode_cursor(wire.cursor), since, wire.attempts)
    except (ValueError, RecursionError, InvalidCursor):
        _log.warning("how far %s was delivered is not known; it begins again", route.agent)
        return DeliveryProgress()


def write_progress(folder: Path, route: DeliveryRoute, progress: DeliveryProgress) -> None:
    """Keep how far a delivery came; it is durable when this returns.

    Raises:
        LedgerError: It cannot be kept.
    """
    wire = _ProgressRecord(
        version=_VERSION,
        service=route.service,
        agent=route.agent,
        cursor=encode_cursor(progress.cursor),
        since=format_timestamp(progress.since) if progress.since else "",
        attempts=progress.attempts,
    )
    with _translate_os_errors(folder, "kept"), _open_folder(folder, ()) as folder_fd:
        replace_file(
            folder_fd, f"{route.name}.json", json.dumps(msgspec.to_builtins(wire)).encode()
        )


def read_dead_letters(folder: Path) -> list[DeadLetter]:
    """Read what could not be delivered, by agent, the oldest first; each entry is there once.

    Raises:
        LedgerError: A file is there and cannot be read.
    """
    letters: list[DeadLetter] = []
    with _translate_os_errors(folder, "read"):
        for path in sorted((folder / _DEAD_FOLDER).glob("*.jsonl")):
            try:
                letters += _parse_dead_letters(_read(folder, (_DEAD_FOLDER,), path.name))
            except FileNotFoundError:
                continue  # the last of them was delivered meanwhile
    return letters


def write_dead_letter(folder: Path, letter: DeadLetter) -> None:
    """Keep an entry that could not be delivered; it is durable when this returns.

    Raises:
        LedgerError: It cannot be kept.
    """
    with (
        _translate_os_errors(folder, "kept"),
        _open_folder(folder, (_DEAD_FOLDER,)) as folder_fd,
        hold_lock(folder_fd, _LOCK_FILE),
    ):
        # A crash may have cut the last line off; it must not swallow this one.
        append_to_file(
            folder_fd, f"{letter.route.name}.jsonl", b"\n" + _encode_dead_letter(letter)
        )


def remove_dead_letter(folder: Path, letter: DeadLetter) -> None:
    """Let go of a dead letter.

    Raises:
        LedgerError: That cannot be kept.
    """
    name = f"{letter.route.name}.jsonl"
    with (
        _translate_os_errors(folder, "kept"),
        _open_folder(folder, (_DEAD_FOLDER,)) as folder_fd,
        hold_lock(folder_fd, _LOCK_FILE),
    ):
        try:
            letters = _parse_dead_letters(read_file(folder_fd, name)[0])
        except FileNotFoundError:
            return
        remaining = [
            _encode_dead_letter(other) for other in letters if other.entry_id != letter.entry_id
        ]
        if remaining:
            replace_file(folder_fd, name, b"".join(remaining))
        else:
            os.unlink(name, dir_fd=folder_fd)


def _encode_dead_letter(letter: DeadLetter) -> bytes:
    return json.dumps(asdict(letter), separators=(",", ":")).encode() + b"\n"


def _parse_dead_letters(data: bytes) -> Iterable[DeadLetter]:
    by_entry: dict[str, DeadLetter] = {}
    for line in data.split(b"\n"):
        if not line:
            continue
        try:
            letter = msgspec.convert(json.loads(line), DeadLetter)
        except (ValueError, RecursionError):
            _log.warning("a dead letter cannot be read")
            continue
        by_entry[letter.entry_id] = letter
    return by_entry.values()


def _read(folder: Path, parts: tuple[str, ...], name: str) -> bytes:
    folder_fd = open_folder(folder, parts, create=False)
    try:
        return read_file(folder_fd, name)[0]
    finally:
        os.close(folder_fd)


@contextmanager
def _open_folder(folder: Path, parts: tuple[str, ...]) -> Generator[int]:
    folder_fd = open_folder(folder, parts, create=True)
    try:
        yield folder_fd
    finally:
        os.close(folder_fd)


@contextmanager
def _translate_os_errors(folder: Path, action: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise LedgerError(
            f"what was delivered cannot be {action} in {folder}: {error.strerror}"
        ) from error
