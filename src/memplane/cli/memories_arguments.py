"""The arguments of `memplane memories`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final, TypeAlias

from memplane.cli.number_argument import CONFIDENCE_RANGE, TOKENS_RANGE, NumberRange
from memplane.cli.user_argument import add_user_argument

AddAction: TypeAlias = Callable[..., argparse.ArgumentParser]
"""Adds a parser for an action."""

# Spelt out here because starting is cheap: the model is only imported when a command runs.
_CATEGORIES: Final = ("timing", "dependency", "behavior", "remediation", "maintenance")
_STATES: Final = (
    "active", "inactive", "quarantined", "retired", "superseded", "purged", "any",
)  # fmt: skip
_SORTS: Final = (
    "confidence", "updated", "created", "service", "category", "observation", "state", "id",
)  # fmt: skip
_LIST_LIMIT: Final = NumberRange(0, 1000)
_ACTIONS_WITHOUT_AGENT: Final = frozenset({"guide", "rebuild"})
_RESOLUTIONS: Final = ("keep_a", "keep_b", "both", "merge", "dismiss")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare them; every action says whose memories, and how it answers."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _configure_read_actions(actions.add_parser)
    _configure_edit_actions(actions.add_parser)
    _configure_review_actions(actions.add_parser)
    _configure_prompt_actions(actions.add_parser)
    _configure_transfer_actions(actions.add_parser)
    for name, one in actions.choices.items():
        if name not in _ACTIONS_WITHOUT_AGENT:
            one.add_argument("--agent", metavar="A", help="whose; by default MEMPLANE_AGENT")
        one.add_argument("--json", action="store_true", help="for machines")


def _configure_read_actions(add_action: AddAction) -> None:
    listing = add_action("list", help="show memories, the surest first")
    listing.add_argument("--service", metavar="S", help="about it; general is about none")
    listing.add_argument("--category", choices=_CATEGORIES)
    listing.add_argument("--state", choices=_STATES, help="by default all but the trash")
    listing.add_argument("--tier", type=int, choices=range(4))
    listing.add_argument("--q", "--search", dest="q", default="", metavar="WORDS")
    listing.add_argument("--sort", choices=_SORTS, default="confidence")
    listing.add_argument("--reverse", action="store_true", help="the other way around")
    listing.add_argument(
        "--limit", type=_LIST_LIMIT, default=200, metavar="N", help="200, at most 1000"
    )
    listing.add_argument("--cursor", default="", metavar="C", help="go on behind an earlier list")
    listing.add_argument("--contested", action="store_true", help="only those in a conflict")
    listing.add_argument("--pinned", action="store_true", help="only those that never fade")
    listing.add_argument("--stale", action="store_true", help="only those that fade in a week")
    listing.add_argument("--as-of", default="", metavar="T", help="what was so then (RFC 3339)")
    listing.add_argument("--known-at", default="", metavar="T", help="what was known then")
    add_user_argument(listing, every=False)
    listing.add_argument("--session", type=int, metavar="N", help="only those learned in it")
    for name, about in (
        ("show", "show all that is known of a memory"),
        ("history", "show what happened to a memory"),
        ("evidence", "show what speaks for a memory and against it"),
    ):
        add_action(name, help=about).add_argument("id", type=int, metavar="ID")
    sessions = add_action("sessions", help="show the last runs of agents")
    sessions.add_argument(
        "--limit", type=_LIST_LIMIT, default=20, metavar="N", help="20, at most 1000"
    )
    stats = add_action("stats", help="count what there is")
    for one in (listing, sessions, stats):
        _add_all_agents(one)
    _add_include_forgotten(listing)


def _configure_edit_actions(add_action: AddAction) -> None:
    add = add_action("add", help="write a memory down")
    add.add_argument("text", nargs="+", metavar="TEXT", help="one sentence")
    add.add_argument("--category", required=True, choices=_CATEGORIES)
    edit = add_action("edit", help="change a memory")
    edit.add_argument("id", type=int, metavar="ID")
    edit.add_argument("--text", metavar="TEXT")
    edit.add_argument("--category", choices=_CATEGORIES)
    edit.add_argument(
        "--version", type=NumberRange(1), metavar="N", help="only if it still has this one"
    )
    for one in (add, edit):
        one.add_argument("--service", metavar="S", help="what it is about; general is none")
        one.add_argument("--confidence", type=CONFIDENCE_RANGE, metavar="X", help="from 0 to 1")
        one.add_argument("--expires", metavar="T", help="RFC 3339; never, for no end")
        on = one.add_mutually_exclusive_group()
        on.add_argument("--active", action="store_const", const=True, dest="active")
        on.add_argument("--inactive", action="store_const", const=False, dest="active")
    add_user_argument(add, every=False)
    add.add_argument("--pin", action="store_true", help="it never fades")
    for name, about in (
        ("retire", "put memories into the trash"),
        ("restore", "take memories out of the trash, or let inactive ones count again"),
        ("pin", "let memories never fade"),
        ("unpin", "let memories fade again"),
        ("approve", "let memories out of quarantine"),
        ("share", "let all users of the agent be told memories"),
    ):
        act = add_action(name, help=about)
        act.add_argument("id", type=int, nargs="+", metavar="ID")
        act.add_argument("--reason", default="", metavar="WHY")
    merge = add_action("merge", help="make one memory of two")
    merge.add_argument("id", type=int, metavar="ID", help="the one that goes")
    merge.add_argument("--into", type=int, required=True, metavar="ID", help="the one that stays")
    undo = add_action("undo", help="take back the last thing that was done")
    which = undo.add_mutually_exclusive_group()
    which.add_argument(
        "id", type=int, nargs="?", metavar="ID", help="to this memory; left out, to any"
    )
    which.add_argument("--batch", metavar="B", help="in this go, to several memories")
    purge = add_action("purge", help="erase a memory for good")
    purge.add_argument("id", type=int, metavar="ID")
    purge.add_argument("--confirm", metavar='"purge ID"', help="instead of typing it")
    for one in (merge, undo, purge):
        one.add_argument("--reason", default="", metavar="WHY")


def _configure_review_actions(add_action: AddAction) -> None:
    conflicts = add_action("conflicts", help="show memories that do not go together")
    conflicts.add_argument("--resolved", action="store_true", help="those that ended, too")
    resolve = add_action("resolve", help="end a conflict")
    resolve.add_argument("id", metavar="CONFLICT")
    resolve.add_argument("resolution", choices=_RESOLUTIONS)
    resolve.add_argument("--keep", choices=("a", "b"), default="a", help="which a merge keeps")
    resolve.add_argument("--text", metavar="TEXT", help="what it reads from now on")
    resolve.add_argument("--reason", default="", metavar="WHY")
    rejects = add_action("rejects", help="show what was said and is not remembered")
    rejects.add_argument(
        "--limit", type=_LIST_LIMIT, default=50, metavar="N", help="50, at most 1000"
    )
    accept = add_action("accept", help="make a memory of a reject")
    accept.add_argument("id", metavar="REJECT")
    accept.add_argument("--category", choices=_CATEGORIES)
    accept.add_argument("--service", metavar="S")
    accept.add_argument("--text", metavar="TEXT")
    for one in (conflicts, rejects):
        _add_all_agents(one)


def _configure_prompt_actions(add_action: AddAction) -> None:
    preview = add_action("preview", help="print the block that an agent is told")
    preview.add_argument(
        "--service", action="append", default=[], metavar="S", help="in scope; may be repeated"
    )
    preview.add_argument(
        "--budget", type=TOKENS_RANGE, metavar="N", help="tokens; 0 tells nothing"
    )
    add_user_argument(preview, every=False)
    preview.add_argument("--tier", type=int, choices=range(4), help="all are told the same")
    preview.add_argument("--session", default="", metavar="ID", help="it makes the fence")
    preview.add_argument("--prompt", default="", metavar="TEXT", help="what the agent is asked")
    guide = add_action("guide", help="print what agents are told about recording")
    guide.add_argument("--tier", type=int, choices=(1, 2, 3), default=1)
    guide.add_argument("--mode", choices=("markers", "structured"), default="markers")
    add_action("rebuild", help="make memories again from their events, and compare")


def _configure_transfer_actions(add_action: AddAction) -> None:
    from memplane.cli.run import add_session_options

    learn = add_action("learn", help="learn from an agent's output")
    learn.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="stream-json, text or a session's log"
    )
    learn.add_argument(
        "--session", default="", metavar="ID", help="go on in a session, or its name"
    )
    add_session_options(learn)
    taking = add_action("import", help="take in an export, or a database of Claude Ops")
    taking.add_argument("file", metavar="FILE", help="- is stdin")
    export = add_action("export", help="print all memories")
    export.add_argument("--format", choices=("jsonl", "md", "csv"), default="jsonl")
    export.add_argument("--state", choices=_STATES, help="by default all but the trash")
    export.add_argument("--service", metavar="S", help="about it; general is about none")
    add_user_argument(export, every=False)
    _add_all_agents(export)
    _add_include_forgotten(export)


def _add_include_forgotten(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--include-forgotten",
        action="store_true",
        help="also those of which only forgotten turns speak, marked unsupported",
    )


def _add_all_agents(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all-agents", action="store_true", help="those of every agent")
