"""One turn, top to bottom: whom to ask, what the prompt remembers, the answer, the record.

The answer's bytes go to the client as they come. Everything else happens beside them, and none of
it may keep the client waiting or fail its turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from http import HTTPStatus
from typing import Final

import msgspec

from memplane.errors import InvalidRequest, MemplaneError, UpstreamError
from memplane.ledger.entry import StreamReply, Turn
from memplane.ledger.note import Note
from memplane.ledger.note import encoded as encoded_note
from memplane.pod.contexts import ProxiedAgent
from memplane.proxy.answering import Client, pass_answer, refuse, tell_failure
from memplane.proxy.asking import Asked, attempt_of
from memplane.proxy.auxiliary import auxiliary
from memplane.proxy.body import LONG, LONGEST, Body, body_of
from memplane.proxy.candidate import Candidate
from memplane.proxy.delivering import Deliveries
from memplane.proxy.dialects.contract import Dialect
from memplane.proxy.encodings import undone
from memplane.proxy.headers import response_headers, value_of
from memplane.proxy.injecting import Given, Injecting, Wanted
from memplane.proxy.json_values import decoded_or_none, string
from memplane.proxy.passing import Passing, pass_on
from memplane.proxy.prices import priced
from memplane.proxy.recording import Recorder, Spoken
from memplane.proxy.reply import Assembling, Ended, Kind
from memplane.proxy.routing import Refused
from memplane.proxy.standing import stood_of
from memplane.proxy.telling import TRACED, Answered, Moment, Story, Telling
from memplane.proxy.upstream import Answer
from memplane.proxy.usage_chunk import WithoutUsage, with_usage_asked

_log = logging.getLogger(__name__)

_SESSION_HEADERS: Final = ("x-claude-code-session-id", "session-id", "x-session-id")
_SESSION_MEMBER: Final = "prompt_cache_key"
_LONGEST_SESSION: Final = 200
_MEMORY: Final = "x-memplane-memory"
_OFF: Final = "memory off"
_STREAM: Final = "text/event-stream"
_LEFT: Final = "the client left"


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """What turns are made with."""

    passing: Passing
    injecting: Injecting
    recorder: Recorder
    telling: Telling
    deliveries: Deliveries | None = None
    injection: str = ""
    ask_usage: bool = False
    auxiliary_phrases: tuple[str, ...] = ()


class _Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was read and routed."""

    asked: Asked
    dialect: Dialect
    body: Body
    agent: ProxiedAgent
    candidates: tuple[Candidate, ...]
    clamped: bool
    session: str
    left_out: str
    at: datetime
    story: Story


async def take_turn(proxy: Proxy, dialect: Dialect, asked: Asked, client: Client) -> None:
    """Answer a turn, give it memories and record it."""
    began = proxy.telling.begin()
    turn = await _read_in_time(proxy, dialect, asked, began)
    if isinstance(turn, Refused):
        _story(proxy, asked, began).turned_away(turn.status, turn.text)
        await refuse(client, turn)
        return
    if isinstance(turn, InvalidRequest):
        # Whatever it is, the provider will say what is wrong with it.
        _story(proxy, asked, began).unread(str(turn))
        await pass_on(proxy.passing, asked, client)
        return
    turn.story.asked()
    if turn.clamped:
        why = f"not allowed; {_ref(turn.candidates[0])} is asked instead"
        turn.story.intervened("intervention", why)
    if proxy.deliveries is not None and asked.caller.in_pod:
        proxy.deliveries.expect(turn.agent.context)
    try:
        given = await _given(proxy, turn)
        if given.recall is not None:
            turn.story.recalled(given.recall, injected=given.injected)
            # What was recalled stands in the prompt; a long stream need not hold it a second time.
            given = replace(given, recall=None)
        outcome = await _relay(proxy, turn, given, client)
    except UpstreamError as error:
        turn.story.cut(str(error))
        await tell_failure(client, error)
        return
    except asyncio.CancelledError as error:
        turn.story.cut(str(error) or _LEFT)
        raise
    _record(proxy, turn, given, outcome)


async def turn_away(proxy: Proxy, why: Refused, asked: Asked, client: Client) -> None:
    """Refuse what is not served, and tell that somebody asked for it."""
    _story(proxy, asked, proxy.telling.begin()).turned_away(why.status, why.text)
    await refuse(client, why)


def _ref(candidate: Candidate) -> str:
    return f"{candidate.provider}/{candidate.model}"


# Before the answer.


async def _read_in_time(
    proxy: Proxy, dialect: Dialect, asked: Asked, began: Moment
) -> _Turn | Refused | InvalidRequest:
    """Read a turn; a long one in a thread, and one that may become long."""
    if len(asked.raw) > LONG or asked.header("content-encoding"):
        return await asyncio.to_thread(_read, proxy, dialect, asked, began)
    return _read(proxy, dialect, asked, began)


def _read(
    proxy: Proxy, dialect: Dialect, asked: Asked, began: Moment
) -> _Turn | Refused | InvalidRequest:
    """Read and route a turn; an error when only its provider can say what is wrong with it."""
    try:
        body = body_of(undone(asked.raw, asked.header("content-encoding"), most=LONGEST))
    except InvalidRequest as error:
        refused = Refused(HTTPStatus.BAD_REQUEST, str(error))
        return refused if asked.caller.governed else error
    try:
        agent = proxy.passing.agent(asked.caller)
        routed = proxy.passing.routed(asked, body, dialect.family)
    except MemplaneError as error:
        return Refused(HTTPStatus.BAD_GATEWAY, str(error))
    if isinstance(routed, Refused):
        return routed
    left_out = _left_out(dialect, asked, body, proxy.auxiliary_phrases)
    return _Turn(
        asked=asked,
        dialect=dialect,
        body=body,
        agent=agent,
        candidates=routed.candidates,
        clamped=routed.clamped,
        session=_session(asked, body),
        left_out=left_out,
        at=began.at,
        story=_story(proxy, asked, began, model=body.model, left_out=left_out),
    )


def _story(
    proxy: Proxy, asked: Asked, began: Moment, *, model: str = "", left_out: str = ""
) -> Story:
    return Story(
        proxy.telling,
        began,
        agent=asked.caller.agent,
        model=model,
        carrier={name: said for name in TRACED if (said := asked.header(name))},
        left_out=left_out,
    )


def _session(asked: Asked, body: Body) -> str:
    named = (asked.header(name) for name in _SESSION_HEADERS)
    found = next(filter(None, named), "")
    if not found and _SESSION_MEMBER in body.members:
        found = string(decoded_or_none(bytes(body.members[_SESSION_MEMBER])))
    return found[:_LONGEST_SESSION] if found.isprintable() else ""


def _left_out(dialect: Dialect, asked: Asked, body: Body, phrases: Collection[str]) -> str:
    """Say why a request is given no memory and nothing is remembered of it."""
    if asked.header(_MEMORY).lower() == "off":
        return _OFF
    headers: Mapping[str, str] = {
        name.lower().decode("latin-1"): value.decode("latin-1")
        for name, value in asked.target.headers
    }
    return auxiliary(dialect, body, headers, phrases)


async def _given(proxy: Proxy, turn: _Turn) -> Given:
    try:
        return await proxy.injecting.give(_wanted(proxy, turn))
    except Exception:  # noqa: BLE001 - see below
        # Nothing that memory does may fail a turn, also nothing that nobody thought of.
        _log.exception("a turn of %s goes on without memory", turn.asked.caller.agent)
        return Given(turn.body.raw, Note(session=turn.session, left_out=turn.left_out))


def _wanted(proxy: Proxy, turn: _Turn) -> Wanted:
    in_pod = turn.asked.caller.in_pod
    return Wanted(
        context=turn.agent.context,
        broken=turn.agent.broken,
        dialect=turn.dialect,
        body=turn.body,
        session=turn.session,
        left_out=turn.left_out,
        beside=proxy.injection == "clawdapus" or (in_pod and not proxy.injection),
        forgetful=in_pod and turn.agent.context.memory is None and not turn.agent.broken,
    )


# The answer.


async def _relay(proxy: Proxy, turn: _Turn, given: Given, client: Client) -> _Outcome:
    """Ask the candidates, and pass the answer on while it comes."""
    asked, asking = turn.asked, _asking(proxy, turn, given)
    attempts = [
        attempt_of(asked, one, _body_for(turn, one, asking.body), decoded=asking.decoded)
        for one in turn.candidates
    ]
    async with proxy.passing.upstream.send(attempts) as answer:
        first = turn.story.seconds
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            await pass_answer(answer, client)
            return _Outcome(None, answer.candidate, answer.status, first)
        stream = _STREAM in value_of(answer.headers, b"content-type").lower()
        encoding = value_of(answer.headers, b"content-encoding")
        assembling = Assembling(turn.dialect, stream=stream, encoding=encoding)
        without = WithoutUsage() if asking.asked_usage and stream and not encoding else None
        await client.begin(
            answer.status, response_headers(answer.headers, unchanged=without is None)
        )
        left = await _passed(answer, client, assembling, without)
    # It takes a while to read much, and nobody else should wait for it.
    is_long = assembling.length > LONG
    ended = await asyncio.to_thread(assembling.ended) if is_long else assembling.ended()
    if left and ended.kind is not Kind.WHOLE:
        ended = replace(ended, kind=Kind.CUT, why=left)
    sent = asking.body if asking.decoded else given.body
    return _Outcome(ended, answer.candidate, answer.status, first, sent)


async def _passed(
    answer: Answer, client: Client, assembling: Assembling, without: WithoutUsage | None
) -> str:
    """Pass an answer on while it comes; returns why it was given up before its end, if it was.

    Many leave as soon as they have read the last event, and do not wait for the connection's end:
    they have all of it. So only what was sent is put together.
    """
    try:
        async for chunk in answer.chunks():
            passed = chunk if without is None else without.feed(chunk)
            if passed:
                await client.send(passed)
            assembling.feed(chunk)
        if without is not None and (rest := without.end()):
            await client.send(rest)
        await client.end()
    except asyncio.CancelledError as error:
        return str(error) or _LEFT
    return ""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of a turn: its reply, unless the provider refused it; who answered, and when."""

    ended: Ended | None
    candidate: Candidate
    status: int
    first_byte: float
    sent: bytes = field(default=b"", repr=False)
    """The body that was sent, without an encoding, and with the model's name as it came."""


@dataclass(frozen=True, slots=True)
class _Asking:
    """The bytes to send, and how they differ from those that came."""

    body: bytes = field(repr=False)
    decoded: bool
    asked_usage: bool


def _asking(proxy: Proxy, turn: _Turn, given: Given) -> _Asking:
    body, replaced, asked_usage = given.body, given.replaced, False
    if proxy.ask_usage:
        with_usage = with_usage_asked(turn.dialect, body_of(body) if replaced else turn.body)
        if with_usage is not None:
            body, replaced, asked_usage = with_usage, True, True
    renamed = any(one.model not in {"", turn.body.model} for one in turn.candidates)
    if not replaced and not renamed:
        return _Asking(turn.asked.raw, decoded=False, asked_usage=False)
    return _Asking(body, decoded=True, asked_usage=asked_usage)


def _body_for(turn: _Turn, candidate: Candidate, body: bytes) -> bytes:
    """Return the body with the candidate's own name for the model."""
    if candidate.model in {"", turn.body.model}:
        return body
    return body_of(body).with_members({"model": msgspec.json.encode(candidate.model)})


# After the answer.


def _record(proxy: Proxy, turn: _Turn, given: Given, outcome: _Outcome) -> None:
    ended, candidate, story = outcome.ended, outcome.candidate, turn.story
    if candidate is not turn.candidates[0]:
        why = f"{_ref(turn.candidates[0])} did not answer; {_ref(candidate)} was asked"
        story.intervened("failover", why)
    answered = Answered(
        provider=candidate.provider, status=outcome.status, first_byte=outcome.first_byte
    )
    if ended is None:
        story.refused(answered)
        return
    model = candidate.model or turn.body.model
    usage = priced(candidate.provider, model, ended.usage, ended.cached)
    if ended.kind is Kind.CUT:
        story.broke_off(answered, usage, ended.why)
        return
    entry = Turn(
        ts=turn.at,
        agent=turn.asked.caller.agent,
        path=turn.dialect.path,
        requested_model=turn.body.model,
        effective_provider=candidate.provider,
        effective_model=model,
        status_code=outcome.status,
        stream=isinstance(ended.reply, StreamReply),
        request_original=turn.body.raw,
        request_effective=_body_for(turn, candidate, outcome.sent),
        reply=ended.reply,
        usage=usage,
        status="error" if ended.kind is Kind.FAILED else "",
        note=encoded_note(given.note),
    )
    told = story.answered(answered, usage, ended.why)
    proxy.recorder.record(entry, told, spoken=_spoken(turn, given, ended))


def _spoken(turn: _Turn, given: Given, ended: Ended) -> Spoken | None:
    """Say what a turn is in its conversation; nothing where it failed or nobody asked."""
    if not given.place or ended.kind is not Kind.WHOLE:
        return None
    stood = cache(partial(stood_of, turn.dialect, turn.body, ended.reply))
    return Spoken(turn.session, given.place, stood)
