"""What is asked of operational memory and answered, for every door (pure).

`OperationalMemory` is kept by `memplane.observations.curator.Curator` in the process that owns the
home, and by `memplane.plane.remote_memories.RemoteMemories` everywhere else.

An `agent` of None reaches the memories of every agent; doors allow that to admins alone. What
belongs to another agent is unknown, as if it did not exist.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final, Literal, Protocol

import msgspec

from memplane.memory.contract import RebuiltTable
from memplane.observations.model import Category, Source, State

MOST_LISTED: Final = 1000
LISTED: Final = 200
LONGEST_REASON: Final = 1000
MOST_AT_ONCE: Final = 1000
"""The memories that one bulk action may name."""
MOST_DAYS: Final = 366
"""The days for which memories are counted at most."""

Mode = Literal["markers", "structured"]
Sort = Literal[
    "confidence", "updated", "created", "service", "category", "observation", "state", "id"
]
ConflictKind = Literal["contradiction", "possible_duplicate", "said_again"]
Resolution = Literal["keep_a", "keep_b", "both", "merge", "dismiss"]
BulkAction = Literal[
    "delete",
    "retire",
    "restore",
    "pin",
    "unpin",
    "approve",
    "set_confidence",
    "adjust_confidence",
    "set_category",
    "set_service",
    "merge",
]
Act = Literal["retire", "restore", "pin", "unpin", "approve", "merge", "undo", "purge"]


# What there is.


class MemoryView(msgspec.Struct, frozen=True, kw_only=True):
    """An observation as doors show it.

    `confidence` is as of the last thing that happened to it, `effective_confidence` as of now.
    `active` says whether it may be told; `goes_inactive_at` when it fades, if nothing happens.
    """

    id: int
    agent: str
    service: str | None
    category: Category
    observation: str
    confidence: float
    effective_confidence: float
    active: bool
    state: State
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
    one takes it back for all. A list of acts leaves it out, as each of them is in it.
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


class CoursePoint(msgspec.Struct, frozen=True, kw_only=True):
    """How sure we were at a moment, and what happened then."""

    at: str
    value: float
    kind: str


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """How sure we were over time, and how that goes on if nothing else happens."""

    points: tuple[CoursePoint, ...]
    forecast: tuple[CoursePoint, ...]
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
    source_class: Source
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


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A run of an agent: what is known of it."""

    id: int
    agent: str
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


class ConflictView(msgspec.Struct, frozen=True, kw_only=True):
    """Two memories that do not go together, or one that was said again after it was retired.

    `b` is None for the latter.
    """

    id: str
    agent: str
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


class ActView(msgspec.Struct, frozen=True, kw_only=True):
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


class ChangeTold(msgspec.Struct, frozen=True, kw_only=True):
    """That something happened, for those who watch; `seq` is where to go on after it."""

    seq: int
    kind: str
    agent: str
    memory_id: int | None
    session_id: int | None
    at: str


# What is asked.


class ListAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Which memories, in which order; what is None or empty is not asked for.

    A `service` of `general` is about no service in particular. A `state` of `any` is every state,
    the trash too; without one, whatever is not in the trash. `known_at` asks what was known at a
    moment, `as_of` what was so at a moment as far as that is known; neither has a cursor.
    """

    service: str | None = None
    category: Category | None = None
    state: str | None = None
    tier: int | None = None
    origin: str | None = None
    contested: bool | None = None
    pinned: bool | None = None
    stale: bool | None = None
    session: int | None = None
    entry: str = ""
    """A turn of a ledger that speaks for it or against it."""
    q: str = ""
    sort: Sort = "confidence"
    descending: bool = True
    limit: int = LISTED
    offset: int = 0
    cursor: str = ""
    as_of: str = ""
    known_at: str = ""


class ActsAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to memories, the newest first; what is empty does not choose.

    `actor` is whose doing it was: `operator`, `system`, `agent` or `import`. A page goes on
    `before` the place of the last one of the page before it.
    """

    actor: str = ""
    kind: str = ""
    before: int = 0
    limit: int = LISTED


class MemoryWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that an operator writes down."""

    category: str
    observation: str
    service: str | None = None
    confidence: float | None = None
    active: bool = True
    pinned: bool = False
    expires_at: str | None = None
    tier: int = 0


class MemoryChange(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator changes; what is UNSET stays as it is."""

    observation: str | msgspec.UnsetType = msgspec.UNSET
    category: str | msgspec.UnsetType = msgspec.UNSET
    service: str | msgspec.UnsetType | None = msgspec.UNSET
    confidence: float | msgspec.UnsetType = msgspec.UNSET
    active: bool | msgspec.UnsetType = msgspec.UNSET
    pinned: bool | msgspec.UnsetType = msgspec.UNSET
    expires_at: str | msgspec.UnsetType | None = msgspec.UNSET


class ActAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Something an operator does to one memory.

    `into` is the memory that a merge keeps; `confirm` must be `purge <id>` for a purge.
    """

    act: Act
    reason: str = ""
    into: int | None = None
    confirm: str = ""


class BulkAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Something an operator does to several memories, all or nothing.

    `value` is a confidence from 0 to 1 for `set_confidence`, and how far it moves, such as -0.2,
    for `adjust_confidence`; a name for `set_category` and `set_service`; the number of the one
    that stays for `merge`.
    """

    ids: Annotated[tuple[int, ...], msgspec.Meta(min_length=1, max_length=MOST_AT_ONCE)]
    action: BulkAction
    value: int | float | str | None = None
    reason: str = ""
    dry_run: bool = False


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


class ResolveAsked(msgspec.Struct, frozen=True, kw_only=True):
    """How a conflict ends; a merge keeps A or B, and may say what that reads from now on."""

    resolution: Resolution
    keep: Literal["a", "b"] = "a"
    observation: str | None = None
    reason: str = ""


class AcceptAsked(msgspec.Struct, frozen=True, kw_only=True):
    """How a reject is to read as a memory; what is None stays as it was said or corrected."""

    category: str | None = None
    service: str | None = None
    observation: str | None = None


class PromptAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that wants its block; a budget of None is the configured one."""

    agent: str
    services: tuple[str, ...] = ()
    budget: int | None = None
    session: str = ""
    """Whatever names the session: it makes the fence."""
    prompt: str = ""
    """What the agent is asked; services that it names are in scope too."""


class SessionWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A session that begins; its receipt is kept when it is told a block."""

    agent: str
    tier: Annotated[int, msgspec.Meta(ge=0, le=3)] = 1
    services: tuple[str, ...] = ()
    budget: int | None = None
    cli_session: str = ""
    trigger: str = "run"
    command: str = ""
    prompt: str = ""
    log: str = ""
    parent: int | None = None
    tell: bool = True
    """Whether it is told a block; otherwise nothing is injected."""


class SessionBegun(msgspec.Struct, frozen=True, kw_only=True):
    """A session, and what it is told; when memory fails the block is empty."""

    session: int
    prompt: PromptView


class HeardText(msgspec.Struct, frozen=True, kw_only=True):
    """One block of what an agent said, and where it stands in the session's log."""

    text: str
    source: Source = Source.AGENT
    at: str = ""
    message: str = ""
    line: int = 0
    offset: int = 0
    digest: str = ""
    aborted: bool = False
    """Whether it was stopped in the middle of its last line."""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a session, in order: what tools gave before, what was said, taken back.

    `structured` is a document in place of markers.
    """

    texts: tuple[HeardText, ...] = ()
    tool_results: tuple[str, ...] = ()
    retracted: tuple[str, ...] = ()
    structured: Any = None
    cli_session: str = ""
    model: str = ""


class HeardReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    asserted: tuple[int, ...] = ()
    reinforced: tuple[int, ...] = ()
    contradicted: tuple[int, ...] = ()
    echoed: tuple[int, ...] = ()
    quarantined: tuple[int, ...] = ()
    retracted: int = 0
    rejects: tuple[RejectView, ...] = ()


class SessionEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How a session ended."""

    is_error: bool = False
    exit_code: int | None = None
    cost_usd: float | None = None
    num_turns: int | None = None
    status: str = "ended"


class ImportedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A memory from elsewhere, as an export wrote it; what is not said gets its default."""

    category: str
    observation: str
    service: str | None = None
    confidence: float | None = None
    state: str = "active"
    pinned: bool = False
    created_at: str = ""
    updated_at: str = ""
    last_supported_at: str = ""
    expires_at: str | None = None
    sessions: tuple[str, ...] = ()
    tier: Annotated[int, msgspec.Meta(ge=0, le=3)] = 1


class ImportAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Memories from elsewhere; `source` names where, for the record."""

    memories: tuple[ImportedLine, ...]
    source: str = ""


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

    def as_table(self) -> RebuiltTable:
        """Tell it beside the other tables of a rebuild."""
        return RebuiltTable(
            name="observations",
            rows=self.memories,
            before=self.before,
            digest=self.digest,
            same=self.same,
        )


class OperationalMemory(Protocol):
    """What was learned, and what operators do about it.

    Every method with an id raises UnknownMemory where there is none for that agent, and any may
    raise OwnerUnavailable where memory lives in another process. `by` names the operator.
    """

    async def page(self, agent: str | None, asked: ListAsked) -> MemoryPage:
        """List memories.

        Raises:
            InvalidRequest: There is no such state, sort or cursor.
        """
        ...

    async def one(self, agent: str | None, memory: int, *, trash: bool = False) -> MemoryView:
        """Return a memory; one in the trash only when that is asked for."""
        ...

    async def add(self, agent: str, wanted: MemoryWanted, *, by: str, key: str = "") -> MemoryView:
        """Write a memory down; the same `key` again returns the memory that it made.

        Raises:
            InvalidRequest: It may not be remembered as it is.
        """
        ...

    async def change(
        self,
        agent: str | None,
        memory: int,
        change: MemoryChange,
        *,
        by: str,
        version: int | None = None,
    ) -> MemoryView:
        """Change what an operator may change.

        Raises:
            ConcurrencyError: It has another version by now.
            InvalidRequest: A value is not possible.
        """
        ...

    async def act(self, agent: str | None, memory: int, asked: ActAsked, *, by: str) -> MemoryView:
        """Retire, restore, pin, unpin, approve, merge, undo or purge one.

        Raises:
            InvalidRequest: That cannot be done to it as it is now.
        """
        ...

    async def bulk(self, agent: str | None, asked: BulkAsked, *, by: str) -> BulkOutcome:
        """Do something to several memories, all or nothing."""
        ...

    async def undo(self, agent: str | None, batch: str, *, by: str) -> Sequence[MemoryView]:
        """Take back all that was done in one go; undoing that does it again.

        Raises:
            InvalidRequest: Nothing was done under that name, or it cannot be taken back.
        """
        ...

    async def history(self, agent: str | None, memory: int) -> Sequence[EventView]:
        """Return all that happened to a memory, the oldest first."""
        ...

    async def course(self, agent: str | None, memory: int) -> Course:
        """Return how sure we were of a memory over time."""
        ...

    async def evidence(self, agent: str | None, memory: int) -> Sequence[EvidenceView]:
        """Return what speaks for a memory and against it, the oldest first."""
        ...

    async def injections(self, agent: str | None, memory: int) -> Sequence[InjectionView]:
        """Return the prompts that a memory was told in, the newest first."""
        ...

    async def preview(self, asked: PromptAsked) -> PromptView:
        """Return what a prompt would be told now.

        Raises:
            InvalidRequest: The budget is more than an argument of a program can hold.
        """
        ...

    async def begin(self, wanted: SessionWanted) -> SessionBegun:
        """Begin a session, and keep what it is told."""
        ...

    async def hear(self, agent: str, session: int, heard: Heard) -> HeardReceipt:
        """Learn from what happened in a session; it is durable when this returns."""
        ...

    async def end(self, agent: str, session: int, ended: SessionEnded) -> SessionView:
        """End a session."""
        ...

    async def session(self, agent: str | None, session: int) -> SessionView:
        """Return what is known of a session.

        Raises:
            UnknownMemory: There is none with that number.
        """
        ...

    async def sessions(self, agent: str | None, *, limit: int = 50) -> Sequence[SessionView]:
        """Return the last sessions, the newest first."""
        ...

    async def conflicts(
        self, agent: str | None, *, resolved: bool = False
    ) -> Sequence[ConflictView]:
        """Return what waits for a decision, the oldest first."""
        ...

    async def resolve(
        self, agent: str | None, conflict: str, asked: ResolveAsked, *, by: str
    ) -> ConflictView:
        """End a conflict.

        Raises:
            InvalidRequest: It was resolved already, or cannot be in that way.
        """
        ...

    async def rejects(self, agent: str | None, *, limit: int = LISTED) -> Sequence[RejectView]:
        """Return what was said and is not remembered, the newest first."""
        ...

    async def accept(
        self, agent: str | None, reject: str, asked: AcceptAsked, *, by: str
    ) -> MemoryView:
        """Make a memory of a reject.

        Raises:
            InvalidRequest: It is one already, or may not be remembered as it is.
        """
        ...

    async def services(self, agent: str | None) -> Sequence[ServiceView]:
        """Return what memories are about, in the order of their names; general comes last."""
        ...

    async def facets(self, agent: str | None, asked: ListAsked) -> Facets:
        """Count what a list can be narrowed to.

        Raises:
            InvalidRequest: There is no such state.
        """
        ...

    async def stats(self, agent: str | None) -> Stats:
        """Count everything."""
        ...

    async def by_day(self, agent: str | None, days: int) -> Sequence[DayView]:
        """Count memories by their states at the end of each of the last days, the oldest first.

        Raises:
            InvalidRequest: That is no number of days.
        """
        ...

    async def acts(self, agent: str | None, asked: ActsAsked) -> Sequence[ActView]:
        """Return what happened to memories, the newest first.

        Raises:
            InvalidRequest: There is no page of that size.
        """
        ...

    async def take_in(self, agent: str, asked: ImportAsked, *, by: str) -> ImportReceipt:
        """Take in memories from elsewhere."""
        ...

    async def rebuild(self) -> RebuildReceipt:
        """Make every memory again from its events; what differs is replaced."""
        ...

    async def latest(self) -> int:
        """Return the place of the last thing that happened, for those who go on after it."""
        ...

    def changes(self, agent: str | None, after: int) -> AsyncIterator[ChangeTold]:
        """Tell what happens from now on, and first what happened after a place; for ever."""
        ...
