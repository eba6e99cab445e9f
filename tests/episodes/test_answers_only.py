"""What a recall shows by default: answers, and neither counters nor replies that know nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from memplane.episodes.api_types import RecallBlocks, RecallRequest
from memplane.episodes.non_answer import is_non_answer
from tests.episodes.remembering import entry, give, memory_in

QUESTION = "Where is the spare key of the rack?"


async def kinds(folder: Path, blocks: RecallBlocks) -> set[str]:
    async with memory_in(folder) as memory:
        beats = [entry("Heartbeat?", "All is well.", minutes=minute) for minute in range(1, 20)]
        await give(memory, entry("The spare key is in drawer 7.", "Noted."), *beats)
        await memory.settle()
        ask = RecallRequest(agent="analyst", text="spare key drawer", blocks=blocks)
        return {block.kind for block in (await memory.recall(ask)).memories}


async def test_counters_and_timelines_are_for_those_who_ask_for_all(tmp_path: Path) -> None:
    assert {"timeline", "noise_counter"} <= await kinds(tmp_path / "all", RecallBlocks.ALL)
    answers = await kinds(tmp_path / "answers", RecallBlocks.ANSWERS)
    assert answers.isdisjoint({"timeline", "noise_counter"})
    assert "episode_summary" in answers


async def answered(folder: Path, blocks: RecallBlocks) -> list[str]:
    async with memory_in(folder) as memory:
        await give(
            memory,
            entry("The spare key of the rack is in drawer 7.", "Noted."),
            entry(QUESTION, "I don't know where that key is.", minutes=60),
            entry(QUESTION, "I have no information about it.", minutes=120),
        )
        await memory.settle()
        ask = RecallRequest(agent="analyst", text=QUESTION, blocks=blocks)
        return [block.text for block in (await memory.recall(ask)).memories]


async def test_a_question_that_nobody_could_answer_is_no_memory_of_the_fact(
    tmp_path: Path,
) -> None:
    answers = await answered(tmp_path / "answers", RecallBlocks.ANSWERS)
    assert "drawer 7" in answers[0]
    assert not any("don't know" in text or "no information" in text for text in answers)
    everything = await answered(tmp_path / "all", RecallBlocks.ALL)
    assert any("don't know" in text or "no information" in text for text in everything)


async def test_a_question_that_was_repeated_is_shown_once(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        turns = [
            entry(QUESTION, f"It was in drawer {number}.", minutes=60 * number)
            for number in range(1, 5)
        ]
        await give(memory, *turns)
        await memory.settle()
        ask = RecallRequest(agent="analyst", text=QUESTION, blocks=RecallBlocks.ANSWERS)
        matches = [
            block
            for block in (await memory.recall(ask)).memories
            if block.kind == "episode_summary"
        ]
        assert len(matches) == 1
        every = await memory.recall(RecallRequest(agent="analyst", text=QUESTION, limit=10))
        assert len(every.memories) == 4


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("Where is it?", "I don't know."),
        ("Where is it?", "I\u2019m not sure where that is."),
        ("Where is it?", "Sorry, I have no information about the key."),
        ("Where is it?", "I don't have any record of that."),
        ("Where is it?", "You haven't told me yet."),
        ("Wo ist er?", "Das weiß ich nicht. Ich weiß nicht, wo er ist."),
        ("O\u00f9 est la cl\u00e9 ?", "Je ne sais pas."),
    ],
)
def test_a_reply_that_knows_nothing_is_recognised(question: str, reply: str) -> None:
    assert is_non_answer(question, reply)


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("Where is it?", "It is in drawer 7."),
        ("I don't know the code, it is 4711.", "Noted."),
        ("Where is it?", ""),
        ("What do I say?", "Say: I don't know. " + "Then explain the plan in detail. " * 20),
    ],
)
def test_what_tells_something_is_an_answer(question: str, reply: str) -> None:
    assert not is_non_answer(question, reply)
