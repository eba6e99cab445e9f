"""The chain: which line was recorded when, and proof that none was changed or taken out (pure).

One record a line, in a side file. A record's hash covers the one before it, its own header and
a commitment to the line. The commitment is salted, so that a purge that destroys line and salt
leaves nothing to guess from, while the chain still verifies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

SALT_BYTES: Final = 16
ERASED_SALT: Final = bytes(SALT_BYTES)
"""What is left of the salt of a line that was erased."""
_HASH_BYTES: Final = 16
_NonNegativeInt = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_HEADER_FORMAT: Final = b'{"kind":"%s","seq":%d,"segment":%d,"offset":%d,"size":%d'
_COMMITMENT_FORMAT: Final = b',"salt":"%s","commitment":"%s","hash":"%s"}\n'


class RecordKind(StrEnum):
    """What a record tells."""

    ENTRY = "entry"
    """A line that this program recorded."""

    FOUND = "found"
    """A line that was there already: another recorder's, or ours from just before a crash."""

    DAMAGED = "damaged"
    """A line that cannot be read; its bytes are in quarantine too."""

    SEALED = "sealed"
    """The end of a segment."""

    GAP = "gap"
    """Turns that could not be kept, and how many."""

    BROKEN = "broken"
    """Something that had been recorded was missing or changed when the ledger was opened."""

    ERASED = "erased"
    """A line is to be erased for good, or was: an `Erasure`."""


class LedgerPosition(msgspec.Struct, frozen=True):
    """A position in the ledger: a segment's number and a byte in it."""

    segment: int
    offset: int


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """The end of a chain: the last sequence number, its hash, and the place that follows."""

    seq: int
    hash: bytes
    place: LedgerPosition


GENESIS: Final = ChainEnd(0, bytes(_HASH_BYTES), LedgerPosition(1, 0))


@dataclass(frozen=True, slots=True)
class ChainRecord:
    """One line of the chain. A kind that this version does not know is a note."""

    kind: str
    seq: int
    place: LedgerPosition
    size: int
    salt: bytes = b""
    commitment: bytes = b""
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    hash: bytes = b""

    @property
    def after(self) -> LedgerPosition:
        """The place that follows."""
        if self.kind == RecordKind.SEALED:
            return LedgerPosition(self.place.segment + 1, 0)
        return LedgerPosition(self.place.segment, self.place.offset + self.size)

    @property
    def link(self) -> ChainEnd:
        """The chain's end, as long as nothing follows."""
        return ChainEnd(self.seq, self.hash, self.after)


class Erasure(msgspec.Struct, frozen=True):
    """Which line was erased: the number of its record, its place, and what is left of it.

    A segment that had been sealed has another hash since, which is `sha256`.
    """

    record: int
    place: LedgerPosition
    id: str = ""
    ts: str = ""
    sha256: str = ""

    def to_note(self) -> dict[str, object]:
        """Return what a record of it says."""
        remaining = {"id": self.id, "ts": self.ts, "sha256": self.sha256}
        place = {"segment": self.place.segment, "offset": self.place.offset}
        return {"record": self.record, **place, **{k: v for k, v in remaining.items() if v}}


def compute_commitment(salt: bytes, line: bytes) -> bytes:
    """Commit to a line without saying what it is."""
    return hashlib.sha256(salt + line).digest()


def make_line_record(before: ChainEnd, kind: RecordKind, line: bytes, salt: bytes) -> ChainRecord:
    """Chain a line of the ledger, given without its newline."""
    size, commitment = len(line) + 1, compute_commitment(salt, line)
    record = ChainRecord(kind, before.seq + 1, before.place, size, salt, commitment)
    return replace(record, hash=compute_record_hash(before.hash, record))


def chain_lines(
    before: ChainEnd, kind: RecordKind, lines: Sequence[bytes], salts: bytes
) -> tuple[bytes, ChainEnd]:
    """Chain lines one after the other; returns their records as bytes, and the new end.

    It writes what `make_line_record` and `encode` would, without making what nobody keeps.
    """
    seq, digest, position = before.seq, before.hash, before.place
    offset, name = position.offset, kind.encode()
    output: list[bytes] = []
    for at, line in enumerate(lines):
        seq += 1
        salt = salts[at * SALT_BYTES : (at + 1) * SALT_BYTES]
        commitment = hashlib.sha256(salt + line)
        header = _HEADER_FORMAT % (name, seq, position.segment, offset, len(line) + 1)
        digest = hashlib.sha256(digest + header + b"}" + commitment.digest()).digest()
        digest = digest[:_HASH_BYTES]
        committed = salt.hex(), commitment.hexdigest(), digest.hex()
        output.append(header + _COMMITMENT_FORMAT % tuple(map(str.encode, committed)))
        offset += len(line) + 1
    return b"".join(output), ChainEnd(seq, digest, LedgerPosition(position.segment, offset))


def make_note_record(
    before: ChainEnd, kind: RecordKind, members: Mapping[str, object], *, size: int = 0
) -> ChainRecord:
    """Chain something that is not a line; `size` is how many bytes of the ledger it is about."""
    record = ChainRecord(kind, before.seq + 1, before.place, size, more=dict(members))
    return replace(record, hash=compute_record_hash(before.hash, record))


def compute_record_hash(previous: bytes, record: ChainRecord) -> bytes:
    """Return the hash that a record must have after the one with the previous hash."""
    return hashlib.sha256(previous + _header(record) + record.commitment).digest()[:_HASH_BYTES]


def _header(record: ChainRecord) -> bytes:
    position = record.place
    start = _HEADER_FORMAT % (
        record.kind.encode(),
        record.seq,
        position.segment,
        position.offset,
        record.size,
    )
    if not record.more:
        return start + b"}"
    members = json.dumps(record.more, sort_keys=True, separators=(",", ":"))
    return start + b',"more":' + members.encode() + b"}"


def encode_record(record: ChainRecord) -> bytes:
    """Write a record as its line, with the newline."""
    header, digest = _header(record), record.hash.hex().encode()
    if not record.commitment:
        return b'%s,"hash":"%s"}\n' % (header[:-1], digest)
    salt, commitment = record.salt.hex().encode(), record.commitment.hex().encode()
    return header[:-1] + _COMMITMENT_FORMAT % (salt, commitment, digest)


class _RecordLine(msgspec.Struct):
    kind: Annotated[str, msgspec.Meta(max_length=64)]
    seq: _NonNegativeInt
    segment: _NonNegativeInt
    offset: _NonNegativeInt
    size: _NonNegativeInt
    hash: str
    salt: str = ""
    commitment: str = ""
    more: dict[str, Any] = {}


def decode_record(line: bytes) -> ChainRecord | None:
    """Read a record's line; None when it is none."""
    try:
        body = msgspec.json.decode(line, type=_RecordLine)
        return ChainRecord(
            body.kind,
            body.seq,
            LedgerPosition(body.segment, body.offset),
            body.size,
            bytes.fromhex(body.salt),
            bytes.fromhex(body.commitment),
            body.more,
            bytes.fromhex(body.hash),
        )
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


class _ErasureFields(msgspec.Struct):
    record: _NonNegativeInt
    segment: _NonNegativeInt
    offset: _NonNegativeInt
    id: str = ""
    ts: str = ""
    sha256: str = ""


def read_erasure(record: ChainRecord) -> Erasure | None:
    """Read which line a record says was erased; None when it says nothing of the kind."""
    if record.kind != RecordKind.ERASED:
        return None
    try:
        fields = msgspec.convert(record.more, _ErasureFields)
    except msgspec.ValidationError:
        return None
    if fields.record >= record.seq:
        return None  # nobody can know what will be recorded
    position = LedgerPosition(fields.segment, fields.offset)
    return Erasure(fields.record, position, fields.id, fields.ts, fields.sha256)


def find_chain_end(tail: bytes) -> tuple[ChainEnd, int] | None:
    """Find the last whole record in the end of a chain file.

    Returns it as a link, and how many bytes of the tail come after it; None without any record.
    """
    for end, line in _lines_backwards(tail):
        if (record := decode_record(line)) is not None:
            return record.link, len(tail) - end
    return None


def _lines_backwards(tail: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the ended lines of a tail, the last one first, each with where it ends."""
    end = tail.rfind(b"\n") + 1
    while end > 0:
        start = tail.rfind(b"\n", 0, end - 1) + 1
        yield end, tail[start : end - 1]
        end = start
