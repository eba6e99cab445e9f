"""Vectors beside the words: made behind the verbs, never in the way of an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from memplane.episodes import store as table
from memplane.episodes.episode_embeddings import EpisodeEmbeddings, text_to_embed
from memplane.episodes.service import EpisodeService
from memplane.errors import EmbeddingUnavailable, TextRefused
from memplane.search.embeddings.minilm import MiniLmEmbedder
from memplane.search.embeddings.vectors import quantize_vector
from tests.clawdapus.service_contract import MemoryService
from tests.episodes.remembering import entry, give, memory_in, recall
from tests.support.in_process import memplane_here
from tests.support.running import running_memplane

SEA = entry("Where shall we go?", "The plan: sail to the island.", minutes=1)
HILL = entry("Where shall we go?", "The plan: walk up the hill.", minutes=500)


class Meanings:
    """An embedder that knows two things: water and land. It waits where a model would compute."""

    def __init__(self, name: str = "two", *, broken: bool = False, stuck: bool = False) -> None:
        self.name = name
        self.broken = broken
        self.stuck = stuck
        self.longest = 1000
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        await asyncio.sleep(0)
        if self.broken:
            raise EmbeddingUnavailable("the model is away")
        if self.stuck:
            await asyncio.Event().wait()
        if any(len(text) > self.longest for text in texts):
            raise TextRefused("that is too long")
        self.texts += [text for text in texts if text != "memory"]
        return [_vector(text) for text in texts]

    async def close(self) -> None:
        await asyncio.sleep(0)


def _vector(text: str) -> bytes:
    water = sum(word in text for word in ("sail", "island", "boat", "swim"))
    land = sum(word in text for word in ("walk", "hill", "mountain"))
    return quantize_vector([float(water), float(land), 0.1])


async def embedded(memory: EpisodeService) -> None:
    await memory.settle()
    while (await memory.status()).unembedded:  # noqa: ASYNC110 - another task makes them
        await asyncio.sleep(0)


async def vectors(memory: EpisodeService) -> list[str]:
    sql = "SELECT e.id FROM vectors v JOIN episodes e ON e.key = v.key ORDER BY 1"
    return [one for (one,) in await memory._records.read(lambda rows: list(rows.rows(sql)))]


async def first(memory: EpisodeService, question: str) -> str:
    return (await recall(memory, question, limit=5))[0].id


async def test_of_equal_words_the_meaning_decides(tmp_path: Path) -> None:
    async with memory_in(tmp_path / "with", Meanings()) as memory:
        await give(memory, SEA, HILL)
        await embedded(memory)
        assert await first(memory, "Is the plan to swim?") == SEA["id"]
        assert await first(memory, "Is the plan a mountain?") == HILL["id"]
    async with memory_in(tmp_path / "without", None) as memory:
        await give(memory, SEA, HILL)
        await memory.settle()
        told = {await first(memory, one) for one in ("Is the plan to swim?", "Is the plan far?")}
        assert len(told) == 1


async def test_what_meaning_added_is_explained(tmp_path: Path) -> None:
    async with memory_in(tmp_path, Meanings()) as memory:
        await give(memory, SEA, HILL)
        await embedded(memory)
        best = (await recall(memory, "Is the plan to swim?", limit=5, explain=True))[0]
        assert best.why is not None
        assert best.why.signals["meaning"].place == 1
        assert best.why.signals["meaning"].added > 0


async def test_a_restart_goes_on_where_it_was_and_another_model_begins_anew(
    tmp_path: Path,
) -> None:
    model = Meanings()
    async with memory_in(tmp_path, model) as memory:
        await give(memory, SEA)
        await embedded(memory)
    again = Meanings()
    async with memory_in(tmp_path, again) as memory:
        await give(memory, HILL)
        await embedded(memory)
    assert len(model.texts) == len(again.texts) == 1
    other = Meanings("another")
    async with memory_in(tmp_path, other) as memory:
        await embedded(memory)
        assert sorted(await vectors(memory)) == sorted([SEA["id"], HILL["id"]])
    assert len(other.texts) == 2


async def test_a_vector_goes_with_its_turn(tmp_path: Path) -> None:
    async with memory_in(tmp_path, Meanings()) as memory:
        await give(memory, SEA, HILL)
        await embedded(memory)
        await memory.forget("analyst", [SEA["id"]])
        assert await vectors(memory) == [HILL["id"]]
        assert (await memory.rebuild()).same


async def test_without_its_model_recall_answers_by_words(tmp_path: Path) -> None:
    model = Meanings(broken=True)
    async with memory_in(tmp_path, model) as memory:
        await give(memory, SEA, HILL)
        await memory.settle()
        assert await recall(memory, "Is the plan to swim?", limit=5)
        while not (await memory.status()).degraded:  # noqa: ASYNC110 - another task tries
            await asyncio.sleep(0)
        assert "the model is away" in (await memory.status()).degraded
        assert (await memory.status()).unembedded == 2
        model.broken = False
        await give(memory, entry("Any news?", "The boat has a new sail.", minutes=900))
        await embedded(memory)
        assert (await memory.status()).degraded == ""


async def test_a_model_that_does_not_answer_holds_nobody_up(tmp_path: Path) -> None:
    model = Meanings()
    async with memory_in(tmp_path, model) as memory:
        await give(memory, SEA, HILL)
        await embedded(memory)
        model.stuck = True
        assert await recall(memory, "Is the plan to swim?", limit=5)
        model.stuck = False


async def test_a_text_that_the_model_refuses_is_left_out_alone(tmp_path: Path) -> None:
    long = entry("Tell me everything", "The plan: " + "sail on " * 200, minutes=2)
    async with memory_in(tmp_path, Meanings()) as memory:
        await give(memory, SEA, long, HILL)
        await embedded(memory)
        assert await first(memory, "Is the plan to swim?") == SEA["id"]
        assert len(await vectors(memory)) == 3


async def test_a_model_that_refuses_all_texts_is_told_of(tmp_path: Path) -> None:
    model = Meanings()
    model.longest = 10
    async with memory_in(tmp_path, model) as memory:
        await give(memory, *(entry(f"Fact {n}", f"The plan {n}.", minutes=n) for n in range(9)))
        await memory.settle()
        while not (await memory.status()).degraded:  # noqa: ASYNC110 - another task tries
            await asyncio.sleep(0)
        assert "takes none of the texts" in (await memory.status()).degraded
        # The first may have been tried alone, and one text says nothing about a model.
        assert (await memory.status()).unembedded >= 8


async def test_a_model_that_raises_anything_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def surprise(*_: object) -> list[bytes]:
        raise ZeroDivisionError("a surprise")

    model = Meanings()
    monkeypatch.setattr(model, "embed", surprise)
    async with memory_in(tmp_path, model) as memory:
        await give(memory, SEA)
        await memory.settle()
        assert await recall(memory, "Is the plan to swim?", limit=5)
        while not (await memory.status()).degraded:  # noqa: ASYNC110 - another task tries
            await asyncio.sleep(0)
        assert "a surprise" in (await memory.status()).degraded


async def test_closing_does_not_wait_for_a_model(tmp_path: Path) -> None:
    model = Meanings(stuck=True)
    async with memory_in(tmp_path, model) as memory:
        await give(memory, SEA)
        await memory.settle()
    assert model.texts == []


async def test_a_rebuild_that_changed_rows_gives_them_vectors_again(tmp_path: Path) -> None:
    async with memory_in(tmp_path, Meanings()) as memory:
        await give(memory, SEA, HILL)
        await embedded(memory)
        change = "UPDATE episodes SET answer = 'something else'"
        await memory._records.write(lambda rows: rows.run(change))
        assert not (await memory.rebuild()).same
        while (await memory.status()).unembedded:  # noqa: ASYNC110 - another task makes them
            await asyncio.sleep(0)
        assert await first(memory, "Is the plan to swim?") == SEA["id"]


async def test_a_vector_is_never_kept_for_another_text(tmp_path: Path) -> None:
    async with memory_in(tmp_path, Meanings()) as memory:
        await give(memory, SEA)
        await embedded(memory)
        (one,) = await memory._records.read(lambda rows: table.list_unembedded(rows, "new", 0, 5))
        other = replace(one, answer="what was here before a rebuild")
        await memory._records.write(
            lambda rows: table.insert_vectors(rows, "new", [(other, b"x")])
        )
        assert await memory._records.read(lambda rows: table.count_unembedded(rows, "new")) == 1


# As a user meets it


def test_the_model_that_comes_with_memplane_serves_a_running_one(tmp_path: Path) -> None:
    with running_memplane(
        tmp_path / "home", env={"MEMPLANE_VECTORS_SOURCE": "builtin"}
    ) as running:
        service = MemoryService(running.address, running.token)
        for one in (SEA, HILL):
            assert service.post("/retain", {"agent_id": "a", "entry": one}).status == 202
        while json.loads(service.ask("GET", "/api/v1/status").body)["memory"]["unembedded"]:
            pass
        asked = {"agent_id": "a", "limit": 5, "explain": True}
        question = [{"role": "user", "content": "Does the plan need a boat for the ocean?"}]
        reply = service.post("/recall", {**asked, "messages": question})
        best = json.loads(reply.body)["memories"][0]
        assert best["id"] == SEA["id"]
        assert best["why"]["signals"]["meaning"]["place"] == 1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"MEMPLANE_VECTORS_SOURCE": "endpoint"}, "vectors.url"),
        ({"MEMPLANE_VECTORS_SOURCE": "folder"}, "vectors.folder"),
        ({"MEMPLANE_VECTORS_SOURCE": "magic"}, "expected builtin, folder, endpoint"),
    ],
)
def test_half_a_choice_is_said_so(tmp_path: Path, settings: dict[str, str], told: str) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    done = memplane_here(tmp_path / "home", "recall", "--agent", "a", "osprey", env=settings)
    assert done.returncode != 0
    assert told in done.stderr


# Candidates by meaning


async def ids(memory: EpisodeService, question: str, limit: int = 5) -> list[str]:
    return [block.id for block in await recall(memory, question, limit=limit)]


async def test_a_turn_is_found_that_has_no_word_of_the_question(tmp_path: Path) -> None:
    async with memory_in(tmp_path / "with", Meanings()) as memory:
        await give(memory, SEA, HILL)
        await embedded(memory)
        assert (await ids(memory, "Anybody for a boat?"))[0] == SEA["id"]
        assert (await ids(memory, "Anybody for a mountain?"))[0] == HILL["id"]
    async with memory_in(tmp_path / "without", None) as memory:
        await give(memory, SEA, HILL)
        await memory.settle()
        assert await ids(memory, "Anybody for a boat?") == []


async def test_what_comes_and_goes_between_two_questions_is_seen(tmp_path: Path) -> None:
    async with memory_in(tmp_path, Meanings()) as memory:
        await give(memory, HILL)
        await embedded(memory)
        assert SEA["id"] not in await ids(memory, "Anybody for a boat?")
        await give(memory, SEA)
        await embedded(memory)
        assert (await ids(memory, "Anybody for a boat?"))[0] == SEA["id"]
        await memory.forget("analyst", [SEA["id"]])
        assert SEA["id"] not in await ids(memory, "Anybody for a boat?")


async def test_turns_near_in_meaning_do_not_depend_on_the_order_of_arrival(tmp_path: Path) -> None:
    turns = [entry("Any plans?", f"Sail to island {n}.", minutes=60 * n) for n in range(40)]
    answers: list[list[str]] = []
    for name, order in (("one", turns), ("other", turns[::-1])):
        async with memory_in(tmp_path / name, Meanings()) as memory:
            await give(memory, *order)
            await embedded(memory)
            answers.append(await ids(memory, "Anybody for a boat?", 10))
    assert answers[0] == answers[1] != []


EVERYDAY = (
    ("We decided to go with PostgreSQL for the orders service.", "which database do we use?"),
    ("Our deploy window is Tuesdays between 14:00 and 16:00.", "when may we ship to production?"),
    ("The kitchen tap drips; the plumber comes on Wednesday.", "who repairs the leak?"),
    ("My daughter Lena is allergic to peanuts.", "which food must the kid avoid?"),
    ("The train to Porto leaves at nine.", "when must I be at the railway station?"),
)
UNRELATED = ("how tall is the Eiffel tower?", "who wrote Hamlet?", "how do bees make honey?")


async def test_the_model_that_comes_with_memplane_understands_paraphrases(tmp_path: Path) -> None:
    notes = [entry(note, "Noted.", minutes=60 * n) for n, (note, _) in enumerate(EVERYDAY)]
    async with memory_in(tmp_path, MiniLmEmbedder()) as memory:
        await give(memory, *notes)
        await embedded(memory)
        for note, (_, question) in zip(notes, EVERYDAY, strict=True):
            assert (await ids(memory, question))[:1] == [note["id"]], question
        for question in UNRELATED:
            assert await ids(memory, question) == [], question


@pytest.mark.parametrize(
    ("question", "answer", "text"),
    [
        ("Where?", "At home.", "Where?\nAt home."),
        ("", "Ada: good morning", "Ada: good morning"),
        ("Ben: hello", "Ada: good morning", "Ada: good morning"),
        ("Where?", "x" * 999, "Where?\n" + "x" * 300),
    ],
)
def test_the_user_and_the_beginning_of_the_reply_are_embedded(
    question: str, answer: str, text: str
) -> None:
    assert text_to_embed(question, answer) == text


class Batches:
    """Two batches of texts to embed; meanwhile so many turns are written."""

    def __init__(self, memory: EpisodeService, written: int) -> None:
        self.memory = memory
        self.written = written
        self.left = 2

    async def warm(self) -> None:
        await asyncio.sleep(0)

    async def embed_pending(self) -> bool:
        await asyncio.sleep(0)
        self.memory._upkeep._written += self.written
        self.left -= 1
        return self.left >= 0


@pytest.mark.parametrize(("written", "pauses"), [(0, 0), (100_000, 2)])
async def test_embedding_pauses_while_many_turns_are_written(
    written: int, pauses: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        await asyncio.sleep(0)
        paused.append(seconds)

    async with memory_in(tmp_path, None) as memory:
        await memory.settle()
        async with memory._upkeep.working:  # so that nothing else of it pauses
            with monkeypatch.context() as patched:
                patched.setattr(memory._upkeep, "_pause", pause)
                batches = cast("EpisodeEmbeddings", Batches(memory, written))
                await memory._upkeep._embed_all(batches)
    assert len(paused) == pauses
