"""Sessions of agents: what they are told, and what is learned from what they say."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from memplane.auth.agent_id import AGENT_ID_RULE, is_agent_id
from memplane.auth.memory_scope import MemoryScope, make_scope
from memplane.database.interface import Connection
from memplane.errors import RecordsError, UnknownMemory
from memplane.kit.clock import format_milli_timestamp
from memplane.observations import (
    conflicts,
    event_store,
    operator_events,
    session_store,
    store,
    views,
)
from memplane.observations.api_types import IngestReceipt, PromptView, SessionView, StartedSession
from memplane.observations.assertion_rules import AssertionContext
from memplane.observations.event_writer import EventWriter
from memplane.observations.events import (
    Actor,
    EventKind,
    ObservationEvent,
    PromptReceipt,
    SessionFacts,
)
from memplane.observations.ingest import (
    IngestOutcome,
    IngestPolicy,
    SourcedAssertion,
    attach_entry,
    extract_assertions,
)
from memplane.observations.operator_events import SYSTEM_ACTOR_NAME, Operator
from memplane.observations.projection import fold_observation
from memplane.observations.prompt_block import ContestedPolicy, RenderedPrompt, build_prompt
from memplane.observations.requests import (
    Heard,
    HeardText,
    ObservationStatement,
    PromptQuery,
    SessionEnded,
    SessionWanted,
)
from memplane.observations.session_store import OTHER_SESSIONS, SessionTrigger
from memplane.observations.validation import field_error

_log = logging.getLogger(__name__)

_FENCE_DIGITS: Final = 12
_WORD: Final = re.compile(r"[A-Za-z0-9_-]{2,64}")


class PromptPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How prompts are told what is known.

    Args:
        budget: In tokens, unless somebody asks for another one.
        contested: What becomes of observations that contradict each other.
        key: Makes fences that nobody can guess.
    """

    budget: int
    contested: ContestedPolicy
    key: bytes

    def fence(self, session: str) -> str:
        """Return what fences the block of a session."""
        return hmac.new(self.key, session.encode(), hashlib.sha256).hexdigest()[:_FENCE_DIGITS]


@dataclass(frozen=True, slots=True)
class LedgerTurn:
    """A turn of a ledger in which something may have been said that is to be remembered."""

    scope: MemoryScope
    entry: str
    text: str
    at: datetime
    session: str = ""
    attested: bool = False
    """Whether it came with a token of the agent's."""
    told: frozenset[int] = frozenset()
    repeated: tuple[str, ...] = ()
    """What it only repeats of tools, pages and files."""


class SessionService(msgspec.Struct, frozen=True):
    """Begins, hears and ends sessions."""

    writer: EventWriter
    listening: IngestPolicy
    telling: PromptPolicy

    async def preview(self, agent: str, asked: PromptQuery) -> PromptView:
        """Return what a prompt would include now."""
        check_agent(agent)
        now = self.writer.now()
        scope = make_scope(agent, asked.user, asked.view)
        return await self.writer.records.read(lambda on: self._told(on, scope, asked, now))

    async def begin(self, wanted: SessionWanted) -> StartedSession:
        """Begin a session, and keep what it is told."""
        check_agent(wanted.agent)
        session = self.writer.new_session()
        asked = PromptQuery(
            services=wanted.services,
            budget=wanted.budget,
            session=str(session),
            prompt=wanted.prompt,
            user=wanted.user,
            view=wanted.view,
        )
        prompt = await self._told_if_possible(wanted.agent, asked) if wanted.tell else _nothing(0)
        begun = _session_event(EventKind.STARTED, wanted.scope, session, wanted.tier)
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
            receipt = PromptReceipt(
                included=prompt.included,
                dropped=tuple((one.id, one.reason) for one in prompt.dropped),
                tokens=prompt.tokens,
                digest=hashlib.sha256(prompt.block.encode()).hexdigest(),
            )
            told = _session_event(EventKind.INJECTED, wanted.scope, session, wanted.tier)
            events.append(msgspec.structs.replace(told, receipt=receipt))
        await self.writer.decide(lambda _, now: _at(events, now))
        return StartedSession(session=session, prompt=prompt)

    async def _told_if_possible(self, agent: str, asked: PromptQuery) -> PromptView:
        try:
            return await self.preview(agent, asked)
        except RecordsError as error:
            # A session without memories beats no session.
            _log.warning("a session of %s begins without memories: %s", agent, error)
            return _nothing(asked.budget or self.telling.budget)

    def _told(
        self, on: Connection, scope: MemoryScope, asked: PromptQuery, now: datetime
    ) -> PromptView:
        profile = self.listening.profile
        rivals = _rivals(on, scope)
        found = [
            candidate
            for one in store.list_injectable(on, scope)
            if (candidate := views.prompt_candidate(one, now, profile, rivals.get(one.id, ())))
        ]
        budget = self.telling.budget if asked.budget is None else asked.budget
        known = {one.service.casefold(): one.service for one in found if one.service}
        named = {known.get(word.casefold()) for word in _WORD.findall(asked.prompt)}
        prompt: RenderedPrompt = build_prompt(
            found,
            budget=budget,
            services={*asked.services, *(one for one in named if one)},
            fence=self.telling.fence(asked.session),
            contested=self.telling.contested,
        )
        return views.prompt_view(prompt, budget, len(found))

    async def hear(self, agent: str, session: int, heard: Heard) -> IngestReceipt:
        """Learn from what happened in a session."""
        records = self.writer.records
        found = await records.read(partial(require_session, agent=agent, session=session))
        if heard.model or heard.cli_session:
            await self.writer.decide(lambda _, now: _identified(found, heard, now))
        outcome = IngestOutcome()
        if heard.retracted:
            retract = partial(self._retracted, session=session, messages=heard.retracted)
            outcome.events += await self.writer.decide(retract)
        listening = self.listening
        for one in extract_assertions(heard, listening.rules.aliases, listening.redact):
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
        statement: SourcedAssertion,
        scope: MemoryScope | None = None,
        results: Sequence[str] = (),
        told: Collection[int] = (),
    ) -> list[ObservationEvent]:
        scope = scope or found.scope
        entry = statement.evidence.entry
        if entry and store.is_forgotten(on, found.agent, entry):
            return []
        at = statement.at if statement.at is not None and statement.at <= now else now
        saying = AssertionContext(
            scope=scope,
            at=at,
            evidence=statement.evidence,
            session=found.id,
            tier=found.tier,
        )
        heard = session_store.load_session_context(on, found.id, results)
        heard = replace(heard, told=heard.told.union(told))
        return self.listening.drafts(on, statement.said, saying, heard)

    def _retracted(
        self, on: Connection, now: datetime, *, session: int, messages: Sequence[str]
    ) -> list[ObservationEvent]:
        """Take back what messages said, and the conflicts of what is gone with them."""
        events = event_store.list_message_events(on, session, messages)
        system = Operator(name=SYSTEM_ACTOR_NAME, at=now, actor=Actor.SYSTEM)
        drafts = operator_events.draft_retraction(events, now)

        def is_gone(memory: int) -> bool:
            after = [*event_store.list_events(on, memory), *drafts]
            return fold_observation(after, self.listening.profile) is None

        said = sorted({one.memory for one in events if one.kind is EventKind.ASSERTED})
        gone = [memory for memory in said if is_gone(memory)]
        over = {one.key: one for memory in gone for one in store.list_conflicts_of(on, memory)}
        return [*drafts, *conflicts.close_moot_conflicts(over.values(), system)]

    async def end(self, agent: str, session: int, ended: SessionEnded) -> SessionView:
        """End a session."""
        records = self.writer.records
        found = await records.read(partial(require_session, agent=agent, session=session))
        event = msgspec.structs.replace(
            _session_event(EventKind.ENDED, found.scope, session, found.tier),
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
        return await records.read(partial(require_session, agent=agent, session=session))

    async def ingest_turn(self, turn: LedgerTurn) -> IngestReceipt:
        """Learn from a turn of a ledger, once."""
        records, outcome = self.writer.records, IngestOutcome()
        if await records.read(
            lambda on: event_store.has_ingested_entry(on, turn.scope.agent, turn.entry)
        ):
            return outcome.receipt()
        session = await self._session_of(turn)
        found = await records.read(
            partial(require_session, agent=turn.scope.agent, session=session)
        )
        heard = Heard(texts=(HeardText(text=turn.text, at=format_milli_timestamp(turn.at)),))
        listening = self.listening
        for one in extract_assertions(heard, listening.rules.aliases, listening.redact):
            cited = SourcedAssertion(one.said, attach_entry(one.evidence, turn.entry), one.at)
            say = partial(
                self._said,
                found=found,
                statement=cited,
                scope=turn.scope,
                told=turn.told,
                results=turn.repeated,
            )
            outcome.events += await self.writer.decide(say)
        return outcome.receipt()

    async def _session_of(self, turn: LedgerTurn) -> int:
        """Return the session that a turn votes for.

        Anybody can invent a session's name. So a name counts when memplane has begun that session
        or seen its hook, or when the turn came with a token; a turn with a token and without a
        name has one session a day. All others are one session together, for good.
        """
        shared = MemoryScope(turn.scope.agent)
        if known := await self._find(shared, turn.session, session_store.is_begun):
            return known
        if not turn.attested:
            return await self._ensure(turn.scope, OTHER_SESSIONS, SessionTrigger.TURN)
        name = turn.session or _day_session(turn.at)
        return await self._ensure(turn.scope, name, SessionTrigger.TOKEN)

    async def observe(self, agent: str, statement: ObservationStatement) -> IngestReceipt:
        """Learn what an agent states outside of any session; a day's statements are one session.

        So an agent that repeats itself within a day does not confirm itself.
        """
        check_agent(agent)
        scope = make_scope(agent, statement.user, None)
        name = _day_session(self.writer.now())
        session = await self._ensure(scope, name, SessionTrigger.TOKEN)
        item = {
            "category": statement.category,
            "service": statement.service,
            "observation": statement.observation,
        }
        return await self.hear(agent, session, Heard(structured={"memories": [item]}))

    async def attest(self, agent: str, cli_session: str) -> int:
        """Note that a client's session is real, as its hook says; its turns have a vote then.

        It belongs before the session's first turn. Returns the session's number.
        """
        scope = MemoryScope(agent)
        known = await self._find(scope, cli_session, session_store.is_begun)
        return known or await self._ensure(scope, cli_session, SessionTrigger.HOOK)

    async def _find(self, scope: MemoryScope, name: str, is_wanted: Callable[[str], bool]) -> int:
        find = partial(session_store.find_client_session, is_wanted=is_wanted)
        return await self.writer.records.read(lambda on: find(on, scope, name))

    async def _ensure(self, scope: MemoryScope, name: str, trigger: SessionTrigger) -> int:
        if known := await self._find(scope, name, trigger.__eq__):
            return known
        wanted = SessionWanted(
            agent=scope.agent,
            user=scope.user or None,
            view=scope.view or None,
            cli_session=name,
            trigger=trigger,
            tell=False,
        )
        return (await self.begin(wanted)).session


def _day_session(at: datetime) -> str:
    return f"day {at.date().isoformat()}"


def check_agent(agent: str) -> None:
    """Check the name of an agent.

    Raises:
        InvalidRequest: It is none.
    """
    if not is_agent_id(agent):
        raise field_error("agent", f"{agent!r} is no agent's id: {AGENT_ID_RULE}")


def require_session(on: Connection, agent: str | None, session: int) -> SessionView:
    """Return a session.

    Raises:
        UnknownMemory: There is none with that number for that agent.
    """
    found = session_store.get_session(on, agent, session)
    if found is None:
        raise UnknownMemory(f"there is no session {session}")
    return found


def _rivals(on: Connection, scope: MemoryScope) -> dict[int, list[int]]:
    """Return what each observation contradicts; a possible duplicate is no rival."""
    found: dict[int, list[int]] = {}
    for one in store.list_conflicts(on, scope.agent):
        if not scope.can_see(MemoryScope(one.agent, one.user, one.view)):
            continue
        if one.b and one.kind == "contradiction":
            found.setdefault(one.a, []).append(one.b)
            found.setdefault(one.b, []).append(one.a)
    return found


def _identified(found: SessionView, heard: Heard, now: datetime) -> list[ObservationEvent]:
    """Note what a client calls itself, when that is news."""
    cli_session = heard.cli_session if heard.cli_session != found.cli_session_id else ""
    model = heard.model if heard.model != found.model else ""
    if not cli_session and not model:
        return []
    facts = SessionFacts(tier=found.tier, cli_session=cli_session, model=model)
    begun = _session_event(EventKind.STARTED, found.scope, found.id, found.tier)
    return _at([msgspec.structs.replace(begun, facts=facts)], now)


def _session_event(
    kind: EventKind, scope: MemoryScope, session: int, tier: int
) -> ObservationEvent:
    return ObservationEvent(
        id="",
        ts="",
        kind=kind,
        agent=scope.agent,
        user=scope.user,
        view=scope.view,
        session=session,
        tier=tier,
        actor=Actor.SYSTEM,
    )


def _at(events: Iterable[ObservationEvent], now: datetime) -> list[ObservationEvent]:
    return [msgspec.structs.replace(one, ts=format_milli_timestamp(now)) for one in events]


def _nothing(budget: int) -> PromptView:
    return PromptView(block="", tokens=0, budget=budget, included=(), dropped=(), candidates=0)
