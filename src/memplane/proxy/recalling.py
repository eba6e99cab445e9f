"""Recall for one request: from the memory here or from a service, within a deadline.

Nothing here raises, and nothing here keeps a turn waiting longer than it may: whatever happens is
told as a status, and the turn goes on without memories.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from memplane.errors import InvalidRequest, UnknownAgent
from memplane.memory.contract import Ask, Block, Recalled
from memplane.pod.contexts import AgentContext
from memplane.pod.manifest import MemoryManifest, Operation
from memplane.proxy.blocks import Kept, kept_of
from memplane.proxy.breaker import Breakers
from memplane.redaction.redactor import Redactor
from memplane.services.client import Address, Answered, ServiceClient, Unanswered, explained
from memplane.services.wire import MOST_RECALLED, Talk, Unreadable, recalled_in, talk_body
from memplane.telemetry import MemoryOp, MemoryOperation, MemoryStatus

SECONDS: Final = 0.3
"""How long a recall may take, unless a manifest says something else."""
_TOO_LITTLE: Final = 0.005
"""Seconds in which nobody can be expected to answer."""

OURSELVES: Final = "memplane"
_OPEN: Final = "breaker open"
_NOTHING: Final = Kept()

_log = logging.getLogger(__name__)


class Memories(Protocol):
    """The memory of this process, or of the one that owns the home."""

    async def recall(self, ask: Ask) -> Recalled:
        """Answer a question with what an agent remembers."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that wants its memories.

    `context.memory` is the service to ask; without one the memory here is asked. `broken` says
    why there is a manifest that cannot be used. `messages` and `system` are decoded or raw JSON.
    What was said at the places `here` stands in the conversation, and need not be told.
    """

    context: AgentContext
    broken: str = ""
    wire: str = "openai"
    model: str = ""
    messages: object = None
    system: object = None
    session: str = ""
    here: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """What came of a recall. `returned` counts blocks before policy; a turn shows `kept`.

    Without a service there is no memory at all, or a manifest that does not tell.
    """

    agent: str
    service: str
    status: MemoryStatus
    model: str = ""
    error: str = ""
    kept: Kept = _NOTHING
    returned: int = 0
    status_code: int = 0
    seconds: float = 0.0

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks that may be shown."""
        return self.kept.blocks


class _Came(msgspec.Struct, frozen=True):
    """What came back: an answer, or why there is none, and whether the service is sick."""

    recalled: Recalled | None = None
    error: str = ""
    code: int = 0
    late: bool = False
    sick: bool = False


class Recaller:
    """Asks for memories.

    A service that fails three times in a row is left alone for half a minute. One that is there
    and refuses an agent, or answers it something unreadable, is left alone for that agent only.
    """

    def __init__(
        self,
        *,
        client: ServiceClient,
        redactor: Redactor,
        memories: Memories | None = None,
        seconds: float = SECONDS,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._redactor = redactor
        self._memories = memories
        self._seconds = seconds
        self._elapsed = elapsed
        self._breakers = Breakers()
        self._left: set[asyncio.Task[_Came]] = set()

    async def recall(self, asked: Asked, *, waited: float = 0.0) -> Recollection:
        """Ask for the memories of a request; it is back when the deadline is, at the latest.

        So many seconds of its time have passed already when it has `waited`.
        """
        nothing = self.skipped(asked)
        manifest = asked.context.memory
        if asked.broken:
            return replace(nothing, status=MemoryStatus.FAILED, error=_invalid(asked.broken))
        if manifest is None:
            if self._memories is None:
                return nothing
            seconds = self._seconds - waited
            asking = self._ask_here(self._memories, asked)
        else:
            if manifest.recall is None:
                return nothing
            seconds = (manifest.recall.timeout_ms or self._seconds * 1000) / 1000 - waited
            asking = self._ask_service(asked, manifest, manifest.recall, seconds)
        if seconds < _TOO_LITTLE:
            asking.close()
            return replace(nothing, status=MemoryStatus.TIMED_OUT, error=_late(waited))
        where = _address(manifest)
        keys: tuple[Hashable, ...] = (where, (where, asked.context.agent))
        if not self._breakers.admit(keys, self._elapsed()):
            asking.close()
            return replace(nothing, error=_OPEN)
        return await self._told(nothing, asking, keys, seconds)

    def skipped(self, asked: Asked, why: str = "") -> Recollection:
        """Tell of a request that was not to be recalled for."""
        manifest = asked.context.memory
        here = OURSELVES if self._memories is not None and not asked.broken else ""
        return Recollection(
            agent=asked.context.agent,
            service=here if manifest is None else manifest.service,
            status=MemoryStatus.SKIPPED,
            model=asked.model,
            error=why,
        )

    async def _told(
        self,
        nothing: Recollection,
        asking: Coroutine[Any, Any, _Came],
        keys: tuple[Hashable, ...],
        seconds: float,
    ) -> Recollection:
        started = self._elapsed()
        try:
            came = await self._within(asking, seconds)
            kept = kept_of(came.recalled.memories if came.recalled else (), self._redactor.texts)
        except asyncio.CancelledError:
            for key in keys:
                self._breakers.gave_up(key)
            raise
        except Exception as error:  # noqa: BLE001 - memory may fail in any way; the turn may not
            _log.warning("a recall failed: %s", type(error).__name__)
            own = isinstance(error, UnknownAgent | InvalidRequest)
            came, kept = _Came(error=f"recall: {type(error).__name__}", sick=not own), _NOTHING
        ended = self._elapsed()
        self._count(came, keys, started, ended)
        status = MemoryStatus.TIMED_OUT if came.late else MemoryStatus.FAILED
        return replace(
            nothing,
            status=status if came.recalled is None else MemoryStatus.SUCCEEDED,
            error=came.error,
            kept=kept,
            returned=len(came.recalled.memories) if came.recalled else 0,
            status_code=came.code,
            seconds=ended - started,
        )

    async def _within(self, asking: Coroutine[Any, Any, _Came], seconds: float) -> _Came:
        """Wait for an answer, and no longer, also for one that does not let itself be stopped."""
        task = asyncio.create_task(asking)
        self._left.add(task)
        task.add_done_callback(self._over)
        try:
            await asyncio.wait((task,), timeout=seconds)
        finally:
            task.cancel()
        if task.cancelled():
            return _Came(error="recall: it was stopped", sick=True)
        if task.done():
            return task.result()
        return _Came(error=_late(seconds), late=True, sick=True)

    def _over(self, task: asyncio.Task[_Came]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has heard of it, or waits no more

    def _count(
        self, came: _Came, keys: tuple[Hashable, ...], started: float, ended: float
    ) -> None:
        service, agent = keys
        if came.recalled is not None:
            self._breakers.succeeded(service)
            self._breakers.succeeded(agent)
        elif came.sick:
            self._breakers.failed(service, ended, since=started)
            self._breakers.gave_up(agent)
        else:
            # It is there, but not for this agent as it asks.
            self._breakers.succeeded(service)
            self._breakers.failed(agent, ended, since=started)

    async def _ask_here(self, memories: Memories, asked: Asked) -> _Came:
        messages = None if asked.messages is None else _decoded(asked.messages)
        ask = Ask(agent=asked.context.agent, messages=messages, here=asked.here)
        return _Came(await memories.recall(ask))

    async def _ask_service(
        self, asked: Asked, manifest: MemoryManifest, operation: Operation, seconds: float
    ) -> _Came:
        # A conversation may be megabytes long, and others must not wait for it.
        body = await asyncio.to_thread(self._body, asked)
        address = Address(manifest.url_of(operation), manifest.token, seconds)
        outcome = await self._client.post(address, body, keep=MOST_RECALLED + 1)
        match outcome:
            case Unanswered(late=late):
                error = _late(seconds) if late else explained("recall", outcome, manifest.token)
                return _Came(error=error, late=late, sick=True)
            case Answered(status, answer) if outcome.ok:
                found = recalled_in(answer)
                if isinstance(found, Unreadable):
                    return _Came(error=found.why, code=status)
                return _Came(found, code=status)
            case Answered(status):
                error = f"recall returned status {status}"
                return _Came(error=error, code=status, sick=outcome.may_pass)

    def _body(self, asked: Asked) -> bytes:
        messages = asked.messages
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        talk = Talk(
            path=asked.wire,
            model=asked.model,
            session=asked.session,
            messages=self._scrubbed(messages),
            system=self._scrubbed(asked.system),
        )
        return talk_body(asked.context, talk)

    def _scrubbed(self, value: object) -> bytes:
        return b"" if value is None else self._redactor.json(_encoded(value)).value


def recall_event(came: Recollection, *, ts: datetime, injected_bytes: int) -> MemoryOp | None:
    """Tell how a recall went, once it is known how much of it was injected.

    None when there is no memory for this agent at all.
    """
    if not came.service and came.status is MemoryStatus.SKIPPED:
        return None
    return MemoryOp(
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


def _address(manifest: MemoryManifest | None) -> str:
    return OURSELVES if manifest is None else f"{manifest.service} {manifest.base_url}"


def _invalid(why: str) -> str:
    said = "memory manifest invalid: "
    return said + why.removeprefix(said)


def _late(seconds: float) -> str:
    return f"no answer within {seconds * 1000:g} ms"


def _decoded(value: object) -> object:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, RecursionError):
        return json.dumps(value).encode()  # half a surrogate pair
