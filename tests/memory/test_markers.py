"""Markers in answers: what is one, where it ends, and what is only an example of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.memory.markers import Marker, markers_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[MEMORY:timing:jellyfin] Takes 60s to start",
            [("timing", "jellyfin", "Takes 60s to start")],
        ),
        ("[MEMORY:remediation] Retry DNS once", [("remediation", "", "Retry DNS once")]),
        ("x `[MEMORY:timing:a] foo` bar", []),
        ("- **[MEMORY:timing:a]** foo", [("timing", "a", "foo")]),
        ("[MEMORY:timing:a]: foo", [("timing", "a", "foo")]),
        (
            "[MEMORY:timing:a] foo [MEMORY:dependency:b] bar",
            [("timing", "a", "foo"), ("dependency", "b", "bar")],
        ),
        ("> [MEMORY:timing:a] foo", []),
        (
            "[MEMORY:timing:a] takes 60s\nwhen the disk is cold",
            [("timing", "a", "takes 60s when the disk is cold")],
        ),
        ("[MEMORY:timing:a] takes 60s\nNow checking postgres.", [("timing", "a", "takes 60s")]),
    ],
)
def test_the_table_of_the_contract(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert markers_of(text) == tuple(Marker(*one) for one in expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[MEMORY:misc] foo", ("misc", "", "foo")),
        ("[MEMORY:Timing:a] foo", ("Timing", "a", "foo")),
        ("[MEMORY: timing] foo", (" timing", "", "foo")),
        ("[MEMORY:timing:my.svc] foo", ("timing", "my.svc", "foo")),
        ("[MEMORY:timing:a/b] foo", ("timing", "a/b", "foo")),
        ("[MEMORY:jellyfin:timing] foo", ("jellyfin", "timing", "foo")),
    ],
)
def test_what_a_gate_will_refuse_is_kept_as_it_was_written(
    text: str, expected: tuple[str, str, str]
) -> None:
    assert markers_of(text) == (Marker(*expected),)


@pytest.mark.parametrize(
    "text",
    [
        "```\n[MEMORY:timing:a] foo\n```",
        "~~~~text\n[MEMORY:timing:a] foo\n~~~\n[MEMORY:timing:a] foo\n~~~~",
        "like this:\n\n    [MEMORY:timing:a] foo\n    [MEMORY:timing:b] foo",
        "use ``[MEMORY:timing:a] ` foo`` for that",
        "  > [MEMORY:timing:a] foo",
        "<!-- [MEMORY:timing:a]\n[MEMORY:timing:b] foo -->",
        "<pre>\n[MEMORY:timing:a] foo</pre>",
        "<code>[MEMORY:timing:a] foo</code>",
        "`` x `[MEMORY:timing:a] foo`",
        "[MEMORY:timing:a]",
        "[MEMORY:timing:a] **",
        "[MEMORY:timing:a\n] foo",
        "[MEMORY] foo",
        "[EVENT:x] foo",
        "[MEMORY:" + "a" * 1000 + "] foo",
    ],
)
def test_no_marker(text: str) -> None:
    assert markers_of(text) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[MEMORY:a] foo [EVENT:x] bar", "foo"),
        ("[MEMORY:a] foo [COOLDOWN:x] bar", "foo"),
        ("**[MEMORY:a] foo**", "foo"),
        ("[MEMORY:a] **foo**", "foo"),
        ("[MEMORY:a] use **foo**", "use **foo**"),
        ("[MEMORY:a] run `vacuum`", "run `vacuum`"),
        ("**[MEMORY:a]:** foo", "foo"),
        ("[MEMORY:a] - foo", "foo"),
        ("[MEMORY:a] \u2014 foo", "foo"),
        ("[MEMORY:a] -5 degrees", "-5 degrees"),
        ("[MEMORY:a]   foo \t bar ", "foo bar"),
        ("[MEMORY:a] cafe\u0301", "caf\u00e9"),
        ("Done: [MEMORY:a] foo", "foo"),
        ("a ` b [MEMORY:a] foo", "foo"),
        ("```x``` [MEMORY:a] foo", "foo"),
        ("\r\n[MEMORY:a] foo\r\n(and bar)\r\n", "foo (and bar)"),
        ("```\ncode\n```\n[MEMORY:a] foo", "foo"),
        ("<!-- open\n[MEMORY:a] foo", "foo"),
    ],
)
def test_the_text_of_a_marker(text: str, said: str) -> None:
    assert [one.text for one in markers_of(text)] == [said]


@pytest.mark.parametrize(
    ("following", "is_taken"),
    [
        ("and more", True),
        ("3 times", True),
        ("(often)", True),
        ("  Even so", True),
        ("More", False),
        ("\nand more", False),
        ("# heading", False),
        ("  - item", False),
        ("  1. item", False),
        ("  | cell |", False),
        ("  ---", False),
        ("  > quote", False),
        ("  ```", False),
        ("[EVENT:x] event", False),
        ("and [EVENT:x] event", False),
    ],
)
def test_wrapped_lines(following: str, is_taken: bool) -> None:  # noqa: FBT001
    (found,) = markers_of(f"[MEMORY:a] foo\n{following}")
    assert found.text == (f"foo {following.strip()}" if is_taken else "foo")


@pytest.mark.parametrize("end", ".!?:;")
def test_a_sentence_that_ended_is_not_continued(end: str) -> None:
    assert markers_of(f"[MEMORY:a] foo{end}\nand more")[0].text == f"foo{end}"


def test_at_most_five_lines_are_added() -> None:
    (found,) = markers_of("[MEMORY:a] foo" + "\nand" * 9)
    assert found.text == "foo" + " and" * 5


def test_there_is_a_limit_to_how_many_and_how_long() -> None:
    many = markers_of("".join(f"[MEMORY:a] n{number}\n" for number in range(1000)))
    assert [one.text for one in many] == [f"n{number}" for number in range(100)]
    (long,) = markers_of("[MEMORY:a] " + "x" * 100_000)
    assert 2000 < len(long.text) < 3000  # the gate still sees that it is too long


_PIECES = st.sampled_from(
    [
        "[MEMORY:a] ",
        "[MEMORY:",
        "[EVENT:x]",
        "x",
        "]",
        "`",
        "```",
        "\n",
        "    ",
        "> ",
        "<!--",
        "-->",
    ]
)


@given(st.lists(_PIECES, max_size=60).map("".join))
def test_nothing_raises_and_every_marker_says_what_stands_there(text: str) -> None:
    for one in markers_of(text):
        assert one.text
        assert "".join(one.text.split()) in "".join(text.split())
