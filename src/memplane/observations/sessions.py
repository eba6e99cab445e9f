"""Sessions of agents: what they are told, and what is learned from what they say."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from memplane.access.agents import AGENT_RULE, is_agent_id
from memplane.clock import milli_stamp
from memplane.errors import RecordsError, UnknownMemory
from memplane.observations import conflicts, curating, event_rows, rows, session_rows, views
from memplane.observations.contract import (
    Heard,
    HeardReceipt,
    HeardText,
    PromptAsked,
    PromptView,
    SessionBegun,
    SessionEnded,
    SessionView,
    SessionWanted,
)
from memplane.observations.curating import OURSELVES, Operator
from memplane.observations.deciding import Saying
from memplane.observations.events import Actor, Event, Kind, Receipt, SessionFacts
from memplane.observations.folding import observed
from memplane.observations.learning import Listening, Outcome, Statement, statements, with_entry
from memplane.observations.prompt import Contested, Prompt, prompt_of
from memplane.observations.wording import wrong
from memplane.observations.writing import Writer
from memplane.records.store import Connection

_log = logging.getLogger(__name__)

_FENCE: Final = 12
_WORD: Final = re.compile(r"[A-Za-z0-9_-]{2,64}")


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """How prompts are told what is known.

    Args:
        budget: In tokens, unless somebody asks for another one.
        contested: What becomes of observations that contradict each other.
        key: Makes fences that nobody can guess.
    """

    budget: int
    contested: Contested
    key: bytes

    def fence(self, session: str) -> str:
        """Return what fences the block of a session."""
        return hmac.new(self.key, session.encode(), hashlib.sha256).hexdigest()[:_FENCE]


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a ledger in which something may have been said that is to be remembered."""

    agent: str
    entry: str
    text: str
    at: datetime
    session: str = ""
    told: frozenset[int] = frozenset()


class Sessions(msgspec.Struct, frozen=True):
    """Begins, hears and ends sessions."""

    writer: Writer
    listening: Listening
    telling: Telling

    async def preview(self, asked: PromptAsked) -> PromptView:
        """Return what a prompt would be told now."""
        check_agent(asked.agent)
        now = self.writer.now()
        return await self.writer.records.read(lambda on: self._told(on, asked, now))

    async def begin(self, wanted: SessionWanted) -> SessionBegun:
        """Begin a session, and keep what it is told."""
        check_agent(wanted.agent)
        session = self.writer.new_session()
        asked = PromptAsked(
            agent=wanted.agent,
            services=wanted.services,
            budget=wanted.budget,
            session=str(session),
            prompt=wanted.prompt,
        )
        prompt = await self._told_if_possible(asked) if wanted.tell else _nothing(0)
        begun = _session_event(Kind.STARTED, wanted.agent, session, wanted.tier)
        begun = msgspec.structs.replace(
            begun,
            facts=SessionFacts(
                cli_session=wanted.cli_session,
                tier=wanted.tier,
                trigger=wanted.trigger,
                command=wanted.command,
                log=wanted.log,
                parent=wanted.parent or 0,
                services=wanted.services,
            ),
        )
        events = [begun]
        if prompt.included:
            receipt = Receipt(
                included=prompt.included,
                dropped=tuple((one.id, one.reason) for one in prompt.dropped),
                tokens=prompt.tokens,
                digest=hashlib.sha256(prompt.block.encode()).hexdigest(),
            )
            told = _session_event(Kind.INJECTED, wanted.agent, session, wanted.tier)
            events.append(msgspec.structs.replace(told, receipt=receipt))
        await self.writer.decide(lambda _, now: _at(events, now))
        return SessionBegun(session=session, prompt=prompt)

    async def _told_if_possible(self, asked: PromptAsked) -> PromptView:
        try:
            return await self.preview(asked)
        except RecordsError as error:
            # A session without memories beats no session.
            _log.warning("a session of %s begins without memories: %s", asked.agent, error)
            return _nothing(asked.budget or self.telling.budget)

    def _told(self, on: Connection, asked: PromptAsked, now: datetime) -> PromptView:
        profile = self.listening.profile
        rivals = _rivals(on, asked.agent)
        found = [
            candidate
            for one in rows.tellable(on, asked.agent)
            if (candidate := views.candidate(one, now, profile, rivals.get(one.id, ())))
        ]
        budget = self.telling.budget if asked.budget is None else asked.budget
        known = {one.service.casefold(): one.service for one in found if one.service}
        named = {known.get(word.casefold()) for word in _WORD.findall(asked.prompt)}
        prompt: Prompt = prompt_of(
            found,
            budget=budget,
            services={*asked.services, *(one for one in named if one)},
            fence=self.telling.fence(asked.session),
            contested=self.telling.contested,
        )
        return views.prompt_view(prompt, budget, len(found))

    async def hear(self, agent: str, session: int, heard: Heard) -> HeardReceipt:
        """Learn from what happened in a session."""
        records = self.writer.records
        found = await records.read(partial(existing, agent=agent, session=session))
        if heard.model or heard.cli_session:
            await self.writer.decide(lambda _, now: _identified(found, heard, now))
        outcome = Outcome()
        if heard.retracted:
            retract = partial(self._retracted, session=session, messages=heard.retracted)
            outcome.events += await self.writer.decide(retract)
        listening = self.listening
        for one in statements(heard, listening.rules.aliases, listening.redact):
            say = partial(self._said, found=found, statement=one, results=heard.tool_results)
            outcome.events += await self.writer.decide(say)
        for reject in outcome.receipt().rejects:
            _log.warning(
                "session %d of %s: not remembered (%s): %s",
                *(session, agent, reject.reason, reject.observation[:200]),
            )
        return outcome.receipt()

    def _said(
        self,
        on: Connection,
        now: datetime,
        *,
        found: SessionView,
        statement: Statement,
        results: Sequence[str] = (),
        told: Collection[int] = (),
    ) -> list[Event]:
        at = statement.at if statement.at is not None and statement.at <= now else now
        saying = Saying(
            agent=found.agent,
            at=at,
            evidence=statement.evidence,
            session=found.id,
            tier=found.tier,
        )
        heard = session_rows.hearing(on, found.id, results)
        heard = replace(heard, told=heard.told.union(told))
        return self.listening.drafts(on, statement.said, saying, heard)

    def _retracted(
        self, on: Connection, now: datetime, *, session: int, messages: Sequence[str]
    ) -> list[Event]:
        """Take back what messages said, and the conflicts of what is gone with them."""
        events = event_rows.events_of_messages(on, session, messages)
        system = Operator(name=OURSELVES, at=now, actor=Actor.SYSTEM)
        drafts = curating.retracted(events, now)

        def is_gone(memory: int) -> bool:
            after = [*event_rows.events_of(on, memory), *drafts]
            return observed(after, self.listening.profile) is None

        said = sorted({one.memory for one in events if one.kind is Kind.ASSERTED})
        gone = [memory for memory in said if is_gone(memory)]
        over = {one.key: one for memory in gone for one in rows.conflicts_of(on, memory)}
        return [*drafts, *conflicts.moot(over.values(), system)]

    async def end(self, agent: str, session: int, ended: SessionEnded) -> SessionView:
        """End a session."""
        records = self.writer.records
        found = await records.read(partial(existing, agent=agent, session=session))
        event = msgspec.structs.replace(
            _session_event(Kind.ENDED, agent, session, found.tier),
            facts=SessionFacts(
                tier=found.tier,
                is_error=ended.is_error,
                exit_code=ended.exit_code,
                cost_usd=ended.cost_usd,
                turns=ended.num_turns,
                status=ended.status,
            ),
        )
        await self.writer.decide(lambda _, now: _at([event], now))
        return await records.read(partial(existing, agent=agent, session=session))

    async def hear_turn(self, turn: Turn) -> HeardReceipt:
        """Learn from a turn of a ledger, once."""
        records, outcome = self.writer.records, Outcome()
        if await records.read(lambda on: event_rows.has_heard(on, turn.agent, turn.entry)):
            return outcome.receipt()
        session = await self._session_of(turn)
        found = await records.read(partial(existing, agent=turn.agent, session=session))
        heard = Heard(texts=(HeardText(text=turn.text, at=milli_stamp(turn.at)),))
        listening = self.listening
        for one in statements(heard, listening.rules.aliases, listening.redact):
            cited = Statement(one.said, with_entry(one.evidence, turn.entry), one.at)
            say = partial(self._said, found=found, statement=cited, told=turn.told)
            outcome.events += await self.writer.decide(say)
        return outcome.receipt()

    async def _session_of(self, turn: Turn) -> int:
        """Return the session that a turn belongs to; a client that names none has one a day."""
        name = turn.session or f"day {turn.at.date().isoformat()}"
        called = partial(session_rows.session_called, agent=turn.agent, cli_session=name)
        if known := await self.writer.records.read(called):
            return known
        wanted = SessionWanted(agent=turn.agent, cli_session=name, trigger="turn", tell=False)
        return (await self.begin(wanted)).session


def check_agent(agent: str) -> None:
    """Check the name of an agent.

    Raises:
        InvalidRequest: It is none.
    """
    if not is_agent_id(agent):
        raise wrong("agent", f"{agent!r} is no agent's id: {AGENT_RULE}")


def existing(on: Connection, agent: str | None, session: int) -> SessionView:
    """Return a session.

    Raises:
        UnknownMemory: There is none with that number for that agent.
    """
    found = session_rows.session(on, agent, session)
    if found is None:
        raise UnknownMemory(f"there is no session {session}")
    return found


def _rivals(on: Connection, agent: str) -> dict[int, list[int]]:
    """Return what each observation contradicts; a possible duplicate is no rival."""
    found: dict[int, list[int]] = {}
    for one in rows.conflicts(on, agent):
        if one.b and one.kind == "contradiction":
            found.setdefault(one.a, []).append(one.b)
            found.setdefault(one.b, []).append(one.a)
    return found


def _identified(found: SessionView, heard: Heard, now: datetime) -> list[Event]:
    """Note what a client calls itself, when that is news."""
    cli_session = heard.cli_session if heard.cli_session != found.cli_session_id else ""
    model = heard.model if heard.model != found.model else ""
    if not cli_session and not model:
        return []
    facts = SessionFacts(tier=found.tier, cli_session=cli_session, model=model)
    begun = _session_event(Kind.STARTED, found.agent, found.id, found.tier)
    return _at([msgspec.structs.replace(begun, facts=facts)], now)


def _session_event(kind: Kind, agent: str, session: int, tier: int) -> Event:
    return Event(
        id="", ts="", kind=kind, agent=agent, session=session, tier=tier, actor=Actor.SYSTEM
    )


def _at(events: Iterable[Event], now: datetime) -> list[Event]:
    return [msgspec.structs.replace(one, ts=milli_stamp(now)) for one in events]


def _nothing(budget: int) -> PromptView:
    return PromptView(block="", tokens=0, budget=budget, included=(), dropped=(), candidates=0)
