"""What was asked of memory and what it answered, checked: nothing stale, nothing revived.

Each fact has a word of its own, so that a question about it has one right answer. An operation
without an answer may have happened or not, and proves nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.episodes.remembering import entry


class Unanswered(Exception):
    """Nobody knows whether it happened."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The three verbs, each for one fact; `recall` says whether it was answered with the fact."""

    retain: Callable[[int], Awaitable[None]]
    recall: Callable[[int], Awaitable[bool]]
    forget: Callable[[int], Awaitable[None]]


@dataclass(slots=True)
class Fact:
    """What is known of one fact: None is not known."""

    retained: bool | None = False
    forgotten: bool | None = False

    @property
    def expected(self) -> bool | None:
        """Whether a question must be answered with it; None when either is right."""
        if self.forgotten is True:
            return False
        if self.forgotten is None or self.retained is None:
            return None
        return self.retained


@dataclass(slots=True)
class Checker:
    """Asks in some order, and keeps what was wrong."""

    asked: Asked
    facts: dict[int, Fact] = field(default_factory=dict[int, Fact])
    operations: int = 0
    stale: list[int] = field(default_factory=list[int])
    revived: list[int] = field(default_factory=list[int])
    at_work: int = 0
    moved: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def retain(self, number: int) -> None:
        fact = self.facts.setdefault(number, Fact())
        try:
            await self.asked.retain(number)
        except Unanswered:
            fact.retained = fact.retained or None
        else:
            fact.retained = True
        self.operations += 1

    async def forget(self, number: int) -> None:
        fact = self.facts.setdefault(number, Fact())
        try:
            await self.asked.forget(number)
        except Unanswered:
            fact.forgotten = fact.forgotten or None
        else:
            fact.forgotten = True
        self.operations += 1

    async def recall(self, number: int) -> None:
        fact = self.facts.setdefault(number, Fact())
        try:
            told = await self.asked.recall(number)
        except Unanswered:
            return
        finally:
            self.operations += 1
        if fact.expected is True and not told:
            self.stale.append(number)
        if fact.expected is False and told:
            self.revived.append(number)

    async def work(self, facts: range, operations: int, seed: int) -> None:
        """Do so many operations on these facts, which nobody else touches."""
        some = random.Random(seed)  # noqa: S311
        for _ in range(operations):
            number = some.choice(facts)
            verb = some.choices((self.retain, self.recall, self.forget), (5, 5, 1))[0]
            await verb(number)
            if some.random() < 0.5:
                await self.recall(number)
            async with self.moved:
                self.moved.notify_all()
        self.at_work -= 1
        async with self.moved:
            self.moved.notify_all()

    async def reached(self, operations: int) -> None:
        """Wait until so many operations are done, or nobody works any more."""
        async with self.moved:
            await self.moved.wait_for(lambda: self.operations >= operations or not self.at_work)

    async def ask_all(self) -> None:
        """Ask about every fact once more."""
        for number in sorted(self.facts):
            await self.recall(number)


def word(number: int) -> str:
    """Return the word that only one fact has."""
    return "quirk" + "".join(chr(ord("a") + int(digit)) for digit in f"{number:06}") + "z"


def fact_entry(number: int) -> dict[str, object]:
    """A turn about one fact."""
    return entry(
        f"Remember {word(number)} please.",
        f"The value of {word(number)} is {number * 7919}.",
        minutes=number,
        id=f"hist1_{number:064x}",
    )
