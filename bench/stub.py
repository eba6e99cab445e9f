"""A container that costs next to nothing to ask, with a delay, in a process of its own.

The emulator spends about a millisecond on each request, which fifty of them at once would add to
every figure; this one answers at once, so that what is measured is the network and us.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

from bench.starting import started

_TIME = "Sun, 01 Mar 2026 09:30:00 GMT"


@contextmanager
def stub_container(objects: int, *, delay: float) -> Iterator[int]:
    """Start it and give its port. A POST changes every object; a GET of `/count` counts."""
    with started("bench.stub", str(objects), str(delay)) as port:
        yield port


def change_everything(port: int) -> None:
    with urlopen(Request(f"http://127.0.0.1:{port}/change", method="POST", data=b"")) as answer:
        answer.read()


def requests_so_far(port: int) -> int:
    with urlopen(f"http://127.0.0.1:{port}/count") as answer:
        return int(answer.read())


class _Stub(asyncio.Protocol):
    generation = 0
    requests = 0

    def __init__(self, objects: int, delay: float) -> None:
        self.objects = objects
        self.delay = delay
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            line, self.received = (
                self.received[:end].split(b"\r\n", 1)[0],
                self.received[end + 4 :],
            )
            method, path, _ = line.decode().split(" ")
            if path in {"/change", "/count"}:
                _Stub.generation += path == "/change"
                self.transport.write(_reply(str(_Stub.requests).encode(), close=True))
            else:
                _Stub.requests += 1
                asyncio.get_running_loop().call_later(self.delay, self._answer, method, path)

    def _answer(self, method: str, path: str) -> None:
        if "comp=list" in path:
            self.transport.write(_reply(self._listing()))
        else:
            body = b"%d\n" % _Stub.generation * 200
            self.transport.write(_reply(body, head=method == "HEAD"))

    def _listing(self) -> bytes:
        blobs = "".join(
            f"<Blob><Name>claude_memory/{number:02d}.md</Name><Properties>"
            f"<Last-Modified>{_TIME}</Last-Modified><Etag>0x{_Stub.generation}</Etag>"
            "<Content-Length>400</Content-Length><Content-Type>text/markdown</Content-Type>"
            "<BlobType>BlockBlob</BlobType></Properties><Metadata><memplane_write>0123456789ab"
            "</memplane_write></Metadata></Blob>"
            for number in range(self.objects)
        )
        return (
            "<?xml version='1.0' encoding='utf-8'?><EnumerationResults "
            f"ServiceEndpoint='http://127.0.0.1/'><Blobs>{blobs}</Blobs><NextMarker/>"
            "</EnumerationResults>"
        ).encode()


def _reply(body: bytes, *, head: bool = False, close: bool = False) -> bytes:
    lines = [
        "HTTP/1.1 200 OK",
        "Content-Type: application/xml"
        if body.startswith(b"<?xml")
        else "Content-Type: text/plain",
        f"Content-Length: {len(body)}",
        f'ETag: "0x{_Stub.generation}"',
        f"Last-Modified: {_TIME}",
        "x-ms-request-id: 1",
        "x-ms-blob-type: BlockBlob",
        *(["Connection: close"] if close else []),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if head else body)


async def _serve(objects: int, delay: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Stub(objects, delay), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2])))
