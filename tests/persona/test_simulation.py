"""P4: whatever fails, no edit is lost, all machines agree in the end, and nothing returns.

Histories are drawn from seeds and from nothing else. To look at one that failed:

    run_history(SEED) or run_history(SEED, craft=INDEX)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from memplane.persona.model import MergeBase, MergedDocument, OptionalText, RemoteDocument
from tests.persona.crafts import CARRY_FORWARD, CRAFTS, FACT, INDEX, SELF_OBSERVATIONS, Documents
from tests.persona.mutants import MUTANTS, Mutant
from tests.persona.simulator import LINES, Craft, Verdict, run_history

EVERYDAY = 1_000
"""Eight of these find the rarest of the mistakes, which shows in one history of some hundreds."""
LONG = 50_000
MUTANT_HISTORIES = 5_000


def violations(seeds: Iterable[int], craft: Craft = LINES) -> list[Verdict]:
    """What went wrong, with the seeds: at most three, because one is enough to begin with."""
    found: list[Verdict] = []
    for seed in seeds:
        if verdict := run_history(seed, craft=craft):
            found.append(verdict)
            if len(found) == 3:
                break
    return found


@pytest.mark.parametrize("part", range(8))
def test_nothing_is_lost_and_nothing_returns(part: int) -> None:
    first = 10_000_000 + part * EVERYDAY
    assert violations(range(first, first + EVERYDAY)) == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_nothing_is_lost_and_nothing_returns_in_a_million(part: int) -> None:
    first = 20_000_000 + part * LONG
    assert violations(range(first, first + LONG)) == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name.replace(" ", "-"))
def test_every_mistake_in_the_steps_is_found(mutant: Mutant) -> None:
    steps = mutant.build()
    assert any(run_history(seed, steps=steps) for seed in range(MUTANT_HISTORIES)), (
        f"{mutant.name}: no violation in {MUTANT_HISTORIES} histories"
    )


def test_there_are_enough_mistakes() -> None:
    assert len(MUTANTS) >= 12
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("craft", [LINES, INDEX, FACT], ids=["lines", "index", "fact"])
def test_a_seed_tells_the_same_story_twice(craft: Craft) -> None:
    for seed in range(25):
        once, again = run_history(seed, craft=craft), run_history(seed, craft=craft)
        assert once == again, f"seed {seed}"


def test_histories_are_not_empty() -> None:
    """A judge who sees nothing finds nothing: most histories must end with some text."""
    finals = [run_history(seed).final for seed in range(200)]
    assert sum(text is not None and len(text.split()) > 2 for text in finals) > 80
    assert sum(text is None for text in finals) > 5


# Real documents, and the production merges.


def craft_name(craft: object) -> str:
    return craft.key if isinstance(craft, Documents) else ""


@pytest.mark.parametrize("craft", CRAFTS, ids=craft_name)
def test_real_documents_lose_nothing(craft: Documents) -> None:
    first = 30_000_000
    assert violations(range(first, first + 80), craft) == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("craft", CRAFTS, ids=craft_name)
def test_real_documents_lose_nothing_in_many_histories(craft: Documents, part: int) -> None:
    first = 40_000_000 + part * 1_000
    assert violations(range(first, first + 1_000), craft) == []


@dataclass(frozen=True, slots=True)
class Forgetful(Documents):
    """A merge that does not know what was common, and so cannot tell removed from never had."""

    def combine(
        self, base: MergeBase | None, local: OptionalText, remote: RemoteDocument, changed: str
    ) -> MergedDocument:
        return Documents.combine(self, None, local, remote, changed)


@dataclass(frozen=True, slots=True)
class Selfish(Documents):
    """A merge that takes what is here."""

    def combine(
        self, base: MergeBase | None, local: OptionalText, remote: RemoteDocument, changed: str
    ) -> MergedDocument:
        return MergedDocument(local, changed=changed)


@dataclass(frozen=True, slots=True)
class Careless(Documents):
    """A merge that keeps no conflict copy."""

    def combine(
        self, base: MergeBase | None, local: OptionalText, remote: RemoteDocument, changed: str
    ) -> MergedDocument:
        combined = Documents.combine(self, base, local, remote, changed)
        return MergedDocument(combined.text, changed=combined.changed)


@pytest.mark.parametrize(
    ("broken", "craft"),
    [
        (Forgetful, SELF_OBSERVATIONS),
        (Forgetful, CARRY_FORWARD),
        (Forgetful, INDEX),
        (Selfish, SELF_OBSERVATIONS),
        (Selfish, FACT),
        (Careless, FACT),
    ],
)
def test_a_broken_merge_is_found(broken: type[Documents], craft: Documents) -> None:
    bad = broken(craft.key, craft.template, craft.line, craft.headings, craft.by_line)
    assert violations(range(300), bad)
