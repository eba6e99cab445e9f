"""The Model Context Protocol on standard input and output, a message a line.

A client starts this beside its own work and expects it to be ready at once, never to hang, and to
leave when its input ends. So the home is opened when a tool needs it, and let go soon after: other
commands and `memplane up` want it too.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from enum import Enum
from functools import partial
from typing import Any, Final, TypeVar

from memplane.errors import OwnerUnavailable
from memplane.kit.line_splitter import LineSplitter
from memplane.server.mcp.messages import (
    PARSE_ERROR,
    McpError,
    McpNotification,
    McpRequest,
    RequestId,
    decode_message,
    make_error,
)
from memplane.server.mcp.server import answer_request
from memplane.server.mcp.tool import McpCaller
from memplane.service.operation import Operation
from memplane.service.transport import Transport

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
HOLD_S: Final = 1.0
"""How long the home is held open for the next call."""
DRAIN_S: Final = 1.2
"""How long requests are still answered after the end of input."""

_CHUNK_BYTES: Final = 64 * 1024

R = TypeVar("R")


class HomeTransport:
    """Carries calls to the home, which is open while they come.

    Args:
        files: Carries the calls that need no owner of the home.
        open_home: Opens the home, or reaches the process that owns it.
    """

    def __init__(
        self, files: Transport, open_home: Callable[[], AbstractAsyncContextManager[Transport]]
    ) -> None:
        self._files = files
        self._open_home = open_home
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._transport: Transport | None = None
        self._users = 0
        self._uses = 0
        self._closers = set[asyncio.Task[None]]()

    async def send(self, operation: Operation[..., R], arguments: dict[str, Any]) -> R:
        if not operation.needs_owner:
            return await self._files.send(operation, arguments)
        try:
            return await self._send(operation, arguments)
        except OwnerUnavailable:
            await self.close()  # it ended, or another process owns the home by now
            if not operation.is_read_only:
                raise  # it may have been carried out
        return await self._send(operation, arguments)

    async def _send(self, operation: Operation[..., R], arguments: dict[str, Any]) -> R:
        async with self._lock:
            if self._transport is None:
                self._transport = await self._stack.enter_async_context(self._open_home())
            transport = self._transport
            self._users += 1
            self._uses += 1
        try:
            return await transport.send(operation, arguments)
        finally:
            self._users -= 1
            closer = asyncio.create_task(self._close_unused(self._uses))
            self._closers.add(closer)
            closer.add_done_callback(self._closers.discard)

    async def _close_unused(self, uses: int) -> None:
        await asyncio.sleep(HOLD_S)
        if not self._users and self._uses == uses:
            await self.close()

    async def close(self) -> None:
        """Let go of the home."""
        async with self._lock:
            self._transport = None
            await self._stack.aclose()


async def serve_stdio(
    caller: McpCaller, *, read_fd: int, write: Callable[[bytes], object]
) -> bool:
    """Answer messages until the input ends; return whether every request was answered.

    Args:
        caller: Who calls.
        read_fd: The descriptor of the input.
        write: Writes bytes to the client.
    """
    connection = StdioConnection(caller, write)
    lines = asyncio.Queue[bytes | _EndOfInput | None]()
    loop = asyncio.get_running_loop()

    def put(line: bytes | _EndOfInput | None) -> None:
        loop.call_soon_threadsafe(lines.put_nowait, line)

    # A thread reads whatever the input is, and a daemon keeps nobody from leaving.
    reader = partial(_read_lines, read_fd, put)
    threading.Thread(target=reader, name="mcp-input", daemon=True).start()
    while (line := await lines.get()) is not _EndOfInput.END:
        connection.receive(line)
    return await connection.drain()


class _EndOfInput(Enum):
    END = "end"


def _read_lines(fd: int, put: Callable[[bytes | _EndOfInput | None], object]) -> None:
    """Put each line that comes; None is one that is too long."""
    splitter = LineSplitter(MAX_MESSAGE_BYTES)
    with suppress(RuntimeError):  # the loop has ended before the input
        try:
            while chunk := os.read(fd, _CHUNK_BYTES):
                for line in splitter.lines(chunk):
                    put(line)
            if rest := splitter.take_rest():
                put(rest)
        finally:
            put(_EndOfInput.END)


def _decode_line(line: bytes | None) -> McpRequest | McpNotification:
    if line is None:
        raise McpError(PARSE_ERROR, f"a message has at most {MAX_MESSAGE_BYTES} bytes")
    return decode_message(line)


class StdioConnection:
    """The requests of one client that are being answered."""

    def __init__(self, caller: McpCaller, write: Callable[[bytes], object]) -> None:
        self._caller = caller
        self._write = write
        self._running: dict[RequestId, asyncio.Task[None]] = {}

    def receive(self, line: bytes | None) -> None:
        """Begin to answer a message, or do what a notification says."""
        if line is not None and not line.strip():
            return
        try:
            message = _decode_line(line)
        except McpError as error:
            self._write(make_error(None, error).body + b"\n")
            return
        if isinstance(message, McpRequest):
            task = asyncio.create_task(self._answer(message))
            self._running[message.id] = task
            task.add_done_callback(lambda _: self._running.pop(message.id, None))
        elif message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"))

    def _cancel(self, request_id: object) -> None:
        """Answer a request no more; what its tool has begun goes on."""
        if isinstance(request_id, str | int) and request_id in self._running:
            self._running[request_id].cancel()

    async def _answer(self, request: McpRequest) -> None:
        response = await answer_request(request, self._caller)
        self._write(response.body + b"\n")

    async def drain(self) -> bool:
        """Wait a moment for the requests that are left; return whether none is."""
        running = list(self._running.values())
        if not running:
            return True
        _, late = await asyncio.wait(running, timeout=DRAIN_S)
        return not late
