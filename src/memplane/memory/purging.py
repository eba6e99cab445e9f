"""Erasing what was said from the ledgers, not only from what was derived."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from memplane.clock import Clock
from memplane.errors import LedgerError
from memplane.ledger.cursor import Cursor
from memplane.ledger.purging import purge
from memplane.ledger.reader import open_entry
from memplane.ledger.repeats import find_repeats
from memplane.ledger.sealing import Modes
from memplane.memory.contract import Checked
from memplane.memory.following import OWN, RECEIVED, Places
from memplane.memory.verifying import Before
from memplane.objects.files import holds


def repeats_of(places: Places, agent: str, ids: Collection[str]) -> list[str]:
    """Name the later turns that repeat what some turns said, since clients send all again."""
    found = (one for entry_id in ids for one in _repeats(places, agent, entry_id))
    return [one for one in dict.fromkeys(found) if one not in ids]


def _repeats(places: Places, agent: str, entry_id: str) -> Iterator[str]:
    for ledger in (OWN, RECEIVED):
        folder = places.folder(ledger, agent)
        with open_entry(folder, entry_id) as page:
            lines = list(zip(page.entries, page.identified(), strict=True))
        for found, (identifier, line) in lines:
            if identifier == entry_id:
                at = Cursor(found.segment, found.offset, identifier)
                yield from find_repeats(folder, line, after=at)


def purge_all(
    places: Places, agent: str, ids: Collection[str], *, modes: Modes, clock: Clock
) -> list[str]:
    """Erase the payload of entries from both ledgers; returns those that were there.

    Raises:
        LedgerError: It failed, and some may be left. The same again goes on.
    """
    missing: set[str] = set(ids)
    for ledger in (OWN, RECEIVED):
        folder = places.folder(ledger, agent)
        try:
            missing &= {*purge(folder, ids, modes=modes, clock=clock).missing}
        except OSError as error:
            raise LedgerError(
                f"entries of {agent} were not all erased from {folder.path}: {error.strerror}. "
                "The same command again goes on where this ended"
            ) from error
    return [one for one in ids if one not in missing]


def check_ledgers(places: Places, agent: str, before: Before) -> Checked:
    """Check that no file of the agent's ledgers has any of the words that were said."""
    wanted = [msgspec.json.encode(one)[1:-1] for one in before.tellings]
    held = sorted(
        {
            path.name
            for ledger in (OWN, RECEIVED)
            for path in _files(places, ledger, agent)
            if any(holds(path, one) for one in wanted)
        }
    )
    note = f"{', '.join(held)} still has its words, in turns that repeat it" if held else ""
    return before.judged(Checked(place="ledgers: the files' bytes", clean=not held, note=note))


def _files(places: Places, ledger: str, agent: str) -> list[Path]:
    folder = places.folder(ledger, agent)
    roots = (folder.path, folder.quarantine)
    return [path for root in roots if root.is_dir() for path in root.rglob("*") if path.is_file()]
