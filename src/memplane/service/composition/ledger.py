"""The ledger of this installation, and how each of its ledgers is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache, partial

from memplane.kit.clock import system_clock
from memplane.ledger.entry import Turn
from memplane.ledger.segments import FileModes
from memplane.ledger.turn_redaction import make_turn_redactor
from memplane.ledger.writer import LedgerOptions, SyncPolicy, open_ledger
from memplane.service.composition.redactors import open_redactor
from memplane.service.ledger_service import LedgerService
from memplane.settings import Settings


@asynccontextmanager
async def open_ledger_service(settings: Settings) -> AsyncGenerator[LedgerService]:
    """Open the ledger of turns, redacted unless it is kept verbatim."""
    chosen = settings.ledger
    redacted: Counter[str] = Counter()
    # Its rules are compiled when the first turn comes, and most commands record none.
    redactor = cache(partial(open_redactor, settings))
    async with open_ledger(
        chosen.dir,
        scrub=verbatim if chosen.verbatim else make_turn_redactor(redactor, redacted),
        clock=system_clock,
        options=ledger_options(settings),
    ) as ledger:
        yield LedgerService(chosen.dir, ledger, redactor, redacted, chosen.verbatim)


def ledger_options(settings: Settings) -> LedgerOptions:
    """Return how every ledger of an installation is written."""
    chosen = settings.ledger
    return LedgerOptions(
        syncing=SyncPolicy(chosen.fsync),
        max_bytes=chosen.max_bytes,
        queue_bytes=chosen.queue_bytes,
        modes=FileModes(chosen.mode),
    )


def verbatim(turn: Turn) -> Turn:
    """Leave a turn as it came: what is kept verbatim, or was redacted before."""
    return turn
