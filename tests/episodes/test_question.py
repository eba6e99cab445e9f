"""What a recall request asks about."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.episodes.question import Question, extract_question


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_the_last_message_is_the_question_and_two_before_it_are_its_context() -> None:
    messages = [user(text) for text in ("one", "two", "three", "four")]
    assert extract_question(messages) == Question("four", ("three", "two"))


@pytest.mark.parametrize(
    "messages",
    [
        "Where is it?",
        [user("Where is it?")],
        [user([{"type": "text", "text": "Where is it?"}])],
        [{"type": "message", **user([{"type": "input_text", "text": "Where is it?"}])}],
        [user("Where is it?"), {"role": "system", "content": "Today is Monday."}],
        [user("Where is it?"), user([{"type": "tool_result", "content": "x"}]), user(" ")],
        [user("<system-reminder>x</system-reminder>\nWhere is it?")],
        [user("Where is it?\n--- BEGIN MEMORY (from m) ---\nx\n--- END MEMORY ---")],
    ],
)
def test_however_it_is_asked(messages: Any) -> None:
    assert extract_question(messages) == Question("Where is it?")


@pytest.mark.parametrize(
    "messages",
    [
        None,
        "",
        [],
        {},
        7,
        [{"role": "assistant", "content": "Hello."}],
        [{"role": "system", "content": "Be terse."}, user("")],
    ],
)
def test_nobody_asks(messages: Any) -> None:
    assert extract_question(messages) == Question("")


def test_a_long_question_is_cut_at_a_character() -> None:
    asked = extract_question([user("\u20ac" * 70_000)]).text
    assert set(asked) == {"\u20ac"}
    assert len(asked.encode()) <= 65_536


_SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just("user"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text"]), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(_SHAPES)
def test_no_shape_raises(messages: Any) -> None:
    asked = extract_question(messages)
    assert len(asked.context) <= 2
    assert asked.text or not asked.context
