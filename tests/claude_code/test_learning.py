"""What is to be learned from an agent's output, as its lines come."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.exchange.marker_parser import parse_attempts
from memplane.integrations.claude_code.output_extractor import (
    MAX_TOOL_RESULT_CHARS,
    MAX_TOOL_RESULTS_CHARS,
    OutputExtractor,
    OutputLine,
)
from memplane.observations.model import SourceClass
from memplane.observations.requests import Heard, Mode

MARKER = "[MEMORY:timing:jellyfin] Takes 60s to start"
OTHER = "[MEMORY:dependency:caddy] Must be started after WireGuard"
NOW = "2026-03-01T09:30:00.000Z"


def lines(*texts: str | bytes, ended: bool = True) -> list[OutputLine]:
    """Lines as a log has them, each behind 25 bytes of time."""
    made: list[OutputLine] = []
    offset = 0
    for number, text in enumerate(texts, start=1):
        raw = text if isinstance(text, bytes) else text.encode()
        made.append(OutputLine(raw, NOW, number, offset, ended or number < len(texts)))
        offset += 25 + len(raw) + 1
    return made


def heard(*given: OutputLine, mode: Mode = "markers", cut: bool = False) -> list[Heard]:
    hearing = OutputExtractor(mode)
    found = [one for line in given for one in hearing.line(line)]
    return found + hearing.end(cut=cut)


def texts(found: list[Heard]) -> list[str]:
    return [text.text for one in found for text in one.texts]


def asserted(found: list[Heard]) -> list[str]:
    """What the markers in all that was heard say."""
    return [
        attempt.text
        for one in found
        for text in one.texts
        for attempt in parse_attempts(text.text, aborted=text.aborted)
    ]


def event(kind: str, **more: Any) -> str:
    return json.dumps({"type": kind} | more)


def says(text: str, uuid: str = "u1", **more: Any) -> str:
    content = [{"type": "text", "text": text}]
    return event("assistant", uuid=uuid, message={"id": "m", "content": content}, **more)


def gives(text: str) -> str:
    block = {"type": "tool_result", "tool_use_id": "t", "content": text}
    return event("user", uuid="u0", message={"content": [block]})


def starts(session: str = "s1", model: str = "claude-x") -> str:
    return event("system", subtype="init", session_id=session, model=model)


def ends(**more: Any) -> str:
    return event("result", **({"subtype": "success", "is_error": False} | more))


# Streams of events


def test_a_marker_is_heard_as_soon_as_its_line_came() -> None:
    hearing = OutputExtractor("markers")
    first, second, third = lines(starts(), says(f"Well.\n{MARKER}\n"), ends())
    assert hearing.line(first) == []
    (found,) = hearing.line(second)
    (text,) = found.texts
    assert text.text == f"Well.\n{MARKER}\n"
    assert (text.at, text.line, text.offset) == (NOW, 2, second.offset)
    assert text.digest == hashlib.sha256(second.raw).hexdigest()
    assert (text.message, text.source) == ("u1", SourceClass.AGENT)
    assert (found.cli_session, found.model) == ("s1", "claude-x")
    assert hearing.line(third) == []
    assert hearing.end() == []


def test_what_holds_no_marker_is_not_carried_anywhere() -> None:
    found = heard(*lines(starts(), says("All is well [as memory serves]."), ends()))
    assert [(one.texts, one.cli_session, one.model) for one in found] == [((), "s1", "claude-x")]


@pytest.mark.parametrize("near", ["[memory:timing] x", "[ MEMORY : timing ] x", "[Memory] x"])
def test_what_may_be_meant_as_a_marker_is_heard(near: str) -> None:
    assert texts(heard(*lines(says(near)))) == [near]


def test_a_sub_agent_is_told_apart() -> None:
    (found,) = heard(*lines(says(MARKER, parent_tool_use_id="toolu_1")))
    assert found.texts[0].source is SourceClass.SUBAGENT


def test_partial_messages_say_nothing_twice() -> None:
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": MARKER}}
    stream = lines(event("stream_event", event=delta), says(MARKER), ends(result=MARKER))
    assert texts(heard(*stream)) == [MARKER]


def test_markers_in_results_of_tools_are_evidence_and_nothing_else() -> None:
    stream = lines(gives(f"seen {MARKER}"), gives("later"), says(OTHER))
    (found,) = heard(*stream)
    assert texts([found]) == [OTHER]
    assert found.tool_results == ("later", f"seen {MARKER}")


def test_of_tools_the_newest_are_kept_and_the_longest_cut() -> None:
    results = [gives(str(number) * MAX_TOOL_RESULT_CHARS * 2) for number in range(10)]
    many = [gives(f"{number:04}" + "x" * (MAX_TOOL_RESULT_CHARS - 4)) for number in range(40)]
    (found,) = heard(*lines(*results, *many, says(MARKER)))
    assert {len(one) for one in found.tool_results} == {MAX_TOOL_RESULT_CHARS}
    assert sum(map(len, found.tool_results)) == MAX_TOOL_RESULTS_CHARS
    assert [one[:4] for one in found.tool_results] == [f"{n:04}" for n in range(39, 23, -1)]


def test_a_message_that_is_replaced_is_taken_back() -> None:
    stream = lines(says(MARKER, "u1"), says(OTHER, "u2", supersedes=["u1", "u0"]))
    found = heard(*stream)
    assert [one.retracted for one in found] == [(), ("u1",), ()]
    assert texts(found) == [MARKER, OTHER]


def test_what_was_never_heard_is_not_taken_back() -> None:
    refused = event("system", subtype="model_refusal_fallback", retracted_message_uuids=["u1"])
    assert heard(*lines(says("Nothing."), refused)) == []


def test_the_whole_array_of_a_run_is_read() -> None:
    array = "[" + ",".join((starts(), says(MARKER), ends(num_turns=3))) + "]"
    hearing = OutputExtractor("markers")
    (line,) = lines(array)
    (found,) = hearing.line(line)
    assert texts([found]) == [MARKER]
    assert hearing.outcome is not None
    assert hearing.outcome.turns == 3


def test_an_end_says_how_it_went_whatever_its_subtype() -> None:
    hearing = OutputExtractor("markers")
    for line in lines(says(MARKER), ends(is_error=True, total_cost_usd=0.5, num_turns=2)):
        hearing.line(line)
    assert hearing.outcome is not None
    assert (hearing.outcome.is_error, hearing.outcome.cost_usd) == (True, 0.5)


def test_a_stream_with_anything_in_it_is_read_on() -> None:
    odd = ["no json", "{", event("new_kind"), event("user", message={"content": "text"}), ""]
    found = heard(*lines(starts(), *odd, b"\xff\xfe", says(MARKER)))
    assert texts(found) == [MARKER]


def test_a_stream_without_a_result_has_no_outcome() -> None:
    hearing = OutputExtractor("markers")
    for line in lines(starts(), says(MARKER)):
        hearing.line(line)
    hearing.end()
    assert hearing.outcome is None


def test_a_line_of_five_megabytes_is_read() -> None:
    stream = lines(gives("x" * (5 << 20)), says("y" * (5 << 20) + f"\n{MARKER}"))
    assert asserted(heard(*stream)) == ["Takes 60s to start"]


# Structured output


DOCUMENT = {"memories": [{"category": "timing", "observation": "Takes 60s to start"}]}


@pytest.mark.parametrize("document", [DOCUMENT, {"memories": []}, {}, []])
def test_a_document_counts_and_markers_do_not(document: Any) -> None:
    stream = lines(starts(), gives("seen"), says(MARKER), ends(structured_output=document))
    hearing = OutputExtractor("structured")
    (found,) = (one for line in stream for one in hearing.line(line))
    assert (found.structured, found.texts) == (document, ())
    assert found.tool_results == ("seen",)
    assert hearing.end() == []
    assert not hearing.misses_document


@pytest.mark.parametrize("end", [[ends()], [ends(structured_output=None)], []])
def test_markers_count_when_there_is_no_document(end: list[str]) -> None:
    hearing = OutputExtractor("structured")
    stream = lines(says(MARKER, "u1"), says(OTHER, "u2", supersedes=["u1"]), *end)
    assert [one for line in stream for one in hearing.line(line)] == []
    found = hearing.end()
    assert texts(found) == [MARKER, OTHER]
    assert [one.retracted for one in found] == [(), ("u1",), ()]
    assert hearing.misses_document


def test_a_document_is_not_read_where_markers_count() -> None:
    found = heard(*lines(starts(), says(MARKER), ends(structured_output=DOCUMENT)))
    assert [one.structured for one in found] == [None]
    assert texts(found) == [MARKER]


def test_a_document_alone_is_read_from_a_result_alone() -> None:
    (found,) = heard(*lines(ends(structured_output=DOCUMENT)), mode="structured")
    assert found.structured == DOCUMENT


# Plain text


def test_a_marker_in_text_is_heard_at_the_next_blank_line() -> None:
    hearing = OutputExtractor("markers")
    given = lines("Looking.", "", f"- {MARKER}", "  after a restart", "", "Done.")
    assert [hearing.line(one) for one in given[:4]] == [[], [], [], []]
    (found,) = hearing.line(given[4])
    (text,) = found.texts
    assert text.text == f"- {MARKER}\n  after a restart\n"
    assert (text.line, text.offset) == (3, given[2].offset)
    assert text.digest == hashlib.sha256(given[2].raw).hexdigest()
    assert hearing.line(given[5]) == []
    assert hearing.end() == []


def test_a_marker_in_the_last_paragraph_is_heard_at_the_end() -> None:
    assert asserted(heard(*lines("a", MARKER))) == ["Takes 60s to start"]
    assert asserted(heard(*lines(MARKER, ended=False))) == ["Takes 60s to start"]


def test_half_a_line_does_not_count_when_the_agent_was_stopped() -> None:
    assert asserted(heard(*lines(OTHER, MARKER, ended=False), cut=True)) == [
        "Must be started after WireGuard"
    ]
    assert len(asserted(heard(*lines(OTHER, MARKER), cut=True))) == 2


@pytest.mark.parametrize(
    "hidden",
    [
        ["```", "", MARKER, "", "```"],
        ["- ~~~~", "", "~~~", MARKER, "", "~~~~"],
        ["<!-- an example:", "", MARKER, "", "-->"],
        ["<pre>", "", MARKER, "</pre>"],
        ["a", "", f"    {MARKER}"],
        ["a", "", f"> {MARKER}"],
    ],
)
def test_what_is_shown_in_code_or_a_comment_is_none_over_blank_lines_too(
    hidden: list[str],
) -> None:
    found = heard(*lines("Hello.", "", *hidden, "", OTHER, ""))
    assert asserted(found) == ["Must be started after WireGuard"]


def test_code_that_is_never_closed_hides_until_the_end() -> None:
    assert asserted(heard(*lines(OTHER, "", "```", "", MARKER))) == [
        "Must be started after WireGuard"
    ]


def test_a_comment_that_is_never_closed_hides_nothing() -> None:
    assert len(asserted(heard(*lines("<!-- oh", "", MARKER, "", OTHER)))) == 2


def test_text_may_have_other_ends_of_lines_and_bytes_that_are_no_text() -> None:
    given = lines(b"caf\xe9 \xff\r", b"\r", MARKER.encode() + b"\r", b"\r")
    assert asserted(heard(*given)) == ["Takes 60s to start"]


@pytest.mark.parametrize("first", ["[warn] oops", '{"no": "type"}', "[1, 2]", "{", '"type"', "[]"])
def test_whatever_does_not_begin_like_events_is_text(first: str) -> None:
    assert asserted(heard(*lines(first, "", MARKER))) == ["Takes 60s to start"]


def test_blank_lines_before_a_stream_are_no_matter() -> None:
    assert texts(heard(*lines("", "  ", starts(), says(MARKER)))) == [MARKER]


PARAGRAPHS = st.lists(
    st.sampled_from(
        [MARKER, OTHER, "", "", "```", "text", "  wrapped", "> quoted", "    code", "<!--", "-->"]
    ),
    max_size=20,
)


@given(PARAGRAPHS)
def test_text_in_pieces_asserts_what_it_asserts_as_a_whole(given: list[str]) -> None:
    whole = [one.text for one in parse_attempts("\n".join([*given, ""]))]
    assert asserted(heard(*lines(*given))) == whole
