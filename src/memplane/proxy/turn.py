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
from msgspec.structs import replace as replace_note

from memplane.auth.memory_scope import MemoryScope
from memplane.errors import InvalidRequest, MemplaneError, UpstreamError
from memplane.exchange.content_encoding import decode_content
from memplane.exchange.dialect import Dialect
from memplane.exchange.end_user import (
    USER_HEADER,
    USER_MEMBERS,
    EndUser,
    TurnOwner,
    UserPolicy,
    find_end_user,
)
from memplane.exchange.reply_assembler import AssembledReply, ReplyAssembler, ReplyOutcome
from memplane.exchange.request_body import LONG_BODY_BYTES, MAX_BODY_BYTES, RequestBody, parse_body
from memplane.exchange.usage_chunk import UsageChunkFilter, add_usage_option
from memplane.integrations.clawdapus.memory_service.delivery_workers import DeliveryWorkers
from memplane.integrations.clawdapus.pod.agent_contexts import ProxiedAgent
from memplane.kit.json_values import as_string, decode_json_or_none
from memplane.ledger.entry import StreamReply, Turn
from memplane.ledger.turn_note import encode_note as encoded_note
from memplane.proxy.auxiliary_requests import classify_auxiliary
from memplane.proxy.conversation_position import find_position
from memplane.proxy.headers import header_value, response_headers
from memplane.proxy.injector import (
    InjectionRequest,
    InjectionResult,
    MemoryInjector,
    make_owned_note,
)
from memplane.proxy.passthrough import ForwardingContext, forward
from memplane.proxy.prices import add_cost
from memplane.proxy.provider import UpstreamCandidate
from memplane.proxy.request import ProxyRequest, make_attempt
from memplane.proxy.response import (
    ResponseWriter,
    forward_response,
    send_refusal,
    send_upstream_failure,
)
from memplane.proxy.route_selection import RequestRefusal
from memplane.proxy.turn_recorder import TurnInConversation, TurnRecorder
from memplane.proxy.turn_telemetry import (
    TRACE_HEADERS,
    ProviderResponse,
    TurnSpan,
    TurnStart,
    TurnTelemetry,
)
from memplane.proxy.upstream import UpstreamResponse

_log = logging.getLogger(__name__)

_SESSION_HEADERS: Final = ("x-claude-code-session-id", "session-id", "x-session-id")
_SESSION_MEMBER: Final = "prompt_cache_key"
_MAX_SESSION_CHARS: Final = 200
_MEMORY_HEADER: Final = "x-memplane-memory"
_USER_HEADER: Final = USER_HEADER.encode()
_MEMORY_OFF: Final = "memory off"
_EVENT_STREAM: Final = "text/event-stream"
_JSON: Final = "json"
_CLIENT_LEFT: Final = "the client left"


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """What turns are made with."""

    passing: ForwardingContext
    injector: MemoryInjector
    recorder: TurnRecorder
    telling: TurnTelemetry
    deliveries: DeliveryWorkers | None = None
    injection: str = ""
    ask_usage: bool = False
    auxiliary_phrases: tuple[str, ...] = ()
    users: UserPolicy = UserPolicy()


class _RoutedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was read and routed."""

    asked: ProxyRequest
    dialect: Dialect
    body: RequestBody
    agent: ProxiedAgent
    candidates: tuple[UpstreamCandidate, ...]
    clamped: bool
    session: str
    owner: TurnOwner
    ignored_user: bool
    left_out: str
    at: datetime
    story: TurnSpan

    @property
    def scope(self) -> MemoryScope:
        """Whose memory the turn is."""
        return MemoryScope(self.asked.caller.agent, self.owner.user)


async def handle_turn(
    proxy: Proxy, dialect: Dialect, asked: ProxyRequest, client: ResponseWriter
) -> None:
    """Answer a turn, give it memories and record it."""
    began = proxy.telling.begin()
    turn = await _read_turn_or_thread(proxy, dialect, asked, began)
    if isinstance(turn, RequestRefusal):
        _start_span(proxy, asked, began).emit_refusal(turn.status, turn.text)
        await send_refusal(client, turn)
        return
    if isinstance(turn, InvalidRequest):
        # Whatever it is, the provider will say what is wrong with it.
        _start_span(proxy, asked, began).unread(str(turn))
        await forward(proxy.passing, asked, client)
        return
    _tell_asked(turn)
    if proxy.deliveries is not None and asked.caller.in_pod:
        proxy.deliveries.expect(turn.agent.context)
    try:
        given = await _inject_memories(proxy, turn)
        if given.recall is not None:
            turn.story.recalled(given.recall, injected=given.injected)
            # What was recalled stands in the prompt; a long stream need not hold it a second time.
            given = replace(given, recall=None)
        outcome = await _relay(proxy, turn, given, client)
    except UpstreamError as error:
        turn.story.cut(str(error))
        await send_upstream_failure(client, error)
        return
    except asyncio.CancelledError as error:
        turn.story.cut(str(error) or _CLIENT_LEFT)
        raise
    _record_turn(proxy, turn, given, outcome)


def _tell_asked(turn: _RoutedTurn) -> None:
    turn.story.asked()
    if turn.clamped:
        why = f"not allowed; {_ref(turn.candidates[0])} is asked instead"
        turn.story.emit_intervention("intervention", why)
    if turn.ignored_user:
        turn.story.emit_intervention("ignored_user", "the user that it names cannot be one")


async def refuse_request(
    proxy: Proxy, why: RequestRefusal, asked: ProxyRequest, client: ResponseWriter
) -> None:
    """Refuse what is not served, and tell that somebody asked for it."""
    _start_span(proxy, asked, proxy.telling.begin()).emit_refusal(why.status, why.text)
    await send_refusal(client, why)


def _ref(candidate: UpstreamCandidate) -> str:
    return f"{candidate.provider}/{candidate.model}"


# Before the answer.


async def _read_turn_or_thread(
    proxy: Proxy, dialect: Dialect, asked: ProxyRequest, began: TurnStart
) -> _RoutedTurn | RequestRefusal | InvalidRequest:
    """Read a turn; a long one in a thread, and one that may become long."""
    if len(asked.raw) > LONG_BODY_BYTES or asked.header("content-encoding"):
        return await asyncio.to_thread(_read_turn, proxy, dialect, asked, began)
    return _read_turn(proxy, dialect, asked, began)


def _read_turn(
    proxy: Proxy, dialect: Dialect, asked: ProxyRequest, began: TurnStart
) -> _RoutedTurn | RequestRefusal | InvalidRequest:
    """Read and route a turn; an error when only its provider can say what is wrong with it."""
    try:
        body = parse_body(
            decode_content(asked.raw, asked.header("content-encoding"), max_bytes=MAX_BODY_BYTES)
        )
    except InvalidRequest as error:
        refused = RequestRefusal(HTTPStatus.BAD_REQUEST, str(error))
        return refused if asked.caller.governed else error
    try:
        agent = proxy.passing.agent(asked.caller)
        routed = proxy.passing.routed(asked, body, dialect.family)
    except MemplaneError as error:
        return RequestRefusal(HTTPStatus.BAD_GATEWAY, str(error))
    if isinstance(routed, RequestRefusal):
        return routed
    left_out = _find_exclusion(dialect, asked, body, proxy.auxiliary_phrases)
    named = _find_end_user(asked, body)
    return _RoutedTurn(
        asked=asked,
        dialect=dialect,
        body=body,
        agent=agent,
        candidates=routed.candidates,
        clamped=routed.clamped,
        session=proxy.telling.redact(_find_session(asked, body)).value[:_MAX_SESSION_CHARS],
        owner=proxy.users.find_owner(asked.caller.agent, named, holds_token=asked.caller.governed),
        ignored_user=named.is_invalid,
        left_out=left_out,
        at=began.at,
        story=_start_span(proxy, asked, began, model=body.model, left_out=left_out),
    )


def _start_span(
    proxy: Proxy, asked: ProxyRequest, began: TurnStart, *, model: str = "", left_out: str = ""
) -> TurnSpan:
    return TurnSpan(
        proxy.telling,
        began,
        agent=asked.caller.agent,
        model=model,
        carrier={name: said for name in TRACE_HEADERS if (said := asked.header(name))},
        left_out=left_out,
    )


def _find_session(asked: ProxyRequest, body: RequestBody) -> str:
    named = (asked.header(name) for name in _SESSION_HEADERS)
    found = next(filter(None, named), "")
    if not found and _SESSION_MEMBER in body.members:
        found = as_string(decode_json_or_none(bytes(body.members[_SESSION_MEMBER])))
    return found if found.isprintable() else ""


def _find_end_user(asked: ProxyRequest, body: RequestBody) -> EndUser:
    """Return the user that a request names, in its header or its body."""
    headers = (value for name, value in asked.target.headers if name.lower() == _USER_HEADER)
    header = next(headers, None)
    members = {
        name: decode_json_or_none(bytes(body.members[name]))
        for name in USER_MEMBERS & body.members.keys()
    }
    # What is no UTF-8 cannot be a user either.
    return find_end_user(
        members, None if header is None else header.decode("utf-8", "surrogateescape")
    )


def _find_exclusion(
    dialect: Dialect, asked: ProxyRequest, body: RequestBody, phrases: Collection[str]
) -> str:
    """Say why a request is given no memory and nothing is remembered of it."""
    if asked.header(_MEMORY_HEADER).lower() == "off":
        return _MEMORY_OFF
    headers: Mapping[str, str] = {
        name.lower().decode("latin-1"): value.decode("latin-1")
        for name, value in asked.target.headers
    }
    return classify_auxiliary(dialect, body, headers, phrases)


async def _inject_memories(proxy: Proxy, turn: _RoutedTurn) -> InjectionResult:
    try:
        return await proxy.injector.give(_make_injection_request(proxy, turn))
    except Exception:  # noqa: BLE001 - see below
        # Nothing that memory does may fail a turn, also nothing that nobody thought of.
        _log.exception("a turn of %s goes on without memory", turn.asked.caller.agent)
        return InjectionResult(
            turn.body.raw,
            replace_note(make_owned_note(turn.session, turn.owner), left_out=turn.left_out),
        )


def _make_injection_request(proxy: Proxy, turn: _RoutedTurn) -> InjectionRequest:
    in_pod = turn.asked.caller.in_pod
    return InjectionRequest(
        context=turn.agent.context,
        scope=turn.scope,
        owner=turn.owner,
        broken=turn.agent.broken,
        dialect=turn.dialect,
        body=turn.body,
        session=turn.session,
        left_out=turn.left_out,
        beside=proxy.injection == "clawdapus" or (in_pod and not proxy.injection),
        forgetful=in_pod and turn.agent.context.memory is None and not turn.agent.broken,
    )


# The answer.


async def _relay(
    proxy: Proxy, turn: _RoutedTurn, given: InjectionResult, client: ResponseWriter
) -> _TurnOutcome:
    """Ask the candidates, and pass the answer on while it comes."""
    asked, asking = turn.asked, _make_outgoing_body(proxy, turn, given)
    attempts = [
        make_attempt(
            asked, one, _body_for_candidate(turn, one, asking.body), decoded=asking.decoded
        )
        for one in turn.candidates
    ]
    async with proxy.passing.upstream.send(attempts) as answer:
        first = turn.story.seconds
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            await forward_response(answer, client)
            return _TurnOutcome(None, answer.candidate, answer.status, first)
        stream = _EVENT_STREAM in header_value(answer.headers, b"content-type").lower()
        encoding = header_value(answer.headers, b"content-encoding")
        assembling = ReplyAssembler(turn.dialect, stream=stream, encoding=encoding)
        without = (
            UsageChunkFilter() if asking.has_usage_option and stream and not encoding else None
        )
        await client.begin(
            answer.status, response_headers(answer.headers, unchanged=without is None)
        )
        left = await _forward_chunks(answer, client, assembling, without)
    ended = await _assemble_reply(assembling)
    if left and ended.kind is not ReplyOutcome.WHOLE:
        ended = replace(ended, kind=ReplyOutcome.CUT, problem=left)
    sent = asking.body if asking.decoded else given.body
    return _TurnOutcome(ended, answer.candidate, answer.status, first, sent)


async def _forward_chunks(
    answer: UpstreamResponse,
    client: ResponseWriter,
    assembling: ReplyAssembler,
    without: UsageChunkFilter | None,
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
        if answer.ends_with_connection and _is_framed_by_its_kind(answer):
            ended = await _assemble_reply(assembling)
            if ended.is_truncated:
                raise answer.cut(ended.problem)
        await client.end()
    except asyncio.CancelledError as error:
        return str(error) or _CLIENT_LEFT
    return ""


def _is_framed_by_its_kind(answer: UpstreamResponse) -> bool:
    """Say whether the content of an answer shows that it is whole: events and JSON do."""
    kind = header_value(answer.headers, b"content-type").lower()
    return _EVENT_STREAM in kind or _JSON in kind


async def _assemble_reply(assembling: ReplyAssembler) -> AssembledReply:
    """Read a reply; a long one in a thread, so that nobody else waits for it."""
    if assembling.length > LONG_BODY_BYTES:
        return await asyncio.to_thread(assembling.finish)
    return assembling.finish()


@dataclass(frozen=True, slots=True)
class _TurnOutcome:
    """What came of a turn: its reply, unless the provider refused it; who answered, and when."""

    ended: AssembledReply | None
    candidate: UpstreamCandidate
    status: int
    first_byte: float
    sent: bytes = field(default=b"", repr=False)
    """The body that was sent, without an encoding, and with the model's name as it came."""


@dataclass(frozen=True, slots=True)
class _OutgoingBody:
    """The bytes to send, and how they differ from those that came."""

    body: bytes = field(repr=False)
    decoded: bool
    has_usage_option: bool


def _make_outgoing_body(proxy: Proxy, turn: _RoutedTurn, given: InjectionResult) -> _OutgoingBody:
    body, replaced, has_usage_option = given.body, given.replaced, False
    if proxy.ask_usage:
        with_usage = add_usage_option(turn.dialect, parse_body(body) if replaced else turn.body)
        if with_usage is not None:
            body, replaced, has_usage_option = with_usage, True, True
    renamed = any(one.model not in {"", turn.body.model} for one in turn.candidates)
    if not replaced and not renamed:
        return _OutgoingBody(turn.asked.raw, decoded=False, has_usage_option=False)
    return _OutgoingBody(body, decoded=True, has_usage_option=has_usage_option)


def _body_for_candidate(turn: _RoutedTurn, candidate: UpstreamCandidate, body: bytes) -> bytes:
    """Return the body with the candidate's own name for the model."""
    if candidate.model in {"", turn.body.model}:
        return body
    return parse_body(body).with_members({"model": msgspec.json.encode(candidate.model)})


# After the answer.


def _record_turn(
    proxy: Proxy, turn: _RoutedTurn, given: InjectionResult, outcome: _TurnOutcome
) -> None:
    ended, candidate, story = outcome.ended, outcome.candidate, turn.story
    if candidate is not turn.candidates[0]:
        why = f"{_ref(turn.candidates[0])} did not answer; {_ref(candidate)} was asked"
        story.emit_intervention("failover", why)
    answered = ProviderResponse(
        provider=candidate.provider, status=outcome.status, first_byte=outcome.first_byte
    )
    if ended is None:
        story.refused(answered)
        return
    model = candidate.model or turn.body.model
    usage = add_cost(candidate.provider, model, ended.usage, ended.cached)
    if ended.kind is ReplyOutcome.CUT:
        story.emit_cut_reply(answered, usage, ended.problem)
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
        request_effective=_body_for_candidate(turn, candidate, outcome.sent),
        reply=ended.reply,
        usage=usage,
        status="error" if ended.kind is ReplyOutcome.FAILED else "",
        note=encoded_note(
            msgspec.structs.replace(given.note, attested=turn.asked.caller.governed)
        ),
    )
    told = story.answered(answered, usage, ended.problem)
    proxy.recorder.record(entry, told, spoken=_place_in_conversation(turn, given, ended))


def _place_in_conversation(
    turn: _RoutedTurn, given: InjectionResult, ended: AssembledReply
) -> TurnInConversation | None:
    """Say what a turn is in its conversation; nothing where it failed or nobody asked."""
    if not given.place or ended.kind is not ReplyOutcome.WHOLE:
        return None
    stood = cache(partial(find_position, turn.dialect, turn.body, ended.reply))
    return TurnInConversation(turn.scope, turn.session, given.place, stood)
