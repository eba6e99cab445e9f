"""Trying again what a memory service did not take."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from memplane.integrations.clawdapus.memory_service.delivery import (
    DeliveryContext,
    LedgerDeliveryReader,
    make_dead_letter,
    send_item,
)
from memplane.integrations.clawdapus.memory_service.delivery_state import (
    DeadLetter,
    read_dead_letters,
    remove_dead_letter,
    write_dead_letter,
)


@dataclass(frozen=True, slots=True)
class DeadLetterRetryResult:
    """What came of it; letters whose entries were forgotten or erased are dropped."""

    delivered: int = 0
    dropped: int = 0
    left: tuple[DeadLetter, ...] = ()


async def retry_dead_letters(needs: DeliveryContext) -> DeadLetterRetryResult:
    """Try dead letters again, once each.

    Raises:
        LedgerError: A file cannot be read or written.
    """
    delivered = dropped = 0
    remaining: list[DeadLetter] = []
    for letter in await asyncio.to_thread(read_dead_letters, needs.folder):
        outcome = await _retry_dead_letter(needs, letter)
        if isinstance(outcome, DeadLetter):
            remaining.append(outcome)
            await asyncio.to_thread(write_dead_letter, needs.folder, outcome)
        else:
            delivered, dropped = delivered + outcome, dropped + (not outcome)
            await asyncio.to_thread(remove_dead_letter, needs.folder, letter)
    return DeadLetterRetryResult(delivered, dropped, tuple(remaining))


async def _retry_dead_letter(needs: DeliveryContext, letter: DeadLetter) -> DeadLetter | bool:
    """Try a letter: whether it was delivered or is nobody's any more, or why it is left."""
    target = await asyncio.to_thread(needs.agent_of, letter.agent)
    manifest = target.context.memory if target else None
    if target is None or manifest is None or manifest.service != letter.service:
        return replace(letter, reason=f"{letter.agent} does not use this service any more")
    if manifest.retain is None:
        return replace(letter, reason="this service does not retain any more")
    ledger = LedgerDeliveryReader(needs, letter.agent)
    item = await asyncio.to_thread(ledger.reread_item, target.context, letter)
    if item is None:
        return False
    outcome = await send_item(needs, letter.agent, manifest, item, attempt=2)
    if outcome.ok:
        return True
    return make_dead_letter(letter.route, item, outcome, manifest=manifest, now=needs.clock())
