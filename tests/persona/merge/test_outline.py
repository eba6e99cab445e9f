from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplane.persona.merge.outline import normalise_text, read_outline, write_outline

LINES = st.sampled_from(
    [
        *("", "", "- a", "* b", "1. c", "text", "# T", "## A", "### B", "  deep", "\tdeep", "---"),
        *("```", "```py", "~~~", "label:", "**bold**", "> quote", " - d", "####### no", "#no"),
    ]
)


@settings(max_examples=300)
@given(st.lists(LINES, max_size=12).map("\n".join))
def test_what_was_written_reads_back_as_it_is(body: str) -> None:
    once = write_outline(read_outline(body))

    assert write_outline(read_outline(once)) == once


@settings(max_examples=300)
@given(st.lists(LINES, max_size=12).map("\n".join))
def test_only_blank_lines_are_forgotten(body: str) -> None:
    written = write_outline(read_outline(body))

    assert [line for line in written.split("\n") if line.strip()] == [
        line for line in body.split("\n") if line.strip()
    ]


@pytest.mark.parametrize(
    "body",
    [
        "# Title\n\nIntro.\n\n## A\n\n- a\n- b\n\n## B\n",
        "- a\n  - nested\n\n  more of a\n- b\n",
        "Label:\n- a\n\n**Bold**\n- b\n\nProse that ends in nothing\n\n- c\n",
        "```md\n# no heading\n\n- no bullet\n```\n\ntext\n",
        "## A\n    code below a heading\n\n- a\n",
        "",
    ],
)
def test_a_tidy_body_is_written_as_it_was(body: str) -> None:
    assert write_outline(read_outline(body)) == body


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("- Too  Long", "* too long"),
        ("- [ ] do it", "- [x] Do it"),
        ("## A", "# a"),
        ("1. x", "x"),
    ],
)
def test_words_count_and_not_how_they_are_set(one: str, other: str) -> None:
    assert normalise_text(one) == normalise_text(other)


@pytest.mark.parametrize("line", ["```a", "- [ ] x", "#", "> ", "~~~~", "- " * 20, "<!-- id:"])
def test_no_text_makes_it_slow(line: str) -> None:
    body = f"{line}\n" * 20_000
    began = time.process_time()

    read_outline(body)

    assert time.process_time() - began < 4
