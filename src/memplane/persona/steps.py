"""How one document is brought into step, whatever fails on the way.

Three notes carry it. A put is noted before it is tried, with a number that the object's lineage
will hold: so it is known later whether it landed. A change of the local file is noted before it
is made, with the name of a staged file: so it is known later whether it was made. And absence is
never evidence: only a tombstone deletes.

There is no I/O here: everything goes through `Ports`, and so the simulator can stop the world at
every step, a million times.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from memplane.errors import ConcurrencyError
from memplane.persona.model import (
    NO_LINEAGE,
    DocumentState,
    LocalChange,
    MergeBase,
    MergedDocument,
    OptionalText,
    PutIntent,
    RemoteDocument,
)
from memplane.storage.lineage import Lineage, Stamp

MAX_ATTEMPTS: Final = 8


class Ports(Protocol):
    """What the steps need of the world, for one document."""

    @property
    def device(self) -> str:
        """The name of this machine in lineages; a new one whenever its memory is new."""
        ...

    async def read_local(self) -> OptionalText:
        """Return the file's bytes; None only when it is known that there is no file."""
        ...

    async def read_remote(self) -> RemoteDocument | None:
        """Return the object; None when the container says that there is none."""
        ...

    async def put(
        self, text: OptionalText, expected: str | None, lineage: Lineage, changed: str
    ) -> str:
        """Write a text or a tombstone if the object is still the expected one; return its version.

        Raises:
            ConcurrencyError: It is another one, or exists already where none was expected.
            BackendUnavailable: No answer. It may have landed, or may land later.
        """
        ...

    async def next_number(self) -> int:
        """Return a number greater than any that this device used."""
        ...

    async def keep(self, state: DocumentState) -> None:
        """Remember this, durably."""
        ...

    async def stage(self, text: bytes, over: OptionalText) -> str:
        """Put a text beside the file whose text it is to replace, durably; return its name."""
        ...

    async def is_staged(self, name: str) -> bool:
        """Say whether the staged text is still there."""
        ...

    async def clear(self, apply: LocalChange) -> None:
        """Clear what lies under the name of a change that was settled or given up."""
        ...

    async def swap(self, name: str, expected: OptionalText) -> bool:
        """Put the staged text in the file's place, if the file is still as expected."""
        ...

    async def new_name(self) -> str:
        """Return a name for a file that will be discarded."""
        ...

    async def discard(self, name: str, expected: bytes) -> bool:
        """Move the file away under that name, if it is still as expected."""
        ...

    async def is_discarded(self, name: str) -> bool:
        """Say whether a file was moved away under that name."""
        ...

    async def set_aside(self, text: bytes, reason: str) -> None:
        """Keep a text that goes nowhere else, durably, for a person to look at."""
        ...

    def combine(
        self, base: MergeBase | None, local: OptionalText, remote: RemoteDocument
    ) -> MergedDocument:
        """Merge what is here and what is there over what they had in common."""
        ...


class SyncOutcome(Enum):
    """What became of a document."""

    SETTLED = "settled"
    CONTESTED = "contested"
    """Others wrote all the time. Nothing is lost; it is tried again later."""


class DocumentSyncResult(msgspec.Struct, frozen=True):
    """How it ended, what is remembered now, and whether the object and the file were changed."""

    outcome: SyncOutcome
    state: DocumentState
    pushed: bool = False
    pulled: bool = False


class AssumedRemote(msgspec.Struct, frozen=True):
    """What a recent listing, or the last sync, says of the object; None says that there is none.

    It saves a read. When it is wrong, the put that follows finds out.
    """

    remote: RemoteDocument | None


async def sync_document(
    ports: Ports, state: DocumentState, believed: AssumedRemote | None = None
) -> DocumentSyncResult:
    """Bring the file and the object into step.

    Raises:
        BackendUnavailable: The container did not answer; what was noted settles it next time.
    """
    state = await _recover(ports, state)
    result = DocumentSyncResult(SyncOutcome.CONTESTED, state)
    for _ in range(MAX_ATTEMPTS):
        result, combined_again = await _attempt(ports, result, believed)
        if not combined_again:
            return replace(result, outcome=SyncOutcome.SETTLED)
        believed = None
    return result


async def _recover(ports: Ports, state: DocumentState) -> DocumentState:
    """Find out whether the last change of the file was made before we were stopped."""
    apply = state.apply
    if apply is None:
        return state
    if await _is_change_applied(ports, apply):
        state = DocumentState(MergeBase(apply.text, apply.etag, apply.lineage, apply.changed))
    else:
        state = replace(state, apply=None)
    # First the note, then the evidence it is judged by.
    await ports.keep(state)
    await ports.clear(apply)
    return state


async def _is_change_applied(ports: Ports, apply: LocalChange) -> bool:
    if apply.text is None:
        return await ports.is_discarded(apply.name)
    return not await ports.is_staged(apply.name)


async def _attempt(
    ports: Ports, result: DocumentSyncResult, believed: AssumedRemote | None
) -> tuple[DocumentSyncResult, bool]:
    """Try once; say whether to try again because the file or the object changed meanwhile."""
    local = await ports.read_local()
    remote = believed.remote if believed else await ports.read_remote()
    if remote is None and local is None:
        return result, False  # absence is no evidence: what is remembered stays
    result, combined = await _combine(ports, result, local, remote)
    if remote is None or _must_be_put(result.state, combined, remote):
        result, remote = await _put(ports, result, local, combined, over=remote)
        if remote is None or await ports.read_local() != local:
            return result, True
    elif believed:
        return result, False  # nothing was written that would prove the belief
    return await _pull(ports, result, local, remote)


def _must_be_put(state: DocumentState, combined: MergedDocument, remote: RemoteDocument) -> bool:
    """Say whether to write: there is something to tell, or an earlier put could still land.

    Such a put lands only on the version that it expected. Writing the same text again makes a new
    version, and whatever is still on its way comes too late.
    """
    return combined.text != remote.text or any(
        attempt.expected == remote.etag for attempt in state.pending
    )


async def _pull(
    ports: Ports, result: DocumentSyncResult, local: OptionalText, remote: RemoteDocument
) -> tuple[DocumentSyncResult, bool]:
    """Bring the object's text to the file, and remember that they are in step."""
    if remote.text != local:
        result, local_change = await _apply(ports, result, local, remote)
        if not local_change:
            return result, True
    state, apply = DocumentState(_base_of(remote)), result.state.apply
    if state != result.state:
        await ports.keep(state)
    if apply is not None:
        await ports.clear(apply)
    return replace(result, state=state), False


async def _combine(
    ports: Ports, result: DocumentSyncResult, local: OptionalText, remote: RemoteDocument | None
) -> tuple[DocumentSyncResult, MergedDocument]:
    """Merge over what is known to be common; first of all keep what does not fit."""
    if remote is None:
        return result, MergedDocument(local)
    state = await _resolve_landed(ports, result.state, remote)
    state = await _adopt(ports, state, remote)
    combined = ports.combine(state.base, local, remote)
    if combined.lost is not None:
        await ports.set_aside(combined.lost, "merge")
    return replace(result, state=state), combined


async def _resolve_landed(
    ports: Ports, state: DocumentState, remote: RemoteDocument
) -> DocumentState:
    """Find out which of our puts are in the object: what they told is common knowledge."""
    landed = [
        attempt
        for attempt in state.pending
        if remote.lineage.includes(Stamp(ports.device, attempt.seq))
    ]
    if not landed:
        return state
    last = max(landed, key=lambda attempt: attempt.seq)
    unresolved = tuple(attempt for attempt in state.pending if attempt.seq > last.seq)
    state = DocumentState(MergeBase(last.text), unresolved)
    await ports.keep(state)
    return state


async def _adopt(ports: Ports, state: DocumentState, remote: RemoteDocument) -> DocumentState:
    """Take the text found here for what was common, though the memory of it is gone.

    What of it the container lacks was deleted elsewhere, or never left this machine: it goes from
    the file and is set aside, and so neither comes back from the dead nor gets lost.
    """
    adopted = state.adopted
    if adopted is None:
        return state
    if adopted != remote.text:
        await ports.set_aside(adopted, "adopted")
    state = replace(state, base=MergeBase(adopted), adopted=None)
    await ports.keep(state)
    return state


async def _put(
    ports: Ports,
    result: DocumentSyncResult,
    local: OptionalText,
    combined: MergedDocument,
    *,
    over: RemoteDocument | None,
) -> tuple[DocumentSyncResult, RemoteDocument | None]:
    """Write the object over the one that was read; None when somebody else was quicker."""
    expected = over.etag if over else None
    state, intent = await _record_intent(ports, result.state, local, expected)
    lineage = (over.lineage if over else NO_LINEAGE).plus(Stamp(ports.device, intent.seq))
    try:
        etag = await ports.put(combined.text, expected, lineage, combined.changed)
    except ConcurrencyError:
        return replace(result, state=state), None
    remote = RemoteDocument(combined.text, etag, lineage, combined.changed)
    # Earlier puts expected earlier versions, and so can land no more.
    base = _base_of(remote) if combined.text == local else MergeBase(local)
    state = DocumentState(base)
    await ports.keep(state)
    return replace(result, state=state, pushed=True), remote


async def _record_intent(
    ports: Ports, state: DocumentState, text: OptionalText, expected: str | None
) -> tuple[DocumentState, PutIntent]:
    """Note a put before it is tried. One that is tried again keeps its number."""
    for attempt in state.pending:
        if attempt.text == text and attempt.expected == expected:
            return state, attempt
    intent = PutIntent(await ports.next_number(), text, expected)
    state = replace(state, pending=(*state.pending, intent))
    await ports.keep(state)
    return state, intent


async def _apply(
    ports: Ports, result: DocumentSyncResult, local: OptionalText, remote: RemoteDocument
) -> tuple[DocumentSyncResult, bool]:
    """Make the file what the object is, unless somebody types meanwhile."""
    text = remote.text
    name = await ports.stage(text, local) if text is not None else await ports.new_name()
    apply = LocalChange(name, text, remote.etag, remote.lineage, remote.changed)
    state = replace(result.state, apply=apply)
    await ports.keep(state)
    if text is not None:
        swapped = await ports.swap(name, local)
    else:
        swapped = await ports.discard(name, local or b"")
    if swapped:
        return replace(result, state=state, pulled=True), True
    state = replace(state, apply=None)
    await ports.keep(state)
    await ports.clear(apply)
    return replace(result, state=state), False


def _base_of(remote: RemoteDocument) -> MergeBase:
    return MergeBase(remote.text, remote.etag, remote.lineage, remote.changed)
