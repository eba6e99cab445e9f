"""The client: memory from code, in this process, over the owner's socket, or over HTTP."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

import msgspec

from memplane.episodes.api_types import (
    DEFAULT_RECALL_BYTES,
    ForgetReceipt,
    ForgetRequest,
    RecallRequest,
    RecallResponse,
    RetainReceipt,
    RetainRequest,
)
from memplane.episodes.entry_input import build_note_entry, check_json
from memplane.kit.background_loop import run_in_background
from memplane.kit.clock import system_clock
from memplane.service.composition.home import open_transport
from memplane.service.model import Status
from memplane.service.operation import Operation
from memplane.service.operations import home, memory
from memplane.service.services import Services
from memplane.service.transport import LocalTransport, Transport
from memplane.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")

_NOT_OPEN: Final = "the client is not open: use it in `async with Client() as memory:`"


class Client:
    """Calls memplane's operations.

        async with Client() as memory:
            await memory.retain("The staging database is on port 5433", agent="ops")
            found = await memory.recall("which port has staging?", agent="ops")

    Args:
        settings: The settings of a home; by default those of the environment. The client works in
            this process, or calls the one that owns the home.
        url: Where a memplane on another machine answers, in place of a home on this one.
        token: The token for it.
        operator: Who is at work, for the record of what was changed.

    Every call may raise OwnerUnavailable where another process or machine has to answer.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        url: str = "",
        token: str = "",
        operator: str = "",
    ) -> None:
        self._open = partial(open_transport, settings, url=url, token=token, operator=operator)
        self._stack = AsyncExitStack()
        self._transport: Transport | None = None

    async def __aenter__(self) -> Self:
        if self._transport is None:
            self._transport = await self._stack.enter_async_context(self._open())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._transport = None
        await self._stack.aclose()

    @property
    def transport(self) -> Transport:
        """What carries its calls.

        Raises:
            RuntimeError: The client is not open.
        """
        if self._transport is None:
            raise RuntimeError(_NOT_OPEN)
        return self._transport

    @classmethod
    def over(cls, transport: Transport) -> Self:
        """Make a client that is open, over a transport that somebody else closes."""
        made = cls()
        made._transport = transport
        return made

    async def call(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call an operation of the table."""
        return await self.transport.send(operation, operation.bind(*args, **kwargs))

    async def retain(
        self, entry: str | bytes | Mapping[str, Any], *, agent: str, user: str | None = None
    ) -> RetainReceipt:
        """Keep a note, or a turn that was recorded; it is durable and searchable on return.

        Args:
            entry: The words of a note, or an entry as a mapping or as its line.
            agent: Whose memory it becomes.
            user: Which end user's; by default the one that the entry's own request names.

        Raises:
            InvalidRequest: It is empty, no entry, or has no id.
            UnknownAgent: That is no agent's name.
            NotRecorded: It could not be written.
        """
        if isinstance(entry, str):
            line = build_note_entry(agent, entry, system_clock())
        else:
            line = check_json(entry) if isinstance(entry, bytes) else msgspec.json.encode(entry)
        return await self.call(
            memory.retain, RetainRequest(agent=agent, entry=msgspec.Raw(line), user=user)
        )

    async def recall(
        self,
        question: str | Sequence[Mapping[str, Any]],
        *,
        agent: str,
        user: str | None = None,
        limit: int | None = None,
        max_bytes: int = DEFAULT_RECALL_BYTES,
        explain: bool = False,
    ) -> RecallResponse:
        """Return what an agent remembers about a question.

        Args:
            question: In words, or the messages of a conversation.
            agent: Whose memory is asked.
            user: For which end user; without one only what is shared is returned.
            limit: Only what matches, so many turns at most.
            max_bytes: How much text is returned at most.
            explain: Whether each block says why it was chosen.

        Raises:
            UnknownAgent: That is no agent's name.
        """
        text, messages = (question, None) if isinstance(question, str) else ("", list(question))
        ask = RecallRequest(
            agent=agent,
            user=user,
            text=text,
            messages=messages,
            limit=limit,
            max_bytes=max_bytes,
            explain=explain,
        )
        return await self.call(memory.recall, ask)

    async def forget(
        self,
        *entry_ids: str,
        agent: str,
        reason: str = "",
        verify: bool = False,
        purge: bool = False,
    ) -> ForgetReceipt:
        """Forget entries for good, also those that have not come yet.

        Args:
            entry_ids: The ids of the entries.
            agent: Whose they are.
            reason: Why, kept with the tombstone.
            verify: Whether every derived place is searched afterwards.
            purge: Whether the words are erased from the ledgers as well.

        Raises:
            InvalidRequest: No entry is named.
            UnknownAgent: That is no agent's name.
        """
        asked = ForgetRequest(
            agent=agent, ids=entry_ids, reason=reason, verify=verify, purge=purge
        )
        return await self.call(memory.forget, asked)

    async def status(self) -> Status:
        """Return what is configured, where state lives and what is pending."""
        return await self.call(home.get_status)


class SyncClient:
    """The same for code that is not asynchronous.

        with SyncClient() as memory:
            memory.retain("The staging database is on port 5433", agent="ops")
            print(memory.recall("which port has staging?", agent="ops").memories)

    The arguments are those of `Client`.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        url: str = "",
        token: str = "",
        operator: str = "",
    ) -> None:
        self._client = Client(settings, url=url, token=token, operator=operator)

    def __enter__(self) -> Self:
        run_in_background(self._client.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        run_in_background(self._client.__aexit__(kind, error, traceback))

    def call(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call an operation of the table."""
        return _run(self._client.call(operation, *args, **kwargs))

    def retain(
        self, entry: str | bytes | Mapping[str, Any], *, agent: str, user: str | None = None
    ) -> RetainReceipt:
        """Keep a note, or a turn that was recorded; see `Client.retain`."""
        return _run(self._client.retain(entry, agent=agent, user=user))

    def recall(
        self,
        question: str | Sequence[Mapping[str, Any]],
        *,
        agent: str,
        user: str | None = None,
        limit: int | None = None,
        max_bytes: int = DEFAULT_RECALL_BYTES,
        explain: bool = False,
    ) -> RecallResponse:
        """Return what an agent remembers about a question; see `Client.recall`."""
        return _run(
            self._client.recall(
                question,
                agent=agent,
                user=user,
                limit=limit,
                max_bytes=max_bytes,
                explain=explain,
            )
        )

    def forget(
        self,
        *entry_ids: str,
        agent: str,
        reason: str = "",
        verify: bool = False,
        purge: bool = False,
    ) -> ForgetReceipt:
        """Forget entries for good; see `Client.forget`."""
        return _run(
            self._client.forget(*entry_ids, agent=agent, reason=reason, verify=verify, purge=purge)
        )

    def status(self) -> Status:
        """Return what is configured, where state lives and what is pending."""
        return _run(self._client.status())


def _run(work: Coroutine[Any, Any, R]) -> R:
    return run_in_background(work)


def local_client(services: Services, operator: str = "") -> Client:
    """Make a client for the process that owns the home; closing the services is the caller's."""
    return Client.over(LocalTransport(services, operator))
