"""Memories as text: lines that an import reads, lists, and tables that run nothing."""

from __future__ import annotations

import csv
import io
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import InvalidRequest
from memplane.observations.api_types import MemoryView
from memplane.observations.export_format import (
    EXPORT_COLUMNS,
    format_csv,
    format_jsonl,
    format_markdown,
    parse_jsonl,
)
from memplane.observations.model import Category, ObservationState
from memplane.observations.requests import ImportedLine

NOON = "2026-03-01T12:00:00.000Z"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def memory(observation: str = "Takes 60s to start", **more: Any) -> MemoryView:
    given: dict[str, Any] = {
        "id": 1,
        "agent": "ops",
        "service": None,
        "category": Category.TIMING,
        "observation": observation,
        "confidence": 0.7,
        "effective_confidence": 0.7,
        "active": True,
        "state": ObservationState.ACTIVE,
        "session_id": None,
        "tier": 0,
        "origin": "operator",
        "pinned": False,
        "contested": False,
        "unsupported": False,
        "version": 1,
    }
    times = ("created_at", "updated_at", "last_supported_at", "valid_from", "recorded_at")
    return MemoryView(**given | dict.fromkeys(times, NOON) | more)


@given(TEXTS, st.none() | TEXTS, st.sampled_from(list(Category)), st.booleans())
def test_lines_are_read_as_they_were_written(
    text: str,
    service: str | None,
    category: Category,
    pinned: bool,  # noqa: FBT001
) -> None:
    one = memory(text, service=service, category=category, pinned=pinned, session_id=7)
    (line,) = parse_jsonl(format_jsonl([one]).encode().split(b"\n"))
    assert line == ImportedLine(
        category=category,
        observation=text,
        service=service,
        confidence=0.7,
        pinned=pinned,
        created_at=NOON,
        updated_at=NOON,
        last_supported_at=NOON,
        sessions=("7",),
        tier=0,
    )


@pytest.mark.parametrize("wrong", [b"{}", b"nonsense", b"\xff", b'{"category":"a"}', b"[]"])
def test_a_line_that_is_no_memory_is_named(wrong: bytes) -> None:
    good = msgspec.json.encode({"category": "timing", "observation": "Takes 60s"})
    with pytest.raises(InvalidRequest, match="line 3") as refused:
        list(parse_jsonl([good, b"", wrong]))
    assert refused.value.fields.keys() == {"line 3"}


@given(st.lists(TEXTS, max_size=5))
def test_a_table_is_read_as_it_was_written_but_for_formulas(texts: list[str]) -> None:
    written = format_csv([memory(text) for text in texts], head=True)
    head, *rows = csv.reader(io.StringIO(written, newline=""))
    assert tuple(head) == EXPORT_COLUMNS
    for text, row in zip(texts, rows, strict=True):
        cell = row[EXPORT_COLUMNS.index("observation")]
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
        assert cell in {text, f"'{text}"}


def test_a_table_has_its_columns_once() -> None:
    first, second = format_csv([memory()], head=True), format_csv([memory()], head=False)
    assert first.count("\r\n") == 2
    assert first.endswith(second)


def test_a_list_goes_on_below_the_heading_of_the_page_before() -> None:
    about = [memory("a b c", service="jellyfin"), memory("d e f", service="jellyfin")]
    first, below = format_markdown(about[:1])
    second, below = format_markdown(about[1:], below=below)
    third, _ = format_markdown([memory("g h i", service="general"), memory("j k l")], below=below)
    assert (first + second).count("## jellyfin") == 1
    assert [line for line in third.splitlines() if line.startswith("#")] == [
        "## general (service)",
        "## general",
    ]


@given(TEXTS)
def test_words_cannot_change_the_list_they_stand_in(text: str) -> None:
    written, _ = format_markdown([memory(text)])
    assert [line[:2] for line in written.split("\n")] == ["##", "", "- ", ""]
    assert "<script" not in written


def test_what_is_not_active_says_so() -> None:
    one = memory(
        state=ObservationState.INACTIVE, active=False, contested=True, effective_confidence=0.25
    )
    assert format_markdown([one])[0].endswith("(confidence: 0.25, inactive, contested)\n")
