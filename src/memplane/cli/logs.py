"""`memplane logs`: what a memplane in the background has written."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from memplane.cli.number_argument import NumberRange

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from memplane.settings import Settings

_LINES: Final = 50
_POLL_INTERVAL_S: Final = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is added")
    parser.add_argument(
        "-n",
        "--lines",
        type=NumberRange(0, whole=True),
        default=_LINES,
        metavar="N",
        help="how many of the last lines",
    )


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the last lines, and what follows them."""
    from memplane.cli import EXIT_OK
    from memplane.errors import HomeError
    from memplane.home import Home

    file = Home(settings.home).log_file
    if not file.exists():
        raise HomeError(
            f"there is no log at {file}. `memplane up --detach` and the service write it; "
            "`memplane up` writes to its terminal"
        )
    with file.open("rb") as log:
        for line in _read_last_lines(file, log, arguments.lines):
            _print_line(line)
        if arguments.follow:
            await _follow(file, log)
    return EXIT_OK


def _read_last_lines(file: Path, log: BinaryIO, count: int) -> list[bytes]:
    """Read to the end of the log, and return its last lines, with those of older files before."""
    from collections import deque

    last = deque(log, maxlen=count)
    older = iter(sorted(file.parent.glob(f"{file.name}.*")))
    while len(last) < count and (before := next(older, None)) is not None:
        lines = before.read_bytes().splitlines(keepends=True)
        last.extendleft(reversed(lines[len(lines) - min(len(lines), count - len(last)) :]))
    return list(last)


async def _follow(file: Path, log: BinaryIO) -> None:
    """Print what is added, for ever; a log that was rotated goes on in the new file."""
    import asyncio

    while True:
        for line in _read_whole_lines(log):
            _print_line(line)
        if _is_rotated(file, log):
            for line in _read_whole_lines(log):
                _print_line(line)
            log.close()
            log = file.open("rb")
            continue
        await asyncio.sleep(_POLL_INTERVAL_S)


def _is_rotated(file: Path, log: BinaryIO) -> bool:
    import os

    return file.exists() and file.stat().st_ino != os.fstat(log.fileno()).st_ino


def _read_whole_lines(log: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that are there to their ends."""
    while (line := log.readline()).endswith(b"\n"):
        yield line
    log.seek(-len(line), 1)


def _print_line(line: bytes) -> None:
    from memplane.cli.output import escape_text

    print(escape_text(line.decode("utf-8", "replace").rstrip("\n")), flush=True)
