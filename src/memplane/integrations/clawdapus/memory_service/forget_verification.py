"""Checking that entries are forgotten: every place of a pod is read back, and gives a receipt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from memplane.exchange.conversation_parser import extract_answer, extract_questions
from memplane.integrations.clawdapus.memory_service.client import (
    ServiceAddress,
    ServiceClient,
    ServiceResponse,
    explain_failure,
)
from memplane.integrations.clawdapus.memory_service.entry_filter import (
    EntryFilter,
    LedgerWalk,
    ReplayEntry,
)
from memplane.integrations.clawdapus.memory_service.forget_queue import list_queued_forgets
from memplane.integrations.clawdapus.memory_service.service_targets import (
    LedgerPaths,
    ServiceTarget,
)
from memplane.integrations.clawdapus.memory_service.wire_format import (
    MAX_RECALL_BYTES,
    NamedBlock,
    encode_question,
    parse_named_blocks,
)
from memplane.ledger.cursor import BEGINNING
from memplane.ledger.tombstones import ForgottenIds, read_tombstones

_MAX_QUESTION_CHARS: Final = 4000
_QUOTE_CHARS: Final = 60
_MIN_DISTINCTIVE_CHARS: Final = 40


@dataclass(frozen=True, slots=True)
class PlaceCheck:
    """Whether one place is without an entry, and what was found."""

    agent: str
    entry_id: str
    place: str
    ok: bool
    found: str


@dataclass(frozen=True, slots=True)
class EntryText:
    """What was said in an entry, in lower case and with single blanks."""

    question: str = ""
    answer: str = ""

    def find_quotes(self, text: str) -> list[str]:
        """Return which of these words a text has (pure).

        A long beginning of the question or of the answer tells; short ones only together.
        """
        parts = [part[:_QUOTE_CHARS] for part in (self.question, self.answer) if part]
        quotes = [part for part in parts if part in text]
        tells = any(len(part) >= _MIN_DISTINCTIVE_CHARS for part in quotes) or quotes == parts
        return quotes if tells else []

    def contains(self, quotes: list[str]) -> bool:
        """Say whether all these words were said here too (pure)."""
        return all(quote in self.question or quote in self.answer for quote in quotes)


@dataclass(slots=True)
class _LedgerScan:
    """What one look through a ledger found of the entries."""

    texts: dict[str, EntryText] = field(default_factory=dict[str, EntryText])
    replayed: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, slots=True)
class ForgetVerifier:
    """Reads back what a pod has of forgotten entries."""

    place: LedgerPaths
    client: ServiceClient
    redact: Callable[[str], str]

    async def check(self, target: ServiceTarget, entry_ids: Collection[str]) -> list[PlaceCheck]:
        """Look into every place; the target's address is where its memory is recalled.

        Raises:
            LedgerError: A file cannot be read.
        """
        read = await asyncio.to_thread(self._read, target.agent, entry_ids)
        checks = await asyncio.to_thread(self._stored, target.agent, entry_ids, read)
        for entry_id in entry_ids:
            checks.append(await self._recall(target, entry_id, read.texts.get(entry_id)))
        return checks

    def _read(self, agent: str, entry_ids: Collection[str]) -> _LedgerScan:
        read = _LedgerScan()
        for entry, survives in self._entries(agent):
            if entry.id in entry_ids:
                read.texts[entry.id] = self._read_text(entry.line)
                if survives:
                    read.replayed.add(entry.id)
        return read

    def _entries(self, agent: str) -> Iterator[tuple[ReplayEntry, bool]]:
        """Read the ledger as a backfill does; each entry with whether it would be replayed."""
        forgotten = ForgottenIds(self.place.tombstones, agent)
        forgotten.refresh()
        everything = EntryFilter(include_errors=True)
        for entry in LedgerWalk(self.place.folder(agent), BEGINNING, None):
            yield entry, everything.left_out(entry, forgotten) is None

    def _stored(
        self, agent: str, entry_ids: Collection[str], read: _LedgerScan
    ) -> list[PlaceCheck]:
        waiting = {
            entry_id
            for _, item in list_queued_forgets(self.place.state)
            for entry_id in item.entry_ids
        }
        checks: list[PlaceCheck] = []
        for root in self.place.tombstones:
            tombstones = read_tombstones(root, agent)
            words = {True: "it has its tombstone", False: "it has no tombstone"}
            checks += [
                PlaceCheck(
                    agent,
                    entry_id,
                    str(root),
                    entry_id in tombstones,
                    words[entry_id in tombstones],
                )
                for entry_id in entry_ids
            ]
        for entry_id in entry_ids:
            replayed = entry_id in read.replayed
            about = "a backfill would send it" if replayed else "no backfill sends it"
            checks.append(PlaceCheck(agent, entry_id, "ledger", not replayed, about))
            about = "the service was not told yet" if entry_id in waiting else "nothing waits"
            checks.append(PlaceCheck(agent, entry_id, "queue", entry_id not in waiting, about))
        return checks

    async def _recall(
        self, target: ServiceTarget, entry_id: str, entry_text: EntryText | None
    ) -> PlaceCheck:
        address = target.address
        if address is None:
            return PlaceCheck(target.agent, entry_id, "recall", ok=True, found="it is not offered")
        if entry_text is None:
            about = "the entry is not in the ledger, so there is nothing to ask with"
            return PlaceCheck(target.agent, entry_id, "recall", ok=True, found=about)
        request_count = 0
        for question in dict.fromkeys(filter(None, (entry_text.question, entry_text.answer))):
            blocks = await self._blocks(target, address, question)
            if isinstance(blocks, str):
                return PlaceCheck(target.agent, entry_id, "recall", ok=False, found=blocks)
            request_count += 1
            if await asyncio.to_thread(self._returns, target.agent, entry_id, entry_text, blocks):
                return PlaceCheck(
                    target.agent, entry_id, "recall", ok=False, found="the service returns it"
                )
        about = f"asked {request_count} times with its own words, it does not come"
        return PlaceCheck(target.agent, entry_id, "recall", ok=True, found=about)

    async def _blocks(
        self, target: ServiceTarget, address: ServiceAddress, question: str
    ) -> list[NamedBlock] | str:
        """Ask for memories; words say why there is no answer."""
        body = encode_question(target.context, question[:_MAX_QUESTION_CHARS])
        outcome = await self.client.post(address, body, keep=MAX_RECALL_BYTES + 1)
        if not isinstance(outcome, ServiceResponse) or not outcome.ok:
            return explain_failure("recall", outcome, address.token)
        blocks = parse_named_blocks(outcome.body)
        return "recall returned no memories that can be read" if blocks is None else blocks

    def _returns(
        self, agent: str, entry_id: str, entry_text: EntryText, blocks: list[NamedBlock]
    ) -> bool:
        """Say whether blocks come from an entry: they name it, or only it has their words."""
        if any(entry_id in block.entry_ids for block in blocks):
            return True
        texts = (_normalise_text(block.text) for block in blocks if not block.entry_ids)
        quoted = [words for text in texts if (words := entry_text.find_quotes(text))]
        for entry, survives in self._entries(agent) if quoted else ():
            if survives and entry.id != entry_id:
                other = self._read_text(entry.line)
                quoted = [words for words in quoted if not other.contains(words)]
        return bool(quoted)

    def _read_text(self, line: bytes) -> EntryText:
        """Read what was said in an entry, without its secrets, as the service has it."""
        try:
            body: object = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return EntryText()
        members = cast("dict[str, object]", body) if isinstance(body, dict) else {}
        questions = extract_questions(members.get("request_original"))
        answer = extract_answer(members.get("response"))
        return EntryText(
            _normalise_text(self.redact(questions[-1] if questions else "")),
            _normalise_text(self.redact(answer)),
        )


def _normalise_text(text: str) -> str:
    return " ".join(text.casefold().split())
