from __future__ import annotations

import itertools

import pytest

from memplane.persona.document_kinds import MergeFamily
from tests.persona.merge.meeting import meet

TWO = {
    MergeFamily.COMMITMENTS: ("Open", "Delivered"),
    MergeFamily.CARRY_FORWARD: ("Pending", "Consumed"),
    MergeFamily.CALLBACKS: ("Active", "Retired"),
}


def _body(family: MergeFamily, first: str, second: str) -> str:
    """Write a document; items are parted by semicolons."""
    parts = ""
    for heading, items in zip(TWO[family], (first, second), strict=True):
        parts += f"## {heading}\n\n"
        parts += "".join(f"- {item.strip()}\n" for item in items.split(";") if item.strip())
        parts += "\n" if items else ""
    return parts.rstrip("\n") + "\n"


@pytest.mark.parametrize(
    ("base", "newer", "older", "merged", "kept"),
    [
        pytest.param(
            ("[ ] a <!-- id: 1f -->; b", ""),
            ("[ ] a <!-- id: 1f -->; b; c", ""),
            ("b", "[x] a <!-- id: 1f -->"),
            ("b; c", "[x] a <!-- id: 1f -->"),
            None,
            id="what one side delivered is delivered",
        ),
        *(
            pytest.param(
                ("[ ] report <!-- id: 1f -->", ""),
                *pair,
                ("fix <!-- id: 2a -->", "[x] long report <!-- id: 1f -->"),
                None,
                id=f"other words here, delivered there: {number}",
            )
            for number, pair in enumerate(
                itertools.permutations(
                    (
                        ("[ ] long report <!-- id: 1f -->", ""),
                        ("fix <!-- id: 2a -->", "[x] report <!-- id: 1f -->"),
                    )
                )
            )
        ),
        pytest.param(
            None,
            ("[ ] a <!-- id: 1f -->", ""),
            ("", "[x] a <!-- id: 1f -->"),
            ("", "[x] a <!-- id: 1f -->"),
            None,
            id="delivered beats open, also when they never met",
        ),
        pytest.param(
            ("[ ] a <!-- id: 1f -->", ""),
            ("[ ] a, by Friday <!-- id: 1f -->", ""),
            ("", "[x] a <!-- id: 1f -->"),
            ("", "[x] a, by Friday <!-- id: 1f -->"),
            None,
            id="an edit of an open promise is in the delivered one",
        ),
        pytest.param(
            ("a <!-- id: 1f -->", ""),
            ("a, by Friday <!-- id: 1f -->", ""),
            ("", "a, as a PDF <!-- id: 1f -->"),
            ("", "a, as a PDF <!-- id: 1f -->"),
            "newer",
            id="both edited it: the delivered text stays, the other is kept aside",
        ),
        pytest.param(
            ("a <!-- id: 1f -->", ""),
            ("a one <!-- id: 1f -->", ""),
            ("a two <!-- id: 1f -->", ""),
            ("a one <!-- id: 1f -->", ""),
            "older",
            id="both edited it, and it is open on both: the newer text stays",
        ),
        pytest.param(
            ("", "a <!-- id: 1f -->; b <!-- id: 2b -->"),
            ("a <!-- id: 1f -->", "b <!-- id: 2b -->"),
            ("", "a <!-- id: 1f -->"),
            ("a <!-- id: 1f -->", ""),
            None,
            id="it may be opened again, and a trimmed one stays away",
        ),
        pytest.param(
            ("Call  back; x", ""),
            ("x; y", "call back"),
            ("Call  back; x; z", ""),
            ("x; y; z", "call back"),
            None,
            id="without an id its words are its name",
        ),
        pytest.param(
            ("a <!-- id: 1f -->", ""),
            ("", ""),
            ("", "a <!-- id: 1f -->"),
            ("", "a <!-- id: 1f -->"),
            None,
            id="a delivery beats a removal",
        ),
    ],
)
def test_commitments(
    base: tuple[str, str] | None,
    newer: tuple[str, str],
    older: tuple[str, str],
    merged: tuple[str, str],
    kept: str | None,
) -> None:
    _check(MergeFamily.COMMITMENTS, base, newer, older, merged, kept)


@pytest.mark.parametrize(
    ("base", "newer", "older", "merged"),
    [
        pytest.param(
            ("a; b", ""), ("a; b; c", ""), ("b", "a"), ("b; c", "a"), id="consumed stays consumed"
        ),
        pytest.param(None, ("a; b", ""), ("c", "a"), ("b; c", "a"), id="consumed beats pending"),
        pytest.param(
            None,
            ("a; b", ""),
            ("", "~~a~~ (consumed 2026-07-30)"),
            ("b", "~~a~~ (consumed 2026-07-30)"),
            id="also with a note that it was",
        ),
        pytest.param(
            ("", "a; b"), ("", "b"), ("c", "a; b"), ("c", "b"), id="a mentioned item goes"
        ),
    ],
)
def test_carry_forward(
    base: tuple[str, str] | None,
    newer: tuple[str, str],
    older: tuple[str, str],
    merged: tuple[str, str],
) -> None:
    _check(MergeFamily.CARRY_FORWARD, base, newer, older, merged, None)


OTTER = "**The otter** ({}): builds"


@pytest.mark.parametrize(
    ("base", "newer", "older", "merged", "kept"),
    [
        pytest.param(
            (OTTER.format("2026-01-01"), ""),
            ("", OTTER.format("2026-01-01")),
            (OTTER.format("2026-07-01"), ""),
            (OTTER.format("2026-07-01"), ""),
            None,
            id="a new reference beats retirement",
        ),
        pytest.param(
            (OTTER.format("2026-01-01"), ""),
            (OTTER.format("2026-05-01"), ""),
            (OTTER.format("2026-06-01"), ""),
            (OTTER.format("2026-06-01"), ""),
            None,
            id="the last reference is the later one",
        ),
        pytest.param(
            None,
            (OTTER.format("2026-01-01"), ""),
            ("", OTTER.format("2026-01-01")),
            (OTTER.format("2026-01-01"), ""),
            None,
            id="with the same reference the newer side's state",
        ),
        pytest.param(
            ("**A** (2026-01-01): x", ""),
            ("**A** (2026-01-01): y", ""),
            ("**a** (2026-02-01): z", "**B** (2025-01-01)"),
            ("**a** (2026-02-01): z", "**B** (2025-01-01)"),
            "newer",
            id="a text that gives way is kept aside",
        ),
    ],
)
def test_callbacks(
    base: tuple[str, str] | None,
    newer: tuple[str, str],
    older: tuple[str, str],
    merged: tuple[str, str],
    kept: str | None,
) -> None:
    _check(MergeFamily.CALLBACKS, base, newer, older, merged, kept)


def _check(
    family: MergeFamily,
    base: tuple[str, str] | None,
    newer: tuple[str, str],
    older: tuple[str, str],
    merged: tuple[str, str],
    kept: str | None,
) -> None:
    met = meet(
        family,
        base=None if base is None else _body(family, *base),
        newer=_body(family, *newer),
        older=_body(family, *older),
    )
    assert met.text == _body(family, *merged)
    assert met.kept == kept
