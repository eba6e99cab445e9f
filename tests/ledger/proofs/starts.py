"""The two ledgers that a recorder under strace starts from: none, and one that needs mending."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memplane.ledger.folder import (
    CHAIN_FILE_NAME,
    FOREIGN_INDEX_NAME,
    OPEN_SEGMENT_NAME,
    ROTATED_SEGMENT_NAME,
)
from memplane.ledger.writer import LedgerOptions
from tests.ledger.proofs.ledgers import (
    AGENT,
    image_of,
    line_of,
    problems_of,
    quarantined,
    record_tokens,
    write_image,
)

TORN_LINE: Final = line_of("torn")[:150]
TORN_RECORD: Final = b'{"kind":"entry","seq":9,"segm'


@dataclass(frozen=True, slots=True)
class Start:
    """A ledger as a recorder finds it: its files, and the turns that it must still have."""

    name: str
    image: dict[str, bytes]
    acked: tuple[str, ...] = ()
    torn: tuple[bytes, ...] = ()

    def placed(self, root: Path) -> Path:
        write_image(self.image, root)
        return root

    def problems(self, root: Path, acked: list[str], attempted: list[str]) -> list[str]:
        """Say what is wrong after a recorder went on from here."""
        known = [*self.acked, *acked]
        found = problems_of(root, acked=known, attempted=[*known, *attempted])
        kept = quarantined(root)
        return found + [f"{torn!r} is not in quarantine" for torn in self.torn if torn not in kept]


NOTHING: Final = Start("nothing", {})


def unclean(scratch: Path) -> Start:
    """A ledger that was killed: lines that are not chained, torn ends, another's rotated file."""
    old = [f"old-{number}" for number in range(6)]
    record_tokens(scratch, *old, options=LedgerOptions(max_bytes=1500))
    image = image_of(scratch)
    image[f"{AGENT}/{OPEN_SEGMENT_NAME}"] += line_of("unchained") + b"\n" + TORN_LINE
    image[f"{AGENT}/{CHAIN_FILE_NAME}"] += TORN_RECORD
    image[f"{AGENT}/{FOREIGN_INDEX_NAME}"] = b'{"version":1}\n'
    return Start("unclean", image, (*old, "unchained"), (TORN_LINE, TORN_RECORD))


def foreign(scratch: Path) -> Start:
    """A ledger that another program recorded and rotated once."""
    older = b"".join(line_of(f"old-{number}") + b"\n" for number in range(3))
    image = {
        f"{AGENT}/{ROTATED_SEGMENT_NAME}": older,
        f"{AGENT}/{OPEN_SEGMENT_NAME}": line_of("old-3") + b"\n" + line_of("old-4"),
        f"{AGENT}/{FOREIGN_INDEX_NAME}": b'{"version":1}\n',
    }
    return Start("foreign", image, tuple(f"old-{number}" for number in range(5)))


def starts(scratch: Path) -> Iterator[Start]:
    yield NOTHING
    yield unclean(scratch / "unclean")
    yield foreign(scratch / "foreign")
