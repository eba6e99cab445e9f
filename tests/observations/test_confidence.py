"""Confidence is a function of evidence and the clock, in whole hundredths."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import SettingsError
from memplane.observations import confidence
from memplane.observations.confidence import (
    ConfidenceState,
    Profile,
    add_contradiction,
    add_support,
    charge_decay,
    create_state,
    is_active,
    pin_state,
    predict_inactive_at,
    renew_grace,
    set_value,
    unpin_state,
    value_at,
)

START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def standing(value: int) -> ConfidenceState:
    return ConfidenceState(value=value, last_supported=START)


@pytest.mark.parametrize(
    ("days", "left"),
    [
        *((0, 70), (15, 70), (29, 70), (30, 70), (36, 70)),
        *((37, 60), (43, 60), (44, 50), (50, 50), (51, 40), (58, 30), (65, 20), (79, 0), (999, 0)),
    ],
)
def test_a_new_observation_loses_ten_for_each_complete_week_after_the_grace(
    days: int, left: int
) -> None:
    assert value_at(create_state(START), day(days)) == left


@pytest.mark.parametrize("days", [37, 44, 51])
def test_a_week_counts_when_it_is_complete_to_the_microsecond(days: int) -> None:
    one = create_state(START)

    assert value_at(one, day(days) - TICK) == value_at(one, day(days)) + 10


def test_a_leap_day_is_a_day() -> None:
    one = create_state(datetime(2028, 2, 10, tzinfo=UTC))

    assert value_at(one, datetime(2028, 3, 17, tzinfo=UTC)) == 70
    assert value_at(one, datetime(2028, 3, 18, tzinfo=UTC)) == 60
    assert (
        value_at(
            create_state(datetime(2027, 2, 10, tzinfo=UTC)), datetime(2027, 3, 19, tzinfo=UTC)
        )
        == 60
    )


def test_an_hour_that_summer_time_takes_is_not_taken_from_the_grace() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    one = create_state(datetime(2026, 3, 1, 12, tzinfo=berlin))

    assert value_at(one, datetime(2026, 4, 7, 12, tzinfo=berlin)) == 70
    assert value_at(one, datetime(2026, 4, 7, 13, tzinfo=berlin)) == 60


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        create_state(datetime(2026, 3, 1))  # noqa: DTZ001 - that is what is refused


def test_support_adds_ten_up_to_a_hundred() -> None:
    one = create_state(START)
    values = []
    for session in range(1, 5):
        one = add_support(one, day(session))
        values.append(one.value)

    assert values == [80, 90, 100, 100]


def test_contradictions_take_twenty_down_to_nothing() -> None:
    one = standing(50)
    values = []
    for _ in range(4):
        one = add_contradiction(one, START)
        values.append(one.value)

    assert values == [30, 10, 0, 0]


def test_support_at_44_days_settles_first_and_starts_the_grace_anew() -> None:
    one = add_support(create_state(START), day(44))

    assert one == ConfidenceState(value=60, last_supported=day(44))
    assert value_at(one, day(44 + 36)) == 60
    assert value_at(one, day(44 + 37)) == 50


def test_a_contradiction_at_day_29_does_not_delay_decay() -> None:
    one = add_contradiction(create_state(START), day(29))

    assert one == ConfidenceState(value=50, last_supported=START)
    assert value_at(one, day(36)) == 50
    assert value_at(one, day(37)) == 40


def test_a_contradiction_pays_the_weeks_once() -> None:
    one = add_contradiction(create_state(START), day(44))

    assert (one.value, one.weeks_charged) == (30, 2)
    assert [value_at(one, day(when)) for when in (44, 50, 51)] == [30, 30, 20]


@pytest.mark.parametrize(("value", "active"), [(31, True), (30, True), (29, False), (0, False)])
def test_exactly_thirty_stays_and_twenty_nine_is_off(*, value: int, active: bool) -> None:
    assert is_active(standing(value), START) is active


def test_seventy_less_four_weeks_is_thirty_and_on() -> None:
    one = create_state(START)

    assert (value_at(one, day(58)), is_active(one, day(58))) == (30, True)
    assert (value_at(one, day(65)), is_active(one, day(65))) == (20, False)


def test_forty_at_44_days_is_inactive_at_the_first_look_and_the_second() -> None:
    for _ in range(2):
        assert (value_at(standing(40), day(44)), is_active(standing(40), day(44))) == (20, False)


def test_a_contradiction_of_forty_makes_it_inactive() -> None:
    one = add_contradiction(standing(40), START)

    assert (one.value, is_active(one, START)) == (20, False)


def test_support_revives_what_is_inactive_by_its_value_only() -> None:
    assert is_active(add_support(standing(20), START), START)
    assert not is_active(add_support(standing(10), START), START)


@pytest.mark.parametrize(("given_value", "kept"), [(150, 100), (-100, 0), (95, 95), (0, 0)])
def test_an_operators_value_is_clamped_and_starts_the_grace(given_value: int, kept: int) -> None:
    one = set_value(create_state(START), given_value, day(44))

    assert one == ConfidenceState(value=kept, last_supported=day(44))


def test_an_operators_edit_keeps_the_value_of_now_and_starts_the_grace() -> None:
    assert renew_grace(create_state(START), day(44)) == ConfidenceState(
        value=50, last_supported=day(44)
    )


def test_a_pin_keeps_what_is_left_and_stops_decay() -> None:
    one = pin_state(create_state(START), day(44))

    assert (one.value, value_at(one, day(4000)), predict_inactive_at(one)) == (50, 50, None)


def test_a_pin_does_not_stop_evidence() -> None:
    one = pin_state(create_state(START), START)

    assert add_contradiction(one, day(400)).value == 50
    assert add_support(one, day(400)).value == 80


def test_what_is_unpinned_decays_as_if_it_had_been_supported_then() -> None:
    one = unpin_state(pin_state(create_state(START), day(10)), day(400))

    assert one == ConfidenceState(value=70, last_supported=day(400))
    assert [value_at(one, day(400 + when)) for when in (0, 36, 37)] == [70, 70, 60]


def test_unpinning_what_is_not_pinned_changes_nothing() -> None:
    assert unpin_state(create_state(START), day(44)) == create_state(START)


def test_a_clock_moved_back_changes_nothing_that_is_stored() -> None:
    one = charge_decay(create_state(START), day(44))

    assert one == ConfidenceState(value=50, last_supported=START, weeks_charged=2)
    for when in (43, 30, 0, -400):
        assert charge_decay(one, day(when)) == one
        assert value_at(one, day(when)) == 50
    assert value_at(one, day(51)) == 40


def test_support_under_a_clock_moved_back_is_not_paid_for_twice() -> None:
    one = add_support(charge_decay(create_state(START), day(44)), day(-1))

    assert one == ConfidenceState(value=60, last_supported=START, weeks_charged=2)
    assert value_at(one, day(44)) == 60


@pytest.mark.parametrize(("value", "days"), [(70, 65), (100, 86), (39, 37), (40, 44), (30, 37)])
def test_the_forecast_is_the_first_moment_below_the_threshold(value: int, days: int) -> None:
    one = standing(value)
    when = predict_inactive_at(one)

    assert when == day(days)
    assert is_active(one, when - TICK)
    assert not is_active(one, when)


def test_there_is_no_forecast_for_what_does_not_fall() -> None:
    assert predict_inactive_at(standing(29)) is None
    assert predict_inactive_at(standing(70), Profile(decay=0)) is None
    assert predict_inactive_at(standing(70), Profile(threshold=0)) is None


def test_a_profile_can_be_another() -> None:
    quick = Profile(
        initial=50,
        reinforce=25,
        contradict=5,
        grace=timedelta(days=1),
        decay=7,
        period=timedelta(days=2),
        threshold=44,
    )
    one = create_state(START, quick)

    assert [value_at(one, day(when), quick) for when in (0, 1, 2, 3, 5)] == [50, 50, 50, 43, 36]
    assert predict_inactive_at(one, quick) == day(3)
    assert add_support(one, day(3), quick).value == 68
    assert add_contradiction(one, day(3), quick).value == 38


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial": 101},
        {"decay": -1},
        {"threshold": 1000},
        {"grace": timedelta(days=-1)},
        {"period": timedelta()},
        {"period": timedelta(days=4000)},
    ],
)
def test_a_profile_that_cannot_be_used_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        Profile(**wrong)  # type: ignore[arg-type]


def test_there_is_no_fraction_in_the_module() -> None:
    tree = ast.parse(inspect.getsource(confidence))
    divisions = [node for node in ast.walk(tree) if isinstance(node, ast.Div)]
    fractions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, float)
    ]

    assert not divisions
    assert not fractions


# An oracle that knows no formula: it lives through every day.

Event = tuple[str, int]

events = st.lists(
    st.tuples(
        st.sampled_from(["support", "contradict", "set", "edit", "pin", "unpin", "look"]),
        st.integers(0, 90),
    ),
    max_size=12,
)


def lived_through(happened: Sequence[Event], last_day: int) -> int:
    by_day: dict[int, list[str]] = {}
    today = 0
    for kind, later in happened:
        today += later
        by_day.setdefault(today, []).append(kind)
    value, quiet, is_pinned = 70, 0, False
    for number in range(max(today, last_day) + 1):
        quiet += number > 0
        if number and not is_pinned and quiet > 30 and (quiet - 30) % 7 == 0:
            value = max(0, value - 10)
        for kind in by_day.get(number, ()):
            value = {
                "support": min(100, value + 10),
                "contradict": max(0, value - 20),
                "set": 95,
            }.get(kind, value)
            if kind in {"support", "set", "edit"} or (kind == "unpin" and is_pinned):
                quiet = 0
            is_pinned = kind == "pin" or (is_pinned and kind != "unpin")
    return value


def stepped(one: ConfidenceState, kind: str, when: datetime) -> ConfidenceState:
    match kind:
        case "support":
            return add_support(one, when)
        case "contradict":
            return add_contradiction(one, when)
        case "set":
            return set_value(one, 95, when)
        case "edit":
            return renew_grace(one, when)
        case "pin":
            return pin_state(one, when)
        case "unpin":
            return unpin_state(one, when)
        case _:
            return charge_decay(one, when)


def folded(happened: Sequence[Event]) -> tuple[ConfidenceState, int]:
    one, today = create_state(START), 0
    for kind, later in happened:
        today += later
        one = stepped(one, kind, day(today))
    return one, today


@given(events, st.integers(0, 400))
def test_the_fold_equals_living_through_every_day(happened: list[Event], later: int) -> None:
    one, today = folded(happened)

    assert value_at(one, day(today + later)) == lived_through(happened, today + later)


@given(events, st.lists(st.integers(-400, 400)), st.integers(0, 400))
def test_asking_and_sweeping_never_change_a_later_answer(
    happened: list[Event], looks: list[int], later: int
) -> None:
    one, today = folded(happened)
    expected = value_at(one, day(today + later))
    swept = one
    for look in looks:
        value_at(swept, day(today + look))
        swept = charge_decay(swept, day(today + min(look, later)))

    assert value_at(one, day(today + later)) == expected
    assert value_at(swept, day(today + later)) == expected


@given(events, st.lists(st.integers(0, 900), min_size=2))
def test_without_support_confidence_never_rises(happened: list[Event], looks: list[int]) -> None:
    one, today = folded(happened)
    seen = [value_at(one, day(today + look)) for look in sorted(looks)]

    assert seen == sorted(seen, reverse=True)


@given(
    events,
    st.integers(-500, 500),
    st.builds(
        Profile,
        initial=st.integers(0, 100),
        reinforce=st.integers(0, 100),
        contradict=st.integers(0, 100),
        decay=st.integers(0, 100),
        grace=st.timedeltas(timedelta(), timedelta(days=60)),
        period=st.timedeltas(timedelta(hours=1), timedelta(days=60)),
        threshold=st.integers(0, 100),
    ),
)
def test_the_value_stays_between_nothing_and_a_hundred(
    happened: list[Event], moment: int, profile: Profile
) -> None:
    one, when = create_state(START, profile), START
    for kind, later in happened:
        when += timedelta(days=later)
        step = add_support if kind == "support" else add_contradiction
        one = step(one, when, profile)
        value = value_at(one, when + timedelta(days=moment), profile)

        assert isinstance(value, int)
        assert 0 <= value <= 100
        assert value <= one.value


@given(events)
def test_the_forecast_agrees_with_the_days(happened: list[Event]) -> None:
    one, _ = folded(happened)
    when = predict_inactive_at(one)
    if when is None:
        assert one.pinned or one.value < 30
    else:
        assert is_active(one, when - TICK)
        assert not is_active(one, when)
