"""Everything that is known of one user of an agent, as lines of JSON with a receipt at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from memplane.episodes.entry_parser import decode_entry
from memplane.episodes.episode import build_episode
from memplane.episodes.ledger_follower import OWN_LEDGER, RECEIVED_LEDGER, MemorySources
from memplane.ledger.reader import open_entries_by_id


class ExportReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of an export: how many lines of each kind are before it, and their digest."""

    kind: str = "receipt"
    agent: str
    user: str
    at: str
    turns: int
    observations: int
    events: int
    sha256: str


class ExportedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of an export: its entry, and the sources that its reply repeats."""

    kind: str = "turn"
    ledger: str
    id: str
    sources: tuple[str, ...]
    entry: msgspec.Raw


def iterate_turn_lines(
    places: MemorySources, agent: str, ids: Collection[str], forgotten: Collection[str]
) -> Iterator[str]:
    """Yield the turns of a user that were not forgotten, as their ledger has them.

    With each come the sources that it repeats.
    """
    wanted = {*ids} - {*forgotten}
    if not wanted:
        return
    for ledger in (OWN_LEDGER, RECEIVED_LEDGER):
        with open_entries_by_id(places.folder(ledger, agent), *wanted) as page:
            for found, line in page.with_ids():
                if found in wanted:
                    members = decode_entry(line) or {}
                    turn = ExportedTurn(
                        ledger=ledger,
                        id=found,
                        sources=build_episode(members).provenance.sources,
                        entry=msgspec.Raw(line.decode("utf-8", "replace").encode()),
                    )
                    yield msgspec.json.encode(turn).decode() + "\n"


def add_receipt(
    turns: Iterable[str],
    observations: Sequence[str],
    events: Sequence[str],
    receipt: ExportReceipt,
) -> Iterator[str]:
    """Yield all lines, and at the end the receipt with their number and their digest."""
    digest, counted = hashlib.sha256(), 0
    for line in turns:
        counted += 1
        digest.update(line.encode("utf-8", "surrogatepass"))
        yield line
    for line in (*observations, *events):
        digest.update(line.encode("utf-8", "surrogatepass"))
        yield line
    whole = msgspec.structs.replace(
        receipt,
        turns=counted,
        observations=len(observations),
        events=len(events),
        sha256=digest.hexdigest(),
    )
    yield msgspec.json.encode(whole).decode() + "\n"
