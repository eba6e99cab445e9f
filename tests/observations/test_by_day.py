"""Memories by state over the last days."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from memplane.observations.daily_counts import STATE_CHANGE_KINDS, StateChange, count_states_by_day
from memplane.observations.model import ObservationState

TODAY = date(2026, 3, 10)


def day(ago: int) -> str:
    return f"{(TODAY - timedelta(days=ago)).isoformat()}T10:00:00.000Z"


def counts(
    moved: list[StateChange], states: dict[int, ObservationState], state: str, days: int = 5
) -> list[int]:
    return [one.by_state[state] for one in count_states_by_day(moved, states, TODAY, days)]


def test_a_memory_counts_from_the_day_on_which_it_was_learned() -> None:
    moved: list[StateChange] = [(1, day(2), "asserted"), (2, day(30), "asserted")]
    states = {1: ObservationState.ACTIVE, 2: ObservationState.ACTIVE}
    assert counts(moved, states, "active") == [1, 1, 2, 2, 2]


def test_it_counts_elsewhere_from_the_day_on_which_it_moved() -> None:
    moved: list[StateChange] = [
        (1, day(4), "asserted"),
        (1, day(3), "quarantined"),
        (1, day(2), "approved"),
        (1, day(1), "decay_noted"),
        (1, day(0), "retired"),
    ]
    states = {1: ObservationState.RETIRED}
    assert counts(moved, states, "active") == [1, 0, 1, 0, 0]
    assert counts(moved, states, "quarantined") == [0, 1, 0, 0, 0]
    assert counts(moved, states, "inactive") == [0, 0, 0, 1, 0]
    assert counts(moved, states, "retired") == [0, 0, 0, 0, 1]


def test_support_wakes_what_had_faded_and_nothing_else() -> None:
    faded: list[StateChange] = [(1, day(4), "asserted"), (1, day(3), "decay_noted")]
    again: list[StateChange] = [*faded, (1, day(2), "reinforced"), (1, day(1), "reinforced")]
    assert counts(again, {1: ObservationState.ACTIVE}, "active") == [1, 0, 1, 1, 1]
    held: list[StateChange] = [(1, day(4), "asserted"), (1, day(4), "quarantined")]
    told: list[StateChange] = [*held, (1, day(2), "reinforced"), (1, day(0), "reinforced")]
    assert counts(told, {1: ObservationState.QUARANTINED}, "quarantined") == [1] * 5


def test_an_undo_leads_back_to_the_state_before() -> None:
    moved: list[StateChange] = [
        (1, day(4), "asserted"),
        (1, day(3), "retired"),
        (1, day(2), "undone"),
        (1, day(1), "retired"),
    ]
    assert counts(moved, {1: ObservationState.RETIRED}, "active") == [1, 0, 1, 0, 0]


def test_since_its_last_event_a_memory_is_in_the_state_that_is_known() -> None:
    moved: list[StateChange] = [(1, day(3), "asserted")]
    assert counts(moved, {1: ObservationState.INACTIVE}, "inactive") == [0, 1, 1, 1, 1]


def test_what_was_purged_or_stands_on_nothing_is_not_counted() -> None:
    moved: list[StateChange] = [
        (1, day(3), "asserted"),
        (1, day(1), "purged"),
        (2, day(3), "asserted"),
    ]
    found = count_states_by_day(moved, {1: ObservationState.PURGED}, TODAY, 3)
    assert [sum(one.by_state.values()) for one in found] == [1, 0, 0]


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 40), st.sampled_from(STATE_CHANGE_KINDS)),
        max_size=40,
    ),
    st.dictionaries(st.integers(1, 5), st.sampled_from(ObservationState)),
    st.integers(1, 30),
)
def test_whatever_happened_today_is_as_it_is_known(
    events: list[tuple[int, int, str]], states: dict[int, ObservationState], days: int
) -> None:
    ordered = sorted(events, key=lambda one: (one[0], -one[1]))
    moved: list[StateChange] = [(memory, day(ago), kind) for memory, ago, kind in ordered]
    found = count_states_by_day(moved, states, TODAY, days)
    there = {memory for memory, _, _ in moved} & states.keys()
    for state in ObservationState:
        known = sum(states[one] is state for one in there)
        assert found[-1].by_state.get(state.value, 0) == (
            0 if state is ObservationState.PURGED else known
        )
    assert all(count >= 0 for one in found for count in one.by_state.values())
    assert [one.day for one in found] == sorted(one.day for one in found)
