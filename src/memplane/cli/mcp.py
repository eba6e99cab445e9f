"""`memplane mcp`: memory as tools for a coding agent, on standard input and output."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.settings import Settings

_CLOSE_S: Final = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--agent", help="whose memory; by default MEMPLANE_AGENT")
    parser.add_argument("--user", help="the end user who is at work, if the agent has several")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Serve one client until its input ends."""
    import asyncio
    import os
    import sys
    from functools import partial

    from memplane.cli import EXIT_OK
    from memplane.server.mcp.stdio import HomeTransport, serve_stdio
    from memplane.server.mcp.tool import McpCaller
    from memplane.service.composition.files import open_home_files
    from memplane.service.composition.home import open_transport
    from memplane.service.transport import FileTransport

    agent = _find_agent(arguments, settings)
    files = FileTransport(open_home_files(settings, is_new_folder_usual=True))
    home = HomeTransport(files, partial(open_transport, settings, operator=agent))
    caller = McpCaller(
        transport=home,
        agent=agent,
        reach=None,
        allows=lambda _scope: True,
        user=arguments.user,
    )
    write = _take_stdout()
    try:
        is_done = await serve_stdio(caller, read_fd=sys.stdin.fileno(), write=write)
    except BrokenPipeError:
        is_done = True  # the client has left
    try:
        await asyncio.wait_for(home.close(), _CLOSE_S)
    except TimeoutError:
        is_done = False
    if not is_done:
        # A thread that still works would hold the process for minutes; what is durable stays so.
        sys.stderr.flush()
        os._exit(EXIT_OK)
    return EXIT_OK


def _find_agent(arguments: argparse.Namespace, settings: Settings) -> str:
    """Return the agent that was named; without one, tools say what is missing."""
    if not (arguments.agent or settings.agent):
        return ""
    from memplane.cli.agent_argument import resolve_agent

    return resolve_agent(arguments, settings)


def _take_stdout() -> Callable[[bytes], object]:
    """Keep standard output for the protocol; whatever else is printed goes to standard error."""
    import os
    import sys

    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def write(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[output.write(rest) :]

    return write
