"""A session's output as it is kept: each line behind its time, and without its secrets.

A line of the log is `2026-03-01T09:30:00.000Z `, which has 25 bytes, and what was printed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol, Self

from memplane.errors import HomeError
from memplane.integrations.claude_code.output_extractor import OutputLine
from memplane.kit.private_files import make_private_folder

_STAMP: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ")
_KEY_BEGIN: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,24}PRIVATE KEY")
_KEY_END: Final = b"-----END "
_MAX_KEY_LINES: Final = 200
"""In lines; what is longer is no key."""


class LineSource(Protocol):
    """Makes lines out of bytes that were cut anywhere."""

    def feed(self, data: bytes, at: str) -> Iterator[OutputLine]:
        """Take the next bytes and when they came; return the lines that they complete."""
        ...

    def end(self, at: str) -> Iterator[OutputLine]:
        """Return what is left, such as a line without its newline."""
        ...


class TranscriptWriter:
    """The lines of a session that goes on; each is written down before it is returned.

    Args:
        scrub: Takes the secrets out of a line, or out of several.
        write: Keeps bytes.
    """

    def __init__(
        self, scrub: Callable[[bytes], bytes], write: Callable[[bytes], object] = len
    ) -> None:
        self._scrub = scrub
        self._write = write
        self._cut = _OutputSplitter()
        self._key: list[bytes] = []
        self._number = 0
        self._offset = 0

    def feed(self, data: bytes, at: str) -> Iterator[OutputLine]:
        for raw in self._cut.feed(data):
            yield from self._lines(raw, at)

    def end(self, at: str) -> Iterator[OutputLine]:
        rest = self._cut.end()
        held = [*self._key, rest] if rest else self._key
        self._key = []
        if held:
            yield from self._kept(b"\n".join(held), at, ended=not rest)

    def _lines(self, raw: bytes, at: str) -> Iterator[OutputLine]:
        """Keep a line, unless it is part of a key, which is only known as one when it is whole."""
        if self._key or _KEY_BEGIN.search(raw):
            self._key.append(raw)
            if _KEY_END not in raw and len(self._key) < _MAX_KEY_LINES:
                return
            raw = b"\n".join(self._key)
            self._key = []
        yield from self._kept(raw, at)

    def _kept(self, raw: bytes, at: str, *, ended: bool = True) -> Iterator[OutputLine]:
        *before, last = self._scrub(raw).split(b"\n")
        for line in before:
            yield self._written(OutputLine(line, at, self._number + 1, self._offset))
        yield self._written(OutputLine(last, at, self._number + 1, self._offset, ended))

    def _written(self, line: OutputLine) -> OutputLine:
        written = b"".join((line.at.encode(), b" ", line.raw, b"\n"))
        self._write(written)
        self._number += 1
        self._offset += len(written)
        return line


class TranscriptReader:
    """The lines of a log that was written before; they say themselves when they came."""

    def __init__(self, scrub: Callable[[bytes], bytes]) -> None:
        self._scrub = scrub
        self._cut = _OutputSplitter()
        self._number = 0
        self._offset = 0

    def feed(self, data: bytes, at: str) -> Iterator[OutputLine]:
        for raw in self._cut.feed(data):
            yield self._line(raw, at, ended=True)

    def end(self, at: str) -> Iterator[OutputLine]:
        if rest := self._cut.end():
            yield self._line(rest, at, ended=False)

    def _line(self, raw: bytes, at: str, *, ended: bool) -> OutputLine:
        stamp = _STAMP.match(raw)
        said, when = (raw[stamp.end() :], stamp[1].decode()) if stamp else (raw, at)
        line = OutputLine(self._scrub(said), when, self._number + 1, self._offset, ended)
        self._number += 1
        self._offset += len(raw) + ended
        return line


class _OutputSplitter:
    """Cuts bytes at their newlines, which are left out."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # joined once their line has ended, so time stays linear

    def feed(self, data: bytes) -> Iterator[bytes]:
        *ended, rest = data.split(b"\n")
        for line in ended:
            whole = b"".join((*self._pieces, line))
            self._pieces.clear()
            yield whole
        if rest:
            self._pieces.append(rest)

    def end(self) -> bytes:
        whole = b"".join(self._pieces)
        self._pieces.clear()
        return whole


def is_transcript(beginning: bytes) -> bool:
    """Tell a log of ours by its first bytes."""
    return _STAMP.match(beginning) is not None


class TranscriptFile:
    """A file for a session's output, which is there as soon as it is written.

    `trouble` is why nothing more is written. The session goes on all the same.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.trouble = ""
        self._file = os.fdopen(descriptor, "wb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        """Write it, as long as that is possible."""
        view = memoryview(data)
        while view and not self.trouble:
            try:
                view = view[self._file.write(view) or 0 :]
            except OSError as error:
                self.trouble = error.strerror or str(error)


def create_transcript(path: Path) -> TranscriptFile:
    """Make a log, for this user alone.

    Raises:
        HomeError: It cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        make_private_folder(path.parent)
        return TranscriptFile(path, os.open(path, flags, 0o600))
    except OSError as error:
        raise HomeError(f"{path} cannot be made: {error.strerror}") from error
