"""Measuring recall: conversations in a home of their own, or an agent that remembers already."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from memplane.errors import RecordsError
from memplane.home import Home
from memplane.measuring.dataset import Conversation, Question, entries_of
from memplane.measuring.figures import Answer, Disk, Report, found_in, report_of
from memplane.memory.contract import MOST_ASKED, MOST_BYTES_ASKED, Ask
from memplane.plane.contract import Plane

OpenPlane: TypeAlias = Callable[[Path], AbstractAsyncContextManager[Plane]]
"""Opens the plane whose home is that folder."""
Watch: TypeAlias = Callable[[str], None]
"""Is told what is done now."""

_ASKED_OF_OTHERS: Final = 10
_PAUSE: Final = 0.05
_PATIENCE: Final = 600.0


async def measure_conversations(
    conversations: Sequence[Conversation], open_plane: OpenPlane, watch: Watch
) -> Report:
    """Let an agent for each conversation retain it, and ask them all that is asked about it.

    The home in which they remember lasts only as long as this.

    Raises:
        RecordsError: Memory does not come to an end with what it was given.
    """
    named = {f"conversation-{number}": one for number, one in enumerate(conversations, 1)}
    answers: list[Answer] = []
    with TemporaryDirectory(prefix="memplane-bench-") as folder:
        home = Home(Path(folder) / "home")
        async with open_plane(home.path) as plane:
            for agent, conversation in named.items():
                watch(f"{conversation.name}: {len(conversation.turns)} turns to retain")
                await _retain(plane, agent, conversation)
            watch("waiting until memory has settled")
            episodes = await _settled(plane)
            for agent, conversation in named.items():
                watch(f"{conversation.name}: {len(conversation.questions)} questions to ask")
                answers += await _answers_about(plane, agent, conversation)
            watch("asking each agent about another conversation")
            false_returns = await _false_returns(plane, named)
        # Behind the plane's end, when the database has taken its log in.
        disk = await asyncio.to_thread(_disk, home, episodes)
    return report_of(answers, false_returns=false_returns, disk=disk)


async def measure_questions(
    questions: Sequence[Question], plane: Plane, *, agent: str, watch: Watch
) -> Report:
    """Ask an agent questions, of which there is at least one; it retains nothing."""
    watch(f"{agent}: {len(questions)} questions to ask")
    return report_of([await _answer(plane, agent, one) for one in questions])


async def _retain(plane: Plane, agent: str, conversation: Conversation) -> None:
    for entry in entries_of(conversation, agent):
        await plane.retain(agent, json.dumps(entry).encode())


async def _settled(plane: Plane) -> int:
    """Wait until nothing is left to be done, and return how many episodes there are."""
    degraded = ""
    try:
        async with asyncio.timeout(_PATIENCE):
            while True:
                memory = (await plane.status()).memory
                if memory is None:
                    return 0
                if not (memory.busy or memory.underived or memory.unindexed or memory.unembedded):
                    return memory.episodes
                degraded = memory.degraded
                await asyncio.sleep(_PAUSE)
    except TimeoutError as error:
        why = f": {degraded}" if degraded else ""
        raise RecordsError(f"memory did not settle in {_PATIENCE:.0f} seconds{why}") from error


async def _answers_about(plane: Plane, agent: str, conversation: Conversation) -> list[Answer]:
    sessions = {turn.id: turn.session for turn in conversation.turns}
    return [
        replace(
            await _answer(plane, agent, one), conversation=conversation.name, sessions=sessions
        )
        for one in conversation.questions
    ]


async def _answer(plane: Plane, agent: str, question: Question) -> Answer:
    # As many bytes as there may be: it is the ranking that is measured, not where it is cut.
    ask = Ask(agent=agent, text=question.text, limit=MOST_ASKED, max_bytes=MOST_BYTES_ASKED)
    started = time.perf_counter()
    recalled = await plane.recall(ask)
    seconds = time.perf_counter() - started
    return Answer(question.evidence, found_in(recalled.memories), seconds, question.category)


async def _false_returns(plane: Plane, named: Mapping[str, Conversation]) -> float | None:
    """Ask each agent about the conversation before its own; None when there is but one."""
    if len(named) == 1:
        return None
    agents = list(named)
    asked = [
        Ask(agent=other, text=question.text, limit=_ASKED_OF_OTHERS)
        for agent, other in zip(agents, [*agents[1:], agents[0]], strict=True)
        for question in named[agent].questions
    ]
    returned = [bool((await plane.recall(ask)).memories) for ask in asked]
    return sum(returned) / len(returned)


def _disk(home: Home, episodes: int) -> Disk:
    """Add up the files of the database and of the text index."""
    database = _bytes(home.path.glob(f"{home.database.name}*"))
    index = _bytes(home.indexes.rglob("*"))
    return Disk(episodes, database, index, (database + index) / max(episodes, 1))


def _bytes(files: Iterable[Path]) -> int:
    return sum(one.stat().st_size for one in files if one.is_file())
