"""Markers in answers: what is one, where it ends, and what is only an example of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.exchange.marker_parser import (
    MarkerAttempt,
    MemoryMarker,
    format_bracket,
    parse_attempts,
    parse_markers,
    strip_markers,
)


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
    assert parse_markers(text) == tuple(MemoryMarker(*one) for one in expected)


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
    assert parse_markers(text) == (MemoryMarker(*expected),)


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
    assert parse_markers(text) == ()


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
    assert [one.text for one in parse_markers(text)] == [said]


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
    (found,) = parse_markers(f"[MEMORY:a] foo\n{following}")
    assert found.text == (f"foo {following.strip()}" if is_taken else "foo")


@pytest.mark.parametrize("end", ".!?:;")
def test_a_sentence_that_ended_is_not_continued(end: str) -> None:
    assert parse_markers(f"[MEMORY:a] foo{end}\nand more")[0].text == f"foo{end}"


def test_at_most_five_lines_are_added() -> None:
    (found,) = parse_markers("[MEMORY:a] foo" + "\nand" * 9)
    assert found.text == "foo" + " and" * 5


def test_there_is_a_limit_to_how_many_and_how_long() -> None:
    many = parse_markers("".join(f"[MEMORY:a] n{number}\n" for number in range(1000)))
    assert [one.text for one in many] == [f"n{number}" for number in range(100)]
    (long,) = parse_markers("[MEMORY:a] " + "x" * 100_000)
    assert 2000 < len(long.text) < 3000  # the gate still sees that it is too long


@pytest.mark.parametrize(
    "text",
    [
        '<pre class="x">[MEMORY:timing:a] foo</pre>',
        "<PRE>\n[MEMORY:timing:a] foo\n</Pre>",
        '<code lang="x">[MEMORY:timing:a] foo</code>',
        "- > [MEMORY:timing:a] foo",
        "1. ```\n   [MEMORY:timing:a] foo\n   ```",
    ],
)
def test_code_and_quotes_may_have_attributes_or_stand_in_a_list(text: str) -> None:
    assert parse_markers(text) == ()
    assert parse_attempts(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        'The page says "[MEMORY:timing:a] foo".',
        '"[MEMORY:timing:a] foo"',
        "It printed '[MEMORY:timing:a] foo' twice.",
        "It said \u201c[MEMORY:timing:a] foo\u201d.",
        "Dort steht \u201e[MEMORY:timing:a] foo\u201c.",
        "On y lit \u00ab [MEMORY:timing:a] foo \u00bb.",
        'The ticket says "please record\n[MEMORY:timing:a] foo" and no more.',
        'It logged "[MEMORY:timing:a] fails with "no route" at once" today.',
        '{"text": "[MEMORY:timing:a] foo"}',
        r"msg \"[MEMORY:timing:a] foo\"",
        '- "[MEMORY:timing:a] foo"',
        'It reads " [MEMORY:timing:a] foo " there.',
        'A near miss: "[memory: timing] foo"',
        "<q>[MEMORY:timing:a] foo</q>",
        "<blockquote>\n[MEMORY:timing:a] foo\n</blockquote>",
    ],
)
def test_a_marker_in_quotation_marks_is_not_learned(text: str) -> None:
    assert parse_attempts(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "| [MEMORY:timing:a] foo |",
        "| marker | meaning |\n|---|---|\n| [MEMORY:timing:a] foo | a delay |",
        "marker | meaning\n--- | ---\n[MEMORY:timing:a] foo | a delay",
        " id | note\n----+------\n  1 | [MEMORY:timing:a] foo",
        "[MEMORY:timing:a] foo | meaning\n--- | ---",
        "\u2502 1 \u2502 [MEMORY:timing:a] foo \u2502",
        "1 | see [MEMORY:timing:a] foo | x",
        "- | [MEMORY:timing:a] foo |",
        "<table><tr><td>[MEMORY:timing:a] foo</td></tr></table>",
    ],
)
def test_a_marker_in_a_table_cell_is_not_learned(text: str) -> None:
    assert parse_attempts(text) == ()


@pytest.mark.parametrize(
    "before",
    [
        "2026-03-01T10:00:00Z web: ",
        "2026-03-01 10:00:00,123 INFO worker ",
        "[2026-03-01 10:00:00] ",
        "2026/03/01 10:00:00 [error] 7#7: ",
        "Mar  1 10:00:00 host web[123]: ",
        "Sun Mar  1 10:00:00 ",
        "10:00:00 ",
        "web[123]: ",
        "INFO ",
        "INFO: ",
        "[WARN] ",
        "[info] ",
        "level=info msg=",
        "I0301 10:00:00.000000 1 main.go:3] ",
        "[   12.345678] kernel: ",
        "<134>1 2026-03-01T10:00:00Z host web - - ",
        "web-1  | ",
        '10.0.0.1 - - [01/Mar/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 ',
        "- 2026-03-01T10:00:00Z web: ",
        "The log says: ",
        "Log line: ",
        "stderr: ",
        "$ echo ",
    ],
)
def test_a_marker_in_a_log_line_is_not_learned(before: str) -> None:
    assert parse_attempts(f"{before}[MEMORY:timing:a] foo") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- [MEMORY:timing:a] foo", "foo"),
        ("* **[MEMORY:timing:a]** foo", "foo"),
        ("  1. [MEMORY:timing:a] foo", "foo"),
        ("- [x] [MEMORY:timing:a] foo", "foo"),
        ('[MEMORY:timing:a] fails with "no route"', 'fails with "no route"'),
        ('It is "fine" now. [MEMORY:timing:a] says "foo"', 'says "foo"'),
        ("It's up, isn't it. [MEMORY:timing:a] doesn't stop", "doesn't stop"),
        ("The hosts' disks are 24\" wide. [MEMORY:timing:a] foo", "foo"),
        ('An open " mark.\n\n[MEMORY:timing:a] the "foo" file', 'the "foo" file'),
        ("[MEMORY:timing:a] run ps | grep foo", "run ps | grep foo"),
        ("Done at 10:00: [MEMORY:timing:a] foo", "foo"),
        ("Information: [MEMORY:timing:a] foo", "foo"),
        ("Review of the logs is done: [MEMORY:timing:a] foo", "foo"),
        ("| a |\n|---|\n| b |\n\n[MEMORY:timing:a] foo", "foo"),
    ],
)
def test_a_marker_in_prose_or_at_the_beginning_of_a_list_item_counts(text: str, said: str) -> None:
    assert [one.text for one in parse_markers(text)] == [said]


def test_code_in_a_list_hides_nothing_behind_it() -> None:
    found = parse_markers("- ```\n  code\n  ```\n[MEMORY:a] foo")
    assert found == (MemoryMarker("a", "", "foo"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[MEMORY:timing:a] foo", ("[MEMORY:timing:a]", "timing", "a", "foo")),
        ("[MEMORY:misc] foo", ("[MEMORY:misc]", "misc", "", "foo")),
        ("[MEMORY:timing:my.svc] foo", ("[MEMORY:timing:my.svc]", "timing", "my.svc", "foo")),
        ("[MEMORY:timing:a]", ("[MEMORY:timing:a]", "timing", "a", "")),
    ],
)
def test_an_attempt_may_be_well_formed_whatever_it_says(
    text: str, expected: tuple[str, str, str, str]
) -> None:
    (found,) = parse_attempts(text)
    assert found == MarkerAttempt(*expected)
    assert found.is_well_formed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[MEMORY: timing] foo", ("[MEMORY: timing]", "timing", "", "foo")),
        ("[memory:timing:a] foo", ("[memory:timing:a]", "timing", "a", "foo")),
        ("so [Memory: a] foo", ("[Memory: a]", "a", "", "foo")),
        ("so [ MEMORY :a : b ] foo", ("[ MEMORY :a : b ]", "a", "b", "foo")),
        ("so [MEMORY timing] foo", ("[MEMORY timing]", "timing", "", "foo")),
        ("so [MEMORY timing a] foo", ("[MEMORY timing a]", "timing", "a", "foo")),
        ("so [MEMORY] foo", ("[MEMORY]", "", "", "foo")),
        ("[MEMORY:] foo", ("[MEMORY:]", "", "", "foo")),
        ("[MEMORY:timing:] foo", ("[MEMORY:timing:]", "timing", "", "foo")),
        ("- [memory timing] foo", ("[memory timing]", "timing", "", "foo")),
        ("**[Memory]** foo", ("[Memory]", "", "", "foo")),
        ("[MEMORY:timing:a foo", ("[MEMORY:timing:a", "timing", "a", "foo")),
    ],
)
def test_a_near_miss_is_no_silence(text: str, expected: tuple[str, str, str, str]) -> None:
    (found,) = parse_attempts(text)
    assert found == MarkerAttempt(*expected)
    assert not found.is_well_formed


@pytest.mark.parametrize(
    "text",
    [
        "the kernel logs [memory cgroup out of memory] and stops",
        "[Memory of the host](https://example.org/memory)",
        "limits[MEMORY] is set",
        "[MEMORY_LIMIT] foo",
        "[memorable: x] foo",
        "[MEMORYtiming] foo",
        "MEMORY:timing:a foo",
        "(MEMORY:timing) foo",
        "[memory: it has no end",
        "x `[memory: timing] foo` bar",
        "> [memory: timing] foo",
        "```\n[memory: timing] foo\n```",
        "[EVENT:x] foo",
    ],
)
def test_what_was_never_meant_to_be_a_marker(text: str) -> None:
    assert parse_attempts(text) == ()


def test_prose_in_brackets_does_not_end_a_text() -> None:
    (found,) = parse_attempts("[MEMORY:a] logs [memory cgroup] and stops")
    assert found.text == "logs [memory cgroup] and stops"


def test_a_near_miss_ends_the_text_before_it() -> None:
    text = "[MEMORY:a] foo [memory: b] bar"
    assert [one.text for one in parse_attempts(text)] == ["foo", "bar"]
    assert parse_markers(text) == (MemoryMarker("a", "", "foo"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[MEMORY:a] foo\n[MEMORY:b] ba", ["foo"]),
        ("[MEMORY:a] foo\n[MEMORY:b] bar\n", ["foo", "bar"]),
        ("[MEMORY:a] foo\r\n[MEMORY:b] bar\r\n", ["foo", "bar"]),
        ("[MEMORY:a] foo [MEMORY:b] ba", []),
        ("[MEMORY:a] foo\nwhen the dis", []),
        ("[MEMORY:a] foo\nWhen the dis", ["foo"]),
        ("[MEMORY:a] foo\n\nwhen the dis", ["foo"]),
        ("[MEMORY:a", []),
    ],
)
def test_what_reaches_into_half_a_line_is_dropped(text: str, said: list[str]) -> None:
    assert [one.text for one in parse_attempts(text, aborted=True)] == said


def test_attempts_are_limited_too() -> None:
    assert len(parse_attempts("[memory: a] x\n" * 1000)) == 100
    (long,) = parse_attempts("[memory: a] " + "x" * 100_000)
    assert 2000 < len(long.text) < 3000


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "[MEMORY:",
        "[memory ",
        "[ ",
        "[memory:a",
        "`[",
        "<pre ",
        "<!--",
        "- ",
        "1. ",
        "[\n",
        "*[",
        '"[',
        '["',
        "'[ ",
        '\\"[',
        "\u201e[",
        "|[",
        "-|[",
        "log [",
        '[" \n',
    ],
)
def test_no_text_keeps_the_grammar_busy(piece: str) -> None:
    for text in (piece * 20_000, f"[MEMORY:a] {piece * 20_000}", f"{piece * 20_000}]"):
        parse_attempts(text)
        parse_markers(text)


_PIECES = st.sampled_from(
    [
        "[MEMORY:a] ",
        "[memory: a] ",
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
    for one in parse_markers(text):
        assert one.text
        assert "".join(one.text.split()) in "".join(text.split())


@given(st.lists(_PIECES, max_size=60).map("".join))
def test_every_marker_is_an_attempt_and_nothing_well_formed_is_missed(text: str) -> None:
    attempts = parse_attempts(text)
    for one in parse_markers(text):
        assert any(one.text == attempt.text for attempt in attempts)
    kept = [(one.category, one.service, one.text) for one in parse_markers(text)]
    for attempt in attempts:
        if attempt.is_well_formed and attempt.text:
            assert (attempt.category, attempt.service, attempt.text) in kept


@given(
    st.from_regex(r"[a-z]{1,20}", fullmatch=True), st.from_regex(r"[\w.-]{0,20}", fullmatch=True)
)
def test_what_is_spelled_is_well_formed(category: str, service: str) -> None:
    (found,) = parse_attempts(f"{format_bracket(category, service)} foo")
    assert (found.category, found.service, found.is_well_formed) == (category, service, True)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Done.\n[MEMORY:timing:a] foo\nBye.", "Done.\nBye."),
        ("Done. [MEMORY:timing:a] foo [MEMORY:timing:b] bar", "Done."),
        ("1. **[MEMORY:timing:a]** foo\n2. more", "2. more"),
        ("[MEMORY:timing:a] takes 60s\nwhen the disk is cold\n\nBye.", "\nBye."),
        ("[MEMORY:timing:a] foo [EVENT:x] bar", "[EVENT:x] bar"),
        ("[memory: misc] foo", ""),
        ("[MEMORY:timing:a", ""),
        ("x `[MEMORY:timing:a] foo` bar", "x `[MEMORY:timing:a] foo` bar"),
        ("> [MEMORY:timing:a] foo", "> [MEMORY:timing:a] foo"),
        ("a [link](x)\r\nb", "a [link](x)\r\nb"),
    ],
)
def test_what_is_left_without_markers(text: str, left: str) -> None:
    assert strip_markers(text) == left


@given(st.lists(_PIECES, max_size=60).map("".join))
def test_without_markers_nothing_of_them_is_left(text: str) -> None:
    left = strip_markers(text)
    assert len(left) <= len(text)
    if not parse_attempts(text):
        assert left.replace("\r\n", "\n") == text.replace("\r\n", "\n")
