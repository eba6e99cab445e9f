"""An answer that is passed on: its head by all layers, its body past them."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Scope, Send

from memplane.http.boundary import SAFE_HEADERS, Boundary
from memplane.http.relaying import Client, Relay

SCOPE: Scope = {
    "type": "http",
    "method": "POST",
    "path": "/v1/x",
    "headers": [(b"host", b"here")],
    "server": ("here", 80),
}


async def _pass_on(client: Client) -> None:
    await client.begin(200, [(b"content-type", b"text/plain")])
    for piece in (b"one", b"two"):
        await client.send(piece)
    await client.end()


async def test_the_layers_see_a_head_and_the_pieces_go_past_them() -> None:
    seen: list[Message] = []
    sent: list[Message] = []

    async def layered(scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            seen.append(message)
            await send(message)

        await Relay(_pass_on)(scope, receive, watched)

    async def receive() -> Message:
        await asyncio.Event().wait()  # the client stays
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    boundary = Boundary(layered, hosts=["here"], most=1, refused=print)
    await boundary({**SCOPE}, receive, send)
    assert [one["type"] for one in seen] == ["http.response.start"]
    head, *body = sent
    assert {*SAFE_HEADERS} <= {*head["headers"]}
    assert [one["body"] for one in body] == [b"one", b"two", b""]
    assert [one["more_body"] for one in body] == [True, True, False]
