"""From an entry of any recorder to its episode."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.episodes.episode import Episode, build_episode, is_error
from memplane.exchange.marker_parser import MemoryMarker
from memplane.ledger.entry import StreamReply, make_entry
from tests.support.turns import NOON, turn

BLOCK = "--- BEGIN MEMORY (from m) ---\n[kind=fact]\nlikes oolong\n--- END MEMORY ---"


def asked(*messages: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": one} for one in messages]}


def answered(text: str) -> dict[str, Any]:
    return {"format": "json", "json": {"choices": [{"message": {"content": text}}]}}


def test_a_turn_that_we_recorded() -> None:
    entry = make_entry(turn("My favourite tea is oolong."))
    assert build_episode(msgspec.json.decode(entry.line)) == Episode(
        id=entry.id,
        at=int(NOON.timestamp()) * 1_000_000,
        question="My favourite tea is oolong.",
        answer="Noted.",
    )


def test_a_stream_that_we_recorded() -> None:
    body = (
        b'data: {"choices":[{"delta":{"content":"No"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"ted."}}]}\n\ndata: [DONE]\n\n'
    )
    entry = make_entry(turn("Tea.", reply=StreamReply(body), stream=True))
    assert build_episode(msgspec.json.decode(entry.line)).answer == "Noted."


class TestTheQuestion:
    def test_is_the_last_thing_that_the_user_said(self) -> None:
        assert build_episode({"request_original": asked("one", "two")}).question == "two"

    def test_may_be_many_messages_back(self) -> None:
        messages: list[Any] = [{"role": "user", "content": "Why is it slow?"}]
        for number in range(50):
            messages += [
                {"role": "assistant", "content": [{"type": "tool_use", "name": "Read"}]},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "content": f"line {number}"}],
                },
            ]
        entry = {"request_original": {"messages": messages}}
        assert build_episode(entry).question == "Why is it slow?"

    def test_never_comes_from_the_effective_request_when_there_is_the_original(self) -> None:
        entry = {"request_original": asked("tea?"), "request_effective": asked("tea?", "likes x")}
        assert build_episode(entry).question == "tea?"
        assert build_episode({**entry, "request_original": {"messages": []}}).question == ""

    @pytest.mark.parametrize("more", [{}, {"request_original": None}])
    def test_comes_from_the_effective_request_when_there_is_no_other(self, more: Any) -> None:
        injected = [{"type": "text", "text": f"[memory]\n\n{BLOCK}"}]
        entry = {"request_effective": asked(f"tea?\n\n{BLOCK}", injected), **more}
        assert build_episode(entry).question == "tea?"


class TestTheAnswer:
    def test_has_no_memory_in_it_that_the_model_said_again(self) -> None:
        said = f"You told me:\n{BLOCK}\nSo, oolong."
        assert build_episode({"response": answered(said)}).answer == "You told me:\nSo, oolong."

    def test_has_its_markers_beside_it(self) -> None:
        quoted = BLOCK.replace("likes oolong", "[MEMORY:timing] not new")
        said = f"{quoted}\n[MEMORY:timing:web] Takes 60s to start"
        assert build_episode({"response": answered(said)}).markers == (
            MemoryMarker("timing", "web", "Takes 60s to start"),
        )

    def test_has_the_calls_beside_it_those_that_a_proxy_made_first(self) -> None:
        entry = {
            "tool_trace": [
                {"round": 1, "tool_calls": [{"name": "search"}, {"name": "read"}]},
                {"round": 2, "tool_calls": [{"name": "read"}]},
            ],
            "response": {
                "format": "json",
                "json": {"content": [{"type": "tool_use", "name": "x"}]},
            },
        }
        assert build_episode(entry).calls == ("search", "read", "x")


@pytest.mark.parametrize(
    ("ts", "at"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T00:00:00.25Z", 250_000),
        ("1970-01-01T00:00:00.123456789Z", 123_456),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T23:00:01-01:00", 1_000_000),
        ("2026-03-01T12:00:00Z", 1_772_366_400_000_000),
        ("yesterday", 0),
        ("2026-13-01T12:00:00Z", 0),
        ("2026-03-01", 0),
        ("2026-03-01T12:00:00", 0),
        ("", 0),
        (None, 0),
        (1_772_366_400, 0),
    ],
)
def test_when(ts: object, at: int) -> None:
    assert build_episode({"ts": ts}).at == at


@pytest.mark.parametrize("character", ["x", "\u00e9", "\u20ac", "\U0001f600"])
@pytest.mark.parametrize("shift", ["", "a", "aa", "aaa"])
@pytest.mark.parametrize("extra", [1, 30_000])
def test_long_texts_end_at_a_character(character: str, shift: str, extra: int) -> None:
    text = shift + character * (65_536 // len(character.encode()) + extra)
    episode = build_episode({"request_original": asked(text), "response": answered(text)})
    for kept in (episode.question, episode.answer):
        assert text.startswith(kept)
        size = len(kept.encode())
        assert 65_536 - len(character.encode()) < size <= 65_536


def test_a_text_that_fits_is_kept_whole() -> None:
    for text in ("x" * 65_536, "\u20ac" * 21_845):
        assert build_episode({"response": answered(text)}).answer == text


def test_errors() -> None:
    assert is_error({"status": "error"})
    assert not is_error({"status": "ok"})
    assert not is_error({})


def test_an_entry_that_tells_nothing() -> None:
    assert build_episode({}) == Episode("", 0, "", "")


_SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just(BLOCK),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["messages", "role", "content", "json"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "id",
                "ts",
                "request_original",
                "request_effective",
                "response",
                "tool_trace",
                "status",
            ]
        ),
        _SHAPES,
    )
)
def test_no_entry_raises(entry: dict[str, Any]) -> None:
    episode = build_episode(entry)
    json.dumps([episode.question, episode.answer, episode.calls], ensure_ascii=False).encode()
    is_error(entry)
