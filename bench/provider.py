"""A provider that costs next to nothing to ask, in a process of its own.

It speaks OpenAI's chat completions. What a request's model is called says how its stream runs:
`100x20ms` is a hundred events, one every 20 ms, the first at once.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast
from urllib.request import urlopen

import uvloop

from bench.starting import started

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream": ?true')
_PACE = re.compile(rb'"model": ?"(\d+)x(\d+)ms"')
_MARK = b"BEGIN MEMORY"
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\nx-request-id: req_bench\r\ntransfer-encoding: chunked\r\n\r\n"
)
_DONE = b"data: [DONE]\n\n"
_LAST = b"0\r\n\r\n"
_SAID = "Since the release went out on Tuesday, the pump station has kept its pressure. " * 4


def event(number: int) -> bytes:
    """Make one event of a stream."""
    delta = {"content": f" word{number}"} if number else {"role": "assistant", "content": ""}
    return (
        b"data: %s\n\n"
        % json.dumps(
            {
                "id": "chatcmpl-bench",
                "object": "chat.completion.chunk",
                "created": 1772000000,
                "model": "gpt-4o-2024-08-06",
                "system_fingerprint": "fp_bench",
                "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
            },
            separators=(",", ":"),
        ).encode()
    )


def stream(events: int) -> bytes:
    """Return the bytes of a whole stream."""
    return b"".join(map(event, range(events))) + _DONE


@contextmanager
def scripted_provider() -> Iterator[int]:
    """Start one and give its port."""
    with started("bench.provider") as port:
        yield port


def asked_so_far(port: int) -> tuple[int, int]:
    """Return how many requests came, and how many of them brought memories."""
    with urlopen(f"http://127.0.0.1:{port}/count", timeout=10) as answer:
        asked, remembering = json.loads(answer.read())
    return asked, remembering


class _Provider(asyncio.Protocol):
    asked = 0
    remembering = 0

    def __init__(self) -> None:
        self.received = b""
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self.timer is not None:
            self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = self.received[:end]
            found = _LENGTH.search(head)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self.received) < whole:
                return
            body, self.received = self.received[end + 4 : whole], self.received[whole:]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET"):
            counted = json.dumps([_Provider.asked, _Provider.remembering])
            self.transport.write(_reply(counted.encode()))
            return
        _Provider.asked += 1
        _Provider.remembering += _MARK in body
        if _STREAM.search(body) is None:
            self.transport.write(_WHOLE)
            return
        pace = _PACE.search(body)
        events, milliseconds = (int(pace[1]), int(pace[2])) if pace else (1, 0)
        self.transport.write(_STREAM_HEAD)
        self._go_on(0, events, milliseconds / 1000, asyncio.get_running_loop().time())

    def _go_on(self, number: int, events: int, every: float, began: float) -> None:
        """Send an event and set the timer for the next: no stream drifts, however busy it is."""
        if number == events:
            self.transport.write(_framed(_DONE) + _LAST)
            return
        self.transport.write(_EVENTS[number])
        due = began + (number + 1) * every
        self.timer = asyncio.get_running_loop().call_at(
            due, self._go_on, number + 1, events, every, began
        )


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _reply(body: bytes) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_bench\r\n"
        b"content-length: %d\r\n\r\n%s" % (len(body), body)
    )


_WHOLE = _reply(
    json.dumps(
        {
            "id": "chatcmpl-bench",
            "object": "chat.completion",
            "created": 1772000000,
            "model": "gpt-4o-2024-08-06",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": _SAID},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 400, "completion_tokens": 80, "total_tokens": 480},
        }
    ).encode()
)
_EVENTS = [_framed(event(number)) for number in range(200)]


async def _serve() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Provider, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
