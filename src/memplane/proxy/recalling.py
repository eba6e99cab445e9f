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
    why there is a manifest that cannot be used. What was said at the places `here` stands in the
    conversation, and need not be told; nor do the entries that it is `without`.
    """

    context: AgentContext
    broken: str = ""
    wire: str = "openai"
    model: str = ""
    messages: object = None
    system: object = None
    session: str = ""
    here: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True)
class _Started:
    """A recall under way, and what is told when nothing comes of it."""

    nothing: Recollection
    task: asyncio.Task[_Came]
    keys: tuple[Hashable, ...]
    at: float
    seconds: float


class Recalling:
    """One recall. Leaving its block gives up one that nobody waited for."""

    def __init__(self, recaller: Recaller, asked: Callable[[], Asked]) -> None:
        self._recaller = recaller
        self._asked = asked
        self._started: Recollection | _Started | None = None

    async def begin(self) -> None:
        """Ask now, and go on with something else meanwhile."""
        self._started = self._recaller.start(self._asked(), 0.0)
        await asyncio.sleep(0)  # so that the question is on its way

    async def came(self, *, waited: float = 0.0) -> Recollection:
        """Wait for what comes of it, until the deadline; nothing of what happens is raised.

        One that was not begun is begun now. So many seconds of its time have passed already when
        it has `waited`.
        """
        started = self._started or self._recaller.start(self._asked(), waited)
        self._started = None
        return await self._recaller.told(started) if isinstance(started, _Started) else started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._started, _Started):
            self._recaller.give_up(self._started)


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

    def recalling(self, asked: Callable[[], Asked]) -> Recalling:
        """Say what will be asked; nothing happens before it is begun or waited for."""
        return Recalling(self, asked)

    async def recall(self, asked: Asked) -> Recollection:
        """Ask for the memories of a request, and wait for them."""
        return await self.recalling(lambda: asked).came()

    def start(self, asked: Asked, waited: float) -> Recollection | _Started:
        """Ask for the memories of a request, or say at once what comes of it.

        So many seconds of its time have passed already when it has `waited`.
        """
        nothing = self.skipped(asked)
        manifest = asked.context.memory
        if asked.broken:
            return replace(nothing, status=MemoryStatus.FAILED, error=_invalid(asked.broken))
        operation = manifest.recall if manifest is not None else None
        if (self._memories if manifest is None else operation) is None:
            return nothing
        told_ms = (operation.timeout_ms or 0) if operation is not None else 0
        seconds = (told_ms / 1000 or self._seconds) - waited
        if seconds < _TOO_LITTLE:
            return replace(nothing, status=MemoryStatus.TIMED_OUT, error=_late(waited))
        where = _address(manifest)
        keys: tuple[Hashable, ...] = (where, (where, asked.context.agent))
        now = self._elapsed()
        if not self._breakers.admit(keys, now):
            return replace(nothing, error=_OPEN)
        task = asyncio.create_task(self._ask(asked, seconds))
        self._left.add(task)
        task.add_done_callback(self._over)
        return _Started(nothing, task, keys, now, seconds)

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

    async def told(self, started: _Started) -> Recollection:
        """Wait for what comes of it, and say so; it is back when the deadline is."""
        try:
            came = await self._within(started)
            kept = kept_of(came.recalled.memories if came.recalled else (), self._redactor.texts)
        except asyncio.CancelledError:
            self.give_up(started)
            raise
        except Exception as error:  # noqa: BLE001 - memory may fail in any way; the turn may not
            _log.warning("a recall failed: %s", type(error).__name__)
            own = isinstance(error, UnknownAgent | InvalidRequest)
            came, kept = _Came(error=f"recall: {type(error).__name__}", sick=not own), _NOTHING
        ended = self._elapsed()
        self._count(came, started.keys, started.at, ended)
        status = MemoryStatus.TIMED_OUT if came.late else MemoryStatus.FAILED
        return replace(
            started.nothing,
            status=status if came.recalled is None else MemoryStatus.SUCCEEDED,
            error=came.error,
            kept=kept,
            returned=len(came.recalled.memories) if came.recalled else 0,
            status_code=came.code,
            seconds=ended - started.at,
        )

    def give_up(self, started: _Started) -> None:
        """Wait no longer."""
        started.task.cancel()
        for key in started.keys:
            self._breakers.gave_up(key)

    async def _within(self, started: _Started) -> _Came:
        """Wait for an answer, and no longer, also for one that does not let itself be stopped."""
        task, seconds = started.task, started.seconds
        if not task.done():
            left = started.at + seconds - self._elapsed()
            try:
                await asyncio.wait((task,), timeout=max(left, 0.0))
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

    async def _ask(self, asked: Asked, seconds: float) -> _Came:
        manifest = asked.context.memory
        if manifest is not None and manifest.recall is not None:
            return await self._ask_service(asked, manifest, manifest.recall, seconds)
        assert self._memories is not None  # noqa: S101 - else nobody is asked
        ask = Ask(
            agent=asked.context.agent,
            messages=asked.messages,
            here=asked.here,
            without=asked.without,
        )
        return _Came(await self._memories.recall(ask))

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


def _encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, RecursionError):
        return json.dumps(value).encode()  # half a surrogate pair
