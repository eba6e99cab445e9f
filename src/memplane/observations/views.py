"""Observations and events as doors show them (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, cast

import msgspec

from memplane.episodes.provenance import Origin, Trust
from memplane.kit.clock import format_milli_timestamp
from memplane.observations import confidence, prompt_block
from memplane.observations.api_types import (
    ConflictKind,
    ConflictView,
    DroppedView,
    EventView,
    EvidenceView,
    MemoryView,
    PromptView,
    RejectView,
)
from memplane.observations.confidence import Profile
from memplane.observations.conflicts import Conflict
from memplane.observations.events import EventKind, ObservationEvent
from memplane.observations.model import ObservationState, SourceClass
from memplane.observations.projection import Observation, filter_effective_events, fold_steps
from memplane.observations.reject_reasons import ReviewFlag

_HUNDRED: Final = 100


def memory_view(found: Observation, now: datetime, profile: Profile) -> MemoryView:
    """Show an observation as it is at a moment."""
    standing = found.standing
    fades = confidence.predict_inactive_at(standing, profile) if found.is_active else None
    return MemoryView(
        id=found.id,
        agent=found.agent,
        user=found.user,
        view=found.view,
        service=found.service,
        category=found.category,
        observation=found.text,
        confidence=standing.value / _HUNDRED,
        effective_confidence=confidence.value_at(standing, now, profile) / _HUNDRED,
        active=found.is_active,
        state=found.state,
        created_at=format_milli_timestamp(found.created),
        updated_at=format_milli_timestamp(found.updated),
        last_supported_at=format_milli_timestamp(standing.last_supported),
        session_id=found.session or None,
        tier=found.tier,
        origin=found.origin,
        pinned=standing.pinned,
        contested=found.contested,
        unsupported=found.unsupported,
        version=found.version,
        valid_from=format_milli_timestamp(found.valid_from),
        valid_to=_stamped(found.valid_to),
        recorded_at=format_milli_timestamp(found.recorded),
        retired_at=_stamped(found.retired),
        superseded_by=found.superseded_by or None,
        expires_at=_stamped(found.expires),
        goes_inactive_at=_stamped(fades),
        reason=found.reason,
        flags=found.flags,
    )


def event_views(
    events: Sequence[ObservationEvent],
    profile: Profile,
    together: Mapping[str, tuple[int, ...]],
    forgotten: frozenset[str] = frozenset(),
) -> list[EventView]:
    """Show all that happened to an observation, each with what it did to its confidence.

    Memories that something was done to `together` with it are given by batch.

    What was undone is shown as what it was: it moved the confidence until it was undone. What
    the `forgotten` entries of a ledger said is shown without its words.
    """
    standing_ids = {one.id for one in filter_effective_events(events)}
    shown: list[EventView] = []
    before: int | None = None
    for event, found in zip(events, fold_steps(events, profile), strict=True):
        after = found.standing.value if found is not None else None
        view = event_view(event, before, after, undone=event.id not in standing_ids)
        if event.evidence is not None and event.evidence.entry in forgotten:
            view = msgspec.structs.replace(view, observation=None, service=None, forgotten=True)
        shown.append(view)
        before = after
    return [msgspec.structs.replace(one, together=together.get(one.batch, ())) for one in shown]


def event_view(
    event: ObservationEvent,
    before: int | None = None,
    after: int | None = None,
    *,
    undone: bool = False,
) -> EventView:
    """Show an event, with the confidence in hundredths before and after it where that is known."""
    moved = None if before is None or after is None else (after - before) / _HUNDRED
    said = event.said
    return EventView(
        id=event.id,
        memory_id=event.memory or None,
        at=event.ts,
        kind=event.kind.value,
        actor_kind=event.actor.value,
        actor=event.who,
        session_id=event.session or None,
        tier=event.tier,
        reason=event.reason,
        batch=event.batch,
        before=None if before is None else before / _HUNDRED,
        after=None if after is None else after / _HUNDRED,
        delta=moved,
        observation=said.text if said else None,
        category=said.category.value if said and said.category else None,
        service=said.service if said else None,
        other=event.other or None,
        undone=undone,
    )


def evidence_views(
    events: Iterable[ObservationEvent], forgotten: frozenset[str], others: Mapping[int, str]
) -> list[EvidenceView]:
    """Show what speaks for an observation and against it, out of the events that count.

    `others` are the words of the observations that contradict it, by number.
    """
    return [
        EvidenceView(
            id=event.id,
            memory_id=event.memory,
            session_id=event.session or None,
            tier=event.tier,
            polarity="supports" if found.supports else "contradicts",
            source_class=found.source,
            # What was forgotten is not told here either.
            quote="" if found.entry in forgotten and found.entry else found.quote,
            at=event.ts,
            message_uuid=found.message,
            raw_line=found.line or None,
            raw_offset=found.offset if found.line else None,
            raw_sha256=found.digest,
            ledger_entry_id=found.entry,
            void=bool(found.entry) and found.entry in forgotten,
            other=None if found.supports else event.other or None,
            other_says="" if found.supports else others.get(event.other, ""),
        )
        for event in events
        if (found := event.evidence) is not None and event.kind in EVIDENCE_KINDS
    ]


def list_remaining_sources(
    evidence: Iterable[EvidenceView],
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the turns of a ledger and the sessions with a log in which an observation was said.

    They are kept for themselves: a purge of the observation leaves them as they are.
    """
    said = [one for one in evidence if one.polarity == "supports" and not one.void]
    turns = dict.fromkeys(one.ledger_entry_id for one in said if one.ledger_entry_id)
    sessions = dict.fromkeys(one.session_id for one in said if one.session_id and one.raw_line)
    return tuple(turns), tuple(one for one in sessions if one)


EVIDENCE_KINDS: Final = frozenset(
    {EventKind.ASSERTED, EventKind.REINFORCED, EventKind.CONTRADICTED}
)
"""The kinds of events whose evidence speaks for or against an observation."""


def reject_view(event: ObservationEvent) -> RejectView:
    """Show what was said and is not remembered."""
    refused = event.refused
    assert refused is not None  # noqa: S101 - that is what makes it a reject
    return RejectView(
        id=event.id,
        agent=event.agent,
        user=event.user,
        view=event.view,
        at=event.ts,
        reason=event.reason,
        category=refused.category,
        service=refused.service,
        observation=refused.text,
        hint=refused.hint,
        corrected_category=refused.meant_category,
        corrected_service=refused.meant_service,
        session_id=event.session or None,
        tier=event.tier,
        source_class=event.evidence.source.value if event.evidence else "",
    )


def conflict_view(
    found: Conflict,
    sides: tuple[Observation, Observation | None],
    now: datetime,
    profile: Profile,
) -> ConflictView:
    """Show a conflict with both of its sides."""
    a, b = sides
    return ConflictView(
        id=found.key,
        agent=found.agent,
        user=found.user,
        view=found.view,
        kind=cast("ConflictKind", found.kind),
        a=memory_view(a, now, profile),
        b=memory_view(b, now, profile) if b is not None else None,
        signals=found.signals,
        opened_at=found.opened,
        sessions=found.sessions,
        status="open" if found.is_open else "resolved",
        resolution=found.resolution,
    )


def prompt_view(found: prompt_block.RenderedPrompt, budget: int, candidates: int) -> PromptView:
    """Show the block of a prompt, and what it was made of."""
    return PromptView(
        block=found.text,
        tokens=found.tokens,
        budget=budget,
        included=found.included,
        dropped=tuple(DroppedView(id=one.id, reason=one.reason.value) for one in found.dropped),
        candidates=candidates,
    )


def prompt_candidate(
    found: Observation, now: datetime, profile: Profile, rivals: Iterable[int]
) -> prompt_block.PromptCandidate | None:
    """Return an observation as a prompt may tell it; None when it may not."""
    value = confidence.value_at(found.standing, now, profile)
    is_over = found.expires is not None and found.expires <= now
    if found.state is not ObservationState.ACTIVE or found.unsupported or is_over:
        return None
    if value < profile.threshold:
        return None
    return prompt_block.PromptCandidate(
        id=found.id,
        service=found.service,
        category=found.category,
        text=found.text,
        confidence=value,
        last_supported=found.standing.last_supported,
        pinned=found.standing.pinned,
        contested=found.contested,
        rivals=tuple(rivals),
        origin=(origin := _origin_of(found)),
        trust=Trust.UNTRUSTED
        if origin is Origin.TOOL and not found.standing.pinned
        else Trust.TRUSTED,
    )


def _origin_of(found: Observation) -> Origin:
    """Return what kind of source an observation is of, by who said it and what was noticed."""
    if ReviewFlag.TOOL_DERIVED.value in found.flags or found.origin == SourceClass.TOOL:
        return Origin.TOOL
    if found.origin == SourceClass.IMPORT:
        return Origin.IMPORT
    return Origin.USER if found.origin == SourceClass.OPERATOR else Origin.AGENT


def _stamped(moment: datetime | None) -> str | None:
    return None if moment is None else format_milli_timestamp(moment)
