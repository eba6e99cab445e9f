"""The world of one document, as its steps see it: a file, an object, and what is remembered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from memplane.errors import NotBrought, NotPublished
from memplane.kit.clock import Clock
from memplane.kit.ids import new_id
from memplane.persona.baseline import Baseline
from memplane.persona.container import DocumentContainer, make_tombstone
from memplane.persona.document_merge import merge_document
from memplane.persona.folder import DocumentFolder
from memplane.persona.group_commit import GroupCommit
from memplane.persona.model import (
    DocumentState,
    LocalChange,
    MergeBase,
    MergedDocument,
    OptionalText,
    RemoteDocument,
    sha256_of,
)
from memplane.persona.publish_gate import PublishGate
from memplane.storage.lineage import Lineage


class SyncContext(Protocol):
    """Where documents lie and are remembered."""

    folder: DocumentFolder
    together: GroupCommit
    baseline: Baseline
    container: DocumentContainer
    gate: PublishGate
    clock: Clock

    async def verify_ownership(self) -> None:
        """Make sure that the container still holds the documents of this project."""
        ...


@dataclass(slots=True)
class DocumentPorts:
    """Keeps the steps' contract for one document.

    `changed` is when the file was last changed, `gone` names documents that were deleted,
    `moved_to` is this document's new name if it has one. `seen` is the text that was just read
    with all the others: the first look need not be another. `aside` collects the conflict copies.
    """

    context: SyncContext
    key: str
    changed: str
    gone: frozenset[str] = frozenset()
    moved_to: str | None = None
    seen: OptionalText = None
    aside: list[str] = field(default_factory=list[str])
    _merge_base: OptionalText = None
    _allowed_content: str = ""
    _swapped_name: str = ""

    @property
    def device(self) -> str:
        return self.context.baseline.device

    async def read_local(self) -> OptionalText:
        # What is typed after this look is found by those that follow, however old this one is.
        text, self.seen = self.seen, None
        if text is None:
            text = await self.context.together.do(self.context.folder.reading(self.key))
        if text is not None:
            self._check_gate(text)
        return text

    def _check_gate(self, text: bytes) -> None:
        """Stop a text that may not be published before it goes anywhere."""
        content = sha256_of(text)
        base = self.context.baseline.known(self.key).base
        published = base is not None and base.text == text
        if content == self._allowed_content or published:
            return
        refusal = self.context.gate.refusal(self.key, text)
        if refusal is not None:
            raise NotPublished(refusal.reason, harmless=refusal.harmless)
        self._allowed_content = content

    async def read_remote(self) -> RemoteDocument | None:
        await self.context.verify_ownership()
        remote = await self.context.container.read(self.key)
        if remote is not None and remote.flaw:
            raise NotBrought(
                f"it was not brought from the container: {remote.flaw}. Nothing was changed here "
                "or there. Repair it in the container, or delete it there: then the document that "
                "is here, if there is one, is sent again"
            )
        return remote

    async def put(
        self, text: OptionalText, expected: str | None, lineage: Lineage, changed: str
    ) -> str:
        tombstone = make_tombstone(
            self._merge_base,
            device=self.device,
            at=changed or self.changed,
            moved_to=self.moved_to,
        )
        return await self.context.container.put(
            self.key, text, expected, lineage, tombstone=tombstone
        )

    async def next_number(self) -> int:
        return self.context.baseline.next_number()

    async def keep(self, state: DocumentState) -> None:
        await self.context.baseline.keep(self.key, state)

    async def stage(self, text: bytes, over: OptionalText) -> str:
        work = self.context.folder.staging(self.key, text, over=over)
        return await self.context.together.do(work)

    async def is_staged(self, name: str) -> bool:
        return await asyncio.to_thread(self.context.folder.is_staged, self.key, name)

    async def swap(self, name: str, expected: OptionalText) -> bool:
        work = self.context.folder.swapping(self.key, name, expected)
        swapped = await self.context.together.do(work)
        if swapped is None:
            return False
        self._swapped_name = name
        if swapped.typed is not None:
            self.aside.append(str(swapped.typed))
        return True

    async def new_name(self) -> str:
        return new_id()

    async def discard(self, name: str, expected: bytes) -> bool:
        return await asyncio.to_thread(self.context.folder.discard, self.key, name, expected)

    async def is_discarded(self, name: str) -> bool:
        return await asyncio.to_thread(self.context.folder.is_discarded, self.key, name)

    async def clear(self, apply: LocalChange) -> None:
        if apply.name == self._swapped_name:
            return  # a swap that went well leaves nothing under that name
        folder = self.context.folder
        clear = folder.purge_discarded if apply.text is None else folder.unstage
        await asyncio.to_thread(clear, self.key, apply.name)

    async def set_aside(self, text: bytes, reason: str) -> None:
        keep_copy, now = self.context.folder.keep_copy, self.context.clock()
        path = str(await asyncio.to_thread(keep_copy, self.key, text, label=reason, now=now))
        if path not in self.aside:
            self.aside.append(path)

    def combine(
        self, base: MergeBase | None, local: OptionalText, remote: RemoteDocument
    ) -> MergedDocument:
        self._merge_base = base.text if base is not None else remote.text
        return merge_document(self.key, base, local, remote, changed=self.changed, gone=self.gone)
