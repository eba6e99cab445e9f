"""Content-Encodings undone, for what is read of a body beside its way (pure).

zlib is always there; br and zstd need a library, which some installations have.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec

from memplane.errors import InvalidRequest

_PIECE: Final = 1024
_MOST_MEMBERS: Final = 16
"""Each is a copy of all that follows it."""
_PLAIN: Final = frozenset({"", "identity"})
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS
_ZSTD: Final = ("compression.zstd", "backports.zstd")
_BROTLI: Final = ("brotli", "brotlicffi")


class _Library(msgspec.Struct, frozen=True):
    """What a library offers: a function that takes the next bytes, and the error it raises."""

    decompressing: Callable[[], Callable[[bytes], bytes]]
    error: type[Exception]


def undone(body: bytes, encoding: str, *, most: int) -> bytes:
    """Return a body without its encodings; of one that was cut, what can be had.

    Args:
        body: The bytes as they came.
        encoding: The value of Content-Encoding.
        most: How long it may become.

    Raises:
        InvalidRequest: The encoding is not known here, the bytes are damaged, or there are too
            many of them.
    """
    names = [name.strip().lower() for name in encoding.split(",")]
    for name in reversed(names):
        if name not in _PLAIN:
            body = _undone(body, name, most)
    return body


def _undone(body: bytes, name: str, most: int) -> bytes:
    match name:
        case "gzip" | "x-gzip":
            return _inflated(body, _GZIP_OR_ZLIB, most)
        case "deflate":
            # Some servers leave the zlib header out, which has to be a multiple of 31.
            header = int.from_bytes(body[:2], "big")
            has_header = body[:1] != b"" and body[0] & 15 == zlib.DEFLATED and header % 31 == 0
            return _inflated(body, zlib.MAX_WBITS if has_header else _RAW, most)
        case "zstd":
            return _by_library(body, name, most, _zstd())
        case "br":
            return _by_library(body, name, most, _brotli())
        case _:
            raise InvalidRequest(f"the encoding {name[:40]!r} is not known")


def _inflated(body: bytes, window: int, most: int) -> bytes:
    parts: list[bytes] = []
    left = most
    while body:  # gzip may have several members, and zeros behind them
        if len(parts) == _MOST_MEMBERS:
            raise InvalidRequest("the encoded body has too many members")
        inflating = zlib.decompressobj(window)
        try:
            parts.append(inflating.decompress(body, left + 1))
        except zlib.error as error:
            raise InvalidRequest("the encoded body is damaged") from error
        left -= len(parts[-1])
        if left < 0:
            raise _too_long(most)
        body = inflating.unused_data.lstrip(b"\0")
    return b"".join(parts)


def _by_library(body: bytes, name: str, most: int, library: _Library | None) -> bytes:
    if library is None:
        raise InvalidRequest(f"there is no library for the encoding {name!r}")
    decompress = library.decompressing()
    parts: list[bytes] = []
    left = most
    for start in range(0, len(body), _PIECE):
        try:
            parts.append(decompress(body[start : start + _PIECE]))
        except (library.error, EOFError) as error:
            raise InvalidRequest("the encoded body is damaged") from error
        left -= len(parts[-1])
        if left < 0:
            raise _too_long(most)
    return b"".join(parts)


def _too_long(most: int) -> InvalidRequest:
    return InvalidRequest(f"the body is longer than {most} bytes")


@cache
def _zstd() -> _Library | None:
    module = _imported(_ZSTD)
    if module is None:
        return None
    return _Library(lambda: module.ZstdDecompressor().decompress, module.ZstdError)


@cache
def _brotli() -> _Library | None:
    module = _imported(_BROTLI)
    return (
        None if module is None else _Library(lambda: module.Decompressor().process, module.error)
    )


def _imported(names: tuple[str, ...]) -> Any:  # noqa: ANN401 - a module without types
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
