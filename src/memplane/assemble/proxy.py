"""The proxy of a plane, put together from settings. Only its owner needs it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from memplane.clock import system_clock
from memplane.errors import SettingsError
from memplane.home import Home
from memplane.ledger.folder import STATE
from memplane.ledger.tombstones import mirror_of
from memplane.memory.episode import microseconds
from memplane.operate.forgetting import Forgetting
from memplane.operate.queue import QueuedForget
from memplane.operate.retelling import tell_again
from memplane.operate.targets import Place, Target, proxied_target
from memplane.plane.local import LocalPlane
from memplane.pod.contexts import ProxiedAgent, agents_below, read_proxied_agent
from memplane.proxy.delivering import Deliveries
from memplane.proxy.injecting import Injecting
from memplane.proxy.outgoing import Delivering
from memplane.proxy.passing import Passing
from memplane.proxy.providers import FILE, passed_over
from memplane.proxy.recalling import OURSELVES, Recaller
from memplane.proxy.recording import Recorded, Recorder, Spoken
from memplane.proxy.routes import Providers, Routes
from memplane.proxy.routing import upstreams
from memplane.proxy.sticky import Answered, Sticky
from memplane.proxy.telling import Telling
from memplane.proxy.turn import Proxy
from memplane.proxy.upstream import Patience, Upstream, open_upstream
from memplane.redaction.redactor import Redacted
from memplane.services.client import ServiceClient, open_client
from memplane.settings import Settings, environment
from memplane.telemetry import MemoryOp, MemoryOperation, MemoryStatus, Telemetry
from memplane.tracing import NoTraces, Traces, open_traces

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_proxy(
    settings: Settings, plane: LocalPlane, telemetry: Telemetry
) -> AsyncGenerator[Proxy]:
    """Open the proxy: its providers, its memories, and what follows a turn.

    Raises:
        SettingsError: An upstream is no address, or one that is never asked.
    """
    chosen, redactor = settings.proxy, plane.recording.redactor()
    memory = await plane.remembering.memory()
    memory.tell_remembered(partial(_tell_retained, settings.context_root, telemetry.emit))
    sticky = Sticky(memory, microseconds(system_clock()))
    async with (
        open_client() as client,
        _open_upstream(settings) as upstream,
        _running(sticky.run(), sticky.end),
        _delivering(settings, plane, client, telemetry) as deliveries,
        _tracing(settings) as traces,
    ):
        recaller = Recaller(
            client=client, redactor=redactor, memories=plane, seconds=chosen.recall_ms / 1000
        )

        def recorded(turn: Recorded) -> None:
            memory.recorded(turn.agent)
            if turn.spoken is not None:
                sticky.answered(_answered(turn, turn.spoken))
            if deliveries is not None:
                deliveries.recorded(turn.agent)

        recorder = Recorder(plane.recording.ledger, telemetry, recorded=recorded)
        yield Proxy(
            passing=_passing(settings, upstream),
            injecting=Injecting(
                recaller,
                sticky,
                clock=system_clock,
                nonce=lambda: secrets.token_hex(4),
                tells_time=chosen.time_line,
                seconds=chosen.recall_ms / 1000,
            ),
            recorder=recorder,
            telling=Telling(
                telemetry=telemetry,
                traces=traces,
                clock=system_clock,
                elapsed=time.monotonic,
                redact=redactor.text,
            ),
            deliveries=deliveries,
            injection=chosen.injection,
            ask_usage=chosen.ask_usage,
            auxiliary_phrases=chosen.auxiliary_phrases,
        )
        await recorder.drain()


def _answered(turn: Recorded, spoken: Spoken) -> Answered:
    return Answered(
        agent=turn.agent,
        session=spoken.session,
        prompt=spoken.prompt,
        entry=turn.entry_id,
        at=microseconds(system_clock()),
        stood=spoken.stood,
    )


def _open_upstream(settings: Settings) -> AbstractAsyncContextManager[Upstream]:
    chosen = settings.proxy
    patience = Patience(
        candidate=chosen.candidate_timeout_ms / 1000,
        first_byte=chosen.first_byte_timeout_ms / 1000,
        idle=chosen.idle_timeout_ms / 1000,
    )
    return open_upstream(patience=patience, allowed=frozenset(chosen.allowed_private))


def _passing(settings: Settings, upstream: Upstream) -> Passing:
    chosen, port = settings.proxy, settings.http.port
    path, environ = (chosen.auth_dir or settings.home) / FILE, environment()
    providers = Providers(path, environ, port)
    try:
        for doubt in passed_over(path, environ, own_port=port):
            _log.warning("%s", doubt)
        providers.now()
    except SettingsError as error:
        _log.warning("%s: until it is put right, agents that hold tokens take no turns", error)
    return Passing(
        routes=Routes(
            upstreams(chosen.upstream_openai, chosen.upstream_anthropic, own_port=port),
            providers,
        ),
        upstream=upstream,
        agent_in_pod=partial(read_proxied_agent, settings.context_root or Path()),
        pod=settings.pod,
    )


def _tell_retained(
    context_root: Path | None, emit: Callable[[MemoryOp], None], agent: str, turns: int
) -> None:
    """Tell of turns that our own memory took in; a pod's agents are never recalled from it."""
    if context_root is not None and (context_root / agent).is_dir():
        return
    for _ in range(turns):
        emit(
            MemoryOp(
                ts=system_clock(),
                claw_id=agent,
                memory_service=OURSELVES,
                memory_op=MemoryOperation.RETAIN,
                memory_status=MemoryStatus.SUCCEEDED,
            )
        )


@asynccontextmanager
async def _delivering(
    settings: Settings, plane: LocalPlane, client: ServiceClient, telemetry: Telemetry
) -> AsyncGenerator[Deliveries | None]:
    """Deliver turns to the memory services of a pod's agents meanwhile; without a pod, nothing."""
    if settings.context_root is None:
        yield None
        return
    redact = plane.recording.scrub_line
    needs = delivering(settings, client, redact, telemetry.emit)
    deliveries = Deliveries(needs)
    await deliveries.start(await asyncio.to_thread(agents_below, settings.context_root))
    forgets = tell_again(forgetting(needs), forget_target(needs), needs.pacing)
    telling = asyncio.create_task(forgets, name="queued-forgets")
    try:
        yield deliveries
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        await deliveries.drain(settings.proxy.drain_ms / 1000)


def forgetting(needs: Delivering) -> Forgetting:
    """Make what tells services of forgets that were queued, from what turns are delivered with."""
    place = Place(needs.ledgers, needs.tombstones)
    return Forgetting(place, needs.client, needs.clock, needs.emit, needs.pacing.elapsed)


def forget_target(needs: Delivering) -> Callable[[QueuedForget], Target]:
    """Say how a queued forget reaches its service from here."""

    def target_of(item: QueuedForget) -> Target:
        return proxied_target(needs.agent_of(item.agent), item.service, item.agent)

    return target_of


def delivering(
    settings: Settings,
    client: ServiceClient,
    redact: Callable[[bytes], Redacted[bytes]],
    emit: Callable[[MemoryOp], None],
) -> Delivering:
    """Say from where to where turns are delivered.

    Raises:
        SettingsError: There is no pod.
    """
    root, ledgers = settings.context_root, settings.ledger.dir
    if root is None:
        raise SettingsError("there is no pod here: context_root is not set")

    def agent_of(agent: str) -> ProxiedAgent | None:
        return read_proxied_agent(root, agent) if (root / agent).is_dir() else None

    return Delivering(
        folder=outbox_folder(settings),
        ledgers=ledgers,
        tombstones=(Home(settings.home).tombstones, mirror_of(ledgers)),
        client=client,
        redact=redact,
        agent_of=agent_of,
        emit=emit,
        clock=system_clock,
    )


def outbox_folder(settings: Settings) -> Path:
    """Say where it is kept how far turns were delivered to other memory services."""
    return (settings.proxy.state_dir or settings.ledger.dir / STATE) / "outbox"


@asynccontextmanager
async def _tracing(settings: Settings) -> AsyncGenerator[Traces]:
    endpoint = settings.telemetry.otlp_endpoint
    traces = open_traces(endpoint) if endpoint else NoTraces()
    try:
        yield traces
    finally:
        await asyncio.to_thread(traces.close)


@asynccontextmanager
async def _running(
    work: Coroutine[Any, Any, None], end: Callable[[], None]
) -> AsyncGenerator[None]:
    """Let something run beside, and let it finish."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        end()
        await task
