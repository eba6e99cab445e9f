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

_CHUNK_BYTES: Final = 1024
_MAX_GZIP_MEMBERS: Final = 16
"""Each is a copy of all that follows it."""
_IDENTITY_ENCODINGS: Final = frozenset({"", "identity"})
_GZIP_OR_ZLIB_WINDOW_BITS: Final = 32 + zlib.MAX_WBITS
_RAW_DEFLATE_WINDOW_BITS: Final = -zlib.MAX_WBITS
_ZSTD_MODULES: Final = ("compression.zstd", "backports.zstd")
_BROTLI_MODULES: Final = ("brotli", "brotlicffi")


class _Decompressor(msgspec.Struct, frozen=True):
    """What a library offers: a function that takes the next bytes, and the error it raises."""

    decompressing: Callable[[], Callable[[bytes], bytes]]
    error: type[Exception]


def decode_content(body: bytes, encoding: str, *, max_bytes: int) -> bytes:
    """Return a body without its encodings; of one that was cut, what can be had.

    Args:
        body: The bytes as they came.
        encoding: The value of Content-Encoding.
        max_bytes: How long it may become.

    Raises:
        InvalidRequest: The encoding is not known here, the bytes are damaged, or there are too
            many of them.
    """
    names = [name.strip().lower() for name in encoding.split(",")]
    for name in reversed(names):
        if name not in _IDENTITY_ENCODINGS:
            body = _decode_layer(body, name, max_bytes)
    return body


def _decode_layer(body: bytes, name: str, max_bytes: int) -> bytes:
    match name:
        case "gzip" | "x-gzip":
            return _inflate(body, _GZIP_OR_ZLIB_WINDOW_BITS, max_bytes)
        case "deflate":
            # Some servers leave the zlib header out, which has to be a multiple of 31.
            header = int.from_bytes(body[:2], "big")
            has_header = body[:1] != b"" and body[0] & 15 == zlib.DEFLATED and header % 31 == 0
            return _inflate(
                body, zlib.MAX_WBITS if has_header else _RAW_DEFLATE_WINDOW_BITS, max_bytes
            )
        case "zstd":
            return _decompress(body, name, max_bytes, _load_zstd())
        case "br":
            return _decompress(body, name, max_bytes, _load_brotli())
        case _:
            raise InvalidRequest(f"the encoding {name[:40]!r} is not known")


def _inflate(body: bytes, window: int, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    remaining = max_bytes
    while body:  # gzip may have several members, and zeros behind them
        if len(parts) == _MAX_GZIP_MEMBERS:
            raise InvalidRequest("the encoded body has too many members")
        decompressor = zlib.decompressobj(window)
        try:
            parts.append(decompressor.decompress(body, remaining + 1))
        except zlib.error as error:
            raise InvalidRequest("the encoded body is damaged") from error
        remaining -= len(parts[-1])
        if remaining < 0:
            raise _too_long(max_bytes)
        body = decompressor.unused_data.lstrip(b"\0")
    return b"".join(parts)


def _decompress(body: bytes, name: str, max_bytes: int, library: _Decompressor | None) -> bytes:
    if library is None:
        raise InvalidRequest(f"there is no library for the encoding {name!r}")
    decompress = library.decompressing()
    parts: list[bytes] = []
    remaining = max_bytes
    for start in range(0, len(body), _CHUNK_BYTES):
        try:
            parts.append(decompress(body[start : start + _CHUNK_BYTES]))
        except (library.error, EOFError) as error:
            raise InvalidRequest("the encoded body is damaged") from error
        remaining -= len(parts[-1])
        if remaining < 0:
            raise _too_long(max_bytes)
    return b"".join(parts)


def _too_long(max_bytes: int) -> InvalidRequest:
    return InvalidRequest(f"the body is longer than {max_bytes} bytes")


@cache
def _load_zstd() -> _Decompressor | None:
    module = _import_first(_ZSTD_MODULES)
    if module is None:
        return None
    return _Decompressor(lambda: module.ZstdDecompressor().decompress, module.ZstdError)


@cache
def _load_brotli() -> _Decompressor | None:
    module = _import_first(_BROTLI_MODULES)
    return (
        None
        if module is None
        else _Decompressor(lambda: module.Decompressor().process, module.error)
    )


def _import_first(names: tuple[str, ...]) -> Any:  # noqa: ANN401 - a module without types
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
