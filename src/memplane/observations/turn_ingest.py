"""Learning from turns: markers in any captured reply, whatever recorded it, become observations.

Turns are looked at in the order in which memory took them in, each once. What came of a turn is
in the event ledger, so nothing is learned twice when memory is made anew.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.database.interface import Connection, RecordStore
from memplane.episodes.provenance import decode_provenance
from memplane.episodes.store import get_note, set_note
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_reader import find_note
from memplane.ledger.turn_note import TurnNote
from memplane.observations.relevance import parse_observation_ids
from memplane.observations.service import ObservationService
from memplane.observations.sessions import LedgerTurn

_log = logging.getLogger(__name__)

_POSITION_NOTE: Final = "observed_turns"
_BATCH_TURNS: Final = 200
_RETRY_DELAY_S: Final = 5.0
_MIN_INTERVAL_S: Final = 0.5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _TurnPage(msgspec.Struct, frozen=True):
    turns: list[tuple[str, str, str, str, int, str, str | None]]
    end: int
    has_more: bool


class TurnIngester(msgspec.Struct):
    """Looks at new turns whenever it is woken."""

    records: RecordStore
    curator: ObservationService
    ledger: Path
    _woken: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Be told that memory took turns in."""
        self._woken.set()

    async def run(self) -> None:
        """Learn from turns until this is cancelled; what fails is tried again."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self.learn()
            except Exception as error:  # noqa: BLE001 - the turns are kept, and looked at again
                _log.warning("turns wait to be learned from: %s", error, exc_info=True)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_DELAY_S):
                        await self._woken.wait()
                self._woken.set()
            # What comes meanwhile is looked at together: each look is a write that is synced.
            await asyncio.sleep(_MIN_INTERVAL_S)

    async def learn(self) -> None:
        """Learn from every turn that was not looked at yet."""
        has_more = True
        while has_more:
            page = await self.records.read(_new_turns, patient=True)
            for agent, user, view, entry, at, answer, origins in page.turns:
                moment = _EPOCH + timedelta(microseconds=at)
                noted = await asyncio.to_thread(find_note, AgentFolder(self.ledger, agent), entry)
                spans = decode_provenance(origins or "").repeated
                repeated = tuple(answer[span.start : span.end] for span in spans)
                scope = MemoryScope(agent, user, view)
                turn = LedgerTurn(scope, entry, answer, moment, repeated=repeated)
                await self.curator.ingest_turn(_noted(turn, noted))
            await self.records.write(partial(set_note, name=_POSITION_NOTE, value=str(page.end)))
            has_more = page.has_more


def _noted(turn: LedgerTurn, noted: TurnNote | None) -> LedgerTurn:
    """Add what the recorder noted of a turn: its session, and what its prompt was told."""
    if noted is None:
        return turn
    told = [block.id for one in noted.injected for block in one.blocks]
    return replace(
        turn,
        session=noted.session,
        attested=noted.attested,
        told=parse_observation_ids(told),
    )


def _new_turns(rows: Connection) -> _TurnPage:
    """Return the turns behind the last one that was looked at, those that may say something."""
    seen = int(get_note(rows, _POSITION_NOTE) or 0)
    end = next(iter(rows.rows("SELECT MAX(key) FROM episodes")))[0] or 0
    sql = (
        "SELECT e.key, a.agent, s.end_user, s.view, e.id, e.at, e.answer, e.origins "
        "FROM episodes e JOIN scopes s ON s.number = e.scope JOIN agents a ON a.number = s.agent "
        "WHERE e.key > ? AND e.state <> 2 AND e.answer LIKE '%[memory%' ORDER BY e.key LIMIT ?"
    )
    found = list(rows.rows(sql, (seen, _BATCH_TURNS)))
    if len(found) == _BATCH_TURNS:
        end = found[-1][0]
    return _TurnPage([tuple(row[1:]) for row in found], max(end, 0), len(found) == _BATCH_TURNS)
