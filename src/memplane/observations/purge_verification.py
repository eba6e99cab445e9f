"""Words of purged turns in what was learned from them: which, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from memplane.episodes.ledger_purge import contains_any
from memplane.ledger.folder import AgentFolder
from memplane.observations.events import ObservationEvent

_MIN_QUOTE_CHARS: Final = 8
"""Fewer characters than these may be in any file by chance."""


def extract_quotes(events: Iterable[ObservationEvent]) -> list[str]:
    """Return what events quote of the turns that they came from."""
    found = dict.fromkeys(text.strip() for event in events for text in _quoted(event))
    return [text for text in found if len(text) >= _MIN_QUOTE_CHARS]


def _quoted(event: ObservationEvent) -> Iterator[str]:
    if event.said is not None and event.said.text is not None:
        yield event.said.text
    if event.refused is not None:
        yield event.refused.text
    if event.evidence is not None:
        yield event.evidence.quote


def find_files_containing(folder: AgentFolder, spelled: Sequence[bytes]) -> list[str]:
    """Name the files of an agent's event ledger that have any of these bytes."""
    roots = (folder.path, folder.quarantine)
    paths = (path for root in roots if root.is_dir() for path in root.rglob("*"))
    return sorted({path.name for path in paths if path.is_file() and contains_any(path, spelled)})
