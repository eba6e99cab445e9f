"""The log of the hooks: one line for each, in files that are rotated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from memplane.home import Home
from memplane.kit.clock import format_milli_timestamp

_MAX_BYTES: Final = 5 * 1024 * 1024
_KEPT_FILES: Final = 3
_MAX_TEXT_CHARS: Final = 500
_READ_BYTES: Final = 256 * 1024


def hook_log_file(home: Home) -> Path:
    """Return where the log is."""
    return home.path / "logs" / "hooks.log"


def append_hook_log(home: Home, event: str, text: str, *, now: datetime) -> None:
    """Write a line. A log that cannot be written stops nothing."""
    path = hook_log_file(home)
    line = f"{format_milli_timestamp(now)} {event} {' '.join(text.split())[:_MAX_TEXT_CHARS]}\n"
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _rotate(path)
        with path.open("a", encoding="utf-8", errors="replace") as log:
            log.write(line)


def read_last_events(home: Home) -> dict[str, str]:
    """Return for each event when it last came, from the end of the log."""
    return {event: at for at, event in _read_lines(hook_log_file(home))}


def _read_lines(path: Path) -> Iterator[tuple[str, str]]:
    try:
        with path.open("rb") as log:
            log.seek(max(path.stat().st_size - _READ_BYTES, 0))
            lines = log.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        at, _, rest = line.partition(" ")
        if event := rest.partition(" ")[0]:
            yield at, event


def _rotate(path: Path) -> None:
    """Move a full log aside; of those moved before, the oldest goes."""
    try:
        if path.stat().st_size < _MAX_BYTES:
            return
    except FileNotFoundError:
        return
    for number in range(_KEPT_FILES - 1, 0, -1):
        older = path if number == 1 else path.with_suffix(f".log.{number - 1}")
        with suppress(FileNotFoundError):
            older.replace(path.with_suffix(f".log.{number}"))
