"""The whole folder as one file, and back, byte for byte. A hostile file is refused.

An archive is a gzipped tar. Its first entry lists every document with size and hash; the
documents follow. Nothing else may be in it, so there is nothing to extract that was not
announced. It is read as a stream and gives bytes: no name of an entry ever reaches a disk here.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

import msgspec

from memplane.errors import PersonaError
from memplane.persona.document_names import explain_invalid_name
from memplane.storage.keys import find_collisions

FORMAT_VERSION: Final = 1
HEADER_NAME: Final = "memplane-persona.json"
"""Its name is no document's, because those end in `.md`."""
MAX_FILES: Final = 2_000
MAX_FILE_BYTES: Final = 5 << 20
MAX_TOTAL_BYTES: Final = 64 << 20

_MAX_PACKED_BYTES: Final = 80 << 20
"""The largest archive there can be, with all of its headers and not compressed at all."""
_MAX_UNPACK_RATIO: Final = 200
_RATIO_CHECK_FROM_BYTES: Final = 1 << 20
"""So much may come out of very few bytes: a short text of one letter is no attack."""
_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_CHUNK_BYTES: Final = 1 << 16
_BLOCK_BYTES: Final = tarfile.BLOCKSIZE
_MAX_EXTENDED_HEADER_BYTES: Final = 4_096
"""Longer than the longest key."""
_ENTRY_TYPE_LABELS: Final = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.DIRTYPE: "a folder",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


class Readable(Protocol):
    """What an archive is read from."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, and none at the end."""
        ...


class _ArchivedFile(msgspec.Struct, frozen=True):
    key: str
    size: int
    sha256: str


class _ArchiveHeader(msgspec.Struct, frozen=True):
    format: int
    files: tuple[_ArchivedFile, ...]


def export_archive(files: Mapping[str, bytes]) -> bytes:
    """Return the documents as an archive. The same documents always give the same bytes.

    Raises:
        PersonaError: `read_archive` would not take it back.
    """
    listed = tuple(
        _ArchivedFile(key, len(files[key]), hashlib.sha256(files[key]).hexdigest())
        for key in sorted(files)
    )
    _refuse_unfit(listed)
    header = msgspec.json.format(
        msgspec.json.encode(_ArchiveHeader(FORMAT_VERSION, listed)), indent=1
    )
    entries = [
        _entry(HEADER_NAME, header),
        *(_entry(file.key, files[file.key]) for file in listed),
    ]
    tar = b"".join(entries) + bytes(2 * _BLOCK_BYTES)
    compressed = _gzip(tar, level=9)
    # Text that repeats itself too much looks like a bomb, so it is not made smaller.
    return compressed if _can_unpack(compressed) else _gzip(tar, level=0)


def _entry(name: str, data: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o600
    return (
        info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict") + data + bytes(-len(data) % _BLOCK_BYTES)
    )


def _gzip(data: bytes, *, level: int) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile("", "wb", compresslevel=level, fileobj=buffer, mtime=0) as stream:
        stream.write(data)
    return buffer.getvalue()


def _can_unpack(compressed: bytes) -> bool:
    reader = _GunzipReader(io.BytesIO(compressed))
    try:
        while reader.read(_CHUNK_BYTES):
            pass
    except PersonaError:
        return False
    return True


def read_archive(source: bytes | Readable) -> dict[str, bytes]:
    """Return the documents of an archive by their keys.

    No more is read than is needed to refuse it, and never more than the limits into memory.

    Raises:
        PersonaError: It is cut off, damaged, too large, or holds what no export put there; the
            message names the entry.
    """
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    with _translate_errors():
        tar = _TarReader(stream)
        listed = _read_leading_header(tar)
        files: dict[str, bytes] = {}
        while (info := tar.next_entry()) is not None:
            if info.name in files:
                raise _refusal(info.name, "is in it twice")
            files[info.name] = _document(tar, info, listed.get(info.name))
        if missing := sorted(listed.keys() - files.keys()):
            raise _refusal(missing[0], "is missing, though it is listed")
    return files


def _read_leading_header(tar: _TarReader) -> dict[str, _ArchivedFile]:
    info = tar.next_entry()
    if info is None:
        raise PersonaError("the archive is refused: it is empty")
    if info.name != HEADER_NAME:
        raise _refusal(info.name, f"stands where {HEADER_NAME} should be")
    header = msgspec.json.decode(tar.content(info), type=_ArchiveHeader)
    if header.format != FORMAT_VERSION:
        raise _refusal(
            HEADER_NAME, f"is of format {header.format}; this memplane reads {FORMAT_VERSION}"
        )
    _refuse_unfit(header.files)
    return {file.key: file for file in header.files}


def _document(tar: _TarReader, info: tarfile.TarInfo, listed: _ArchivedFile | None) -> bytes:
    if reason := explain_invalid_name(info.name):
        raise _refusal(info.name, f"cannot be a document: {reason}")
    if listed is None:
        raise _refusal(info.name, "is not in its list")
    if info.size != listed.size:
        raise _refusal(info.name, f"has {info.size} bytes instead of {listed.size}")
    data = tar.content(info)
    if hashlib.sha256(data).hexdigest() != listed.sha256:
        raise _refusal(info.name, "is not what was put in: its hash differs")
    return data


def _refuse_unfit(listed: Iterable[_ArchivedFile]) -> None:
    """Refuse a list of documents that no folder can hold."""
    files = tuple(listed)
    if len(files) > MAX_FILES:
        raise _refusal(files[MAX_FILES].key, f"is one too many: it holds at most {MAX_FILES}")
    for file in files:
        if reason := explain_invalid_name(file.key):
            raise _refusal(file.key, f"cannot be a document: {reason}")
        if not 0 <= file.size <= MAX_FILE_BYTES:
            raise _refusal(file.key, f"is larger than {MAX_FILE_BYTES} bytes")
    if sum(file.size for file in files) > MAX_TOTAL_BYTES:
        raise _refusal("", f"its documents have more than {MAX_TOTAL_BYTES} bytes")
    for rivals in find_collisions(file.key for file in files):
        raise _refusal(rivals[1], f"is the same file as {rivals[0]!r} on some machines")


class _TarReader:
    """A gzipped tar, read from front to back.

    `tarfile` reads single headers, but does not walk: it keeps every header it saw, takes
    extended ones of any size into memory, and lets an archive end anywhere.
    """

    def __init__(self, compressed: Readable) -> None:
        self._stream = _GunzipReader(compressed)

    def next_entry(self) -> tarfile.TarInfo | None:
        """Return the next entry, a regular file of a bearable size; None at a proper end."""
        block = self._take(_BLOCK_BYTES)
        if block == bytes(_BLOCK_BYTES):
            self._refuse_more()
            return None
        info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        if info.type == tarfile.XHDTYPE:
            name = self._long_name(info)
            info = tarfile.TarInfo.frombuf(self._take(_BLOCK_BYTES), "utf-8", "strict")
            info.name = name
        if info.type not in {tarfile.REGTYPE, tarfile.AREGTYPE}:
            raise _refusal(info.name, f"is {_ENTRY_TYPE_LABELS.get(info.type, 'no file')}")
        if not 0 <= info.size <= MAX_FILE_BYTES:
            raise _refusal(info.name, f"is larger than {MAX_FILE_BYTES} bytes")
        return info

    def content(self, info: tarfile.TarInfo) -> bytes:
        """Return the content of the entry that came last."""
        return self._take(info.size + -info.size % _BLOCK_BYTES)[: info.size]

    def _long_name(self, info: tarfile.TarInfo) -> str:
        """Read an extended header, of which we only ever write `<length> path=<name>`."""
        if not 0 <= info.size <= _MAX_EXTENDED_HEADER_BYTES:
            raise _refusal(info.name, "is an extended header that is too long")
        length, _, record = self.content(info).decode().partition(" ")
        keyword, _, name = record.removesuffix("\n").partition("=")
        if length != str(info.size) or keyword != "path" or "\n" in name:
            raise _refusal(info.name, "is an extended header with more than a name")
        return name

    def _take(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise EOFError("it ends too early")
        return data

    def _refuse_more(self) -> None:
        """Read the rest of the end: at least one more empty block, and no more than a record."""
        trailing = self._stream.read(tarfile.RECORDSIZE)
        if len(trailing) < _BLOCK_BYTES:
            raise EOFError("it ends too early")
        if trailing.strip(b"\0") or self._stream.has_more():
            raise _refusal("", "something follows after its end")


class _GunzipReader:
    """What is inside one gzip stream, and never more of it in memory than was asked for."""

    def __init__(self, source: Readable) -> None:
        self._source = source
        self._stream = zlib.decompressobj(wbits=_GZIP_WBITS)
        self._input_bytes = self._output_bytes = 0

    def read(self, size: int) -> bytes:
        """Return so many bytes, and fewer only at the end."""
        data = bytearray()
        while len(data) < size and not self._stream.eof:
            chunk = self._stream.decompress(self._next_input(), size - len(data))
            data += chunk
            self._output_bytes += len(chunk)
            if _is_bomb(self._output_bytes, self._input_bytes):
                raise _refusal("", f"it unpacks to more than {_MAX_UNPACK_RATIO} times its size")
        return bytes(data)

    def has_more(self) -> bool:
        """Say whether there is anything left, inside of the stream or behind it."""
        return bool(self.read(1) or self._stream.unused_data or self._source.read(1))

    def _next_input(self) -> bytes:
        if tail := self._stream.unconsumed_tail:
            return tail
        # Whole chunks, or what is taken for a bomb would depend on how the stream is cut.
        data = bytearray()
        while len(data) < _CHUNK_BYTES and (chunk := self._source.read(_CHUNK_BYTES - len(data))):
            data += chunk
        if not data:
            raise EOFError("it ends too early")
        self._input_bytes += len(data)
        if self._input_bytes > _MAX_PACKED_BYTES:
            raise _refusal("", f"it has more than {_MAX_PACKED_BYTES} bytes")
        return bytes(data)


def _is_bomb(output_bytes: int, compressed_bytes: int) -> bool:
    return (
        output_bytes > _RATIO_CHECK_FROM_BYTES
        and output_bytes > _MAX_UNPACK_RATIO * compressed_bytes
    )


@contextmanager
def _translate_errors() -> Generator[None]:
    try:
        yield
    except (EOFError, zlib.error) as error:
        raise PersonaError(f"the archive is cut off or damaged: {error}") from error
    except (tarfile.HeaderError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise PersonaError(f"the archive is refused: {error}") from error


def _refusal(entry: str, reason: str) -> PersonaError:
    return PersonaError(f"the archive is refused: {f'{entry!r} ' if entry else ''}{reason}")
