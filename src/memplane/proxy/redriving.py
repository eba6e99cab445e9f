"""Trying again what a memory service did not take."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from memplane.proxy.outbox import DeadLetter, bury_letter, dead_letters, settle_letter
from memplane.proxy.outgoing import Delivering, Ledger, dead, post


@dataclass(frozen=True, slots=True)
class Redriven:
    """What came of it; letters whose entries were forgotten or erased are dropped."""

    delivered: int = 0
    dropped: int = 0
    left: tuple[DeadLetter, ...] = ()


async def redrive(needs: Delivering) -> Redriven:
    """Try dead letters again, once each.

    Raises:
        LedgerError: A file cannot be read or written.
    """
    delivered = dropped = 0
    left: list[DeadLetter] = []
    for letter in await asyncio.to_thread(dead_letters, needs.folder):
        came = await _redriven(needs, letter)
        if isinstance(came, DeadLetter):
            left.append(came)
            await asyncio.to_thread(bury_letter, needs.folder, came)
        else:
            delivered, dropped = delivered + came, dropped + (not came)
            await asyncio.to_thread(settle_letter, needs.folder, letter)
    return Redriven(delivered, dropped, tuple(left))


async def _redriven(needs: Delivering, letter: DeadLetter) -> DeadLetter | bool:
    """Try a letter: whether it was delivered or is nobody's any more, or why it is left."""
    found = await asyncio.to_thread(needs.agent_of, letter.agent)
    manifest = found.context.memory if found else None
    if found is None or manifest is None or manifest.service != letter.service:
        return replace(letter, reason=f"{letter.agent} does not use this service any more")
    if manifest.retain is None:
        return replace(letter, reason="this service does not retain any more")
    ledger = Ledger(needs, letter.agent)
    again = await asyncio.to_thread(ledger.letter_again, found.context, letter)
    if again is None:
        return False
    outcome = await post(needs, letter.agent, manifest, again, attempt=2)
    if outcome.ok:
        return True
    return dead(letter.route, again, outcome, manifest=manifest, now=needs.clock())
