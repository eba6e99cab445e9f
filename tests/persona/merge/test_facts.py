from __future__ import annotations

import pytest

from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge import MergeResult, MergeSide, merge
from tests.persona.merge.meeting import EARLIER, LATER, meet


@pytest.mark.parametrize(
    ("base", "newer", "older", "merged", "kept"),
    [
        ("a b c d e", "a B c d e", "a b c D e", "a B c D e", None),
        ("a b c", "a b c x", "y a b c", "y a b c x", None),
        ("a b c", "a c", "a b c d", "a c d", None),
        ("a b c", "a B c", "a B c", "a B c", None),
        ("a b c", "a N c", "a O c", "a N c", "older"),
        ("a b c d e", "a N c d E", "a O c d e", "a N c d E", "older"),
        ("a b c d e", "a N c d e", "a O c d E", "a N c d E", "older"),
        # Changes of neighbouring lines touch: nobody can know whether they fit together.
        ("a b c d", "a N c d", "a b O d", "a N c d", "older"),
        ("a b c d", "a b", "a b c O", "a b", "older"),
        ("a", "a x", "a y", "a x", "older"),
    ],
)
def test_prose_is_merged_line_by_line(
    base: str, newer: str, older: str, merged: str, kept: str | None
) -> None:
    met = meet(MergeFamily.FACT, base=_lines(base), newer=_lines(newer), older=_lines(older))

    assert met.text == _lines(merged)
    assert met.kept == kept


def test_of_two_facts_that_never_met_the_newer_stays_whole() -> None:
    met = meet(MergeFamily.FACT, base=None, newer="one\ntwo\n", older="one\nthree\n")

    assert met.text == "one\ntwo\n"
    assert met.kept == "older"


def test_a_text_without_a_final_newline_keeps_having_none() -> None:
    met = meet(MergeFamily.FACT, base="a\nb\nc\nd", newer="A\nb\nc\nd", older="a\nb\nC\nd")

    assert met.text == "A\nb\nC\nd"


def test_texts_with_hundreds_of_thousands_of_equal_lines_are_merged_at_once() -> None:
    base = b"same\n" * 50_000
    sides = MergeSide(b"x\n" + base, LATER), MergeSide(base + b"y\n", EARLIER)

    merged = merge(MergeFamily.FACT, base, *sides)

    assert merged == MergeResult(b"x\n" + base + b"y\n")


def _lines(words: str) -> str:
    return "".join(f"{word}\n" for word in words.split())
