"""What looks like a secret and is none stays as it is."""

from __future__ import annotations

import json

import pytest

from memplane.redaction.redactor import Redactor
from tests.redaction.negatives import LINES
from tests.redaction.streams import DIALECTS

REDACTOR = Redactor(key=b"test")


def test_at_most_one_line_in_a_hundred_is_redacted_for_nothing() -> None:
    assert len(LINES) >= 300
    wrong = [line for line in LINES if REDACTOR.text(line).counts]
    share = len(wrong) / len(LINES)
    assert share <= 0.01, f"{share:.2%} of {len(LINES)}: {wrong}"


def test_at_most_one_line_in_a_hundred_is_redacted_for_nothing_in_json_and_streams() -> None:
    wrong = [
        line
        for line in LINES
        if REDACTOR.json(json.dumps({"content": line}).encode()).counts
        or REDACTOR.stream(DIALECTS["chat"]([line[:9], line[9:]])).counts
    ]
    share = len(wrong) / len(LINES)
    assert share <= 0.01, f"{share:.2%} of {len(LINES)}: {wrong}"


def test_all_lines_together_stay_as_they_are() -> None:
    text = "\n".join(LINES)
    assert REDACTOR.text(text).counts == {}


@pytest.mark.parametrize("words", ["risk-assessment", "task-oriented", "desk-manager"])
def test_words_that_end_in_sk_are_kept(words: str) -> None:
    assert REDACTOR.text(words).value is words
