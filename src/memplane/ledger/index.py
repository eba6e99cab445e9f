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
from io import BufferedReader
from itertools import groupby
from typing import Final

import msgspec

from memplane.clock import moment as read_stamp
from memplane.clock import stamp
from memplane.ledger.chain import Place
from memplane.ledger.folder import AgentFolder, Segment
from memplane.ledger.heads import head_of, hydrated, instant
from memplane.ledger.lines import lines_of
from memplane.objects.files import replace_file

BLOCK: Final = 128
_WORTH_WRITING: Final = 8
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)

Files = Sequence[tuple[Segment, BufferedReader]]


class Block(msgspec.Struct, frozen=True):
    """Entries that follow each other in one segment, up to the byte `end`."""

    segment: int
    offset: int
    end: int
    count: int
    first_id: str
    min_ts: str
    max_ts: str


def first_place_after(folder: AgentFolder, files: Files, moment: datetime) -> Place:
    """Return a place before which no entry is later than the moment."""
    stored = _checked(_stored(folder), files)
    blocks = [block for one in files for block in _blocks_of_file(stored, one, files)]
    if len(blocks) - sum(map(len, stored.values())) >= _WORTH_WRITING:
        _store(folder, blocks)
    for block in blocks:
        if read_stamp(block.max_ts) > moment:
            return Place(block.segment, block.offset)
    return _end_of(blocks, files)


def _stored(folder: AgentFolder) -> list[Block]:
    """Read the blocks; each line begins with a hash of the rest, so that none was changed."""
    try:
        lines = [line.partition(b" ") for line in folder.index.read_bytes().splitlines()]
        if any(not hmac.compare_digest(_sum(rest), given) for given, _, rest in lines):
            return []
        return [msgspec.json.decode(rest, type=Block) for _, _, rest in lines]
    except (OSError, ValueError, msgspec.DecodeError):
        return []


def _sum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest()[:16].encode()


def _checked(stored: list[Block], files: Files) -> dict[int, list[Block]]:
    """Return the stored blocks that still describe their segments, by its number."""
    opened = {segment.number: file for segment, file in files}
    kept: dict[int, list[Block]] = {}
    for number, group in groupby(stored, key=lambda block: block.segment):
        blocks = list(group)
        if (
            number in opened
            and _contiguous(blocks)
            and _describes(blocks[0], opened[number])
            and _describes(blocks[-1], opened[number])
        ):
            kept[number] = blocks
    return kept


def _contiguous(blocks: list[Block]) -> bool:
    ends = [0, *(block.end for block in blocks)]
    try:
        times = all(read_stamp(block.min_ts) <= read_stamp(block.max_ts) for block in blocks)
    except ValueError:
        return False
    return times and all(block.offset == end for block, end in zip(blocks, ends[:-1], strict=True))


def _describes(block: Block, file: BufferedReader) -> bool:
    if os.fstat(file.fileno()).st_size < block.end:
        return False
    file.seek(block.offset)
    for line in lines_of(file):
        head = head_of(line.data) if line.data else None
        if head is not None:
            return hydrated(line.data or b"", head)[0] == block.first_id
    return False


def _blocks_of_file(
    stored: dict[int, list[Block]], one: tuple[Segment, BufferedReader], files: Files
) -> list[Block]:
    """Return the blocks of a file: those that are stored, and what came after them."""
    segment, file = one
    known = stored.get(segment.number, [])
    start = known[-1].end if known else 0
    open_one = segment is files[-1][0]
    return [*known, *_blocks_of(segment, file, start, only_full=open_one)]


def _blocks_of(
    segment: Segment, file: BufferedReader, start: int, *, only_full: bool
) -> Iterator[Block]:
    file.seek(start)
    offset, end, count, first_id = start, start, 0, ""
    earliest, latest = _LATEST, _EARLIEST
    for line in lines_of(file):
        if not line.ended or (segment.end is not None and line.offset >= segment.end):
            break
        end = line.offset + line.size
        head = head_of(line.data) if line.data else None
        if head is None:
            continue
        told = instant(head.ts) or _EARLIEST
        earliest, latest = max(_EARLIEST, min(earliest, told)), max(latest, told)
        first_id = first_id or hydrated(line.data or b"", head)[0]
        count += 1
        if count == BLOCK:
            yield Block(
                segment.number, offset, end, count, first_id, stamp(earliest), stamp(latest)
            )
            offset, count, first_id = end, 0, ""
            earliest, latest = _LATEST, _EARLIEST
    if count and not only_full:
        yield Block(segment.number, offset, end, count, first_id, stamp(earliest), stamp(latest))


def _end_of(blocks: Sequence[Block], files: Files) -> Place:
    if not files:
        return Place(1, 0)
    last = files[-1][0].number
    in_last = [block.end for block in blocks if block.segment == last]
    return Place(last, in_last[-1] if in_last else 0)


def _store(folder: AgentFolder, blocks: list[Block]) -> None:
    encoded = [msgspec.json.encode(block) for block in blocks]
    data = b"".join(b"%s %s\n" % (_sum(line), line) for line in encoded)
    # A folder that cannot be written to is read all the same, only more slowly.
    with suppress(OSError):
        descriptor = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            replace_file(descriptor, folder.index.name, data, durable=False)
        finally:
            os.close(descriptor)
