"""`memplane users`: the end users of an agent, and what all of them share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.service.operations.users import UserList
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="who there is, and how many turns each has")
    share = actions.add_parser("share", help="let all users be told about turns of one of them")
    share.add_argument("ids", nargs="+", metavar="ID", help="a turn; its id may be abbreviated")
    for one in (listing, share):
        one.add_argument("--agent", help="whose users; by default MEMPLANE_AGENT")
        one.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """List users, or share turns."""
    from memplane.cli import EXIT_OK
    from memplane.cli.agent_argument import expect_agent, resolve_agent
    from memplane.cli.output import print_json
    from memplane.service.client import Client
    from memplane.service.operations import users

    agent = resolve_agent(arguments, settings)
    async with Client(settings) as client:
        if arguments.action == "share":
            await expect_agent(agent, client, settings)
            asked = users.ShareRequest(agent=agent, ids=tuple(arguments.ids))
            receipt = await client.call(users.share_turns, asked)
            if arguments.json:
                print_json(receipt)
            else:
                print(f"{agent}: {len(receipt.shared)} turns are shared by all of its users now")
            return EXIT_OK
        found = await client.call(users.list_users, agent)
        if not found.users:
            await expect_agent(agent, client, settings)
    if arguments.json:
        print_json(found)
    else:
        _print(agent, found)
    return EXIT_OK


def _print(agent: str, found: UserList) -> None:
    from memplane.cli.output import escape_text

    if not found.users:
        print(f"{agent} has no turns")
    for one in found.users:
        name = escape_text(one.user) if one.user else "(shared)"
        view = f"  view {escape_text(one.view)}" if one.view else ""
        noise = f", {one.noise} of noise" if one.noise else ""
        print(f"{name:<32} {one.turns:>6} turns{noise}{view}")
