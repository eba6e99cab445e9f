"""One turn on its way to a memory service: read from the ledger, redacted, and sent once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from memplane.errors import InvalidCursor
from memplane.exchange.outgoing_entry import strip_memory
from memplane.integrations.clawdapus.memory_service.client import (
    ServiceAddress,
    ServiceClient,
    ServiceResult,
)
from memplane.integrations.clawdapus.memory_service.delivery_state import DeadLetter, DeliveryRoute
from memplane.integrations.clawdapus.memory_service.telemetry_fields import (
    error_text_of,
    memory_status_of,
    status_code_of,
)
from memplane.integrations.clawdapus.memory_service.wire_format import encode_retain
from memplane.integrations.clawdapus.pod.agent_contexts import AgentContext, ProxiedAgent
from memplane.integrations.clawdapus.pod.memory_manifest import MemoryManifest
from memplane.kit.clock import Clock, format_timestamp
from memplane.kit.retry_clock import RetryClock
from memplane.ledger.cursor import BEGINNING, Cursor, decode_cursor, encode_cursor
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_reader import NoteReader
from memplane.ledger.reader import (
    MAX_PAGE_ENTRIES,
    EntryPage,
    open_entries_by_id,
    open_last_entries,
    open_page,
)
from memplane.ledger.tombstones import ForgottenIds
from memplane.redaction.redactor import RedactionResult
from memplane.telemetry import MemoryEvent, MemoryOperation

FIRST_ATTEMPT_TIMEOUT_S: Final = 2.0
RETRY_TIMEOUT_S: Final = 10.0
_RETAIN: Final = "retain"
_FAILED_TURN_STATUS: Final = "error"
_MAX_REASON_CHARS: Final = 300

_log = logging.getLogger(__name__)


class DeliveryContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that deliveries need.

    `folder` is where it is kept how far they came. `agent_of` reads what the pod says of an
    agent, anew each time; None when the agent is none of the pod's.
    """

    folder: Path
    ledgers: Path
    tombstones: tuple[Path, ...]
    client: ServiceClient
    redact: Callable[[bytes], RedactionResult[bytes]]
    agent_of: Callable[[str], ProxiedAgent | None]
    emit: Callable[[MemoryEvent], None]
    clock: Clock
    pacing: RetryClock = msgspec.field(default_factory=RetryClock)


@dataclass(frozen=True, slots=True)
class DeliveryItem:
    """An entry as a service is sent it; `before` is where reading has to start to find it."""

    id: str
    body: bytes = field(repr=False)
    removed: int
    cursor: Cursor
    before: Cursor


class LedgerDeliveryReader:
    """An agent's ledger, as far as it is delivered."""

    def __init__(self, needs: DeliveryContext, agent: str) -> None:
        self._needs = needs
        self._folder = AgentFolder(needs.ledgers, agent)
        self._forgotten = ForgottenIds(needs.tombstones, agent)
        self._notes = NoteReader(self._folder)

    def read_next_item(self, context: AgentContext, cursor: Cursor) -> DeliveryItem | Cursor:
        """Read on to the next entry that is delivered; without one, the cursor of the end."""
        try:
            return self._read_on(context, cursor)
        except InvalidCursor:
            # Another ledger lies there now. What it shares with the old one is known by its ids.
            _log.warning("the ledger of %s is delivered from its beginning", self._folder.agent)
            return self._read_on(context, BEGINNING)

    def _read_on(self, context: AgentContext, cursor: Cursor) -> DeliveryItem | Cursor:
        while True:
            with open_page(self._folder, cursor=cursor, limit=1) as page:
                item = self._build_item(context, page, cursor)
            if item is not None:
                return item
            if not page.entries:
                return page.next
            cursor = page.next

    def count_after(self, cursor: Cursor) -> int:
        """Count the entries that follow a cursor, whether they will be delivered or not."""
        count, has_more = 0, True
        while has_more:
            with open_page(self._folder, cursor=cursor, limit=MAX_PAGE_ENTRIES) as page:
                count += len(page.entries)
            cursor, has_more = page.next, page.has_more
        return count

    def end(self) -> Cursor:
        """Return the cursor of whoever has read everything."""
        with open_last_entries(self._folder, 1) as page:
            return page.entries[0].cursor if page.entries else BEGINNING

    def reread_item(self, context: AgentContext, dead: DeadLetter) -> DeliveryItem | None:
        """Read the entry of a dead letter; None when it was forgotten or erased."""
        try:
            before = decode_cursor(dead.before)
            with open_page(self._folder, cursor=before, limit=1) as page:
                item = self._build_item(context, page, before)
        except InvalidCursor:
            before, item = BEGINNING, None
        if item is not None and item.id == dead.entry_id:
            return item
        # The ledger was moved or mended since: it may lie anywhere in it.
        with open_entries_by_id(self._folder, dead.entry_id) as page:
            return self._build_item(context, page, before)

    def is_forgotten(self, entry_id: str) -> bool:
        """Say whether an entry was forgotten, now."""
        self._forgotten.refresh()
        return entry_id in self._forgotten

    def _build_item(
        self, context: AgentContext, page: EntryPage, before: Cursor
    ) -> DeliveryItem | None:
        """Make a letter of a page's one entry, if anybody may remember it."""
        for location, (entry_id, line) in zip(page.entries, page.with_ids(), strict=False):
            is_omitted = self._notes.omits_response(entry_id)
            if (
                is_omitted
                or location.head.status == _FAILED_TURN_STATUS
                or self.is_forgotten(entry_id)
            ):
                return None
            sent = line if self._forgotten.is_empty else strip_memory(line)
            redacted, earlier = self._needs.redact(sent), self._notes.removed_count(entry_id)
            return DeliveryItem(
                id=entry_id,
                body=encode_retain(context, redacted, removed=earlier),
                removed=earlier + sum(redacted.counts.values()),
                cursor=location.cursor,
                before=before,
            )
        return None


def delivery_route(context: AgentContext) -> DeliveryRoute:
    """Say where an agent's entries go."""
    return DeliveryRoute(context.memory.service if context.memory else "", context.agent)


async def send_item(
    needs: DeliveryContext,
    agent: str,
    manifest: MemoryManifest,
    item: DeliveryItem,
    *,
    attempt: int,
    depth: int | None = None,
) -> ServiceResult:
    """Send a letter once, and tell how that went."""
    if manifest.retain is None:
        raise ValueError("the service does not retain")
    min_timeout_s = FIRST_ATTEMPT_TIMEOUT_S if attempt == 1 else RETRY_TIMEOUT_S
    seconds = max(min_timeout_s, (manifest.retain.timeout_ms or 0) / 1000)
    address = ServiceAddress(manifest.url_of(manifest.retain), manifest.token, seconds)
    started = needs.pacing.elapsed()
    outcome = await needs.client.post(address, item.body)
    elapsed_s = needs.pacing.elapsed() - started
    needs.emit(
        MemoryEvent(
            ts=needs.clock(),
            claw_id=agent,
            latency_ms=round(elapsed_s * 1000),
            status_code=status_code_of(outcome),
            error=error_text_of(_RETAIN, outcome, manifest.token),
            memory_service=manifest.service,
            memory_op=MemoryOperation.RETAIN,
            memory_status=memory_status_of(outcome),
            memory_removed=item.removed,
            memory_attempt=attempt,
            memory_queue=depth,
        )
    )
    return outcome


def make_dead_letter(
    route: DeliveryRoute,
    item: DeliveryItem,
    outcome: ServiceResult,
    *,
    manifest: MemoryManifest,
    now: datetime,
) -> DeadLetter:
    """Say why a letter is given up, without the service's words: they may quote it."""
    return DeadLetter(
        service=route.service,
        agent=route.agent,
        entry_id=item.id,
        ts=format_timestamp(now),
        status=status_code_of(outcome),
        reason=error_text_of(_RETAIN, outcome, manifest.token)[:_MAX_REASON_CHARS],
        before=encode_cursor(item.before),
    )
