from __future__ import annotations

from memplane.persona.document_kinds import MergeFamily
from tests.persona.merge.meeting import meet, text

RULES = "## Rules learned\n\n- be brief\n"
FIRST = "## 2026-07-01\n\nMISSED:\n- a hint\n"


def test_new_days_come_on_top_and_bullets_are_added_within_a_day() -> None:
    met = meet(
        MergeFamily.CALIBRATION,
        base=f"{RULES}\n{FIRST}",
        newer=f"{RULES}- wait\n\n## 2026-07-03\n\nLANDED:\n- a reply\n\n{FIRST}",
        older=f"{RULES}- listen\n\n## 2026-07-02\n\n- tea\n\n{FIRST}- a pause\n",
    )

    assert met.kept is None
    assert met.text == text("""\
        ## Rules learned

        - be brief
        - wait
        - listen

        ## 2026-07-03

        LANDED:
        - a reply

        ## 2026-07-02

        - tea

        ## 2026-07-01

        MISSED:
        - a hint
        - a pause
        """)


def test_the_same_day_begun_on_two_machines_has_each_label_once() -> None:
    met = meet(
        MergeFamily.CALIBRATION,
        base=RULES,
        newer=f"{RULES}\n## 2026-07-02\n\n**MISSED**\n- one\n\n**LANDED**\n- two\n",
        older=f"{RULES}\n## 2026-07-02\n\n**MISSED**\n- three\n\n**LANDED**\n- four\n",
    )

    assert met.text == (
        f"{RULES}\n## 2026-07-02\n\n**MISSED**\n- one\n- three\n\n**LANDED**\n- two\n- four\n"
    )


def test_distilled_days_do_not_return() -> None:
    met = meet(
        MergeFamily.CALIBRATION,
        base=f"{RULES}\n{FIRST}",
        newer=f"{RULES}- from July\n",
        older=f"{RULES}\n## 2026-08-01\n\n- new\n\n{FIRST}",
    )

    assert met.text == f"{RULES}- from July\n\n## 2026-08-01\n\n- new\n"


ADA = "### To Ada\n\nDraft: no\n\nWhy cut: rude\n"
BOB = "### To Bob\n\nDraft: well\n"


def test_drafts_are_kept_by_day_and_context() -> None:
    met = meet(
        MergeFamily.DRAFTS,
        base=None,
        newer=f"## 2026-07-01\n\n{ADA}",
        older=f"## 2026-07-02\n\n{BOB}\n## 2026-07-01\n\n{BOB}",
    )

    assert met.text == f"## 2026-07-02\n\n{BOB}\n## 2026-07-01\n\n{ADA}\n{BOB}"
    assert met.kept is None


def test_a_draft_is_not_mixed_from_two() -> None:
    met = meet(
        MergeFamily.DRAFTS,
        base=f"## 2026-07-01\n\n{ADA}",
        newer=f"## 2026-07-01\n\n{ADA.replace('no', 'never')}",
        older=f"## 2026-07-01\n\n{ADA.replace('rude', 'too rude')}",
    )

    assert met.text == f"## 2026-07-01\n\n{ADA.replace('no', 'never')}"
    assert met.kept == "older"
