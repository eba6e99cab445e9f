"""Observations out of their events: what counts, what does not, and what is undone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.observations.confidence import DEFAULT_PROFILE, value_at
from memplane.observations.events import (
    Actor,
    EventKind,
    Evidence,
    ObservationContent,
    ObservationEvent,
    decode_event,
    encode_event,
)
from memplane.observations.model import Category, ObservationState, SourceClass
from memplane.observations.projection import PURGED_TEXT, Observation, fold_observation

START = datetime(2026, 3, 1, tzinfo=UTC)
_numbers = count(1)


def event(kind: EventKind, days: float = 0, **more: Any) -> ObservationEvent:
    ts = (START + timedelta(days=days)).isoformat()
    given_ = {"id": f"e{next(_numbers)}", "agent": "ops", "memory": 7, **more}
    return ObservationEvent(ts=ts, kind=kind, **given_)


def asserted(days: float = 0, **more: Any) -> ObservationEvent:
    said = ObservationContent(
        text="Takes 60s to start", category=Category.TIMING, service="jellyfin"
    )
    return event(EventKind.ASSERTED, days, said=said, session=42, tier=1, **more)


def folded(*events: ObservationEvent, **more: Any) -> Observation:
    found = fold_observation(events, DEFAULT_PROFILE, **more)
    assert found is not None
    return found


def test_an_assertion_is_an_observation() -> None:
    found = folded(asserted())
    assert (found.id, found.agent, found.service) == (7, "ops", "jellyfin")
    assert (found.category, found.text) == (Category.TIMING, "Takes 60s to start")
    assert (found.standing.value, found.state, found.version) == (70, ObservationState.ACTIVE, 1)
    assert (found.session, found.tier, found.created) == (42, 1, START)
    assert fold_observation([event(EventKind.ECHOED)], DEFAULT_PROFILE) is None


def test_support_and_contradiction_move_its_confidence() -> None:
    events = [asserted(), event(EventKind.REINFORCED, 1), event(EventKind.REINFORCED, 2)]
    assert folded(*events).standing.value == 90
    low = folded(asserted(), *(event(EventKind.CONTRADICTED, day) for day in (1, 2, 3)))
    assert (low.standing.value, low.state) == (10, ObservationState.INACTIVE)
    again = folded(
        asserted(), event(EventKind.CONFIDENCE_SET, 1, value=20), event(EventKind.REINFORCED, 2)
    )
    assert (again.standing.value, again.state) == (30, ObservationState.ACTIVE)


@pytest.mark.parametrize("kind", [EventKind.ECHOED, EventKind.CONTESTED, EventKind.RESOLVED])
def test_what_is_only_noted_changes_nothing_but_its_version(kind: EventKind) -> None:
    plain, noted = folded(asserted()), folded(asserted(), event(kind, 40, target="1"))
    assert noted.standing == plain.standing
    assert noted.updated == plain.updated
    assert noted.version == 2
    assert noted.contested is (kind is EventKind.CONTESTED)


def test_an_edit_leaves_the_confidence_that_it_is_worth_then() -> None:
    edit = event(
        EventKind.EDITED,
        44,
        said=ObservationContent(text="Takes 90s to start"),
        actor=Actor.OPERATOR,
    )
    found = folded(asserted(), edit)
    assert (found.text, found.service, found.standing.value) == (
        "Takes 90s to start",
        "jellyfin",
        50,
    )
    assert found.standing.last_supported == START + timedelta(days=44)
    general = folded(asserted(), event(EventKind.EDITED, 1, said=ObservationContent(service="")))
    assert general.service is None


def test_what_is_retired_stays_so_until_it_is_restored() -> None:
    retired = event(EventKind.RETIRED, 1, reason="wrong")
    found = folded(asserted(), retired, event(EventKind.REINFORCED, 2))
    assert (found.state, found.reason) == (ObservationState.RETIRED, "wrong")
    back = folded(asserted(), retired, event(EventKind.RESTORED, 3))
    assert (back.state, back.retired, back.standing.value) == (ObservationState.ACTIVE, None, 70)


def test_what_is_in_quarantine_waits_for_an_operator() -> None:
    held = event(EventKind.QUARANTINED, reason="imperative")
    assert (
        folded(asserted(), held, event(EventKind.REINFORCED, 1)).state
        is ObservationState.QUARANTINED
    )
    approved = event(EventKind.APPROVED, 1, actor=Actor.OPERATOR)
    assert folded(asserted(), held, approved).state is ObservationState.ACTIVE


def test_a_late_statement_is_closed_from_the_beginning() -> None:
    past = (START - timedelta(days=9)).isoformat()
    found = folded(asserted(valid_from=past, valid_to=START.isoformat(), other=3))
    assert (found.state, found.superseded_by, found.valid_to) == (
        ObservationState.SUPERSEDED,
        3,
        START,
    )


def test_an_undo_takes_an_event_out_and_can_be_undone() -> None:
    first, retired = asserted(), event(EventKind.RETIRED, 1)
    undo = event(EventKind.UNDONE, 2, target=retired.id)
    redo = event(EventKind.UNDONE, 3, target=undo.id)
    assert folded(first, retired, undo).state is ObservationState.ACTIVE
    assert folded(first, retired, undo, redo).state is ObservationState.RETIRED
    once_more = event(EventKind.UNDONE, 4, target=redo.id)
    assert folded(first, retired, undo, redo, once_more).state is ObservationState.ACTIVE


def test_a_retracted_message_has_not_voted() -> None:
    vote = event(EventKind.REINFORCED, 1)
    assert (
        folded(asserted(), vote, event(EventKind.RETRACTED, 2, target=vote.id)).standing.value
        == 70
    )
    said = asserted()
    assert (
        fold_observation([said, event(EventKind.RETRACTED, 1, target=said.id)], DEFAULT_PROFILE)
        is None
    )


def test_what_only_forgotten_turns_say_is_unsupported() -> None:
    heard = Evidence(quote="60s", source=SourceClass.AGENT, entry="hist1_a")
    other = Evidence(quote="a minute", source=SourceClass.AGENT, entry="hist1_b")
    events = [asserted(evidence=heard), event(EventKind.REINFORCED, 1, evidence=other)]
    assert not folded(*events, forgotten={"hist1_a"}).unsupported
    assert folded(*events, forgotten={"hist1_a", "hist1_b"}).unsupported
    vouched = event(EventKind.REINFORCED, 2, actor=Actor.OPERATOR)
    assert not folded(*events, vouched, forgotten={"hist1_a", "hist1_b"}).unsupported


def test_purging_leaves_no_words() -> None:
    said = ObservationContent(category=Category.TIMING, service="jellyfin", text=PURGED_TEXT)
    purged = event(EventKind.PURGED, 1, said=said, actor=Actor.OPERATOR)
    assert folded(asserted(), purged).text == PURGED_TEXT
    # What the ledger still has afterwards says the same.
    assert folded(purged) == folded(asserted(), purged)
    assert folded(purged).state is ObservationState.PURGED


def test_what_others_agreed_to_stays_when_its_first_session_takes_it_back() -> None:
    first, second = asserted(), event(EventKind.REINFORCED, 3, session=43)
    taken_back = event(EventKind.RETRACTED, 4, target=first.id)
    assert fold_observation([first, taken_back], DEFAULT_PROFILE) is None
    found = folded(first, second, taken_back)
    assert (found.text, found.session, found.standing.value) == ("Takes 60s to start", 43, 70)


def test_an_undone_conflict_is_open_again() -> None:
    opened = event(EventKind.CONTESTED, 1, target="7-8")
    resolved = event(EventKind.RESOLVED, 2, target="7-8")
    undone = event(EventKind.UNDONE, 3, target=resolved.id)
    assert not folded(asserted(), opened, resolved).contested
    assert folded(asserted(), opened, resolved, undone).contested


KINDS = [
    one
    for one in EventKind
    if not one.value.startswith(("session", "reject", "injected")) and one is not EventKind.PURGED
]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 200)), max_size=12))
def test_asking_changes_nothing_and_every_fold_is_sound(
    steps: list[tuple[EventKind, int]],
) -> None:
    events = [
        asserted(),
        *(event(kind, days) for kind, days in steps if kind != EventKind.ASSERTED),
    ]
    once, twice = folded(*events), folded(*events)
    assert once == twice
    assert 0 <= once.standing.value <= 100
    assert once.version == len(events)
    moment = START + timedelta(days=300)
    assert value_at(once.standing, moment, DEFAULT_PROFILE) == value_at(
        twice.standing, moment, DEFAULT_PROFILE
    )
    if once.state is ObservationState.ACTIVE:
        assert once.standing.value >= DEFAULT_PROFILE.threshold


@given(st.sampled_from(list(EventKind)), st.text(max_size=20), st.integers(0, 100))
def test_an_event_is_read_as_it_was_written(kind: EventKind, reason: str, value: int) -> None:
    written = event(kind, reason=reason.encode("utf-8", "replace").decode(), value=value)
    assert decode_event(encode_event(written)) == written
    assert decode_event(b"{}") is None
