"""Measuring recall: conversations in a home of their own, or an agent that remembers already."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from memplane.episodes.api_types import MAX_RECALL_BYTES, MAX_RECALL_LIMIT, RecallRequest
from memplane.errors import RecordsError
from memplane.evaluation.dataset import DatasetConversation, DatasetQuestion, build_entries
from memplane.evaluation.metrics import (
    DiskUsage,
    QuestionResult,
    RecallReport,
    build_report,
    extract_entries,
)
from memplane.home import Home
from memplane.service.client import Client
from memplane.service.operations.memory import recall

OpenClient: TypeAlias = Callable[[Path], AbstractAsyncContextManager[Client]]
"""Opens a client whose home is that folder."""
ProgressCallback: TypeAlias = Callable[[str], None]
"""Is told what is done now."""

_FALSE_RETURN_LIMIT: Final = 10
_POLL_INTERVAL_S: Final = 0.05
_SETTLE_TIMEOUT_S: Final = 600.0


async def measure_conversations(
    conversations: Sequence[DatasetConversation], open_client: OpenClient, watch: ProgressCallback
) -> RecallReport:
    """Let an agent for each conversation retain it, and ask them all that is asked about it.

    The home in which they remember lasts only as long as this.

    Raises:
        RecordsError: Memory does not come to an end with what it was given.
    """
    named = {f"conversation-{number}": one for number, one in enumerate(conversations, 1)}
    answers: list[QuestionResult] = []
    with TemporaryDirectory(prefix="memplane-bench-") as folder:
        home = Home(Path(folder) / "home")
        async with open_client(home.path) as client:
            for agent, conversation in named.items():
                watch(f"{conversation.name}: {len(conversation.turns)} turns to retain")
                await _retain(client, agent, conversation)
            watch("waiting until memory has settled")
            episodes = await _wait_until_settled(client)
            for agent, conversation in named.items():
                watch(f"{conversation.name}: {len(conversation.questions)} questions to ask")
                answers += await _answers_about(client, agent, conversation)
            watch("asking each agent about another conversation")
            false_returns = await _false_returns(client, named)
        # Behind the client's end, when the database has taken its log in.
        disk = await asyncio.to_thread(_disk, home, episodes)
    return build_report(answers, false_returns=false_returns, disk=disk)


async def measure_questions(
    questions: Sequence[DatasetQuestion], client: Client, *, agent: str, watch: ProgressCallback
) -> RecallReport:
    """Ask an agent questions, of which there is at least one; it retains nothing."""
    watch(f"{agent}: {len(questions)} questions to ask")
    return build_report([await _answer(client, agent, one) for one in questions])


async def _retain(client: Client, agent: str, conversation: DatasetConversation) -> None:
    for entry in build_entries(conversation, agent):
        await client.retain(entry, agent=agent)


async def _wait_until_settled(client: Client) -> int:
    """Wait until nothing is left to be done, and return how many episodes there are."""
    degraded = ""
    try:
        async with asyncio.timeout(_SETTLE_TIMEOUT_S):
            while True:
                memory = (await client.status()).memory
                if memory is None:
                    return 0
                if not (memory.busy or memory.underived or memory.unindexed or memory.unembedded):
                    return memory.episodes
                degraded = memory.degraded
                await asyncio.sleep(_POLL_INTERVAL_S)
    except TimeoutError as error:
        why = f": {degraded}" if degraded else ""
        raise RecordsError(
            f"memory did not settle in {_SETTLE_TIMEOUT_S:.0f} seconds{why}"
        ) from error


async def _answers_about(
    client: Client, agent: str, conversation: DatasetConversation
) -> list[QuestionResult]:
    sessions = {turn.id: turn.session for turn in conversation.turns}
    return [
        replace(
            await _answer(client, agent, one), conversation=conversation.name, sessions=sessions
        )
        for one in conversation.questions
    ]


async def _answer(client: Client, agent: str, question: DatasetQuestion) -> QuestionResult:
    # As many bytes as there may be: it is the ranking that is measured, not where it is cut.
    ask = RecallRequest(
        agent=agent, text=question.text, limit=MAX_RECALL_LIMIT, max_bytes=MAX_RECALL_BYTES
    )
    started = time.perf_counter()
    recalled = await client.call(recall, ask)
    seconds = time.perf_counter() - started
    return QuestionResult(
        question.evidence, extract_entries(recalled.memories), seconds, question.category
    )


async def _false_returns(client: Client, named: Mapping[str, DatasetConversation]) -> float | None:
    """Ask each agent about the conversation before its own; None when there is but one."""
    if len(named) == 1:
        return None
    agents = list(named)
    asked = [
        RecallRequest(agent=other, text=question.text, limit=_FALSE_RETURN_LIMIT)
        for agent, other in zip(agents, [*agents[1:], agents[0]], strict=True)
        for question in named[agent].questions
        if question.evidence
    ]
    returned = [bool((await client.call(recall, ask)).memories) for ask in asked]
    return sum(returned) / len(returned)


def _disk(home: Home, episodes: int) -> DiskUsage:
    """Add up the files of the database and of the text index."""
    database = _bytes(home.path.glob(f"{home.database.name}*"))
    index = _bytes(home.indexes.rglob("*"))
    return DiskUsage(episodes, database, index, (database + index) / max(episodes, 1))


def _bytes(files: Iterable[Path]) -> int:
    return sum(one.stat().st_size for one in files if one.is_file())
