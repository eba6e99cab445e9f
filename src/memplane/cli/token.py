"""`memplane token`: who may ask this memplane, and for what.

A new token is the only thing on standard output, so that `$(memplane token create …)` is it.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memplane.service.client import Client
    from memplane.service.model import IssuedToken, Token
    from memplane.settings import Settings

_AGENT_SCOPES: Final = ("read", "write", "proxy")
_SECONDS_PER_UNIT: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    create = actions.add_parser("create", help="issue a token; it is shown once")
    bearer = create.add_mutually_exclusive_group(required=True)
    bearer.add_argument("--agent", type=_agent, metavar="A", help="the one agent it is for")
    bearer.add_argument("--admin", action="store_true", help="everything, for every agent")
    create.add_argument(
        "--scope",
        action="extend",
        type=_scopes,
        metavar="S",
        help="of read,write,proxy; all three if left out",
    )
    create.add_argument("--name", default="", metavar="N", help="what you will know it by")
    create.add_argument("--expires", type=_seconds, metavar="T", help="such as 12h, 30d or 8w")
    listing = actions.add_parser("list", help="show the tokens that were issued")
    revoke = actions.add_parser("revoke", help="let a token be good for nothing, at once")
    rotate = actions.add_parser("rotate", help="replace a token by a new one, at once")
    for one in (revoke, rotate):
        one.add_argument("id", metavar="ID", help="its id in `memplane token list`")
    for one in (create, listing, rotate):
        one.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Issue, list, revoke or rotate, wherever the home's owner is."""
    from memplane.cli import EXIT_OK
    from memplane.service.client import Client
    from memplane.service.operations import tokens

    async with Client(settings) as client:
        match arguments.action:
            case "create":
                _show_new(await _create(arguments, client), as_json=arguments.json)
            case "rotate":
                _show_new(
                    await client.call(tokens.rotate_token, arguments.id), as_json=arguments.json
                )
            case "revoke":
                await client.call(tokens.revoke_token, arguments.id)
                print(f"token {arguments.id} is revoked", file=sys.stderr)
            case _:
                _show_all(await client.call(tokens.list_tokens), as_json=arguments.json)
    return EXIT_OK


async def _create(arguments: argparse.Namespace, client: Client) -> IssuedToken:
    from memplane.auth.grants import Scope, TokenRequest
    from memplane.service.operations import tokens

    scopes = arguments.scope or (() if arguments.admin else _AGENT_SCOPES)
    return await client.call(
        tokens.issue_token,
        TokenRequest(
            agent=arguments.agent,
            admin=arguments.admin,
            scopes=tuple(map(Scope, scopes)),
            name=arguments.name,
            expires_in=arguments.expires,
        ),
    )


def _show_new(issued: IssuedToken, *, as_json: bool) -> None:
    from memplane.cli.output import print_json

    if as_json:
        print_json(issued)
        return
    about = issued.about
    until = f"until {about.expires:%Y-%m-%d %H:%M} UTC" if about.expires else "until revoked"
    print(f"token {about.id} ({_describe_bearer(about)}), good {until}:", file=sys.stderr)
    print(issued.token)
    print("Keep it now: memplane stores only its hash and cannot show it again", file=sys.stderr)


def _show_all(tokens: tuple[Token, ...], *, as_json: bool) -> None:
    from memplane.cli.output import colour_text, print_json
    from memplane.kit.clock import system_clock

    if as_json:
        print_json(tokens)
        return
    for one in tokens:
        until = f"until {one.expires:%Y-%m-%d %H:%M}" if one.expires else "until revoked"
        expired = one.expires is not None and one.expires <= system_clock()
        mark = colour_text("  expired", "red") if expired else ""
        print(f"{one.id}  {one.name}  {_describe_bearer(one)}  {until}{mark}")
    print(f"{len(tokens)} in all, besides the home's own", file=sys.stderr)


def _describe_bearer(about: Token) -> str:
    return f"{about.agent or 'every agent'}: {', '.join(about.scopes)}"


def _agent(text: str) -> str:
    from memplane.auth.agent_id import AGENT_ID_RULE, is_agent_id

    if not is_agent_id(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no agent's id: {AGENT_ID_RULE}")
    return text


def _scopes(text: str) -> tuple[str, ...]:
    given = tuple(word.strip() for word in text.split(",") if word.strip())
    if not given or not {*given} <= {*_AGENT_SCOPES}:
        raise argparse.ArgumentTypeError(f"{text!r}: expected some of read,write,proxy")
    return given


def _seconds(text: str) -> int:
    found = re.fullmatch(r"([1-9][0-9]{0,8})([smhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration: expected a number and s, m, h, d or w, such as 30d"
        )
    return int(found[1]) * _SECONDS_PER_UNIT[found[2]]
