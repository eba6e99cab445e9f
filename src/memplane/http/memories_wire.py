"""What requests about memories say and are answered, where it differs from memory's own words.

Confidence is from 0 to 1 here, everywhere.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from memplane.observations.contract import (
    LISTED,
    LONGEST_REASON,
    MOST_AT_ONCE,
    MOST_LISTED,
    BulkAsked,
    ConflictView,
    EventView,
    EvidenceView,
    Heard,
    HeardText,
    InjectionView,
    MemoryChange,
    MemoryView,
    MemoryWanted,
    RejectView,
    ServiceView,
    SessionEnded,
    SessionView,
    SessionWanted,
    Sort,
)
from memplane.observations.model import LONGEST, LONGEST_SERVICE, Category, Source

LARGEST: Final = 2**53 - 1
"""The largest number that every reader of JSON keeps as it is."""

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
_Real: TypeAlias = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Tier: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=3)]
Words: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_REASON)]
AgentName: TypeAlias = Annotated[
    str, msgspec.Meta(description="The agent, where the token is not one agent's.")
]
Amount: TypeAlias = Annotated[
    int, msgspec.Meta(ge=0, le=MOST_LISTED, description="How many at most.")
]
Confidence: TypeAlias = Annotated[
    float, msgspec.Meta(description="From 0 to 1; what is beyond is moved to the nearer end.")
]
CategoryName: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"enum": [one.value for one in Category]})
]
"""Described as closed; what else is taken by another name is a matter of settings."""
Observation: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"minLength": 3, "maxLength": LONGEST})
]
"""Described as it is kept; it is counted once it has been cleaned."""
ServiceName: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"pattern": f"^[a-zA-Z0-9_-]{{1,{LONGEST_SERVICE}}}$"})
]
StateAsked: TypeAlias = Annotated[
    Literal["active", "inactive", "quarantined", "retired", "superseded", "purged", "trash", "any"]
    | None,
    msgspec.Meta(description="`any` is every state; by default all that is not in the trash."),
]


class ScopeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose memories."""

    agent: AgentName = ""


class OneQuery(ScopeQuery, frozen=True, kw_only=True):
    """Whose memory, and whether it may be in the trash."""

    state: Annotated[
        Literal["any"] | None, msgspec.Meta(description="`any` shows one in the trash too.")
    ] = None


class FilterQuery(ScopeQuery, frozen=True, kw_only=True):
    """Which memories."""

    service: Annotated[
        str, msgspec.Meta(description="`general` is about no service in particular.")
    ] = ""
    category: Category | None = None
    tier: Tier | None = None
    origin: Annotated[Source | None, msgspec.Meta(description="Who said it first.")] = None
    contested: bool | None = None
    pinned: bool | None = None
    stale: Annotated[bool | None, msgspec.Meta(description="Whether it fades within a week.")] = (
        None
    )
    session: Annotated[
        Number | None, msgspec.Meta(description="The session in which it was learned.")
    ] = None
    entry: Annotated[
        Words, msgspec.Meta(description="A turn that speaks for it or against it, by its id.")
    ] = ""
    q: Annotated[str, msgspec.Meta(max_length=LONGEST, description="Words to look for.")] = ""


class PageQuery(FilterQuery, frozen=True, kw_only=True):
    """Which memories, in which order, and where to go on."""

    sort: Sort = "confidence"
    order: Literal["desc", "asc"] = "desc"
    limit: Amount = LISTED
    offset: Number = 0
    cursor: Annotated[
        str, msgspec.Meta(description="Go on behind an earlier page; its `next_cursor`.")
    ] = ""
    as_of: Annotated[
        str, msgspec.Meta(description="What was so at a moment, in RFC 3339; without a cursor.")
    ] = ""
    known_at: Annotated[
        str, msgspec.Meta(description="What was known at a moment, in RFC 3339; likewise.")
    ] = ""


class ListQuery(PageQuery, frozen=True, kw_only=True):
    """Which memories, in which order, and where to go on."""

    state: StateAsked = None


class MemoryBody(MemoryWanted, frozen=True, kw_only=True):
    """A memory to write down."""

    category: CategoryName
    observation: Observation
    service: ServiceName | None = None
    confidence: Confidence | None = None
    tier: Tier = 0
    agent: AgentName = ""


class MemoryPatch(MemoryChange, frozen=True, kw_only=True):
    """What a memory says from now on; what is left out stays as it is."""

    observation: Observation | msgspec.UnsetType = msgspec.UNSET
    category: CategoryName | msgspec.UnsetType = msgspec.UNSET
    service: ServiceName | msgspec.UnsetType | None = msgspec.UNSET
    confidence: Confidence | msgspec.UnsetType = msgspec.UNSET


class MemoryPut(msgspec.Struct, frozen=True, kw_only=True):
    """All that a memory says from now on; what may be left out stays as it is."""

    observation: Observation
    confidence: Confidence
    active: bool
    category: CategoryName | msgspec.UnsetType = msgspec.UNSET
    service: ServiceName | msgspec.UnsetType | None = msgspec.UNSET
    pinned: bool | msgspec.UnsetType = msgspec.UNSET
    expires_at: str | msgspec.UnsetType | None = msgspec.UNSET


class ReasonBody(msgspec.Struct, frozen=True, kw_only=True):
    """Why it is done."""

    reason: Words = ""


class MergeBody(ReasonBody, frozen=True, kw_only=True):
    """The memory that stays."""

    into: Number


class PurgeBody(ReasonBody, frozen=True, kw_only=True):
    """That it is meant: `purge` and the number of the memory."""

    confirm: Annotated[str, msgspec.Meta(examples=["purge 12"])]


class BulkBody(BulkAsked, frozen=True, kw_only=True):
    """Something that is done to several memories, all or nothing.

    `value` is from 0 to 1 for `set_confidence` and, with its sign, for `adjust_confidence`; a
    name for `set_category` and `set_service`; the memory that stays for `merge`.
    """

    ids: Annotated[tuple[Number, ...], msgspec.Meta(min_length=1, max_length=MOST_AT_ONCE)]
    value: _Whole | _Real | str | None = None
    reason: Words = ""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """All that happened to a memory, the oldest first."""

    events: tuple[EventView, ...]


class EvidenceFound(msgspec.Struct, frozen=True, kw_only=True):
    """What speaks for a memory and against it, the oldest first."""

    evidence: tuple[EvidenceView, ...]


class Injections(msgspec.Struct, frozen=True, kw_only=True):
    """The prompts that a memory was told in, the newest first."""

    injections: tuple[InjectionView, ...]


class Memories(msgspec.Struct, frozen=True, kw_only=True):
    """Memories that were changed."""

    memories: tuple[MemoryView, ...]


class UndoBody(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be taken back: the `batch` of what was done in one go."""

    batch: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class ConflictsQuery(ScopeQuery, frozen=True, kw_only=True):
    """Whose conflicts, and whether also those that are over."""

    resolved: bool = False


class Conflicts(msgspec.Struct, frozen=True, kw_only=True):
    """Memories that do not go together, the oldest conflict first."""

    conflicts: tuple[ConflictView, ...]


class LastQuery(ScopeQuery, frozen=True, kw_only=True):
    """How many of the last ones."""

    limit: Amount = LISTED


class Rejects(msgspec.Struct, frozen=True, kw_only=True):
    """What was said and is not remembered, the newest first."""

    rejects: tuple[RejectView, ...]


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What memories are about, in the order of their names; general comes last."""

    services: tuple[ServiceView, ...]


class FacetsQuery(FilterQuery, frozen=True, kw_only=True):
    """Which memories."""

    state: StateAsked = None


class ExportQuery(FacetsQuery, frozen=True, kw_only=True):
    """Which memories, and how they are written."""

    format: Literal["jsonl", "md", "csv"] = "jsonl"


class PreviewQuery(ScopeQuery, frozen=True, kw_only=True):
    """A prompt that is thought of."""

    tier: Annotated[
        Tier | None, msgspec.Meta(description="Every tier is told the same; this is for callers.")
    ] = None
    service: Annotated[
        tuple[str, ...], msgspec.Meta(description="In scope; may be given several times.")
    ] = ()
    session: Annotated[str, msgspec.Meta(description="Whatever names it: it makes the fence.")] = (
        ""
    )
    budget: (
        Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST, description="In tokens.")] | None
    ) = None
    prompt: Annotated[str, msgspec.Meta(description="Services it names are in scope too.")] = ""


class ImportQuery(ScopeQuery, frozen=True, kw_only=True):
    """Whose memories they become, and where lines of them come from."""

    source: Words = ""


class SessionBody(SessionWanted, frozen=True, kw_only=True):
    """A session that begins."""

    agent: AgentName = ""
    budget: _Whole | None = None
    parent: Number | None = None


class HeardTextBody(HeardText, frozen=True, kw_only=True):
    """One block of what an agent said, and where it stands in the session's log."""

    line: Number = 0
    offset: Number = 0


class HeardBody(Heard, frozen=True, kw_only=True):
    """What happened in a session, in order: what tools gave before, what was said, taken back."""

    texts: tuple[HeardTextBody, ...] = ()


class EndBody(SessionEnded, frozen=True, kw_only=True):
    """How a session ended."""

    exit_code: _Whole | None = None
    num_turns: Number | None = None


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """The last sessions, the newest first."""

    sessions: tuple[SessionView, ...]
