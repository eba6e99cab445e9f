"""Erasing what was said from the ledgers, not only from what was derived."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec

from memplane.episodes.api_types import ForgetCheck
from memplane.episodes.forget_verification import ForgottenTexts
from memplane.episodes.ledger_follower import OWN_LEDGER, RECEIVED_LEDGER, MemorySources
from memplane.errors import LedgerError
from memplane.kit.clock import Clock
from memplane.kit.durable_files import file_contains
from memplane.ledger.cursor import Cursor
from memplane.ledger.purge import purge_ledger
from memplane.ledger.reader import open_entries_by_id
from memplane.ledger.residual_copies import find_residual_copies
from memplane.ledger.segments import FileModes


def find_repeated_turns(places: MemorySources, agent: str, ids: Collection[str]) -> list[str]:
    """Name the later turns that repeat what some turns said, since clients send all again."""
    found = (one for entry_id in ids for one in _repeats(places, agent, entry_id))
    return [one for one in dict.fromkeys(found) if one not in ids]


def _repeats(places: MemorySources, agent: str, entry_id: str) -> Iterator[str]:
    for ledger in (OWN_LEDGER, RECEIVED_LEDGER):
        folder = places.folder(ledger, agent)
        with open_entries_by_id(folder, entry_id) as page:
            lines = list(zip(page.entries, page.with_ids(), strict=True))
        for found, (identifier, line) in lines:
            if identifier == entry_id:
                at = Cursor(found.segment, found.offset, identifier)
                yield from find_residual_copies(folder, line, after=at)


def purge_entries(
    places: MemorySources, agent: str, ids: Collection[str], *, modes: FileModes, clock: Clock
) -> list[str]:
    """Erase the payload of entries from both ledgers; returns those that were there.

    Raises:
        LedgerError: It failed, and some may be left. The same again goes on.
    """
    missing: set[str] = set(ids)
    for ledger in (OWN_LEDGER, RECEIVED_LEDGER):
        folder = places.folder(ledger, agent)
        try:
            missing &= {*purge_ledger(folder, ids, modes=modes, clock=clock).missing}
        except OSError as error:
            raise LedgerError(
                f"entries of {agent} were not all erased from {folder.path}: {error.strerror}. "
                "The same command again goes on where this ended"
            ) from error
    return [one for one in ids if one not in missing]


def check_files(places: MemorySources, agent: str, before: ForgottenTexts) -> list[ForgetCheck]:
    """Check that no file of the agent's ledgers has any words that were said, and no other file.

    The database is searched elsewhere. All other files of the home are searched, also those of
    parts that do not know of forgetting.
    """
    spelled = [form for one in before.tellings for form in encode_variants(one)]
    held = sorted({path.name for path in _files(places, agent) if contains_any(path, spelled)})
    note = f"{', '.join(held)} still has its words, in turns that repeat it" if held else ""
    checked = [ForgetCheck(place="ledgers: the files' bytes", clean=not held, note=note)]
    if places.home is not None:
        others = (one for one in _other_files(places, places.home) if contains_any(one, spelled))
        kept = ", ".join(sorted(str(one.relative_to(places.home)) for one in others))
        note = f"no purge erases from {kept}: remove the words there" if kept else ""
        checked.append(ForgetCheck(place="home: all other files", clean=not kept, note=note))
    return [before.judged(one) for one in checked]


def encode_variants(words: str) -> list[bytes]:
    """Return words as rows and logs have them, and as lines of JSON do."""
    plain, escaped = words.encode("utf-8", "replace"), msgspec.json.encode(words)[1:-1]
    return list(dict.fromkeys((plain, escaped)))


def contains_any(path: Path, spelled: Iterable[bytes]) -> bool:
    """Say whether a file has any of these bytes; one that is gone by now has none."""
    try:
        return any(file_contains(path, one) for one in spelled)
    except FileNotFoundError:
        return False


def _files(places: MemorySources, agent: str) -> list[Path]:
    folders = [places.folder(ledger, agent) for ledger in (OWN_LEDGER, RECEIVED_LEDGER)]
    roots = [root for folder in folders for root in (folder.path, folder.quarantine)]
    return [path for root in roots if root.is_dir() for path in root.rglob("*") if path.is_file()]


def _other_files(places: MemorySources, home: Path) -> Iterator[Path]:
    """Yield the files of the home that are neither ledgers nor the database nor its index."""
    apart = (places.ledger, places.received, *places.tombstone_roots, *places.apart)
    for folder, names, files in os.walk(home):
        names[:] = [one for one in names if Path(folder, one) not in apart]
        for path in (Path(folder, one) for one in files):
            if path.is_file() and not path.is_symlink() and path not in apart:
                yield path
