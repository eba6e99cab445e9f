"""The ledger of this installation, and how each of its ledgers is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache, partial

from memplane.assemble.redactors import open_redactor
from memplane.clock import system_clock
from memplane.ledger.entry import Turn
from memplane.ledger.redacting import redactions
from memplane.ledger.sealing import Modes
from memplane.ledger.writer import LedgerOptions, Syncing, open_ledger
from memplane.plane.recording import Recording
from memplane.settings import Settings


@asynccontextmanager
async def open_recording(settings: Settings) -> AsyncGenerator[Recording]:
    """Open the ledger of turns, redacted unless it is kept verbatim."""
    chosen = settings.ledger
    redacted: Counter[str] = Counter()
    # Its rules are compiled when the first turn comes, and most commands record none.
    redactor = cache(partial(open_redactor, settings))
    async with open_ledger(
        chosen.dir,
        scrub=verbatim if chosen.verbatim else redactions(redactor, redacted),
        clock=system_clock,
        options=ledger_options(settings),
    ) as ledger:
        yield Recording(chosen.dir, ledger, redactor, redacted, chosen.verbatim)


def ledger_options(settings: Settings) -> LedgerOptions:
    """Return how every ledger of an installation is written."""
    chosen = settings.ledger
    return LedgerOptions(
        syncing=Syncing(chosen.fsync),
        max_bytes=chosen.max_bytes,
        queue_bytes=chosen.queue_bytes,
        modes=Modes(chosen.mode),
    )


def verbatim(turn: Turn) -> Turn:
    """Leave a turn as it came: what is kept verbatim, or was redacted before."""
    return turn
