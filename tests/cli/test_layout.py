"""Text for a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.cli.terminal_text import (
    count_columns,
    draw_bar,
    format_age,
    format_confidence,
    wrap_text,
)

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("one two three", 80, ["one two three"]),
        ("a/very/long/path and more", 6, ["a/very", "/long/", "path", "and", "more"]),
        ("日本語のテキスト", 6, ["日本語", "のテキ", "スト"]),
        ("cafe\u0301 au lait", 7, ["cafe\u0301 au", "lait"]),
        ("", 5, [""]),
    ],
)
def test_text_breaks_between_words_and_only_then_within_one(
    text: str, width: int, lines: list[str]
) -> None:
    assert wrap_text(text, width) == lines


@given(st.text(max_size=60), st.integers(2, 30))
def test_no_line_is_wider_than_it_may_be_and_nothing_is_lost(text: str, width: int) -> None:
    lines = wrap_text(text, width)
    assert all(count_columns(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("value", "drawn"),
    [(0, "░░░░░"), (0.05, "░░░░░"), (0.3, "█▌░░░"), (0.7, "███▌░"), (1.0, "█████"), (7, "█████")],
)
def test_a_bar_is_five_wide(value: float, drawn: str) -> None:
    assert draw_bar(value) == drawn


@pytest.mark.parametrize(
    ("value", "written"), [(0.9, "0.9"), (0.95, "0.95"), (1, "1.0"), (0, "0.0")]
)
def test_a_confidence_is_written_as_in_prompts(value: float, written: str) -> None:
    assert format_confidence(value) == written


@pytest.mark.parametrize(
    ("apart", "said"),
    [
        (timedelta(seconds=59), "now"),
        (timedelta(minutes=5, seconds=59), "5 min ago"),
        (timedelta(hours=23), "23 h ago"),
        (timedelta(days=3), "3 d ago"),
        (timedelta(days=13), "1 w ago"),
        (timedelta(days=45), "1 mo ago"),
        (timedelta(days=800), "2 y ago"),
        (timedelta(days=-3), "in 3 d"),
    ],
)
def test_an_age_is_said_in_its_largest_unit(apart: timedelta, said: str) -> None:
    assert format_age(NOW - apart, NOW) == said
