"""`memplane export`: everything of one end user, as an answer to a request for access."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from memplane.cli.user_argument import parse_user

if TYPE_CHECKING:
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--user", required=True, type=parse_user, metavar="U", help="the end user")
    parser.add_argument("--agent", help="of which agent; by default MEMPLANE_AGENT")
    parser.add_argument(
        "--out", metavar="F", help="a new file, for you alone; left out, standard output"
    )


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Write turns, observations and their events as lines of JSON, and a receipt behind them."""
    import os
    import sys
    from pathlib import Path

    from memplane.cli import EXIT_OK
    from memplane.cli.agent_argument import expect_agent, resolve_agent
    from memplane.errors import InvalidRequest
    from memplane.service.client import Client
    from memplane.service.operations.users import UserQuery, export_user

    agent = resolve_agent(arguments, settings)
    async with Client(settings) as client:
        await expect_agent(agent, client, settings)
        stream = await client.call(export_user, agent, UserQuery(user=arguments.user))
        if not arguments.out:
            async for piece in stream.pieces:
                sys.stdout.write(piece)
            return EXIT_OK
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(Path(arguments.out), flags, 0o600)
        except OSError as error:
            raise InvalidRequest(f"{arguments.out} was not written: {error.strerror}") from error
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass") as file:
            async for piece in stream.pieces:
                file.write(piece)
    print(f"everything of {arguments.user} is in {arguments.out}; its last line is the receipt")
    return EXIT_OK
