"""What happened to observations, one event each: written once, and never edited (pure).

Everything that is known of an observation is folded out of its events. An event is a line of the
agent's event ledger, which chains it like any other entry.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.observations.model import Category, SourceClass


class EventKind(StrEnum):
    """What happened."""

    ASSERTED = "asserted"
    REINFORCED = "reinforced"
    CONTRADICTED = "contradicted"
    ECHOED = "echoed"
    SUPERSEDED = "superseded"
    DECAY_NOTED = "decay_noted"
    DEACTIVATED = "deactivated"
    EDITED = "edited"
    CONFIDENCE_SET = "confidence_set"
    PINNED = "pinned"
    UNPINNED = "unpinned"
    QUARANTINED = "quarantined"
    APPROVED = "approved"
    RETIRED = "retired"
    RESTORED = "restored"
    MERGED = "merged"
    CONTESTED = "contested"
    RESOLVED = "resolved"
    RETRACTED = "retracted"
    PURGED = "purged"
    SHARED = "shared"
    UNDONE = "undone"
    # About sessions, and about what became no observation.
    STARTED = "session_started"
    ENDED = "session_ended"
    INJECTED = "injected"
    REJECTED = "rejected"
    TAKEN_UP = "reject_accepted"


class Actor(StrEnum):
    """Whose doing it was."""

    AGENT = "agent"
    OPERATOR = "operator"
    SYSTEM = "system"
    IMPORT = "import"


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What speaks for an observation or against it, and where it can be read.

    `line`, `offset` and `digest` are of a session's raw output, `entry` is a turn in the ledger.
    """

    quote: str
    source: SourceClass
    supports: bool = True
    message: str = ""
    line: int = 0
    offset: int = 0
    digest: str = ""
    entry: str = ""


class ObservationContent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an observation says from an event on; what is None stays as it was.

    An empty service is none: the observation is about no service in particular.
    """

    text: str | None = None
    category: Category | None = None
    service: str | None = None


class RejectedContent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was said and is not remembered, fit to be kept, and what was probably meant."""

    category: str = ""
    service: str = ""
    text: str = ""
    hint: str = ""
    meant_category: str = ""
    meant_service: str = ""


class PromptReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session's prompt was given, in which order, and what was dropped and why."""

    included: tuple[int, ...] = ()
    dropped: tuple[tuple[int, str], ...] = ()
    tokens: int = 0
    digest: str = ""


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a session."""

    cli_session: str = ""
    tier: int = 1
    model: str = ""
    trigger: str = ""
    command: str = ""
    is_error: bool = False
    exit_code: int | None = None
    cost_usd: float | None = None
    turns: int | None = None
    status: str = ""
    log: str = ""
    parent: int = 0
    services: tuple[str, ...] = ()


class ObservationEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened.

    Events with one `batch` belong together, and are undone together. `other` is a second
    observation, `value` a confidence in hundredths. `target` is the event that is undone or
    retracted, or the conflict that is opened or resolved; `signals` say what that is about.
    `recorded` is when it was written, where that is not when it happened. Whoever asks for an
    observation twice under one `key` gets one. What was learned from a turn of a `user` or a
    `view` is theirs; without them it is shared by all of the agent's.
    """

    id: str
    ts: str
    kind: EventKind
    agent: str
    memory: int = 0
    actor: Actor = Actor.AGENT
    who: str = ""
    session: int = 0
    tier: int = 1
    reason: str = ""
    batch: str = ""
    said: ObservationContent | None = None
    evidence: Evidence | None = None
    value: int | None = None
    other: int = 0
    target: str = ""
    flags: tuple[str, ...] = ()
    valid_from: str = ""
    valid_to: str = ""
    expires: str = ""
    receipt: PromptReceipt | None = None
    facts: SessionFacts | None = None
    refused: RejectedContent | None = None
    signals: tuple[str, ...] = ()
    recorded: str = ""
    key: str = ""
    user: str = ""
    view: str = ""

    @property
    def scope(self) -> MemoryScope:
        """Whose it is."""
        return MemoryScope(self.agent, self.user, self.view)


def encode_event(event: ObservationEvent) -> bytes:
    """Write an event as a line."""
    return msgspec.json.encode(event)


def decode_event(line: bytes) -> ObservationEvent | None:
    """Read a line; None when it is no event that this version knows."""
    try:
        return msgspec.json.decode(line, type=ObservationEvent)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
