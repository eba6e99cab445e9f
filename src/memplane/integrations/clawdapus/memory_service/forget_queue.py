"""Forgets that a memory service has not heard of yet.

<state>/forgets/<time>-<id>.json   one request each, until the service has taken it

It is written before the service is asked, so that no crash lets the service remember for ever.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec

from memplane.errors import LedgerError
from memplane.kit.durable_files import open_folder, replace_file, sync_folder
from memplane.kit.ids import new_id
from memplane.ledger.folder import open_regular_file

_QUEUE_FOLDER_NAME: Final = "forgets"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueuedForget:
    """Entries of an agent that a service is to forget; `ts` is RFC 3339."""

    service: str
    agent: str
    entry_ids: tuple[str, ...]
    reason: str
    ts: str


def enqueue_forget(state: Path, forget: QueuedForget) -> Path:
    """Keep a forget until it was sent, durably; return its file.

    Raises:
        LedgerError: It cannot be kept.
    """
    name = f"{''.join(filter(str.isalnum, forget.ts))}-{new_id()}.json"
    try:
        folder = open_folder(state, (_QUEUE_FOLDER_NAME,), create=True)
        try:
            replace_file(folder, name, json.dumps(asdict(forget)).encode())
        finally:
            os.close(folder)
    except OSError as error:
        raise LedgerError(f"the forget cannot be queued in {state}: {error.strerror}") from error
    return state / _QUEUE_FOLDER_NAME / name


def list_queued_forgets(state: Path) -> list[tuple[Path, QueuedForget]]:
    """Read the forgets that wait, oldest first; a file that is none is named in the log."""
    queued: list[tuple[Path, QueuedForget]] = []
    for path in sorted((state / _QUEUE_FOLDER_NAME).glob("*.json")):
        try:
            with open_regular_file(path) as file:
                body: object = json.loads(file.read())
            queued.append((path, msgspec.convert(body, QueuedForget)))
        except FileNotFoundError:
            continue  # somebody else has sent it
        except (OSError, ValueError, RecursionError) as error:
            _log.warning("%s cannot be read: %s", path, error)
    return queued


def remove_forget(path: Path) -> None:
    """Drop a forget that was sent; one that is gone already is fine.

    Raises:
        LedgerError: It cannot be dropped, and will be sent again.
    """
    try:
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        raise LedgerError(f"{path} cannot be removed: {error.strerror}") from error
