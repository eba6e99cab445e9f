"""Checking that entries are forgotten: every place of a pod is read back, and gives a receipt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from memplane.ledger.cursor import BEGINNING
from memplane.ledger.tombstones import Forgotten, read_tombstones
from memplane.memory.conversation import answer_of, questions_of
from memplane.operate.queue import queued
from memplane.operate.selecting import ReadEntry, Selection, Walk
from memplane.operate.targets import Place, Target
from memplane.services.client import Address, Answered, ServiceClient, explained
from memplane.services.wire import MOST_RECALLED, Block, blocks_in, recall_body

_LONGEST_QUESTION: Final = 4000
_CLIP: Final = 60
_TELLING: Final = 40


@dataclass(frozen=True, slots=True)
class Check:
    """Whether one place is without an entry, and what was found."""

    agent: str
    entry_id: str
    place: str
    ok: bool
    found: str


@dataclass(frozen=True, slots=True)
class Said:
    """What was said in an entry, in lower case and with single blanks."""

    question: str = ""
    answer: str = ""

    def quoted_in(self, text: str) -> list[str]:
        """Return which of these words a text has (pure).

        A long beginning of the question or of the answer tells; short ones only together.
        """
        parts = [one[:_CLIP] for one in (self.question, self.answer) if one]
        there = [one for one in parts if one in text]
        tells = any(len(one) >= _TELLING for one in there) or there == parts
        return there if tells else []

    def says(self, words: list[str]) -> bool:
        """Say whether all these words were said here too (pure)."""
        return all(one in self.question or one in self.answer for one in words)


@dataclass(slots=True)
class _Read:
    """What one look through a ledger found of the entries."""

    said: dict[str, Said] = field(default_factory=dict[str, Said])
    replayed: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, slots=True)
class Verification:
    """Reads back what a pod has of forgotten entries."""

    place: Place
    client: ServiceClient
    redact: Callable[[str], str]

    async def check(self, target: Target, entry_ids: Collection[str]) -> list[Check]:
        """Look into every place; the target's address is where its memory is recalled.

        Raises:
            LedgerError: A file cannot be read.
        """
        read = await asyncio.to_thread(self._read, target.agent, entry_ids)
        checks = await asyncio.to_thread(self._stored, target.agent, entry_ids, read)
        for one in entry_ids:
            checks.append(await self._recall(target, one, read.said.get(one)))
        return checks

    def _read(self, agent: str, entry_ids: Collection[str]) -> _Read:
        read = _Read()
        for entry, survives in self._entries(agent):
            if entry.id in entry_ids:
                read.said[entry.id] = self._said(entry.line)
                if survives:
                    read.replayed.add(entry.id)
        return read

    def _entries(self, agent: str) -> Iterator[tuple[ReadEntry, bool]]:
        """Read the ledger as a backfill does; each entry with whether it would be replayed."""
        forgotten = Forgotten(self.place.tombstones, agent)
        forgotten.refresh()
        everything = Selection(include_errors=True)
        for entry in Walk(self.place.folder(agent), BEGINNING, None):
            yield entry, everything.left_out(entry, forgotten) is None

    def _stored(self, agent: str, entry_ids: Collection[str], read: _Read) -> list[Check]:
        waiting = {one for _, item in queued(self.place.state) for one in item.entry_ids}
        checks: list[Check] = []
        for root in self.place.tombstones:
            there = read_tombstones(root, agent)
            words = {True: "it has its tombstone", False: "it has no tombstone"}
            checks += [
                Check(agent, one, str(root), one in there, words[one in there])
                for one in entry_ids
            ]
        for one in entry_ids:
            replayed = one in read.replayed
            about = "a backfill would send it" if replayed else "no backfill sends it"
            checks.append(Check(agent, one, "ledger", not replayed, about))
            about = "the service was not told yet" if one in waiting else "nothing waits"
            checks.append(Check(agent, one, "queue", one not in waiting, about))
        return checks

    async def _recall(self, target: Target, entry_id: str, said: Said | None) -> Check:
        address = target.address
        if address is None:
            return Check(target.agent, entry_id, "recall", ok=True, found="it is not offered")
        if said is None:
            about = "the entry is not in the ledger, so there is nothing to ask with"
            return Check(target.agent, entry_id, "recall", ok=True, found=about)
        asked = 0
        for question in dict.fromkeys(filter(None, (said.question, said.answer))):
            blocks = await self._blocks(target, address, question)
            if isinstance(blocks, str):
                return Check(target.agent, entry_id, "recall", ok=False, found=blocks)
            asked += 1
            if await asyncio.to_thread(self._returns, target.agent, entry_id, said, blocks):
                return Check(
                    target.agent, entry_id, "recall", ok=False, found="the service returns it"
                )
        about = f"asked {asked} times with its own words, it does not come"
        return Check(target.agent, entry_id, "recall", ok=True, found=about)

    async def _blocks(self, target: Target, address: Address, question: str) -> list[Block] | str:
        """Ask for memories; words say why there is no answer."""
        body = recall_body(target.context, question[:_LONGEST_QUESTION])
        outcome = await self.client.post(address, body, keep=MOST_RECALLED + 1)
        if not isinstance(outcome, Answered) or not outcome.ok:
            return explained("recall", outcome, address.token)
        blocks = blocks_in(outcome.body)
        return "recall returned no memories that can be read" if blocks is None else blocks

    def _returns(self, agent: str, entry_id: str, said: Said, blocks: list[Block]) -> bool:
        """Say whether blocks come from an entry: they name it, or only it has their words."""
        if any(entry_id in one.entry_ids for one in blocks):
            return True
        texts = (_plain(one.text) for one in blocks if not one.entry_ids)
        quoted = [words for text in texts if (words := said.quoted_in(text))]
        for entry, survives in self._entries(agent) if quoted else ():
            if survives and entry.id != entry_id:
                other = self._said(entry.line)
                quoted = [words for words in quoted if not other.says(words)]
        return bool(quoted)

    def _said(self, line: bytes) -> Said:
        """Read what was said in an entry, without its secrets, as the service has it."""
        try:
            body: object = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return Said()
        members = cast("dict[str, object]", body) if isinstance(body, dict) else {}
        questions = questions_of(members.get("request_original"))
        answer = answer_of(members.get("response"))
        return Said(
            _plain(self.redact(questions[-1] if questions else "")), _plain(self.redact(answer))
        )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
