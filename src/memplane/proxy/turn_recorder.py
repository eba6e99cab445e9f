"""Recording turns beside the stream: nobody who reads an answer waits for the disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.errors import EntryTooLarge, InvalidEntry, MemplaneError
from memplane.ledger.entry import Entry, Turn
from memplane.proxy.conversation_position import ConversationPosition
from memplane.telemetry import Telemetry, TurnEvent

_log = logging.getLogger(__name__)

_SINGLE_TURN_ERRORS: Final = (EntryTooLarge, InvalidEntry)
"""What is wrong with one turn, and says nothing about the next."""


class TurnLedger(Protocol):
    """Where turns are recorded."""

    def submit(self, turn: Turn) -> asyncio.Future[Entry]:
        """Begin to record a turn; the future is its entry, once it is durable."""
        ...


class TurnInConversation(msgspec.Struct, frozen=True):
    """What a turn is in its conversation.

    Args:
        scope: Whose memory it is.
        session: The conversation's; empty where clients do not tell.
        prompt: The place of the prompt that it answers.
        stood: Works out where it stands, which takes a while.
    """

    scope: MemoryScope
    session: str
    prompt: str
    stood: Callable[[], ConversationPosition]


class RecordedTurn(msgspec.Struct, frozen=True):
    """A turn that is durable, and what it is in its conversation, if it is part of one."""

    agent: str
    entry_id: str
    spoken: TurnInConversation | None


class TurnRecorder:
    """Records turns, and then tells whoever goes on with them."""

    def __init__(
        self, ledger: TurnLedger, telemetry: Telemetry, *, recorded: Callable[[RecordedTurn], None]
    ) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._recorded = recorded
        self._waiting: set[asyncio.Future[Entry]] = set()
        self._failing = False

    def record(self, turn: Turn, told: TurnEvent, *, spoken: TurnInConversation | None) -> None:
        """Record a turn and return at once; `told` is the event that tells what became of it."""
        try:
            future = self._ledger.submit(turn)
        except MemplaneError as error:
            self._missed(told, error)
            return
        self._waiting.add(future)
        future.add_done_callback(lambda done: self._settled(done, turn.agent, spoken, told))

    def _settled(
        self,
        future: asyncio.Future[Entry],
        agent: str,
        spoken: TurnInConversation | None,
        told: TurnEvent,
    ) -> None:
        self._waiting.discard(future)
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._missed(told, error)
            return
        self._failing = False
        self._telemetry.tell(told)
        self._recorded(RecordedTurn(agent, future.result().id, spoken))

    def _missed(self, told: TurnEvent, error: BaseException) -> None:
        if isinstance(error, _SINGLE_TURN_ERRORS):
            _log.warning("%s. It was answered; other turns are recorded", error)
        else:
            if not self._failing:
                # Once: a disk that fails does so for every turn. The ledger counts them all.
                _log.error("turns are answered and not recorded: %s", error)
            self._failing = True
        missed = msgspec.structs.replace(told, outcome="not recorded", error=str(error))
        self._telemetry.tell(missed)

    async def drain(self) -> None:
        """Wait until what was given is durable or has failed."""
        while self._waiting:
            await asyncio.wait(self._waiting)
