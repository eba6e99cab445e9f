"""The arguments of `memplane persona`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final, TypeAlias

AddAction: TypeAlias = Callable[..., argparse.ArgumentParser]
"""Adds a parser for an action."""

_DIGEST_TYPES: Final = ("session_digest", "weekly_digest", "monthly_digest", "yearly_digest")
_GUIDE_READERS: Final = ("claude", "agent")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _configure_sync_actions(actions.add_parser)
    _configure_read_actions(actions.add_parser)
    _configure_write_actions(actions.add_parser)
    _configure_maintenance_actions(actions.add_parser)
    for name, one in actions.choices.items():
        if name not in {"watch", "guide"}:
            one.add_argument("--json", action="store_true", help="for machines")
    actions.choices["guide"].set_defaults(json=False)
    actions.choices["watch"].set_defaults(json=False)


def _configure_sync_actions(add_action: AddAction) -> None:
    for name, about in (
        ("sync", "bring the folder and the container into step"),
        ("pull", "bring what changed elsewhere"),
        ("push", "send what changed here"),
        ("push-one", "send one document"),
    ):
        action = add_action(name, help=about)
        action.add_argument("--dry-run", action="store_true", help="say what would be done")
        action.add_argument("--force", action="store_true", help="yes, delete that much; go on")
        action.add_argument(
            "--join",
            default="",
            metavar="NAME",
            help="this folder belongs to that project of the container; its name, prefix or id",
        )
        if name == "push":
            action.add_argument("path", nargs="*", metavar="PATH", help="only these documents")
        if name == "push-one":
            action.add_argument("path", nargs=1, metavar="PATH", help="its path, or its key")
        if name in {"push", "push-one"}:
            action.add_argument(
                "--allow-secrets",
                action=argparse.BooleanOptionalAction,
                help="these may go, however they look; --no-allow-secrets takes that back",
            )
    add_action("watch", help="sync whenever the folder changes, and every minute")


def _configure_read_actions(add_action: AddAction) -> None:
    add_action("status", help="show which folder is synced where, and what is left to do")
    listing = add_action("list", help="show the documents, and how each stands")
    listing.add_argument("--all", action="store_true", help="also those that were deleted")
    conflicts = add_action("conflicts", help="show texts that a merge had to leave out")
    conflicts.add_argument(
        "act", nargs="?", choices=("show", "drop", "restore"), help="by default they are listed"
    )
    conflicts.add_argument("name", nargs="?", metavar="NAME", help="as in the list")
    for name in ("check", "validate"):
        check = add_action(name, help="find what is wrong with documents; for CI too")
        check.add_argument("dir", nargs="?", metavar="DIR", help="by default the folder")
    guide = add_action("guide", help="print what an agent should be told about its documents")
    guide.add_argument("--for", dest="reader", choices=_GUIDE_READERS, default="claude")


def _configure_write_actions(add_action: AddAction) -> None:
    new = add_action("new", help="begin a document of a kind")
    new.add_argument("kind", metavar="KIND", help="such as feedback or carry_forward")
    new.add_argument("title", nargs="*", metavar="TITLE", help="a name, a person or a period")
    new.add_argument("--upn", default="", metavar="U", help="the person's, for a relationship")
    new.add_argument("--description", default="", metavar="D", help="what it is about")
    adopt = add_action("adopt", help="give a document the frontmatter that it lacks")
    adopt.add_argument("file", metavar="FILE")


def _configure_maintenance_actions(add_action: AddAction) -> None:
    prune = add_action("prune", help="remove digests that a larger one covers")
    prune.add_argument("--older-than", metavar="90d", help="90d, or 180d for tombstones")
    prune.add_argument(
        "--type", choices=_DIGEST_TYPES, default=_DIGEST_TYPES[0], help=_DIGEST_TYPES[0]
    )
    prune.add_argument(
        "--tombstones", action="store_true", help="instead, forget what was deleted long ago"
    )
    prune.add_argument("--yes", action="store_true", help="do it, and not only say it")
    export = add_action("export", help="write all documents into one file")
    export.add_argument("path", metavar="PATH", help="such as persona.tar.gz; - is the output")
    export.add_argument("--force", action="store_true", help="replace a file that is there")
    take = add_action("import", help="take documents in from such a file")
    take.add_argument("path", metavar="PATH")
    take.add_argument(
        "--replace", action="store_true", help="its texts take the place of those here"
    )
