from __future__ import annotations

from memplane.persona.document_kinds import MergeFamily
from tests.persona.merge.meeting import meet


def _digest(sources: str, body: str) -> str:
    return (
        f"---\nname: w\ndescription: d\ntype: weekly_digest\nsources: [{sources}]\n---\n\n{body}"
    )


def test_texts_about_different_sources_are_joined() -> None:
    met = meet(
        MergeFamily.ROLLUP,
        base=None,
        newer=_digest("mon, tue", "## Arcs\n\n- one\n"),
        older=_digest("tue, wed", "## Arcs\n\n- two\n"),
    )

    assert met.text == _digest("mon, tue, wed", "## Arcs\n\n- one\n- two\n")
    assert met.kept is None


def test_of_texts_about_the_same_sources_the_newer_stays() -> None:
    met = meet(
        MergeFamily.ROLLUP,
        base=None,
        newer=_digest("mon", "## Arcs\n\n- one\n"),
        older=_digest("mon", "## Arcs\n\n- the same\n"),
    )

    assert met.text == _digest("mon", "## Arcs\n\n- one\n")
    assert met.kept == "older"


def test_the_text_that_was_made_from_more_stays() -> None:
    met = meet(
        MergeFamily.ROLLUP,
        base=None,
        newer=_digest("mon", "## Arcs\n\n- one\n"),
        older=_digest("mon, tue", "## Arcs\n\n- one and two\n"),
    )

    assert met.text == _digest("mon, tue", "## Arcs\n\n- one and two\n")
    assert met.kept == "newer"


def test_a_correction_of_one_side_stays() -> None:
    base = _digest("mon", "## Arcs\n\n- one\n")
    met = meet(
        MergeFamily.ROLLUP,
        base=base,
        newer=_digest("mon", "## Arcs\n\n- one, corrected\n"),
        older=base.replace("description: d", "description: e"),
    )

    assert met.text == _digest("mon", "## Arcs\n\n- one, corrected\n").replace(": d", ": e")
