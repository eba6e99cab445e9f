from __future__ import annotations

import pytest

from memplane.persona.document_kinds import MergeFamily
from tests.persona.merge.meeting import meet

MORNING = "## 09:15 <!-- session: 7f3a -->\n\n### Arcs\n\n- the parser\n"
NOON = "## Session 81bc 12:00\n\n- lunch\n"
EVENING = "## Evening\n\n<!-- session: 9d00, start: 2026-07-30T18:30:00Z -->\n\n- the tests\n"


def test_two_sessions_of_one_day_have_a_block_each_ordered_by_start() -> None:
    met = meet(MergeFamily.SESSIONS, base=None, newer=f"{EVENING}\n{MORNING}", older=NOON)

    assert met.text == f"{MORNING}\n{NOON}\n{EVENING}"
    assert met.kept is None


def test_the_block_of_the_same_session_is_replaced() -> None:
    longer = MORNING + "- the lexer\n"
    met = meet(
        MergeFamily.SESSIONS,
        base=MORNING,
        newer=f"{MORNING}\n{NOON}",
        older=f"{longer}\n{EVENING}",
    )

    assert met.text == f"{longer}\n{NOON}\n{EVENING}"


def test_of_two_texts_about_one_session_the_newer_stays() -> None:
    met = meet(
        MergeFamily.SESSIONS,
        base=MORNING,
        newer=MORNING + "- newer\n",
        older=MORNING + "- older\n",
    )

    assert met.text == MORNING + "- newer\n"
    assert met.kept == "older"


def test_two_machines_that_end_a_day_make_no_conflict() -> None:
    head = "---\nname: d\ntype: session_digest\nduration_hours: {}\nsessions: [{}]\n---\n"
    met = meet(
        MergeFamily.SESSIONS,
        base=head.format("1", "7f3a") + MORNING,
        newer=head.format("2.5", "7f3a, 81bc") + f"{MORNING}\n{NOON}",
        older=head.format("3", "7f3a, 9d00") + f"{MORNING}\n{EVENING}",
    )

    assert met.text == head.format("2.5", "7f3a, 81bc, 9d00") + f"{MORNING}\n{NOON}\n{EVENING}"
    assert met.kept is None


def test_sections_that_name_no_session_are_merged_by_bullet() -> None:
    met = meet(
        MergeFamily.SESSIONS,
        base="## Arcs\n\n- a\n",
        newer="## Arcs\n\n- a\n- b\n",
        older="## Arcs\n\n- a\n- c\n\n## Relational notes\n\n- d\n",
    )

    assert met.text == "## Arcs\n\n- a\n- b\n- c\n\n## Relational notes\n\n- d\n"


@pytest.mark.parametrize(
    "heading",
    [
        "## Session 7f3a2b11",
        "## session: 7f3a2b11 (10:00)",
        "## `1a2b3c4d-0000-4000-8000-0123456789ab`",
        "## Morning <!-- session: abc -->",
    ],
)
def test_a_session_is_known_by_what_its_heading_says(heading: str) -> None:
    met = meet(
        MergeFamily.SESSIONS,
        base=None,
        newer=f"{heading}\n\n- new\n",
        older=f"{heading}\n\n- old\n",
    )

    assert met.text == f"{heading}\n\n- new\n"
    assert met.kept == "older"


@pytest.mark.parametrize("heading", ["## Session notes", "## Sessions", "## Arcs"])
def test_other_headings_name_no_session(heading: str) -> None:
    met = meet(
        MergeFamily.SESSIONS,
        base=None,
        newer=f"{heading}\n\n- new\n",
        older=f"{heading}\n\n- old\n",
    )

    assert met.text == f"{heading}\n\n- new\n- old\n"
