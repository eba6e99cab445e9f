"""An answer on its way out: in one piece where it is whole, past the layers where it is not."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Message, Scope
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from memplane.server.host_origin_check import HostOriginCheck
from memplane.server.metrics import Metrics, MetricsLayer
from memplane.server.protocol import write_whole_response
from memplane.server.response_stream import HttpResponseWriter, StreamedResponse
from memplane.server.responses import (
    SAFE_HEADERS,
    STATUS_KEY,
    WRITE_WHOLE_KEY,
    AppLayer,
    send_response,
)

SCOPE: Scope = {
    "type": "http",
    "method": "POST",
    "path": "/v1/x",
    "headers": [(b"host", b"here")],
    "server": ("here", 80),
}


class Wire(asyncio.Transport):
    """A connection that keeps what is written to it, a piece each time."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def resume_reading(self) -> None:
        pass


class Asked:
    """A request to the server, and how often its answer was over."""

    def __init__(self, method: str = "POST", *, keep_alive: bool = True) -> None:
        self.wire = Wire()
        self.over = 0
        self.scope: Scope = {**SCOPE, "method": method}
        self.cycle = RequestResponseCycle(
            scope=self.scope,  # type: ignore[arg-type]
            transport=self.wire,
            flow=FlowControl(self.wire),
            logger=logging.getLogger(__name__),
            access_logger=logging.getLogger(__name__),
            access_log=False,
            default_headers=[(b"date", b"today")],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=self._count,
        )
        self.scope[WRITE_WHOLE_KEY] = partial(write_whole_response, self.cycle)

    def _count(self) -> None:
        self.over += 1

    async def answer(self, response: Response) -> bytes:
        """Send an answer; returns all that was written."""
        cycle = self.cycle
        await send_response(response, self.scope, cycle.receive, cycle.send)  # type: ignore[arg-type]
        return b"".join(self.wire.pieces)


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize(
    "response",
    [
        JSONResponse({"a": 1}, 202),
        PlainTextResponse("no", 404, {"Cache-Control": "max-age=1"}),
        Response(b"", 200),
        Response(status_code=204),
    ],
)
async def test_a_whole_answer_is_what_the_server_would_have_sent(
    response: Response, *, keep_alive: bool
) -> None:
    ours, theirs = Asked(keep_alive=keep_alive), Asked(keep_alive=keep_alive)
    del theirs.scope[WRITE_WHOLE_KEY]
    assert await ours.answer(response) == await theirs.answer(response)
    for one in (ours, theirs):
        assert (one.over, one.wire.closed) == (1, not keep_alive)
        assert one.cycle.response_complete
        assert one.scope[STATUS_KEY] == response.status_code


async def test_a_whole_answer_is_written_once() -> None:
    asked = Asked()
    await asked.answer(JSONResponse({"a": 1}))
    assert len(asked.wire.pieces) == 1
    assert (await asked.cycle.receive())["type"] == "http.disconnect"


async def test_whoever_asks_for_the_head_gets_no_body() -> None:
    written = await Asked("HEAD").answer(PlainTextResponse("something"))
    assert written.endswith(b"\r\n\r\n")
    assert b"content-length: 9" in written


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\0"])
async def test_a_header_cannot_begin_another_line(end: str) -> None:
    asked = Asked()
    with pytest.raises(RuntimeError, match="header value"):
        await asked.answer(Response(b"x", headers={"X-Name": f"a{end}Set-Cookie: b"}))
    assert not any(b"Set-Cookie" in piece for piece in asked.wire.pieces)


async def test_whoever_is_slow_to_read_is_waited_for() -> None:
    asked = Asked()
    asked.cycle.flow.pause_writing()
    sending = asyncio.create_task(asked.answer(PlainTextResponse("something")))
    await asyncio.sleep(0)
    assert asked.wire.pieces == []
    asked.cycle.flow.resume_writing()
    assert (await sending).endswith(b"something")


async def test_what_has_no_end_yet_goes_out_as_it_comes() -> None:
    asked = Asked()
    await asked.answer(StreamingResponse(iter((b"one", b"two"))))
    assert len(asked.wire.pieces) > 2


async def test_a_head_gets_the_safe_headers_and_the_pieces_go_past() -> None:
    sent: list[Message] = []
    metrics = Metrics()

    async def layer(_scope: Scope, _receive: object) -> Response:
        return StreamedResponse(_pass_on)

    async def receive() -> Message:
        await asyncio.Event().wait()  # the client stays
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    measured = MetricsLayer(layer, metrics, lambda: 0.0)
    boundary = HostOriginCheck(measured, hosts=["here"], most=1, refused=print)
    await boundary({**SCOPE}, receive, send)
    head, *body = sent
    assert {*SAFE_HEADERS} <= {*head["headers"]}
    assert [one["body"] for one in body] == [b"one", b"two", b""]
    assert [one["more_body"] for one in body] == [True, True, False]
    assert 'status="201"' in metrics.text().decode()


async def _pass_on(client: HttpResponseWriter) -> None:
    await client.begin(201, [(b"content-type", b"text/plain")])
    for piece in (b"one", b"two"):
        await client.send(piece)
    await client.end()


async def _failed(layer: AppLayer) -> str:
    """Return what was counted of an answer that fails."""
    metrics = Metrics()
    with pytest.raises(LookupError):
        await MetricsLayer(layer, metrics, lambda: 0.0)({**SCOPE}, _nothing, _send)
    return metrics.text().decode()


async def test_an_answer_that_breaks_off_is_counted_by_the_head_that_was_sent() -> None:
    async def begin_and_fail(client: HttpResponseWriter) -> None:
        await client.begin(200, [])
        raise LookupError

    async def layer(_scope: Scope, _receive: object) -> Response:
        return StreamedResponse(begin_and_fail)

    assert 'status="200"' in await _failed(layer)


async def test_a_request_that_gets_no_answer_is_counted_as_failed() -> None:
    async def layer(_scope: Scope, _receive: object) -> Response:
        raise LookupError

    assert 'status="500"' in await _failed(layer)


async def _nothing() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def _send(_message: Message) -> None:
    pass
