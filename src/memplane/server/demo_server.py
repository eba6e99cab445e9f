"""The provider of `memplane up --demo`, listening beside memplane on a port of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn

from memplane.server.demo_provider import demo_provider

_BACKLOG: Final = 128


@asynccontextmanager
async def serve_demo_provider() -> AsyncGenerator[str]:
    """Serve the scripted provider on a free loopback port; yields its address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(_BACKLOG)
        config = uvicorn.Config(
            demo_provider,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        server = SecondaryServer(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]), name="demo")
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


class SecondaryServer(uvicorn.Server):
    """A server that leaves the process's signals to another one."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield
