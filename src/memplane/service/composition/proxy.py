"""The proxy of a services, put together from settings. Only its owner needs it."""

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

import msgspec

from memplane.episodes.api_types import RecallRequest, RecallResponse
from memplane.episodes.episode import epoch_us
from memplane.errors import SettingsError
from memplane.home import Home
from memplane.integrations.clawdapus.memory_service.client import (
    ServiceClient,
    open_service_client,
)
from memplane.integrations.clawdapus.memory_service.delivery import DeliveryContext
from memplane.integrations.clawdapus.memory_service.delivery_workers import DeliveryWorkers
from memplane.integrations.clawdapus.memory_service.forget import ForgetRunner
from memplane.integrations.clawdapus.memory_service.forget_queue import QueuedForget
from memplane.integrations.clawdapus.memory_service.forget_retry import retry_forgets
from memplane.integrations.clawdapus.memory_service.service_targets import (
    LedgerPaths,
    ServiceTarget,
    make_proxied_target,
)
from memplane.integrations.clawdapus.pod.agent_contexts import (
    ProxiedAgent,
    list_agents,
    read_proxied_agent,
)
from memplane.integrations.otel import NullTraceSink, TraceSink, open_otlp_sink
from memplane.kit.clock import system_clock
from memplane.ledger.folder import STATE_FOLDER_NAME
from memplane.ledger.tombstones import get_mirror_root
from memplane.proxy.injector import MemoryInjector
from memplane.proxy.passthrough import ForwardingContext
from memplane.proxy.provider_config import PROVIDERS_FILE, find_config_warnings
from memplane.proxy.recall_client import LOCAL_SERVICE, RecallClient
from memplane.proxy.route_selection import parse_upstreams
from memplane.proxy.router import ConfiguredProviders, Router
from memplane.proxy.sticky_injections import AnsweredTurn, StickyInjections
from memplane.proxy.turn import Proxy
from memplane.proxy.turn_recorder import RecordedTurn, TurnInConversation, TurnRecorder
from memplane.proxy.turn_telemetry import TurnTelemetry
from memplane.proxy.upstream import UpstreamClient, UpstreamTimeouts, open_upstream
from memplane.redaction.redactor import RedactionResult
from memplane.service.composition.memory import user_policy
from memplane.service.operation import Context
from memplane.service.operations.memory import recall
from memplane.service.services import Services
from memplane.settings import Settings, get_environment
from memplane.telemetry import MemoryEvent, MemoryOperation, OperationStatus, Telemetry

_log = logging.getLogger(__name__)


class _RecallOperation(msgspec.Struct, frozen=True):
    """Recalls from the memory of this process."""

    services: Services

    async def recall(self, ask: RecallRequest) -> RecallResponse:
        return await recall.handler(Context(self.services), ask)


@asynccontextmanager
async def open_proxy(
    settings: Settings, services: Services, telemetry: Telemetry
) -> AsyncGenerator[Proxy]:
    """Open the proxy: its providers, its memories, and what follows a turn.

    Raises:
        SettingsError: An upstream is no address, or one that is never asked.
    """
    chosen, redactor = settings.proxy, services.recording.redactor()
    memory = await services.lazy_memory.memory()
    memory.on_remembered(partial(_tell_retained, settings.context_root, telemetry.emit))
    sticky = StickyInjections(memory, epoch_us(system_clock()))
    async with (
        open_service_client() as client,
        _open_upstream(settings) as upstream,
        _running(sticky.run(), sticky.end),
        _delivering(settings, services, client, telemetry) as deliveries,
        _tracing(settings) as traces,
    ):
        recall_client = RecallClient(
            client=client,
            redactor=redactor,
            memories=_RecallOperation(services),
            seconds=chosen.recall_ms / 1000,
        )

        def recorded(turn: RecordedTurn) -> None:
            memory.recorded(turn.agent)
            if turn.spoken is not None:
                sticky.answered(_answered(turn, turn.spoken))
            if deliveries is not None:
                deliveries.recorded(turn.agent)

        recorder = TurnRecorder(services.recording.ledger, telemetry, recorded=recorded)
        yield Proxy(
            passing=_passing(settings, upstream),
            injector=MemoryInjector(
                recall_client,
                sticky,
                clock=system_clock,
                nonce=lambda: secrets.token_hex(4),
                tells_time=chosen.time_line,
                seconds=chosen.recall_ms / 1000,
            ),
            recorder=recorder,
            telling=TurnTelemetry(
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
            users=user_policy(settings),
        )
        await recorder.drain()


def _answered(turn: RecordedTurn, spoken: TurnInConversation) -> AnsweredTurn:
    return AnsweredTurn(
        scope=spoken.scope,
        session=spoken.session,
        prompt=spoken.prompt,
        entry=turn.entry_id,
        at=epoch_us(system_clock()),
        stood=spoken.stood,
    )


def _open_upstream(settings: Settings) -> AbstractAsyncContextManager[UpstreamClient]:
    chosen = settings.proxy
    patience = UpstreamTimeouts(
        candidate=chosen.candidate_timeout_ms / 1000,
        first_byte=chosen.first_byte_timeout_ms / 1000,
        idle=chosen.idle_timeout_ms / 1000,
    )
    return open_upstream(patience=patience, allowed=frozenset(chosen.allowed_private))


def _passing(settings: Settings, upstream: UpstreamClient) -> ForwardingContext:
    chosen, port = settings.proxy, settings.http.port
    path, environ = (chosen.auth_dir or settings.home) / PROVIDERS_FILE, get_environment()
    providers = ConfiguredProviders(path, environ, port)
    try:
        for doubt in find_config_warnings(path, environ, own_port=port):
            _log.warning("%s", doubt)
        providers.now()
    except SettingsError as error:
        _log.warning("%s: until it is put right, agents that hold tokens take no turns", error)
    return ForwardingContext(
        routes=Router(
            parse_upstreams(chosen.upstream_openai, chosen.upstream_anthropic, own_port=port),
            providers,
        ),
        upstream=upstream,
        find_pod_agent=partial(read_proxied_agent, settings.context_root or Path()),
        pod=settings.pod,
    )


def _tell_retained(
    context_root: Path | None, emit: Callable[[MemoryEvent], None], agent: str, turns: int
) -> None:
    """Tell of turns that our own memory took in; a pod's agents are never recalled from it."""
    if context_root is not None and (context_root / agent).is_dir():
        return
    for _ in range(turns):
        emit(
            MemoryEvent(
                ts=system_clock(),
                claw_id=agent,
                memory_service=LOCAL_SERVICE,
                memory_op=MemoryOperation.RETAIN,
                memory_status=OperationStatus.SUCCEEDED,
            )
        )


@asynccontextmanager
async def _delivering(
    settings: Settings, services: Services, client: ServiceClient, telemetry: Telemetry
) -> AsyncGenerator[DeliveryWorkers | None]:
    """Deliver turns to the memory services of a pod's agents meanwhile; without a pod, nothing."""
    if settings.context_root is None:
        yield None
        return
    redact = services.recording.scrub_line
    needs = delivering(settings, client, redact, telemetry.emit)
    deliveries = DeliveryWorkers(needs)
    await deliveries.start(await asyncio.to_thread(list_agents, settings.context_root))
    forgets = retry_forgets(forgetting(needs), forget_target(needs), needs.pacing)
    telling = asyncio.create_task(forgets, name="queued-forgets")
    try:
        yield deliveries
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        await deliveries.drain(settings.proxy.drain_ms / 1000)


def forgetting(needs: DeliveryContext) -> ForgetRunner:
    """Make what tells services of forgets that were queued, from what turns are delivered with."""
    place = LedgerPaths(needs.ledgers, needs.tombstones)
    return ForgetRunner(place, needs.client, needs.clock, needs.emit, needs.pacing.elapsed)


def forget_target(needs: DeliveryContext) -> Callable[[QueuedForget], ServiceTarget]:
    """Say how a queued forget reaches its service from here."""

    def target_of(item: QueuedForget) -> ServiceTarget:
        return make_proxied_target(needs.agent_of(item.agent), item.service, item.agent)

    return target_of


def delivering(
    settings: Settings,
    client: ServiceClient,
    redact: Callable[[bytes], RedactionResult[bytes]],
    emit: Callable[[MemoryEvent], None],
) -> DeliveryContext:
    """Say from where to where turns are delivered.

    Raises:
        SettingsError: There is no pod.
    """
    root, ledgers = settings.context_root, settings.ledger.dir
    if root is None:
        raise SettingsError("there is no pod here: context_root is not set")

    def agent_of(agent: str) -> ProxiedAgent | None:
        return read_proxied_agent(root, agent) if (root / agent).is_dir() else None

    return DeliveryContext(
        folder=outbox_folder(settings),
        ledgers=ledgers,
        tombstones=(Home(settings.home).tombstones, get_mirror_root(ledgers)),
        client=client,
        redact=redact,
        agent_of=agent_of,
        emit=emit,
        clock=system_clock,
    )


def outbox_folder(settings: Settings) -> Path:
    """Say where it is kept how far turns were delivered to other memory services."""
    return (settings.proxy.state_dir or settings.ledger.dir / STATE_FOLDER_NAME) / "outbox"


@asynccontextmanager
async def _tracing(settings: Settings) -> AsyncGenerator[TraceSink]:
    endpoint = settings.telemetry.otlp_endpoint
    traces = open_otlp_sink(endpoint) if endpoint else NullTraceSink()
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
