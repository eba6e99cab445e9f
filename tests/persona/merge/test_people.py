from __future__ import annotations

import pytest

from memplane.persona.kinds import Family
from tests.persona.merge.meeting import meet

HEAD = "---\nname: Ada\ndescription: a colleague\ntype: relationship\nrole: {}\n{}---\n\n"


def _past(*lines: str) -> str:
    return "## Past interactions\n\n" + "".join(f"- {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("base", "newer", "older", "merged"),
    [
        ("01 04", "01 04 09", "01 04 07", "01 04 07 09"),
        ("04 01", "09 04 01", "07 04 01", "09 07 04 01"),
        ("01", "01 09", "01 07", "01 07 09"),
        ("", "09", "07", "09 07"),
        ("01 04", "04 09", "01 04 07", "04 07 09"),
        ("04 01 09", "04 01 09 08", "04 01 09 02", "04 01 09 08 02"),
    ],
)
def test_dated_lines_are_a_set_in_the_order_of_their_days(
    base: str, newer: str, older: str, merged: str
) -> None:
    base, newer, older, merged = (
        _past(*(f"2026-07-{day}: day {day}" for day in days.split()))
        for days in (base, newer, older, merged)
    )

    met = meet(Family.PEOPLE, base=base, newer=newer, older=older)

    assert met.text == merged


def test_the_same_day_may_have_several_lines() -> None:
    met = meet(
        Family.PEOPLE,
        base=None,
        newer=_past("2026-07-01: met", "2026-07-01: argued"),
        older=_past("2026-07-01: met", "2026-07-01: had tea"),
    )

    assert met.text == _past("2026-07-01: met", "2026-07-01: argued", "2026-07-01: had tea")


def test_of_single_values_the_newer_stays_and_lists_are_united() -> None:
    met = meet(
        Family.PEOPLE,
        base=HEAD.format("engineer", "chats: [one, two]\n") + _past("x"),
        newer=HEAD.format("lead", "chats: [two, three]\n") + _past("x"),
        older=HEAD.format("manager", "chats: [one, two, 19:four@thread.v2]\n") + _past("x", "y"),
    )

    assert met.text == (
        HEAD.format("lead", 'chats: [two, three, "19:four@thread.v2"]\n') + _past("x", "y")
    )
    assert met.kept == "older"


def test_a_list_keeps_the_way_it_is_written() -> None:
    met = meet(
        Family.PEOPLE,
        base=HEAD.format("lead", "chats:\n    - 'one'\n"),
        newer=HEAD.format("lead", "chats:\n    - 'one'\n    - \"two\"\n"),
        older=HEAD.format("lead", "chats:\n- 'one'\n- 19:three@thread.v2\n"),
    )

    assert met.text == HEAD.format(
        "lead", "chats:\n    - 'one'\n    - \"two\"\n    - 19:three@thread.v2\n"
    )
    assert met.kept is None
