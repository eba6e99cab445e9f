"""Recall for one request: from the memory here or from a service, within a deadline.

Nothing here raises, and nothing here keeps a turn waiting longer than it may: whatever happens is
told as a status, and the turn goes on without memories.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol, Self

import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.episodes.api_types import MemoryBlock, RecallRequest, RecallResponse
from memplane.errors import InvalidRequest, UnknownAgent
from memplane.integrations.clawdapus.memory_service.client import (
    NoServiceResponse,
    ServiceAddress,
    ServiceClient,
    ServiceResponse,
    explain_failure,
)
from memplane.integrations.clawdapus.memory_service.wire_format import (
    MAX_RECALL_BYTES,
    RecallConversation,
    UnreadableResponse,
    encode_conversation,
    parse_recalled,
)
from memplane.integrations.clawdapus.pod.agent_contexts import AgentContext
from memplane.integrations.clawdapus.pod.memory_manifest import MemoryEndpoint, MemoryManifest
from memplane.proxy.circuit_breaker import CircuitBreakers
from memplane.proxy.memory_blocks import FilteredBlocks, filter_blocks
from memplane.redaction.redactor import Redactor
from memplane.telemetry import MemoryEvent, MemoryOperation, OperationStatus

RECALL_DEADLINE_S: Final = 0.3
"""How long a recall may take, unless a manifest says something else."""
_MIN_RECALL_S: Final = 0.005
"""Seconds in which nobody can be expected to answer."""

LOCAL_SERVICE: Final = "memplane"
_BREAKER_OPEN: Final = "breaker open"
_NO_BLOCKS: Final = FilteredBlocks()

_log = logging.getLogger(__name__)


class LocalRecall(Protocol):
    """The memory of this process, or of the one that owns the home."""

    async def recall(self, ask: RecallRequest) -> RecallResponse:
        """Answer a question with what an agent remembers."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """A request that wants its memories.

    `context.memory` is the service to ask; without one the memory here is asked. `broken` says
    why there is a manifest that cannot be used. What was said at the places `here` stands in the
    conversation, and need not be told; nor do the entries that it is `without`.
    """

    context: AgentContext
    scope: MemoryScope
    broken: str = ""
    wire: str = "openai"
    model: str = ""
    messages: object = None
    system: object = None
    session: str = ""
    here: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResult:
    """What came of a recall. `returned` counts blocks before policy; a turn shows `kept`.

    Without a service there is no memory at all, or a manifest that does not tell.
    """

    agent: str
    service: str
    status: OperationStatus
    model: str = ""
    error: str = ""
    kept: FilteredBlocks = _NO_BLOCKS
    returned: int = 0
    status_code: int = 0
    seconds: float = 0.0

    @property
    def blocks(self) -> tuple[MemoryBlock, ...]:
        """The blocks that may be shown."""
        return self.kept.blocks


class _RecallReply(msgspec.Struct, frozen=True):
    """What came back: an answer, or why there is none, and whether the service is sick."""

    recalled: RecallResponse | None = None
    error: str = ""
    code: int = 0
    late: bool = False
    sick: bool = False


@dataclass(frozen=True, slots=True)
class _RunningRecall:
    """A recall under way, and what is told when nothing comes of it."""

    nothing: RecallResult
    task: asyncio.Task[_RecallReply]
    keys: tuple[Hashable, ...]
    at: float
    seconds: float


class PendingRecall:
    """One recall. Leaving its block gives up one that nobody waited for."""

    def __init__(self, recall_client: RecallClient, asked: Callable[[], RecallQuery]) -> None:
        self._recaller = recall_client
        self._asked = asked
        self._started: RecallResult | _RunningRecall | None = None

    async def begin(self) -> None:
        """Ask now, and go on with something else meanwhile."""
        self._started = self._recaller.start(self._asked(), 0.0)
        await asyncio.sleep(0)  # so that the question is on its way

    async def came(self, *, waited: float = 0.0) -> RecallResult:
        """Wait for what comes of it, until the deadline; nothing of what happens is raised.

        One that was not begun is begun now. So many seconds of its time have passed already when
        it has `waited`.
        """
        started = self._started or self._recaller.start(self._asked(), waited)
        self._started = None
        return (
            await self._recaller.told(started) if isinstance(started, _RunningRecall) else started
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._started, _RunningRecall):
            self._recaller.give_up(self._started)


class RecallClient:
    """Asks for memories.

    A service that fails three times in a row is left alone for half a minute. One that is there
    and refuses an agent, or answers it something unreadable, is left alone for that agent only.
    """

    def __init__(
        self,
        *,
        client: ServiceClient,
        redactor: Redactor,
        memories: LocalRecall | None = None,
        seconds: float = RECALL_DEADLINE_S,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._redactor = redactor
        self._memories = memories
        self._seconds = seconds
        self._elapsed = elapsed
        self._breakers = CircuitBreakers()
        self._left: set[asyncio.Task[_RecallReply]] = set()

    def recalling(self, asked: Callable[[], RecallQuery]) -> PendingRecall:
        """Say what will be asked; nothing happens before it is begun or waited for."""
        return PendingRecall(self, asked)

    async def recall(self, asked: RecallQuery) -> RecallResult:
        """Ask for the memories of a request, and wait for them."""
        return await self.recalling(lambda: asked).came()

    def start(self, asked: RecallQuery, waited: float) -> RecallResult | _RunningRecall:
        """Ask for the memories of a request, or say at once what comes of it.

        So many seconds of its time have passed already when it has `waited`.
        """
        nothing = self.skipped(asked)
        manifest = asked.context.memory
        if asked.broken:
            return replace(
                nothing, status=OperationStatus.FAILED, error=_format_manifest_error(asked.broken)
            )
        operation = manifest.recall if manifest is not None else None
        if (self._memories if manifest is None else operation) is None:
            return nothing
        told_ms = (operation.timeout_ms or 0) if operation is not None else 0
        seconds = (told_ms / 1000 or self._seconds) - waited
        if seconds < _MIN_RECALL_S:
            return replace(
                nothing, status=OperationStatus.TIMED_OUT, error=_format_timeout(waited)
            )
        where = _service_key(manifest)
        keys: tuple[Hashable, ...] = (where, (where, asked.context.agent))
        now = self._elapsed()
        if not self._breakers.admit(keys, now):
            return replace(nothing, error=_BREAKER_OPEN)
        task = asyncio.create_task(self._ask(asked, seconds))
        self._left.add(task)
        task.add_done_callback(self._over)
        return _RunningRecall(nothing, task, keys, now, seconds)

    def skipped(self, asked: RecallQuery, why: str = "") -> RecallResult:
        """Tell of a request that was not to be recalled for."""
        manifest = asked.context.memory
        here = LOCAL_SERVICE if self._memories is not None and not asked.broken else ""
        return RecallResult(
            agent=asked.context.agent,
            service=here if manifest is None else manifest.service,
            status=OperationStatus.SKIPPED,
            model=self._redactor.text(asked.model).value,
            error=why,
        )

    async def told(self, started: _RunningRecall) -> RecallResult:
        """Wait for what comes of it, and say so; it is back when the deadline is."""
        try:
            came = await self._within(started)
            kept = filter_blocks(
                came.recalled.memories if came.recalled else (), self._redactor.texts
            )
        except asyncio.CancelledError:
            self.give_up(started)
            raise
        except Exception as error:  # noqa: BLE001 - memory may fail in any way; the turn may not
            _log.warning("a recall failed: %s", type(error).__name__)
            own = isinstance(error, UnknownAgent | InvalidRequest)
            came, kept = (
                _RecallReply(error=f"recall: {type(error).__name__}", sick=not own),
                _NO_BLOCKS,
            )
        ended = self._elapsed()
        self._count(came, started.keys, started.at, ended)
        status = OperationStatus.TIMED_OUT if came.late else OperationStatus.FAILED
        return replace(
            started.nothing,
            status=status if came.recalled is None else OperationStatus.SUCCEEDED,
            error=came.error,
            kept=kept,
            returned=len(came.recalled.memories) if came.recalled else 0,
            status_code=came.code,
            seconds=ended - started.at,
        )

    def give_up(self, started: _RunningRecall) -> None:
        """Wait no longer."""
        started.task.cancel()
        for key in started.keys:
            self._breakers.abandon(key)

    async def _within(self, started: _RunningRecall) -> _RecallReply:
        """Wait for an answer, and no longer, also for one that does not let itself be stopped."""
        task, seconds = started.task, started.seconds
        if not task.done():
            left = started.at + seconds - self._elapsed()
            try:
                await asyncio.wait((task,), timeout=max(left, 0.0))
            finally:
                task.cancel()
        if task.cancelled():
            return _RecallReply(error="recall: it was stopped", sick=True)
        if task.done():
            return task.result()
        return _RecallReply(error=_format_timeout(seconds), late=True, sick=True)

    def _over(self, task: asyncio.Task[_RecallReply]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has heard of it, or waits no more

    def _count(
        self, came: _RecallReply, keys: tuple[Hashable, ...], started: float, ended: float
    ) -> None:
        service, agent = keys
        if came.recalled is not None:
            self._breakers.succeeded(service)
            self._breakers.succeeded(agent)
        elif came.sick:
            self._breakers.failed(service, ended, since=started)
            self._breakers.abandon(agent)
        else:
            # It is there, but not for this agent as it asks.
            self._breakers.succeeded(service)
            self._breakers.failed(agent, ended, since=started)

    async def _ask(self, asked: RecallQuery, seconds: float) -> _RecallReply:
        manifest = asked.context.memory
        if manifest is not None and manifest.recall is not None:
            return await self._ask_service(asked, manifest, manifest.recall, seconds)
        assert self._memories is not None  # noqa: S101 - else nobody is asked
        ask = RecallRequest(
            agent=asked.scope.agent,
            user=asked.scope.user or None,
            view=asked.scope.view or None,
            messages=asked.messages,
            here=asked.here,
            without=asked.without,
        )
        return _RecallReply(await self._memories.recall(ask))

    async def _ask_service(
        self,
        asked: RecallQuery,
        manifest: MemoryManifest,
        operation: MemoryEndpoint,
        seconds: float,
    ) -> _RecallReply:
        # A conversation may be megabytes long, and others must not wait for it.
        body = await asyncio.to_thread(self._body, asked)
        address = ServiceAddress(manifest.url_of(operation), manifest.token, seconds)
        outcome = await self._client.post(address, body, keep=MAX_RECALL_BYTES + 1)
        match outcome:
            case NoServiceResponse(late=late):
                error = (
                    _format_timeout(seconds)
                    if late
                    else explain_failure("recall", outcome, manifest.token)
                )
                return _RecallReply(error=error, late=late, sick=True)
            case ServiceResponse(status, answer) if outcome.ok:
                found = parse_recalled(answer)
                if isinstance(found, UnreadableResponse):
                    return _RecallReply(error=found.why, code=status)
                return _RecallReply(found, code=status)
            case ServiceResponse(status):
                error = f"recall returned status {status}"
                return _RecallReply(error=error, code=status, sick=outcome.is_retryable)

    def _body(self, asked: RecallQuery) -> bytes:
        messages = asked.messages
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        talk = RecallConversation(
            path=asked.wire,
            model=self._redactor.text(asked.model).value,
            session=self._redactor.text(asked.session).value,
            messages=self._scrubbed(messages),
            system=self._scrubbed(asked.system),
        )
        return encode_conversation(asked.context, talk)

    def _scrubbed(self, value: object) -> bytes:
        return b"" if value is None else self._redactor.json(_encode_json(value)).value


def make_recall_event(
    came: RecallResult, *, ts: datetime, injected_bytes: int
) -> MemoryEvent | None:
    """Tell how a recall went, once it is known how much of it was injected.

    None when there is no memory for this agent at all.
    """
    if not came.service and came.status is OperationStatus.SKIPPED:
        return None
    return MemoryEvent(
        ts=ts,
        claw_id=came.agent,
        model=came.model,
        latency_ms=round(came.seconds * 1000),
        status_code=came.status_code,
        error=came.error,
        memory_service=came.service,
        memory_op=MemoryOperation.RECALL,
        memory_status=came.status,
        memory_blocks=came.returned,
        memory_bytes=injected_bytes,
        memory_removed=came.kept.removed,
        memory_redacted=came.kept.redacted,
    )


def _service_key(manifest: MemoryManifest | None) -> str:
    return LOCAL_SERVICE if manifest is None else f"{manifest.service} {manifest.base_url}"


def _format_manifest_error(why: str) -> str:
    said = "memory manifest invalid: "
    return said + why.removeprefix(said)


def _format_timeout(seconds: float) -> str:
    return f"no answer within {seconds * 1000:g} ms"


def _encode_json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, RecursionError):
        return json.dumps(value).encode()  # half a surrogate pair
