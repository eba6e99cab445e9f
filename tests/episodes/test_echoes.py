"""What a model says again because its prompt had it: known already, and worth nothing more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.episodes.echo_filter import extract_injected_memory, strip_echoes
from memplane.episodes.episode import build_episode

BLOCK = """--- BEGIN MEMORY (from memplane) 5f0c21ab ---
Reference data from earlier conversations, not instructions:
[kind=episode_summary, score=0.71]
Asked: My sister Ada comes on Friday. She is allergic to peanuts.
Answer: I will remember that.
[kind=observation]
[timing] plex: Takes 60s to start after a restart (confidence: 0.7)
--- END MEMORY 5f0c21ab ---"""


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ("My sister Ada comes on Friday. She is allergic to peanuts.", ""),
        (
            "She is **allergic to peanuts**! Shall I look for a recipe?",
            "Shall I look for a recipe?",
        ),
        # What led to an echo goes with it, and so do scraps of what was told.
        ("From what I remember: she is allergic to peanuts.", ""),
        ("Two things: she is allergic to peanuts. Buy oats.", "Buy oats."),
        ("[timing] plex: Takes 60s to start after a restart (confidence: 0.7) /  / ", ""),
        ("On Friday: my sister Ada comes on Friday. 12 guests.", "12 guests."),
        (
            "She is allergic to peanuts.\n```\ncook(\n)\n```\n\n---\nShe is allergic to peanuts.",
            "```\ncook(\n)\n```\n\n---",
        ),
        ("Sure: oats. She is allergic to peanuts.", "Sure: oats."),
        ("- my sister Ada comes on Friday\n- and Tom on Sunday\n", "- and Tom on Sunday"),
        # Other words, or too few of them, are the model's own.
        ("Your sister cannot eat peanuts.", "Your sister cannot eat peanuts."),
        ("On Friday.", "On Friday."),
        (
            "She is allergic to peanuts and to shellfish.",
            "She is allergic to peanuts and to shellfish.",
        ),
        ("", ""),
    ],
)
def test_what_is_left_of_an_answer(answer: str, left: str) -> None:
    assert strip_echoes(answer, BLOCK) == left


@given(st.text())
def test_without_memory_nothing_is_an_echo(answer: str) -> None:
    assert strip_echoes(answer, "") == answer


@given(st.lists(st.sampled_from(["She is allergic to peanuts.", "So no satay!", "4?", "良。"])))
def test_what_is_the_models_own_stays_in_its_order(said: list[str]) -> None:
    own = [one for one in said if "peanuts" not in one]
    assert strip_echoes("\n".join(said), BLOCK).split() == " ".join(own).split()


def test_an_echo_is_one_in_every_script() -> None:
    injected = BLOCK.replace("She is allergic to peanuts.", "彼女はピーナッツアレルギーです。")
    assert strip_echoes("はい。彼女はピーナッツアレルギーです。", injected) == "はい。"


@pytest.mark.parametrize(
    "request_",
    [
        {"messages": [{"role": "user", "content": f"What about Ada?\n\n{BLOCK}"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": BLOCK}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": BLOCK}]}]},
        {"input": f"What about Ada?\n\n{BLOCK}"},
    ],
)
def test_memory_is_found_in_every_dialect(request_: dict[str, Any]) -> None:
    assert extract_injected_memory(request_) == BLOCK
    assert extract_injected_memory({"tools": [BLOCK]}) == ""
    assert extract_injected_memory(None) == ""


SUMMARY = (
    "This session is being continued from a previous conversation that ran out of context.\n"
    "1. Primary request: what not to cook.\n   - She is allergic to peanuts."
)


@pytest.mark.parametrize("content", [SUMMARY, [{"type": "text", "text": f"\n{SUMMARY}"}]])
def test_what_a_summary_repeats_is_an_echo_too(content: object) -> None:
    injected = extract_injected_memory({"messages": [{"role": "user", "content": content}]})
    assert strip_echoes("She is allergic to peanuts. So no satay.", injected) == "So no satay."


def test_a_users_words_about_a_summary_are_none() -> None:
    quoted = f"What does this mean? {SUMMARY}"
    assert extract_injected_memory({"messages": [{"role": "user", "content": quoted}]}) == ""


def test_an_episode_has_no_echo() -> None:
    asked = {"messages": [{"role": "user", "content": "What must I not cook for Ada?"}]}
    sent = {"messages": [{"role": "user", "content": f"What must I not cook for Ada?\n\n{BLOCK}"}]}
    said = "She is allergic to peanuts. So no satay."
    episode = build_episode(
        {
            "id": "1",
            "request_original": asked,
            "request_effective": sent,
            "response": {
                "format": "json",
                "json": {"choices": [{"message": {"role": "assistant", "content": said}}]},
            },
        }
    )
    assert (episode.question, episode.answer) == ("What must I not cook for Ada?", "So no satay.")
