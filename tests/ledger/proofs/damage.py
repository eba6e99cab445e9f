"""Damage to a ledger's files, and what must be true of a ledger that was damaged."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memplane.ledger.anchors import read_anchors
from memplane.ledger.chain import ChainEnd
from memplane.ledger.chain_verification import LedgerReport, verify_ledger
from memplane.ledger.folder import CHAIN_FILE_NAME, OPEN_SEGMENT_NAME, AgentFolder
from memplane.ledger.writer import LedgerOptions
from tests.ledger.proofs.ledgers import (
    AGENT,
    image_of,
    line_of,
    lines_in,
    quarantined,
    record_tokens,
    token_of,
    write_image,
)

Image = dict[str, bytes]
Verify = Callable[[AgentFolder, ChainEnd | None], LedgerReport]

HISTORY: Final = f"{AGENT}/{OPEN_SEGMENT_NAME}"
RECORDS: Final = f"{AGENT}/{CHAIN_FILE_NAME}"
SEALED: Final = f"{AGENT}/segments/00000001.jsonl"
LAST_SEALED: Final = f"{AGENT}/segments/00000002.jsonl"
ENTRIES: Final = 200


def whole_ledger(scratch: Path) -> Image:
    """A ledger of 200 entries in three segments, closed in order: 40, 40 and 120."""
    tokens = [f"t{number}" for number in range(ENTRIES)]
    short = LedgerOptions(max_bytes=40 * (len(line_of("t99")) + 1))
    record_tokens(scratch, *tokens[:81], options=short)
    record_tokens(scratch, *tokens[81:])
    image = image_of(scratch)
    assert {HISTORY, RECORDS, SEALED, LAST_SEALED} < image.keys()
    return image


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not what it was; None is a file that is gone."""

    name: str
    files: dict[str, bytes | None]

    def done_to(self, image: Image) -> Image:
        changed = {**image, **self.files}
        return {name: data for name, data in changed.items() if data is not None}


# Kinds of damage


def truncated(image: Image, name: str, at: int) -> Damage:
    return Damage(f"{name} cut at {at}", {name: image[name][:at]})


def flipped(image: Image, name: str, at: int, bit: int) -> Damage:
    data = bytearray(image[name])
    data[at] ^= 1 << bit
    return Damage(f"{name} bit {bit} of byte {at}", {name: bytes(data)})


def zeroed(image: Image, name: str, start: int, end: int) -> Damage:
    data = image[name]
    return Damage(
        f"{name} zeros from {start} to {end}",
        {name: data[:start] + bytes(end - start) + data[end:]},
    )


def with_lines(
    image: Image, name: str, what: str, change: Callable[[list[bytes]], None]
) -> Damage:
    lines = image[name].splitlines(keepends=True)
    change(lines)
    return Damage(f"{name} {what}", {name: b"".join(lines)})


def doubled(image: Image, name: str, line: int, to: int) -> Damage:
    what = f"line {line} again before {to}"
    return with_lines(image, name, what, lambda lines: lines.insert(to, lines[line]))


def swapped(image: Image, name: str, one: int, other: int) -> Damage:
    def swap(lines: list[bytes]) -> None:
        lines[one], lines[other] = lines[other], lines[one]

    return with_lines(image, name, f"lines {one} and {other} swapped", swap)


def dropped(image: Image, name: str, line: int) -> Damage:
    return with_lines(image, name, f"line {line} dropped", lambda lines: lines.__delitem__(line))


def deleted(name: str) -> Damage:
    return Damage(f"{name} deleted", {name: None})


def last_entry_dropped(image: Image) -> Damage:
    """The last entry together with its record, so that only the anchor knows."""
    files = (
        with_lines(image, name, "", lambda lines: lines.__delitem__(-1)).files
        for name in (HISTORY, RECORDS)
    )
    return Damage(
        "the last entry and its record dropped", {k: v for one in files for k, v in one.items()}
    )


def around_every_line(image: Image, name: str) -> Iterator[Damage]:
    """Cuts at the end of every line, and up to two bytes around."""
    ends = [at + 1 for at, byte in enumerate(image[name]) if byte == ord("\n")]
    places = {end + by for end in ends for by in range(-2, 3)}
    for at in sorted(places):
        if 0 <= at < len(image[name]):
            yield truncated(image, name, at)


def at_random(image: Image, rng: random.Random) -> Damage:
    """Any kind of damage to any of the files."""
    name = rng.choice((HISTORY, SEALED, RECORDS))
    data = image[name]
    count = data.count(b"\n")
    at, line, other = rng.randrange(len(data)), rng.randrange(count), rng.randrange(count)
    kind = rng.choice(("cut", "flip", "flip", "zeros", "double", "swap", "drop"))
    match kind:
        case "cut":
            return truncated(image, name, at)
        case "flip":
            return flipped(image, name, at, rng.randrange(8))
        case "zeros":
            return zeroed(image, name, at, min(len(data), at + rng.randint(1, 2000)))
        case "double":
            return doubled(image, name, line, rng.randint(0, count))
        case "swap":
            return swapped(image, name, line, (line + 1 + other % (count - 1)) % count)
        case _:
            return dropped(image, name, line)


# What must be true


def problems_with(
    image: Image, damage: Damage, root: Path, verify: Verify = verify_ledger
) -> list[str]:
    """Damage a ledger, check it, read it and go on recording; say what is wrong with that."""
    shutil.rmtree(root, ignore_errors=True)
    write_image(damage.done_to(image), root)
    before = image_of(root)
    found = _check_and_read(root, before, verify)
    if image_of(root) != before:
        found.append("checking and reading changed a file")
    record_tokens(root, "after")
    found += _undamaged_missing(root, before)
    if "after" not in map(token_of, lines_in(root)):
        found.append("the next entry cannot be read")
    found += _bytes_lost(root, before)
    if not _findings(root, verify):
        found.append("the damage is forgotten once the ledger is open")
    return found


def _check_and_read(root: Path, files: Image, verify: Verify) -> list[str]:
    found = [] if _findings(root, verify) else ["the damage is not found"]
    return found + _undamaged_missing(root, files)


def _findings(root: Path, verify: Verify) -> int:
    return len(verify(AgentFolder(root, AGENT), read_anchors(root).get(AGENT)).findings)


_LINES: Final = frozenset(line_of(f"t{number}") for number in range(ENTRIES))


def _undamaged_missing(root: Path, files: Image) -> list[str]:
    """Every line that is still whole in some file must be read."""
    whole = {
        line
        for name, data in files.items()
        if name == HISTORY or "/segments/" in name
        for line in data.split(b"\n")[:-1]
    }
    missing = (whole & _LINES) - set(lines_in(root))
    return [f"{token_of(line)} is whole and was not read" for line in sorted(missing)]


def _bytes_lost(root: Path, before: Image) -> list[str]:
    """Whatever is not in its file any more must be in quarantine."""
    after, kept = image_of(root), quarantined(root)
    found: list[str] = []
    for name, data in before.items():
        if not name.startswith(AGENT):
            continue
        homes = [after.get(name, b""), *(after[one] for one in after if "/segments/" in one)]
        if not any(_is_kept(data, home, kept) for home in homes):
            found.append(f"bytes of {name} are gone")
    return found


def _is_kept(data: bytes, home: bytes, kept: list[bytes]) -> bool:
    return home.startswith(data) or any(
        data.endswith(one) and home.startswith(data[: len(data) - len(one)]) for one in kept if one
    )
