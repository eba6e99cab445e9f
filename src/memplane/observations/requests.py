"""What operations on observations take: queries and bodies (pure).

One type serves every transport: its constraints and descriptions are those of the HTTP API.
Confidence is from 0 to 1, everywhere.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from memplane.auth.memory_scope import MemoryScope, make_scope
from memplane.observations.events import EventKind
from memplane.observations.model import MAX_SERVICE_CHARS, MAX_TEXT_CHARS, Category, SourceClass

MOST_LISTED: Final = 1000
LISTED: Final = 200
LARGEST_NUMBER: Final = 2**63 - 1
"""No memory and no session has a larger number: a database has none."""
LARGEST_JSON_NUMBER: Final = 2**53 - 1
"""The largest number that every reader of JSON keeps as it is."""
LONGEST_REASON: Final = 1000
MOST_AT_ONCE: Final = 1000
"""The memories that one bulk action may name."""
MOST_DAYS: Final = 366
"""The days for which memories are counted at most."""

Mode = Literal["markers", "structured"]
Sort = Literal[
    "confidence", "updated", "created", "service", "category", "observation", "state", "id"
]
Order = Literal["desc", "asc"]
Format = Literal["jsonl", "md", "csv"]
ActorKind = Literal["operator", "system", "agent", "import"]
Resolution = Literal["keep_a", "keep_b", "both", "merge", "dismiss"]
BulkAction = Literal[
    "delete",
    "retire",
    "restore",
    "pin",
    "unpin",
    "approve",
    "share",
    "set_confidence",
    "adjust_confidence",
    "set_category",
    "set_service",
    "merge",
]
Act = Literal["retire", "restore", "pin", "unpin", "approve", "share", "merge", "undo", "purge"]

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_JSON_NUMBER)]
_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST_JSON_NUMBER, le=LARGEST_JSON_NUMBER)]
_Real: TypeAlias = Annotated[float, msgspec.Meta(ge=-LARGEST_JSON_NUMBER, le=LARGEST_JSON_NUMBER)]
Tier: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=3)]
Words: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_REASON)]
UserName: TypeAlias = Annotated[
    str | None,
    msgspec.Meta(description="An end user: with what is shared, and nothing of other users."),
]
ViewName: TypeAlias = Annotated[
    str | None,
    msgspec.Meta(description="A named view: with what is shared, and nothing of other views."),
]
AgentName: TypeAlias = Annotated[
    str, msgspec.Meta(description="The agent, where the token is not one agent's.")
]
Limit: TypeAlias = Annotated[
    int, msgspec.Meta(ge=0, le=MOST_LISTED, description="How many at most.")
]
ConfidenceValue: TypeAlias = Annotated[
    float, msgspec.Meta(description="From 0 to 1; values outside are moved to the nearer end.")
]
CategoryName: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"enum": [category.value for category in Category]})
]
"""Described as closed; settings decide which other names are accepted."""
ObservationText: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"minLength": 3, "maxLength": MAX_TEXT_CHARS})
]
"""Described as it is stored; its length is checked after it is cleaned."""
ServiceName: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"pattern": f"^[a-zA-Z0-9_-]{{1,{MAX_SERVICE_CHARS}}}$"})
]
StateName: TypeAlias = Literal[
    "active", "inactive", "quarantined", "retired", "superseded", "purged", "trash", "any"
]
Forgotten: TypeAlias = Annotated[
    Literal["include"] | None,
    msgspec.Meta(
        description="`include` shows what was forgotten too, marked as such; for an admin."
    ),
]
Cursor: TypeAlias = Annotated[
    str, msgspec.Meta(description="Resume after an earlier page; its `next_cursor`.")
]
AsOf: TypeAlias = Annotated[
    str, msgspec.Meta(description="What was so at a moment, in RFC 3339; without a cursor.")
]
KnownAt: TypeAlias = Annotated[
    str, msgspec.Meta(description="What was known at a moment, in RFC 3339; without a cursor.")
]


# Queries.


class StateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a memory may be in the trash."""

    state: Annotated[
        Literal["any"] | None, msgspec.Meta(description="`any` shows one in the trash too.")
    ] = None


WITH_TRASH: Final = StateQuery(state="any")


class _Filters(msgspec.Struct, frozen=True, kw_only=True):
    service: Annotated[
        str, msgspec.Meta(description="`general` is about no service in particular.")
    ] = ""
    category: Category | None = None
    tier: Tier | None = None
    origin: Annotated[SourceClass | None, msgspec.Meta(description="Who said it first.")] = None
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
    q: Annotated[
        str, msgspec.Meta(max_length=MAX_TEXT_CHARS, description="Words to look for.")
    ] = ""
    forgotten: Forgotten = None
    user: UserName = None
    view: ViewName = None


class MemoryFilter(_Filters, frozen=True, kw_only=True):
    """Which memories; what is None or empty does not filter.

    Memories of which only forgotten turns speak are left out, unless `forgotten` includes them;
    those are `unsupported`.
    """

    state: Annotated[
        StateName | None,
        msgspec.Meta(description="`any` is every state; by default all that is not in the trash."),
    ] = None


class MemoryQuery(MemoryFilter, frozen=True, kw_only=True):
    """Which memories, in which order, and where to resume."""

    sort: Sort = "confidence"
    order: Order = "desc"
    limit: Limit = LISTED
    offset: Number = 0
    cursor: Cursor = ""
    as_of: AsOf = ""
    known_at: KnownAt = ""


class QuarantineQuery(_Filters, frozen=True, kw_only=True):
    """Which memories in quarantine, in which order, and where to resume."""

    sort: Sort = "confidence"
    order: Order = "desc"
    limit: Limit = LISTED
    offset: Number = 0
    cursor: Cursor = ""
    as_of: AsOf = ""
    known_at: KnownAt = ""


class ExportQuery(MemoryFilter, frozen=True, kw_only=True):
    """Which memories, and how they are written."""

    format: Format = "jsonl"


class LimitQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the last ones."""

    limit: Limit = LISTED


class ConflictQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whether resolved conflicts are listed too."""

    resolved: bool = False


class DaysQuery(msgspec.Struct, frozen=True, kw_only=True):
    """For how many days."""

    days: Annotated[
        int, msgspec.Meta(ge=1, le=MOST_DAYS, description="How many days, until today.")
    ] = 30


class ActQuery(LimitQuery, frozen=True, kw_only=True):
    """Which acts; what is None does not filter."""

    actor: Annotated[ActorKind | None, msgspec.Meta(description="Who did it.")] = None
    kind: EventKind | None = None
    before: Annotated[
        Number, msgspec.Meta(description="Resume after an earlier page; its last `seq`.")
    ] = 0
    forgotten: Forgotten = None


class PromptQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that needs its block; a budget of None is the configured one."""

    tier: Annotated[
        Tier | None, msgspec.Meta(description="Every tier gets the same; this is for callers.")
    ] = None
    services: Annotated[
        tuple[str, ...], msgspec.Meta(description="In scope; may be given several times.")
    ] = msgspec.field(default=(), name="service")
    session: Annotated[
        str, msgspec.Meta(description="A name for it, from which its fence is made.")
    ] = ""
    user: UserName = None
    view: ViewName = None
    budget: (
        Annotated[
            int,
            msgspec.Meta(
                ge=-LARGEST_JSON_NUMBER, le=LARGEST_JSON_NUMBER, description="In tokens."
            ),
        ]
        | None
    ) = None
    prompt: Annotated[str, msgspec.Meta(description="Services it names are in scope too.")] = ""


class ImportQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Where lines of memories come from."""

    source: Words = ""


# Bodies.


class MemoryCreate(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that an operator writes down."""

    category: CategoryName
    observation: ObservationText
    service: ServiceName | None = None
    confidence: ConfidenceValue | None = None
    active: bool = True
    pinned: bool = False
    expires_at: str | None = None
    tier: Tier = 0
    agent: AgentName = ""
    user: UserName = None
    view: ViewName = None


class MemoryPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a memory says from now on; what is left out stays as it is."""

    observation: ObservationText | msgspec.UnsetType = msgspec.UNSET
    category: CategoryName | msgspec.UnsetType = msgspec.UNSET
    service: ServiceName | msgspec.UnsetType | None = msgspec.UNSET
    confidence: ConfidenceValue | msgspec.UnsetType = msgspec.UNSET
    active: bool | msgspec.UnsetType = msgspec.UNSET
    pinned: bool | msgspec.UnsetType = msgspec.UNSET
    expires_at: str | msgspec.UnsetType | None = msgspec.UNSET


class MemoryPut(msgspec.Struct, frozen=True, kw_only=True):
    """All that a memory says from now on; what may be left out stays as it is."""

    observation: ObservationText
    confidence: ConfidenceValue
    active: bool
    category: CategoryName | msgspec.UnsetType = msgspec.UNSET
    service: ServiceName | msgspec.UnsetType | None = msgspec.UNSET
    pinned: bool | msgspec.UnsetType = msgspec.UNSET
    expires_at: str | msgspec.UnsetType | None = msgspec.UNSET


class ReasonBody(msgspec.Struct, frozen=True, kw_only=True):
    """Why it is done."""

    reason: Words = ""


NO_REASON: Final = ReasonBody()


class MergeBody(ReasonBody, frozen=True, kw_only=True):
    """The memory that stays."""

    into: Number


class PurgeBody(ReasonBody, frozen=True, kw_only=True):
    """That it is meant: `purge` and the number of the memory."""

    confirm: Annotated[str, msgspec.Meta(examples=["purge 12"])]


class ActAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Something an operator does to one memory.

    `into` is the memory that a merge keeps; `confirm` must be `purge <id>` for a purge.
    """

    act: Act
    reason: str = ""
    into: int | None = None
    confirm: str = ""


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An action on several memories, all or nothing.

    `value` is a confidence from 0 to 1 for `set_confidence`, and the difference, such as -0.2,
    for `adjust_confidence`; a name for `set_category` and `set_service`; the number of the memory
    that stays for `merge`.
    """

    ids: Annotated[tuple[Number, ...], msgspec.Meta(min_length=1, max_length=MOST_AT_ONCE)]
    action: BulkAction
    value: _Whole | _Real | str | None = None
    reason: Words = ""
    dry_run: bool = False


class UndoBody(msgspec.Struct, frozen=True, kw_only=True):
    """What is undone: the `batch` of what was done in one go."""

    batch: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


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


AS_IT_WAS_SAID: Final = AcceptAsked()


class SessionWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A session that begins; a receipt of its block is kept."""

    agent: AgentName = ""
    tier: Tier = 1
    services: tuple[str, ...] = ()
    budget: _Whole | None = None
    cli_session: str = ""
    trigger: str = "run"
    command: str = ""
    prompt: str = ""
    log: str = ""
    parent: Number | None = None
    tell: bool = True
    """Whether it gets a block; otherwise nothing is injected."""
    user: UserName = None
    view: ViewName = None

    @property
    def scope(self) -> MemoryScope:
        """Whose it is.

        Raises:
            InvalidRequest: The user or the view cannot be one.
        """
        return make_scope(self.agent, self.user, self.view)


class SessionAttested(msgspec.Struct, frozen=True, kw_only=True):
    """A client's session that a hook has seen, by the client's name for it."""

    cli_session: str


class HeardText(msgspec.Struct, frozen=True, kw_only=True):
    """One block of what an agent said, and where it stands in the session's log."""

    text: str
    source: SourceClass = SourceClass.AGENT
    at: str = ""
    message: str = ""
    line: Number = 0
    offset: Number = 0
    digest: str = ""
    aborted: bool = False
    """Whether it was stopped in the middle of its last line."""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a session, in order: tool results, what was said, what was taken back.

    `structured` is a document in place of markers.
    """

    texts: tuple[HeardText, ...] = ()
    tool_results: tuple[str, ...] = ()
    retracted: tuple[str, ...] = ()
    structured: Any = None
    cli_session: str = ""
    model: str = ""


class ObservationStatement(msgspec.Struct, frozen=True, kw_only=True):
    """An observation that an agent makes, outside of any session."""

    category: CategoryName
    observation: ObservationText
    service: ServiceName | None = None
    agent: AgentName = ""
    user: UserName = None


class SessionEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How a session ended."""

    is_error: bool = False
    exit_code: _Whole | None = None
    cost_usd: float | None = None
    num_turns: Number | None = None
    status: str = "ended"


ENDED: Final = SessionEnded()


class ImportedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A memory from elsewhere, as an export wrote it; what is missing gets its default."""

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
    tier: Tier = 1


class ImportAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Memories from elsewhere; `source` names where, for the record."""

    memories: tuple[ImportedLine, ...]
    source: str = ""
