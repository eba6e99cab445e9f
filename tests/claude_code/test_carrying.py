"""What was heard reaches memory, also when that is away for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import pytest

from memplane.errors import HomeError, InvalidRequest, MemplaneError, OwnerUnavailable
from memplane.observations.api_types import IngestReceipt, PromptView, RejectView, StartedSession
from memplane.observations.requests import Heard, HeardText, SessionEnded, SessionWanted
from memplane.service.client import Client
from memplane.service.operation import Operation
from memplane.service.session_ingest import IngestSummary, SessionIngest

R = TypeVar("R")

WANTED = SessionWanted(agent="a", tier=2)
ENDED = SessionEnded(exit_code=0)


def said(text: str) -> Heard:
    return Heard(texts=(HeardText(text=text),))


class Memories:
    """Memory of a few words; `away` are the errors of the next attempts to open it."""

    def __init__(self, *away: MemplaneError) -> None:
        self.away = list(away)
        self.heard: list[str] = []
        self.begun: list[SessionWanted] = []
        self.ended: list[SessionEnded] = []
        self.opened = 0
        self.told = asyncio.Event()
        self.missed = asyncio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Client]:
        await asyncio.sleep(0)
        self.opened += 1
        if self.away:
            self.missed.set()
            raise self.away.pop(0)
        yield Client.over(self)

    async def send(self, operation: Operation[..., R], arguments: dict[str, Any]) -> R:
        await asyncio.sleep(0)
        answers: dict[str, Callable[..., Any]] = {
            "begin_session": self.begin,
            "learn_from_session": self.hear,
            "end_session": self.end,
        }
        assert arguments.pop("agent") == "a"
        return cast("R", answers[operation.name](**arguments))

    def begin(self, body: SessionWanted) -> StartedSession:
        self.begun.append(body)
        block = PromptView(block="", tokens=0, budget=0, included=(), dropped=(), candidates=0)
        return StartedSession(session=7, prompt=block)

    def hear(self, id: int, body: Heard) -> IngestReceipt:  # noqa: A002 - its name in the row
        assert id == 7
        if body.texts[0].text == "refused":
            raise InvalidRequest("no")
        self.heard.append(body.texts[0].text)
        self.told.set()
        return IngestReceipt(asserted=(len(self.heard),))

    def end(self, id: int, body: SessionEnded) -> None:  # noqa: A002 - its name in the row
        assert id == 7
        self.ended.append(body)


async def at_once(_: float) -> None:
    await asyncio.sleep(0)


def carrier(memories: Memories, session: int | None = 7) -> SessionIngest:
    return SessionIngest(memories.open, WANTED, session, at_once)


async def carried(carrying: SessionIngest, queue: asyncio.Queue[Heard | None]) -> None:
    await carrying.drain_queue(queue)
    await carrying.finish(ENDED)


async def test_what_is_heard_is_carried_while_the_session_goes_on() -> None:
    memories = Memories()
    carrying, queue = carrier(memories), asyncio.Queue[Heard | None]()
    task = asyncio.create_task(carrying.drain_queue(queue))
    queue.put_nowait(said("one"))
    await memories.told.wait()
    assert memories.heard == ["one"]
    queue.put_nowait(said("two"))
    queue.put_nowait(None)
    await task
    await carrying.finish(ENDED)
    assert memories.heard == ["one", "two"]
    assert memories.ended == [ENDED]
    assert (carrying.trouble, carrying.left) == (None, 0)
    assert carrying.learned.summary() == "learned 2"


async def test_what_comes_at_once_is_carried_at_once() -> None:
    memories, queue = Memories(), asyncio.Queue[Heard | None]()
    for one in (said("one"), said("two"), said("three"), None):
        queue.put_nowait(one)
    await carried(carrier(memories), queue)
    assert memories.heard == ["one", "two", "three"]
    assert memories.opened == 1


async def test_what_does_not_get_there_is_tried_again_and_stays_in_order() -> None:
    memories = Memories(HomeError("busy"))
    carrying, queue = carrier(memories), asyncio.Queue[Heard | None]()
    task = asyncio.create_task(carrying.drain_queue(queue))
    queue.put_nowait(said("one"))
    await memories.missed.wait()
    queue.put_nowait(said("two"))
    queue.put_nowait(None)
    await task
    await carrying.finish(ENDED)
    assert memories.heard == ["one", "two"]
    assert carrying.trouble is None


async def test_what_is_left_is_tried_at_the_end() -> None:
    away = [OwnerUnavailable("gone")]
    memories, queue = Memories(*away), asyncio.Queue[Heard | None]()
    queue.put_nowait(said("one"))
    queue.put_nowait(None)
    carrying = carrier(memories)
    await carried(carrying, queue)
    assert (carrying.left, carrying.trouble) == (0, None)
    assert memories.heard == ["one"]
    assert memories.ended == [ENDED]


async def test_memory_that_stays_away_is_said_so_and_is_no_error() -> None:
    memories, queue = Memories(*[HomeError("gone")] * 9), asyncio.Queue[Heard | None]()
    queue.put_nowait(said("one"))
    queue.put_nowait(None)
    carrying = carrier(memories)
    await carried(carrying, queue)
    assert (carrying.left, str(carrying.trouble)) == (1, "gone")


async def test_what_is_refused_does_not_hold_up_the_rest() -> None:
    memories, queue = Memories(), asyncio.Queue[Heard | None]()
    for one in (said("refused"), said("two"), None):
        queue.put_nowait(one)
    carrying = carrier(memories)
    await carried(carrying, queue)
    assert memories.heard == ["two"]
    assert carrying.refused == ["no"]


async def test_a_session_that_could_not_begin_begins_with_the_first_thing_to_tell() -> None:
    memories, queue = Memories(), asyncio.Queue[Heard | None]()
    for one in (said("one"), said("two"), None):
        queue.put_nowait(one)
    await carried(carrier(memories, session=None), queue)
    assert [(one.tier, one.tell) for one in memories.begun] == [(2, False)]
    assert memories.heard == ["one", "two"]


async def test_a_session_of_which_nobody_knows_is_not_ended() -> None:
    memories = Memories()
    await carrier(memories, session=None).finish(ENDED)
    assert memories.opened == 0


@pytest.mark.parametrize(
    ("receipts", "words"),
    [
        ([], ""),
        ([IngestReceipt(echoed=(1,))], ""),
        (
            [IngestReceipt(asserted=(1, 2)), IngestReceipt(reinforced=(3,))],
            "learned 2, confirmed 1",
        ),
        ([IngestReceipt(reinforced=(3,))] * 2, "confirmed 1"),
        (
            [IngestReceipt(asserted=(2, 3), contradicted=(1,), quarantined=(2,), retracted=1)],
            "learned 1, contradicted 1, held back 1, took back 1",
        ),
    ],
)
def test_what_was_learned_is_said_in_a_few_words(
    receipts: list[IngestReceipt], words: str
) -> None:
    learned = IngestSummary()
    for one in receipts:
        learned.add(one)
    assert learned.summary() == words


def test_rejects_are_said_with_their_reasons() -> None:
    empty: dict[str, Any] = dict.fromkeys(("category", "service", "observation", "hint"), "")
    rejects = tuple(
        RejectView(id="r", agent="a", at="", reason=reason, **empty)
        for reason in ("unknown_category", "status_noise", "unknown_category")
    )
    learned = IngestSummary()
    learned.add(IngestReceipt(asserted=(1,), rejects=rejects))
    assert learned.summary() == "learned 1, rejected 3 (status_noise, unknown_category)"
