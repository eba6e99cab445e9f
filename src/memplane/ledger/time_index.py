"""An index of times, so that reading from a moment on need not read what came before.

For each block of 128 entries it holds the earliest and the latest time in it; the times in a
ledger are not sorted, so nothing else would be right. It is a cache: what is missing, stale or
damaged is read from the segments again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

import msgspec

from memplane.kit.clock import format_timestamp
from memplane.kit.clock import parse_timestamp as read_stamp
from memplane.kit.durable_files import replace_file
from memplane.ledger.chain import LedgerPosition
from memplane.ledger.entry_head import add_missing_id, parse_rfc3339, read_entry_head
from memplane.ledger.folder import AgentFolder
from memplane.ledger.segment_snapshot import SegmentFile

BLOCK_ENTRIES: Final = 128
_MIN_NEW_BLOCKS: Final = 8
_MIN_TIMESTAMP: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIMESTAMP: Final = datetime(9999, 1, 1, tzinfo=UTC)


class IndexBlock(msgspec.Struct, frozen=True):
    """Entries that follow each other in one segment, up to the byte `end`."""

    segment: int
    offset: int
    end: int
    count: int
    first_id: str
    min_ts: str
    max_ts: str


def find_first_position_after(
    folder: AgentFolder, sources: Sequence[SegmentFile], after: datetime
) -> LedgerPosition:
    """Return a place before which no entry is later than the moment."""
    stored_blocks = _check_blocks(_read_stored_blocks(folder), sources)
    blocks = [
        block for source in sources for block in _blocks_in(source, stored_blocks, sources[-1])
    ]
    if len(blocks) - sum(map(len, stored_blocks.values())) >= _MIN_NEW_BLOCKS:
        _store(folder, blocks)
    for block in blocks:
        if read_stamp(block.max_ts) > after:
            return LedgerPosition(block.segment, block.offset)
    return _end_of(blocks, sources)


def _read_stored_blocks(folder: AgentFolder) -> list[IndexBlock]:
    """Read the blocks; each line begins with a hash of the rest, so that none was changed."""
    try:
        lines = [line.partition(b" ") for line in folder.index.read_bytes().splitlines()]
        if any(
            not hmac.compare_digest(_compute_checksum(body), stated) for stated, _, body in lines
        ):
            return []
        return [msgspec.json.decode(body, type=IndexBlock) for _, _, body in lines]
    except (OSError, ValueError, msgspec.DecodeError):
        return []


def _compute_checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest()[:16].encode()


def _check_blocks(
    stored: list[IndexBlock], sources: Sequence[SegmentFile]
) -> dict[int, list[IndexBlock]]:
    """Return the stored blocks that still describe their segments, by its number."""
    sources_by_number = {source.segment.number: source for source in sources}
    valid: dict[int, list[IndexBlock]] = {}
    for number, group in groupby(stored, key=lambda block: block.segment):
        blocks = list(group)
        if (
            number in sources_by_number
            and _contiguous(blocks)
            and _describe(blocks, sources_by_number[number])
        ):
            valid[number] = blocks
    return valid


def _contiguous(blocks: list[IndexBlock]) -> bool:
    ends = [0, *(block.end for block in blocks)]
    try:
        times = all(read_stamp(block.min_ts) <= read_stamp(block.max_ts) for block in blocks)
    except ValueError:
        return False
    return times and all(block.offset == end for block, end in zip(blocks, ends[:-1], strict=True))


def _describe(blocks: list[IndexBlock], source: SegmentFile) -> bool:
    """Say whether the file is long enough, and blocks begin with the entries that they should."""
    with source.open_file() as file:
        if os.fstat(file.fileno()).st_size < blocks[-1].end:
            return False
    return all(
        _first_id(source, block.offset) == block.first_id for block in (blocks[0], blocks[-1])
    )


def _first_id(source: SegmentFile, offset: int) -> str:
    for line in source.lines(offset):
        head = read_entry_head(line.data) if line.data else None
        if head is not None:
            return add_missing_id(line.data or b"", head)[0]
    return ""


def _blocks_in(
    source: SegmentFile, stored: dict[int, list[IndexBlock]], last: SegmentFile
) -> list[IndexBlock]:
    """Return the blocks of a segment: those that are stored, and what came after them."""
    known = stored.get(source.segment.number, [])
    start = known[-1].end if known else 0
    return [*known, *_blocks_of(source, start, only_full=source is last)]


def _blocks_of(source: SegmentFile, start: int, *, only_full: bool) -> Iterator[IndexBlock]:
    number = source.segment.number
    offset, end, count, first_id = start, start, 0, ""
    earliest, latest = _MAX_TIMESTAMP, _MIN_TIMESTAMP
    for line in source.lines(start):
        end = line.offset + line.size
        head = read_entry_head(line.data) if line.data else None
        if head is None:
            continue
        entry_time = parse_rfc3339(head.ts) or _MIN_TIMESTAMP
        earliest, latest = max(_MIN_TIMESTAMP, min(earliest, entry_time)), max(latest, entry_time)
        first_id = first_id or add_missing_id(line.data or b"", head)[0]
        count += 1
        if count == BLOCK_ENTRIES:
            yield IndexBlock(
                number,
                offset,
                end,
                count,
                first_id,
                format_timestamp(earliest),
                format_timestamp(latest),
            )
            offset, count, first_id = end, 0, ""
            earliest, latest = _MAX_TIMESTAMP, _MIN_TIMESTAMP
    if count and not only_full:
        yield IndexBlock(
            number,
            offset,
            end,
            count,
            first_id,
            format_timestamp(earliest),
            format_timestamp(latest),
        )


def _end_of(blocks: Sequence[IndexBlock], sources: Sequence[SegmentFile]) -> LedgerPosition:
    if not sources:
        return LedgerPosition(1, 0)
    last = sources[-1].segment.number
    in_last = [block.end for block in blocks if block.segment == last]
    return LedgerPosition(last, in_last[-1] if in_last else 0)


def _store(folder: AgentFolder, blocks: list[IndexBlock]) -> None:
    encoded_blocks = [msgspec.json.encode(block) for block in blocks]
    data = b"".join(b"%s %s\n" % (_compute_checksum(line), line) for line in encoded_blocks)
    # A folder that cannot be written to is read all the same, only more slowly.
    with suppress(OSError):
        descriptor = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            replace_file(descriptor, folder.index.name, data, durable=False)
        finally:
            os.close(descriptor)
