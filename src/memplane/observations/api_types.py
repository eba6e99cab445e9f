"""What operations on observations return (pure); what they take is in `requests`.

An `agent` of None reaches the memories of every agent; interfaces allow that to admins alone.
What belongs to another agent is unknown, as if it did not exist.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.episodes.api_types import TableRebuild
from memplane.observations.model import Category, ObservationState, SourceClass

ConflictKind = Literal["contradiction", "possible_duplicate", "said_again"]


class MemoryView(msgspec.Struct, frozen=True, kw_only=True):
    """An observation as interfaces show it. Without a `user` and a `view` it is shared.

    `confidence` is as of the last thing that happened to it, `effective_confidence` as of now.
    `active` says whether it may be told; `goes_inactive_at` when it fades, if nothing happens.
    """

    id: int
    agent: str
    user: str = ""
    view: str = ""
    service: str | None
    category: Category
    observation: str
    confidence: float
    effective_confidence: float
    active: bool
    state: ObservationState
    created_at: str
    updated_at: str
    last_supported_at: str
    session_id: int | None
    tier: int
    origin: str
    pinned: bool
    contested: bool
    unsupported: bool
    version: int
    valid_from: str
    valid_to: str | None = None
    recorded_at: str
    retired_at: str | None = None
    superseded_by: int | None = None
    expires_at: str | None = None
    goes_inactive_at: str | None = None
    reason: str = ""
    flags: tuple[str, ...] = ()


class MemoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the memories that were asked for, and how many there are in all."""

    memories: tuple[MemoryView, ...]
    total: int
    next_cursor: str | None = None


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a memory; before and after are its confidence.

    `together` are the other memories that an operator did something to in the same go: an undo of
    one takes it back for all. A list of acts leaves it out, as each of them is in it. What a
    `forgotten` turn said has no words, unless an admin asked for them.
    """

    id: str
    memory_id: int | None
    at: str
    kind: str
    actor_kind: str
    actor: str
    session_id: int | None = None
    tier: int = 0
    reason: str = ""
    batch: str = ""
    before: float | None = None
    after: float | None = None
    delta: float | None = None
    observation: str | None = None
    category: str | None = None
    service: str | None = None
    other: int | None = None
    undone: bool = False
    together: tuple[int, ...] = ()
    forgotten: bool = False


class ConfidencePoint(msgspec.Struct, frozen=True, kw_only=True):
    """How sure we were at a moment, and what happened then."""

    at: str
    value: float
    kind: str


class ConfidenceHistory(msgspec.Struct, frozen=True, kw_only=True):
    """How sure we were over time, and how that goes on if nothing else happens."""

    points: tuple[ConfidencePoint, ...]
    forecast: tuple[ConfidencePoint, ...]
    threshold: float


class EvidenceView(msgspec.Struct, frozen=True, kw_only=True):
    """What speaks for a memory or against it; `void` when its ledger entry was forgotten.

    What speaks against it has no quote of its own: its words are another memory's, which `other`
    names, and `other_says`.
    """

    id: str
    memory_id: int
    session_id: int | None
    tier: int
    polarity: Literal["supports", "contradicts"]
    source_class: SourceClass
    quote: str
    at: str
    message_uuid: str = ""
    raw_line: int | None = None
    raw_offset: int | None = None
    raw_sha256: str = ""
    ledger_entry_id: str = ""
    void: bool = False
    other: int | None = None
    other_says: str = ""


class InjectionView(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that a memory was told in, and how that session went."""

    session_id: int
    at: str
    position: int
    of: int
    tokens: int
    tier: int
    status: str
    is_error: bool


class AttestedSession(msgspec.Struct, frozen=True, kw_only=True):
    """The number of a session that is real."""

    session: int


class ObservationRollback(msgspec.Struct, frozen=True, kw_only=True):
    """The observations that a rollback changed, and the batch by which it is undone."""

    memories: tuple[int, ...] = ()
    batch: str = ""


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A run of an agent: what is known of it."""

    id: int
    agent: str
    user: str = ""
    view: str = ""
    cli_session_id: str
    tier: int
    model: str
    trigger: str
    status: str
    started_at: str
    ended_at: str | None
    is_error: bool
    exit_code: int | None
    cost_usd: float | None
    num_turns: int | None
    log_path: str
    command: str
    learned: int = 0
    told: int = 0

    @property
    def scope(self) -> MemoryScope:
        """Whose it is."""
        return MemoryScope(self.agent, self.user, self.view)


class ConflictView(msgspec.Struct, frozen=True, kw_only=True):
    """Two memories that do not go together, or one that was said again after it was retired.

    `b` is None for the latter.
    """

    id: str
    agent: str
    user: str = ""
    view: str = ""
    kind: ConflictKind
    a: MemoryView
    b: MemoryView | None
    signals: tuple[str, ...]
    opened_at: str
    sessions: tuple[int, ...]
    status: Literal["open", "resolved"]
    resolution: str = ""


class RejectView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was said and is not remembered; the hint tells what would have been right."""

    id: str
    agent: str
    user: str = ""
    view: str = ""
    at: str
    reason: str
    category: str
    service: str
    observation: str
    hint: str
    corrected_category: str = ""
    corrected_service: str = ""
    session_id: int | None = None
    tier: int = 1
    source_class: str = ""
    accepted_as: int | None = None


class DroppedView(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that did not get into a prompt, and why."""

    id: int
    reason: str


class PromptView(msgspec.Struct, frozen=True, kw_only=True):
    """The block of a prompt, and what it was made of."""

    block: str
    tokens: int
    budget: int
    included: tuple[int, ...]
    dropped: tuple[DroppedView, ...]
    candidates: int


class ServiceView(msgspec.Struct, frozen=True, kw_only=True):
    """What memories are about, and how many there are; None is no service in particular."""

    service: str | None
    memories: int
    active: int


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is of everything."""

    by_state: dict[str, int]
    by_category: dict[str, int]
    by_tier: dict[str, int]
    by_origin: dict[str, int]
    histogram: tuple[int, ...]
    """How many active ones are in each tenth of confidence, the lowest first."""
    injectable: int
    contested: int
    conflicts: int
    quarantined: int
    rejects: int
    stale: int
    """How many active ones go inactive within a week."""


class DayView(msgspec.Struct, frozen=True, kw_only=True):
    """How many memories were in which state at the end of a day."""

    day: str
    by_state: dict[str, int]


class ActionView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, with its place among all that did, and whose memory it was."""

    seq: int
    agent: str
    event: EventView


class Facet(msgspec.Struct, frozen=True, kw_only=True):
    """A value that lists can be narrowed to, and how many memories that would leave."""

    value: str
    count: int


class Facets(msgspec.Struct, frozen=True, kw_only=True):
    """What a list can be narrowed to; each count is under all other filters of the list.

    A service of `general` is none in particular. `stale` counts active ones that fade within a
    week.
    """

    agent: tuple[Facet, ...]
    service: tuple[Facet, ...]
    category: tuple[Facet, ...]
    state: tuple[Facet, ...]
    tier: tuple[Facet, ...]
    origin: tuple[Facet, ...]
    contested: int
    pinned: int
    stale: int


class ChangeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A change of memories, for those who watch; `seq` is where to resume after it."""

    seq: int
    kind: str
    agent: str
    memory_id: int | None
    session_id: int | None
    at: str


# Receipts.


class BulkResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one of them."""

    id: int
    ok: bool
    message: str = ""


class BulkOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of all; `batch` undoes it. When one failed, nothing was done."""

    results: tuple[BulkResult, ...]
    batch: str
    done: bool


class StartedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session, and what it is told; when memory fails the block is empty."""

    session: int
    prompt: PromptView


class IngestReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    asserted: tuple[int, ...] = ()
    reinforced: tuple[int, ...] = ()
    contradicted: tuple[int, ...] = ()
    echoed: tuple[int, ...] = ()
    quarantined: tuple[int, ...] = ()
    retracted: int = 0
    rejects: tuple[RejectView, ...] = ()


class ImportReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of them; what was there already is not added again."""

    added: int
    known: int
    quarantined: int
    rejects: tuple[RejectView, ...] = ()


class RebuildReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """Whether memories made again from their events are what they were."""

    memories: int
    before: int
    events: int
    digest: str
    same: bool
    differing: tuple[int, ...] = ()

    def to_table_rebuild(self) -> TableRebuild:
        """Tell it beside the other tables of a rebuild."""
        return TableRebuild(
            name="observations",
            rows=self.memories,
            before=self.before,
            digest=self.digest,
            same=self.same,
        )


# Lists of them.


class MemoryList(msgspec.Struct, frozen=True, kw_only=True):
    """Memories that were changed."""

    memories: tuple[MemoryView, ...]


class EventList(msgspec.Struct, frozen=True, kw_only=True):
    """All that happened to a memory, the oldest first."""

    events: tuple[EventView, ...]


class EvidenceList(msgspec.Struct, frozen=True, kw_only=True):
    """What speaks for a memory and against it, the oldest first."""

    evidence: tuple[EvidenceView, ...]


class InjectionList(msgspec.Struct, frozen=True, kw_only=True):
    """The prompts that included a memory, the newest first."""

    injections: tuple[InjectionView, ...]


class ConflictList(msgspec.Struct, frozen=True, kw_only=True):
    """Conflicts between memories, the oldest first."""

    conflicts: tuple[ConflictView, ...]


class RejectList(msgspec.Struct, frozen=True, kw_only=True):
    """Statements that were rejected, the newest first."""

    rejects: tuple[RejectView, ...]


class ServiceList(msgspec.Struct, frozen=True, kw_only=True):
    """Services that memories are about, in the order of their names; general comes last."""

    services: tuple[ServiceView, ...]


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """The last sessions, the newest first."""

    sessions: tuple[SessionView, ...]


class DayList(msgspec.Struct, frozen=True, kw_only=True):
    """How many memories were in which state at the end of each day, the oldest first."""

    days: tuple[DayView, ...]


class ActList(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to memories, the newest first."""

    acts: tuple[ActionView, ...]
