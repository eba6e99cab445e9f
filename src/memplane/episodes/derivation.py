"""Deriving again where turns changed: noise, stretches, and what a stretch yields.

The outcome depends on the turns that there are, not on the order in which they came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from memplane.database.interface import Connection
from memplane.episodes import store as table
from memplane.episodes.artefacts import extract_artefacts
from memplane.episodes.noise_filter import TurnSignature, compute_signature, is_noise
from memplane.episodes.scope_store import ScopeNumber
from memplane.episodes.store import EpisodeKey, EpisodeState
from memplane.episodes.stretches import split_stretches

NOISE_LOOKBACK_TURNS: Final = 10
_MAX_CHANGES_PER_STEP: Final = 32
_PAGE_TURNS: Final = 64
_MAX_STRETCHES_PER_STEP: Final = 12
_MIN_KEY: Final[EpisodeKey] = (-(1 << 62), "")
_MAX_KEY: Final[EpisodeKey] = (1 << 62, "")


def derive_pending(rows: Connection) -> bool:
    """Derive what some changed turns call for; says whether there was anything to do."""
    scope = next(iter(table.find_scope_to_derive(rows)), None)
    if scope is None:
        return False
    changed = table.pop_underived(rows, scope, _MAX_CHANGES_PER_STEP)
    turned = _fold_noise(rows, scope, changed)
    _make_stretches(rows, scope, sorted({*changed, *turned}))
    return True


def _fold_noise(
    rows: Connection, scope: ScopeNumber, changed: Sequence[EpisodeKey]
) -> list[EpisodeKey]:
    """Decide anew what is noise, for changed turns and those that look back on them.

    Returns the turns that became noise, or ceased to be.
    """
    turned: list[EpisodeKey] = []
    for run in _runs(rows, scope, changed):
        for key, state in run:
            table.change_state(rows, scope, key, state)
            turned.append(key)
    return turned


def _runs(
    rows: Connection, scope: ScopeNumber, changed: Sequence[EpisodeKey]
) -> Iterator[list[tuple[EpisodeKey, EpisodeState]]]:
    """Walk over changed turns, each with those behind it; yields the states that change."""
    left = deque(changed)
    while left:
        at = left.popleft()
        before: deque[TurnSignature] = deque(
            map(compute_signature, table.list_turns_before(rows, scope, at, NOISE_LOOKBACK_TURNS)),
            NOISE_LOOKBACK_TURNS,
        )
        behind, changes = 0, list[tuple[EpisodeKey, EpisodeState]]()
        while behind <= NOISE_LOOKBACK_TURNS and (
            page := table.list_turns_from(rows, scope, at, _PAGE_TURNS)
        ):
            for turn, state in page:
                key = turn.at, turn.id
                while left and left[0] <= key:
                    left.popleft()
                    behind = 0
                if behind > NOISE_LOOKBACK_TURNS:
                    break
                mine = compute_signature(turn)
                wanted = EpisodeState.NOISE if is_noise(mine, before) else EpisodeState.SEARCHABLE
                if wanted is not state:
                    changes.append((key, wanted))
                before.append(mine)
                behind += 1
            at = page[-1][0].at, page[-1][0].id + "\0"
        yield changes


def _make_stretches(rows: Connection, scope: ScopeNumber, changed: Sequence[EpisodeKey]) -> None:
    """Make the stretches anew that changed turns are in, as far as their borders move."""
    left = deque(changed)
    made = 0
    while left:
        key = left.popleft()
        old = table.get_stretch_at(rows, scope, key)
        edge = begin = old.first if old is not None else _MIN_KEY
        for turns in split_stretches(table.iterate_searchable_from(rows, scope, begin)):
            first = turns[0].at, turns[0].id
            if first > key and table.begins_stretch(rows, scope, first):
                # From here on the borders are where they were.
                table.delete_stretches(rows, scope, edge, first)
                break
            if made >= _MAX_STRETCHES_PER_STEP and first > key:
                # The rest is for another transaction: whoever retains waits for this one.
                table.delete_stretches(rows, scope, edge, first)
                table.mark_underived(rows, scope, first)
                break
            made += 1
            behind = turns[-1].at, turns[-1].id + "\0"
            table.delete_stretches(rows, scope, edge, behind)
            table.insert_stretch(rows, scope, turns, extract_artefacts(turns))
            edge = behind
        else:
            table.delete_stretches(rows, scope, edge, _MAX_KEY)
        while left and left[0] < edge:
            left.popleft()
