"""Patterns that need time in proportion to the text: RE2 over bytes, and nothing else.

This is the only module that knows the library, which has no types.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, Protocol, cast

import re2  # pyright: ignore[reportMissingTypeStubs]

_MAX_MEMORY_BYTES: Final = 8 << 20
_NO_POSITION: Final = -1


class _Re2Match(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...


class _CompiledPattern(Protocol):
    @property
    def groups(self) -> int: ...
    def search(self, text: bytes, pos: int) -> _Re2Match | None: ...
    def match(self, text: bytes, pos: int) -> _Re2Match | None: ...
    def fullmatch(self, text: bytes) -> _Re2Match | None: ...


class _Options(Protocol):
    encoding: object
    max_mem: int
    log_errors: bool


class _Encoding(Protocol):
    LATIN1: object


class _OptionsType(Protocol):
    Encoding: _Encoding

    def __call__(self) -> _Options: ...


class _Re2Library(Protocol):
    Options: _OptionsType

    def compile(self, pattern: bytes, options: _Options) -> _CompiledPattern: ...


_re2: Final = cast("_Re2Library", re2)


class Pattern:
    """A pattern over bytes, each byte a character, so that offsets need no translation.

    Its groups, if it has any, name the part that is the secret; of several one takes part.
    """

    __slots__ = ("_compiled", "_groups")

    def __init__(self, source: str) -> None:
        options = _re2.Options()
        options.encoding = _re2.Options.Encoding.LATIN1
        options.max_mem = _MAX_MEMORY_BYTES
        options.log_errors = False
        self._compiled = _re2.compile(source.encode("latin-1"), options)
        self._groups = range(1, self._compiled.groups + 1)

    def search(self, data: bytes, position: int = 0) -> tuple[int, int, int] | None:
        """Return where the next hit starts, and where its secret starts and ends."""
        match = self._compiled.search(data, position)
        if match is None:
            return None
        start, end = match.span()
        for group in self._groups:
            inner = match.span(group)
            if inner[0] != _NO_POSITION:
                return start, *inner
        return start, start, end

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where each secret starts and ends.

        The search goes on where the secret ended, not the hit, so that the character behind one
        secret can be the one before the next.
        """
        position = 0
        while match := self.search(data, position):
            _, start, end = match
            yield start, end
            position = max(end, position + 1)

    def end_at(self, data: bytes, position: int) -> int:
        """Return where a hit that starts right at a position ends; there, when there is none."""
        match = self._compiled.match(data, position)
        return position if match is None else match.span()[1]

    def is_in(self, data: bytes) -> bool:
        """Say whether there is a hit at all."""
        return self._compiled.search(data, 0) is not None

    def is_all_of(self, data: bytes) -> bool:
        """Say whether the whole is one hit."""
        return self._compiled.fullmatch(data) is not None


@cache
def compile_pattern(source: str) -> Pattern:
    """Compile a pattern when it is first needed; there are only the ones of this package."""
    return Pattern(source)
