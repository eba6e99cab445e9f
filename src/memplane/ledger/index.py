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

from memplane.clock import moment as read_stamp
from memplane.clock import stamp
from memplane.ledger.chain import Place
from memplane.ledger.folder import AgentFolder
from memplane.ledger.heads import head_of, hydrated, instant
from memplane.ledger.sources import Source
from memplane.objects.files import replace_file

BLOCK: Final = 128
_WORTH_WRITING: Final = 8
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)


class Block(msgspec.Struct, frozen=True):
    """Entries that follow each other in one segment, up to the byte `end`."""

    segment: int
    offset: int
    end: int
    count: int
    first_id: str
    min_ts: str
    max_ts: str


def first_place_after(folder: AgentFolder, sources: Sequence[Source], moment: datetime) -> Place:
    """Return a place before which no entry is later than the moment."""
    stored = _checked(_stored(folder), sources)
    blocks = [block for source in sources for block in _blocks_in(source, stored, sources[-1])]
    if len(blocks) - sum(map(len, stored.values())) >= _WORTH_WRITING:
        _store(folder, blocks)
    for block in blocks:
        if read_stamp(block.max_ts) > moment:
            return Place(block.segment, block.offset)
    return _end_of(blocks, sources)


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


def _checked(stored: list[Block], sources: Sequence[Source]) -> dict[int, list[Block]]:
    """Return the stored blocks that still describe their segments, by its number."""
    there = {source.segment.number: source for source in sources}
    kept: dict[int, list[Block]] = {}
    for number, group in groupby(stored, key=lambda block: block.segment):
        blocks = list(group)
        if number in there and _contiguous(blocks) and _describe(blocks, there[number]):
            kept[number] = blocks
    return kept


def _contiguous(blocks: list[Block]) -> bool:
    ends = [0, *(block.end for block in blocks)]
    try:
        times = all(read_stamp(block.min_ts) <= read_stamp(block.max_ts) for block in blocks)
    except ValueError:
        return False
    return times and all(block.offset == end for block, end in zip(blocks, ends[:-1], strict=True))


def _describe(blocks: list[Block], source: Source) -> bool:
    """Say whether the file is long enough, and blocks begin with the entries that they should."""
    with source.opened() as file:
        if os.fstat(file.fileno()).st_size < blocks[-1].end:
            return False
    return all(_first_id(source, one.offset) == one.first_id for one in (blocks[0], blocks[-1]))


def _first_id(source: Source, offset: int) -> str:
    for line in source.lines(offset):
        head = head_of(line.data) if line.data else None
        if head is not None:
            return hydrated(line.data or b"", head)[0]
    return ""


def _blocks_in(source: Source, stored: dict[int, list[Block]], last: Source) -> list[Block]:
    """Return the blocks of a segment: those that are stored, and what came after them."""
    known = stored.get(source.segment.number, [])
    start = known[-1].end if known else 0
    return [*known, *_blocks_of(source, start, only_full=source is last)]


def _blocks_of(source: Source, start: int, *, only_full: bool) -> Iterator[Block]:
    number = source.segment.number
    offset, end, count, first_id = start, start, 0, ""
    earliest, latest = _LATEST, _EARLIEST
    for line in source.lines(start):
        end = line.offset + line.size
        head = head_of(line.data) if line.data else None
        if head is None:
            continue
        told = instant(head.ts) or _EARLIEST
        earliest, latest = max(_EARLIEST, min(earliest, told)), max(latest, told)
        first_id = first_id or hydrated(line.data or b"", head)[0]
        count += 1
        if count == BLOCK:
            yield Block(number, offset, end, count, first_id, stamp(earliest), stamp(latest))
            offset, count, first_id = end, 0, ""
            earliest, latest = _LATEST, _EARLIEST
    if count and not only_full:
        yield Block(number, offset, end, count, first_id, stamp(earliest), stamp(latest))


def _end_of(blocks: Sequence[Block], sources: Sequence[Source]) -> Place:
    if not sources:
        return Place(1, 0)
    last = sources[-1].segment.number
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
