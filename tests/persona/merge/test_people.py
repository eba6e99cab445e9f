from __future__ import annotations

import pytest

from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge import MergeSide
from memplane.persona.merge.relationships import read_section_label
from tests.persona.merge.laws import check_algebra, merge_of
from tests.persona.merge.meeting import EARLIER, LATER, meet

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

    met = meet(MergeFamily.PEOPLE, base=base, newer=newer, older=older)

    assert met.text == merged


def test_the_same_day_may_have_several_lines() -> None:
    met = meet(
        MergeFamily.PEOPLE,
        base=None,
        newer=_past("2026-07-01: met", "2026-07-01: argued"),
        older=_past("2026-07-01: met", "2026-07-01: had tea"),
    )

    assert met.text == _past("2026-07-01: met", "2026-07-01: argued", "2026-07-01: had tea")


def test_of_single_values_the_newer_stays_and_lists_are_united() -> None:
    met = meet(
        MergeFamily.PEOPLE,
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
        MergeFamily.PEOPLE,
        base=HEAD.format("lead", "chats:\n    - 'one'\n"),
        newer=HEAD.format("lead", "chats:\n    - 'one'\n    - \"two\"\n"),
        older=HEAD.format("lead", "chats:\n- 'one'\n- 19:three@thread.v2\n"),
    )

    assert met.text == HEAD.format(
        "lead", "chats:\n    - 'one'\n    - \"two\"\n    - 19:three@thread.v2\n"
    )
    assert met.kept is None


# Inline labels.

INLINE = """
Known-for: {known}
Communication register: dry, no emoji
Past interactions:
{past}
Patterns to keep:
- Ask before calling.
"""
HEADED = """
## Known-for

{known}

## Communication register

dry, no emoji

## Past interactions

{past}

## Patterns to keep

- Ask before calling.
"""


def _person(form: str, *days: str, known: str = "the billing service") -> str:
    past = "\n".join(f"- 2026-04-{day}: call {day}" for day in days)
    return form.format(known=known, past=past)


MERGED_INLINE = """
Known-for: the billing service

Communication register: dry, no emoji

Past interactions:
- 2026-04-17: call 17
- 2026-04-19: call 19
- 2026-04-21: call 21

Patterns to keep:
- Ask before calling.
"""


@pytest.mark.parametrize("base", [INLINE, HEADED, None])
def test_inline_labels_merge_and_stay_where_both_have_them(base: str | None) -> None:
    met = meet(
        MergeFamily.PEOPLE,
        base=base and _person(base, "17"),
        newer=_person(INLINE, "17", "21"),
        older=_person(INLINE, "17", "19"),
    )

    assert (met.text, met.kept) == (MERGED_INLINE, None)


@pytest.mark.parametrize("newer", [INLINE, HEADED])
@pytest.mark.parametrize("base", [INLINE, HEADED, None])
def test_labels_and_headings_are_the_same_sections(base: str | None, newer: str) -> None:
    older = HEADED if newer == INLINE else INLINE
    met = meet(
        MergeFamily.PEOPLE,
        base=base and _person(base, "17"),
        newer=_person(newer, "17", "21"),
        older=_person(older, "17", "19"),
    )

    assert (met.text, met.kept) == (_person(HEADED, "17", "19", "21"), None)


def test_of_two_values_of_a_label_none_is_lost() -> None:
    met = meet(
        MergeFamily.PEOPLE,
        base=_person(INLINE, "17"),
        newer=_person(INLINE, "17", known="the billing service and chess"),
        older=_person(INLINE, "17", "19", known="invoices"),
    )

    assert met.text.startswith("\nKnown-for: the billing service and chess\n")
    assert "\ninvoices\n" in met.text
    assert met.text.count("Known-for") == 1


@pytest.mark.parametrize("form", [INLINE, HEADED])
def test_a_line_of_a_label_that_one_side_removed_stays_away(form: str) -> None:
    met = meet(
        MergeFamily.PEOPLE,
        base=_person(INLINE, "17", "18"),
        newer=_person(form, "17"),
        older=_person(INLINE, "17", "18", "19"),
    )

    assert "call 18" not in met.text
    assert "call 19" in met.text


@pytest.mark.parametrize(
    "line",
    ["Known-for: chess", "**Known-for:** chess", "**Known-for**: chess", "known-for: chess"],
)
def test_a_label_may_be_bold_or_small(line: str) -> None:
    assert read_section_label(line) == ("Known-for", "chess")


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("- Known-for: chess", ""),
        ("  Known-for: chess", ""),
        ("Well Known-for: chess", ""),
        ("Known-forever: chess", ""),
        ("Known-for:chess", ""),
        ("Known-for: chess", "## Notes"),
        ("Known-for: chess", "### Known-for"),
    ],
)
def test_what_only_looks_like_a_label_is_text(line: str, heading: str) -> None:
    assert read_section_label(line, heading) is None


def test_a_label_in_code_is_text() -> None:
    code = "```\nPast interactions:\n- 2026-04-17: x\n```\n"
    met = meet(MergeFamily.PEOPLE, base=code, newer=f"{code}\na\n", older=f"{code}\nb\n")

    assert code in met.text


@pytest.mark.parametrize("base", [None, INLINE, HEADED])
@pytest.mark.parametrize(("one", "other"), [(INLINE, INLINE), (INLINE, HEADED), (HEADED, HEADED)])
def test_the_laws_hold_for_labels(base: str | None, one: str, other: str) -> None:
    known = None if base is None else _person(base, "17", "18").encode()
    sides = (
        MergeSide(_person(one, "17", "21").encode(), EARLIER),
        MergeSide(_person(other, "17", "18", "19", known="invoices").encode(), LATER),
    )
    check_algebra(merge_of(MergeFamily.PEOPLE), known, *sides)
