"""Which memories a prompt is given, and where they stand in it.

Sticky: each prompt of a conversation keeps the block that it was given, at its end, with the same
bytes in every later request; only the newest prompt is recalled for. In a pod's way the block of
each request stands beside its last message and is not kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import replace as replace_note

from memplane.auth.memory_scope import MemoryScope
from memplane.episodes.api_types import MemoryBlock
from memplane.episodes.episode import epoch_us
from memplane.episodes.injection_store import Injection
from memplane.errors import MemplaneError
from memplane.exchange.dialect import Conversation, ConversationPrompt, Dialect
from memplane.exchange.end_user import TurnOwner
from memplane.exchange.request_body import RequestBody
from memplane.integrations.clawdapus.pod.agent_contexts import AgentContext
from memplane.kit.clock import Clock
from memplane.ledger.turn_note import DroppedBlock, InjectedBlock, MessageInjection, TurnNote
from memplane.proxy.auxiliary_requests import COMPACTION
from memplane.proxy.circuit_breaker import CircuitBreakers
from memplane.proxy.memory_blocks import (
    format_context_blocks,
    format_fenced_blocks,
    format_time_line,
)
from memplane.proxy.recall_client import RECALL_DEADLINE_S, RecallClient, RecallQuery, RecallResult
from memplane.proxy.sticky_injections import StickyInjections

_CONTEXT_PROMPTS: Final = 3
_LOOKUP_BREAKER_KEY: Final = "what stands in conversations"
_log = logging.getLogger(__name__)


class InjectionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that may be given memories.

    `left_out` is why it is none of the user's turns, or why memory is off for it; `beside` says
    that its memory stands in a message of its own; who is `forgetful` has no memory at all.
    """

    context: AgentContext
    scope: MemoryScope
    owner: TurnOwner
    broken: str
    dialect: Dialect
    body: RequestBody
    session: str
    left_out: str
    beside: bool
    forgetful: bool = False


@dataclass(frozen=True, slots=True)
class InjectionResult:
    """A request's bytes as they go on, what is to be noted of it, and how its recall went."""

    body: bytes
    note: TurnNote
    recall: RecallResult | None = None
    injected: int = 0
    """The bytes that this request's own recall added."""
    replaced: bool = False
    """Whether the bytes are others than those that came."""
    place: str = ""
    """Where in its conversation the newest prompt stands."""


class MemoryInjector:
    """Gives requests their memories."""

    def __init__(
        self,
        recall_client: RecallClient,
        sticky: StickyInjections,
        *,
        clock: Clock,
        nonce: Callable[[], str],
        tells_time: bool = False,
        seconds: float = RECALL_DEADLINE_S,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recaller = recall_client
        self._sticky = sticky
        self._clock = clock
        self._nonce = nonce
        self._tells_time = tells_time
        self._seconds = seconds
        self._elapsed = elapsed
        self._breakers = CircuitBreakers()

    async def give(self, wanted: InjectionRequest) -> InjectionResult:
        """Give a request its memories; whatever fails, it goes on without."""
        if wanted.left_out:
            return await self._leave_out(wanted)
        if wanted.forgetful:
            return InjectionResult(wanted.body.raw, _owned_note(wanted))
        conversation = await _read_conversation(wanted)
        if not wanted.beside:
            given = await self._sticking(wanted, conversation)
        elif conversation.injected:
            # The client's own hook was first, and two blocks would say the same.
            given = InjectionResult(wanted.body.raw, _owned_note(wanted))
        else:
            given = await self._beside(wanted, conversation)
        prompts = conversation.prompts
        return replace(given, place=prompts[-1].place) if prompts else given

    async def _leave_out(self, wanted: InjectionRequest) -> InjectionResult:
        """Give a request of the client's own nothing new.

        A compaction sends the whole conversation once more, which the provider's cache knows with
        the blocks that stand in it; so they stand there again.
        """
        note = replace_note(_owned_note(wanted), left_out=wanted.left_out)
        skipped = self._recaller.skipped(self._asked(wanted, Conversation()), wanted.left_out)
        if wanted.left_out != COMPACTION or wanted.beside or wanted.forgetful:
            return InjectionResult(wanted.body.raw, note, skipped)
        conversation = await _read_conversation(wanted)
        held = await self._held(wanted, conversation.prompts) or {}
        body, texts = await _insert_held_blocks(wanted, conversation, held)
        note = replace_note(note, injected=_list_message_injections(texts))
        return InjectionResult(body, note, skipped, replaced=bool(texts))

    async def _sticking(
        self, wanted: InjectionRequest, conversation: Conversation
    ) -> InjectionResult:
        prompts = conversation.prompts
        is_asked = conversation.awaits and bool(prompts)
        came: RecallResult | None = None
        added: Injection | None = None
        now = epoch_us(self._clock())  # what is recorded after it may be missing in a recall
        ask = cache(partial(self._asked, wanted, conversation))
        if is_asked and wanted.body.is_long:
            await asyncio.to_thread(ask)
        with self._recaller.recalling(ask) as recall:
            if is_asked and not conversation.injected and wanted.context.memory is None:
                # In vain where a turn is sent again, which a service would not be asked.
                await recall.begin()
            found = await self._held(wanted, prompts)
            # Who has waited in vain does not wait for as long again; whoever was only busy may.
            held, waited = (found, 0.0) if found is not None else ({}, self._seconds)
            if is_asked and not self._is_known(held, conversation, wanted, now):
                before = held.pop(prompts[-1].place, None)
                if not conversation.injected:  # else the client's own hook was first
                    came = await recall.came(waited=waited)
                added = self._made(wanted, prompts[-1], came, now)
                if added.text or added.session or before is not None:
                    # Also that nothing stands here, whatever other sessions have at this place.
                    self._sticky.keep(added)
                    held[added.place] = added
        body, texts = await _insert_held_blocks(wanted, conversation, held)
        own = len(added.text.encode()) if added is not None and texts else 0
        note = _make_note(wanted, came, _list_message_injections(texts, added))
        return InjectionResult(body, note, came, own, replaced=bool(texts))

    async def _held(
        self, wanted: InjectionRequest, prompts: Sequence[ConversationPrompt]
    ) -> dict[str, Injection] | None:
        """Look up what stands at the prompts; None when it was not found in time."""
        began = self._elapsed()
        if not self._breakers.admit((_LOOKUP_BREAKER_KEY,), began):
            return {}
        places = [one.place for one in prompts]
        try:
            # Not longer than a recall. In place, because a busy loop would let a task wait.
            async with asyncio.timeout(self._seconds):
                held = await self._sticky.find(wanted.scope, places, wanted.session)
        except TimeoutError:
            self._breakers.failed(_LOOKUP_BREAKER_KEY, self._elapsed(), since=began)
            _log.warning("what stands in a conversation was not found in time")
            return None
        except MemplaneError as error:
            _log.warning("what stands in a conversation could not be looked up: %s", error)
            return {}
        else:
            self._breakers.succeeded(_LOOKUP_BREAKER_KEY)
            return held
        finally:
            self._breakers.abandon(_LOOKUP_BREAKER_KEY)

    def _is_known(
        self,
        held: dict[str, Injection],
        conversation: Conversation,
        wanted: InjectionRequest,
        now: int,
    ) -> bool:
        """Say whether the newest prompt has its memory already, and only comes again."""
        text = held.get(conversation.prompts[-1].place)
        if text is None or not text.text or conversation.injected:
            return False
        return self._sticky.is_same_turn(text, wanted.session, now)

    def _made(
        self,
        wanted: InjectionRequest,
        prompt: ConversationPrompt,
        came: RecallResult | None,
        now: int,
    ) -> Injection:
        """Make what stands at a prompt from now on; it is empty when nothing does."""
        nothing = Injection(
            scope=wanted.scope,
            place=prompt.place,
            session=wanted.session,
            at=now,
            service="",
            text="",
        )
        if came is None or not came.blocks:
            return nothing
        text = format_fenced_blocks(came.kept, service=came.service, nonce=self._nonce())
        # Any entry may be forgotten, also one that is not named.
        made_of = frozenset(entry for block in came.blocks for entry in block.made_of)
        named = _list_injected_blocks(came.blocks)
        return replace(nothing, service=came.service, text=text, blocks=named, made_of=made_of)

    async def _beside(
        self, wanted: InjectionRequest, conversation: Conversation
    ) -> InjectionResult:
        came = await self._recaller.recall(self._asked(wanted, conversation))
        said = format_time_line(self._now_at(wanted.context.timezone)) if self._tells_time else ""
        text = format_context_blocks(came.kept, service=came.service, time_line=said)
        body = wanted.dialect.with_context(wanted.body, text) if text else None
        if body is None:
            return InjectionResult(wanted.body.raw, _make_note(wanted, came, ()), came)
        memory = format_context_blocks(came.kept, service=came.service)
        size = len(memory.encode())
        injected = MessageInjection(
            message=-1, service=came.service, bytes=size, blocks=_list_injected_blocks(came.blocks)
        )
        note = _make_note(wanted, came, (injected,) if memory else ())
        return InjectionResult(body, note, came, size, replaced=True)

    def _asked(self, wanted: InjectionRequest, conversation: Conversation) -> RecallQuery:
        """Ask a service with the whole conversation, as its contract says; here its end does."""
        common = RecallQuery(
            context=wanted.context,
            broken=wanted.broken,
            wire=wanted.dialect.family,
            model=wanted.body.model,
            session=wanted.session,
            scope=wanted.scope,
        )
        if wanted.context.memory is not None:
            return replace(common, messages=conversation.messages, system=conversation.system)
        said = [
            {"role": "user", "content": one.text}
            for one in conversation.prompts[-_CONTEXT_PROMPTS:]
        ]
        entries, places = self._sticky.standing(conversation, wanted.scope)
        return replace(common, messages=said, here=tuple(places), without=tuple(entries))

    def _now_at(self, timezone: str) -> datetime:
        return self._clock().astimezone(ZoneInfo(timezone or "UTC"))


# A long body is read and written in a thread, so that nobody else has to wait for it.


async def _read_conversation(wanted: InjectionRequest) -> Conversation:
    if wanted.body.is_long:
        return await asyncio.to_thread(wanted.dialect.conversation, wanted.body)
    return wanted.dialect.conversation(wanted.body)


async def _insert_blocks(wanted: InjectionRequest, blocks: Mapping[int, str]) -> bytes:
    if wanted.body.is_long:
        return await asyncio.to_thread(wanted.dialect.with_blocks, wanted.body, blocks)
    return wanted.dialect.with_blocks(wanted.body, blocks)


async def _insert_held_blocks(
    wanted: InjectionRequest, conversation: Conversation, held: Mapping[str, Injection]
) -> tuple[bytes, dict[int, Injection]]:
    """Put the blocks that stand at prompts there; returns the body, and those by message."""
    prompts = conversation.prompts
    texts = {one.index: text for one in prompts if (text := held.get(one.place)) and text.text}
    blocks = {index: text.text for index, text in texts.items()}
    body = await _insert_blocks(wanted, blocks) if blocks else wanted.body.raw
    return body, texts if body is not wanted.body.raw else {}  # there was no place for them


def _list_message_injections(
    texts: Mapping[int, Injection], added: Injection | None = None
) -> tuple[MessageInjection, ...]:
    """Note what stands in which message; all but what was added stood there before."""
    return tuple(
        MessageInjection(
            message=max(index, 0),
            service=text.service,
            bytes=len(text.text.encode()),
            blocks=text.blocks,
            replayed=text is not added,
        )
        for index, text in texts.items()
    )


def _make_note(
    wanted: InjectionRequest, came: RecallResult | None, injected: tuple[MessageInjection, ...]
) -> TurnNote:
    dropped = came.kept.dropped if came is not None else ()
    return replace_note(
        _owned_note(wanted),
        recall=came.status if came is not None else "",
        injected=injected,
        dropped=tuple(DroppedBlock(why=one.reason, id=one.id) for one in dropped),
    )


def _owned_note(wanted: InjectionRequest) -> TurnNote:
    """Note in which session a turn is, and whose memory."""
    return make_owned_note(wanted.session, wanted.owner)


def make_owned_note(session: str, owner: TurnOwner) -> TurnNote:
    """Note in which session a turn is, and whose memory."""
    return TurnNote(session=session, user=owner.user, account=owner.account)


def _list_injected_blocks(blocks: Sequence[MemoryBlock]) -> tuple[InjectedBlock, ...]:
    return tuple(
        InjectedBlock(
            id=one.id,
            entry_ids=one.entry_ids,
            kind=one.kind,
            score=one.score,
            origin=one.origin,
            trust=one.trust,
            sources=one.sources,
        )
        for one in blocks
    )
