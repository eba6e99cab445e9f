"""`memplane history`: read, hand out and check the record of what happened.

Reading needs no owner: it is safe beside a running one.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from memplane.cli.user_argument import add_user_argument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from memplane.episodes.ledger_view import LedgerView
    from memplane.ledger.chain_verification import LedgerReport
    from memplane.ledger.entry_summary import EntrySummary
    from memplane.ledger.file_verification import FileReport
    from memplane.ledger.folder import AgentFolder
    from memplane.settings import Settings

_DEFAULT_LIST_TURNS: Final = 20
_ID_CHARS: Final = 18
_QUESTION_CHARS: Final = 60
_MAX_CITED_ENTRIES: Final = 3
_FORGOTTEN_HINT: Final = ", but for one that was forgotten: --include-forgotten shows it"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    show = actions.add_parser("show", help="list the last turns, or show one whole")
    show.add_argument("id", nargs="?", help="a turn's id, or the beginning of it")
    show.add_argument("--agent", help="whose ledger; by default MEMPLANE_AGENT, or the only one")
    _add_pod(show)
    add_user_argument(show, every=False)
    show.add_argument(
        "--limit", type=_positive, default=_DEFAULT_LIST_TURNS, metavar="N", help="how many"
    )
    show.add_argument("--json", action="store_true", help="for machines: one entry a line")
    show.add_argument(
        "--receipt", action="store_true", help="only which memories were in that turn's prompt"
    )
    _add_include_forgotten(show)
    export = actions.add_parser("export", help="print entries, one a line, oldest first")
    export.add_argument("agent", help="whose ledger")
    add_user_argument(export, every=False)
    _add_pod(export)
    start = export.add_mutually_exclusive_group()
    start.add_argument("--after", type=_moment, metavar="T", help="only later ones (RFC 3339)")
    start.add_argument("--cursor", help="go on behind an earlier export")
    most = export.add_mutually_exclusive_group()
    most.add_argument("--limit", type=_positive, metavar="N", help="at most; 100, up to 1000")
    most.add_argument("--all", action="store_true", help="all there are")
    export.add_argument("--redact", action="store_true", help="take secrets out once more")
    _add_include_forgotten(export)
    verify = actions.add_parser(
        "verify", help="check ledgers against their chains; exit 1 on any finding"
    )
    verify.add_argument("agent", nargs="*", help="whose ledgers; by default all")
    which = verify.add_mutually_exclusive_group()
    which.add_argument(
        "--received", action="store_true", help="check only what others gave to memory"
    )
    which.add_argument(
        "--events", action="store_true", help="check what happened to memories instead"
    )
    which.add_argument("--file", metavar="F", help="check any history.jsonl instead, by its ids")
    verify.add_argument("--json", action="store_true", help="for machines")


def _add_pod(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--file", metavar="F", help="the pod's file; where we are, if that was compiled"
    )


def _add_include_forgotten(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--include-forgotten", action="store_true", help="forgotten turns too, each marked"
    )


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError("limit must be an integer") from None
    if number <= 0:
        raise argparse.ArgumentTypeError("limit must be > 0")
    return number


def _moment(text: str) -> datetime:
    from memplane.ledger.entry_head import parse_rfc3339

    told = parse_rfc3339(text)
    if told is None:
        raise argparse.ArgumentTypeError("after must be RFC3339")
    return told


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do what was asked, off the loop: it is all file work."""
    import asyncio

    action = {"show": _show, "export": _export, "verify": _verify}[arguments.action]
    return await asyncio.to_thread(action, arguments, settings)


def _show(arguments: argparse.Namespace, settings: Settings) -> int:
    import sys

    from memplane.cli import EXIT_OK

    view, received = _views(arguments.agent or settings.agent, arguments, settings)
    if arguments.id is None:
        _list(view, arguments)
        return EXIT_OK
    entry_id, line, segment = _find_entry(view, arguments.id)
    if arguments.receipt:
        _print_receipt((view, received), entry_id, as_json=arguments.json)
    elif arguments.json:
        sys.stdout.buffer.write(view.line(entry_id, line) + b"\n")
    else:
        _print_entry(view, entry_id, line, segment)
        _print_receipt((view, received), entry_id, as_json=False)
    return EXIT_OK


def _find_entry(view: LedgerView, start: str) -> tuple[str, bytes, int]:
    """Read the entry whose id begins so; returns its id, its line and its segment's number.

    Raises:
        LedgerError: There is none, or more than one.
    """
    from memplane.errors import LedgerError

    begins = start if start.startswith("hist1_") else f"hist1_{start}"
    with view.entry(begins) as page:
        if len(page.entries) == 1:
            entry_id, line = next(page.with_ids())
            return entry_id, line, page.entries[0].segment
        how_many = f"{len(page.entries)} turns begin" if page.entries else "no turn begins"
    hint = "" if page.entries or not view.hides_any(begins) else _FORGOTTEN_HINT
    raise LedgerError(f"{how_many} with {begins} in the ledger of {view.folder.agent}{hint}")


def _views(
    agent: str, arguments: argparse.Namespace, settings: Settings
) -> tuple[LedgerView, LedgerView]:
    """Open what may be shown of an agent's turns: those recorded here, and those received."""
    from pathlib import Path

    from memplane.episodes.ledger_view import LedgerView
    from memplane.home import Home
    from memplane.integrations.clawdapus.memory_service.service_targets import (
        get_home_paths,
        get_pod_paths,
        resolve_pod_folder,
    )
    from memplane.ledger.folder import AgentFolder

    pod, received = resolve_pod_folder(arguments.file, Path.cwd()), Home(settings.home).received
    own = get_home_paths(settings.home, settings.ledger.dir)
    place = own if pod is None else get_pod_paths(pod)
    folder = _folder_of(agent, place.ledgers, received)
    included: bool = arguments.include_forgotten
    return (
        LedgerView(folder, place.tombstones, include_forgotten=included),
        LedgerView(
            AgentFolder(received, folder.agent), own.tombstones, include_forgotten=included
        ),
    )


def _folder_of(agent: str, ledgers: Path, received: Path) -> AgentFolder:
    from memplane.auth.agent_id import AGENT_ID_RULE, is_agent_id
    from memplane.cli.agent_argument import list_known_agents, make_unknown_agent
    from memplane.errors import InvalidRequest, UnknownAgent
    from memplane.ledger.folder import AgentFolder, list_ledger_agents

    known = list_ledger_agents(ledgers)
    if not agent and len(known) == 1:
        agent = known[0]
    if not agent:
        there = list_known_agents(known) if known else "No agent has a ledger yet"
        raise InvalidRequest(f"whose ledger? Name it with --agent. {there}")
    if agent not in known and not is_agent_id(agent):
        raise InvalidRequest(f"{agent!r} is no agent's id: {AGENT_ID_RULE}")
    if agent not in known and agent in list_ledger_agents(received):
        raise UnknownAgent(
            f"{agent} has no ledger in {ledgers}. What it was given to remember is no turn of its "
            "own; the dashboard's turns show it"
        )
    if agent not in known:
        raise make_unknown_agent(agent, known, f"no ledger in {ledgers}")
    return AgentFolder(ledgers, agent)


def _list(view: LedgerView, arguments: argparse.Namespace) -> None:
    """Print the last turns, a line each."""
    import sys

    from memplane.errors import InvalidRequest

    if arguments.receipt:
        raise InvalidRequest("whose receipt? Name a turn by its id; without one they are listed")
    user, limit = arguments.user, arguments.limit
    with view.last_of(user, limit) if user else view.last(limit) as page:
        if arguments.json:
            lines = (view.line(*found) for found in page.with_ids())
            sys.stdout.buffer.writelines(line + b"\n" for line in lines)
        else:
            _print_list(view, page.lines())


def _print_list(view: LedgerView, lines: Iterable[bytes]) -> None:
    """List turns, each with whose it is; those of clients themselves say so."""
    from memplane.ledger.entry_summary import summarise_entry
    from memplane.ledger.note_reader import read_notes

    turns = [summarise_entry(line) for line in lines]
    notes = read_notes(view.folder, {one.id for one in turns})
    for turn in turns:
        note = notes.get(turn.id)
        said = (
            [note.user and f"user {note.user}", note.view and f"view {note.view}"] if note else []
        )
        marks = [*said, note.left_out if note else ""]
        mark = ", ".join(filter(None, marks))
        print(_summary(turn, "forgotten" if view.is_forgotten(turn.id) else mark))


def _summary(turn: EntrySummary, mark: str) -> str:
    """Put a turn into one line: when, which, what model, what was asked."""
    from memplane.cli.output import colour_text, escape_text
    from memplane.exchange.conversation_parser import extract_last_question

    tokens = f"{turn.usage.prompt_tokens}→{turn.usage.completion_tokens}"
    status = colour_text(" error", "red") if turn.status == "error" else ""
    asked = _shortened(extract_last_question(turn))
    when, model = escape_text(turn.ts), escape_text(turn.effective_model)
    marked = colour_text(f"({escape_text(mark)}) ", "dim") if mark else ""
    return (
        f"{when:20}  {colour_text(escape_text(turn.id[:_ID_CHARS]), 'dim')}  {model:24.24}  "
        f"{tokens:>12}{status}  {marked}{escape_text(asked)}"
    )


def _shortened(text: str) -> str:
    return text[:_QUESTION_CHARS] + ("…" if len(text) > _QUESTION_CHARS else "")


def _print_entry(view: LedgerView, entry_id: str, line: bytes, segment: int) -> None:
    import json

    from memplane.cli.output import colour_text, escape_text, print_rows
    from memplane.exchange.conversation_parser import extract_last_question
    from memplane.ledger.entry_summary import summarise_entry
    from memplane.ledger.note_reader import find_note

    turn = summarise_entry(line)
    rows = [
        ("turn", turn.id),
        ("when", turn.ts),
        ("agent", turn.claw_id),
        ("asked for", f"{turn.requested_model} at {turn.path}"),
        ("answered by", f"{turn.effective_provider}, {turn.effective_model}"),
        ("size", f"{len(line):,} bytes, in segment {segment}"),
        ("question", extract_last_question(turn) or "none from a user"),
    ]
    note = find_note(view.folder, entry_id)
    if note is not None and (note.user or note.view):
        rows.append(("of", " ".join(filter(None, (note.user, note.view and f"view {note.view}")))))
    if view.is_forgotten(entry_id):
        rows.append(("forgotten", "yes; its bytes stay in the ledger until a purge"))
    print_rows([(name, escape_text(value)) for name, value in rows])
    print(colour_text("the entry as recorded", "bold"))
    shown = line if view.is_forgotten(entry_id) else view.line(entry_id, line)
    entry = json.loads(shown.decode("utf-8", "replace"))
    print(escape_text(json.dumps(entry, indent=2, ensure_ascii=False)))


def _print_receipt(views: Sequence[LedgerView], entry_id: str, *, as_json: bool) -> None:
    """Say which memories were in a turn's prompt; they come from turns of any of the ledgers."""
    from memplane.cli.output import colour_text, escape_text, format_origin, print_json
    from memplane.ledger.note_reader import find_note
    from memplane.ledger.turn_note import TurnNote

    note = find_note(views[0].folder, entry_id) or TurnNote(id=entry_id)
    if as_json:
        print_json(note)
        return
    print(colour_text("memories in its prompt", "bold"))
    if note.left_out:
        new = "nothing new" if note.injected else "none"
        print(f"  {new}, and nothing is remembered of it: {escape_text(note.left_out)}")
    elif not note.injected:
        print("  none" + (f" (recall {note.recall})" if note.recall else ""))
    for one in note.injected:
        since = ", since an earlier turn" if one.replayed else ""
        where = f"in message {one.message + 1}" if one.message >= 0 else "beside the last message"
        print(f"  {where}, from {escape_text(one.service)}, {one.bytes:,} bytes{since}")
        for block in one.blocks:
            score = "" if block.score is None else f" {block.score:.2f}"
            cited = ", ".join(entry[:_ID_CHARS] for entry in block.entry_ids) or block.id
            origin = format_origin(block)
            told = f"{escape_text(cited)}{'  ' if origin else ''}{origin}"
            print(f"    {escape_text(block.kind)}{score}  {colour_text(told, 'dim')}")
            for entry in block.entry_ids[:_MAX_CITED_ENTRIES]:
                print(f"      {escape_text(_question_of(views, entry))}")
    for dropped in note.dropped:
        print(f"  left out: {escape_text(dropped.id)} ({escape_text(dropped.why)})")


def _question_of(views: Sequence[LedgerView], entry_id: str) -> str:
    """Return what was asked in a turn, or answered where nobody asked anything."""
    import json

    from memplane.episodes.episode import build_episode

    for view in views:
        if view.hides(entry_id):
            return "(that turn was forgotten)"
        with view.entry(entry_id) as page:
            for found, line in page.with_ids():
                if found == entry_id:
                    turn = build_episode(json.loads(line.decode("utf-8", "replace")))
                    return _shortened(" ".join((turn.question or turn.answer).split()))
    return "(that turn is in no ledger here)"


def _export(arguments: argparse.Namespace, settings: Settings) -> int:
    import sys

    from memplane.cli import EXIT_OK
    from memplane.episodes.ledger_view import DEFAULT_PAGE_ENTRIES, MAX_PAGE_ENTRIES
    from memplane.ledger.cursor import BEGINNING, decode_cursor, encode_cursor
    from memplane.ledger.turn_redaction import redact_entry_line
    from memplane.service.composition.redactors import open_redactor

    view, _ = _views(arguments.agent, arguments, settings)
    owned = _list_turns_of(view, arguments.user)
    cursor = decode_cursor(arguments.cursor) if arguments.cursor else BEGINNING
    redactor = open_redactor(settings) if arguments.redact else None
    limit = (
        MAX_PAGE_ENTRIES
        if arguments.all
        else min(arguments.limit or DEFAULT_PAGE_ENTRIES, MAX_PAGE_ENTRIES)
    )
    more, skipped = True, 0
    while more:
        with view.page(cursor=cursor, after=arguments.after, limit=limit) as page:
            for entry_id, line in page.with_ids():
                if owned is not None and entry_id not in owned:
                    continue
                kept = redact_entry_line(redactor, line).value if redactor else line
                sys.stdout.buffer.write(view.line(entry_id, kept) + b"\n")
        cursor, more = page.next, page.has_more and arguments.all
        skipped += page.skipped
    if skipped:
        print(f"{skipped} lines could not be read and were left out", file=sys.stderr)
    if cursor.id:
        print(f"to go on from here: --cursor {encode_cursor(cursor)}", file=sys.stderr)
    return EXIT_OK


def _list_turns_of(view: LedgerView, user: str | None) -> frozenset[str] | None:
    from memplane.ledger.note_reader import NoteReader

    return None if user is None else frozenset(NoteReader(view.folder).list_turns_of(user))


def _verify(arguments: argparse.Namespace, settings: Settings) -> int:
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.output import print_json
    from memplane.home import Home

    if arguments.file:
        report = _checked_file(arguments.file)
        if arguments.json:
            print_json(report)
        else:
            _print_file_report(report)
        return EXIT_FAILED if report.findings else EXIT_OK
    home, turns = Home(settings.home), settings.ledger.dir
    roots = {"turns": turns, "received": home.received}
    if arguments.received or arguments.events:
        roots = {"received": home.received} if arguments.received else {"events": home.events}
    reports = _checked_ledgers(arguments.agent, roots)
    if arguments.json:
        print_json(reports)
    else:
        _print_reports(reports)
    return EXIT_FAILED if any(report.findings for report in reports) else EXIT_OK


def _checked_file(name: str) -> FileReport:
    from pathlib import Path

    from memplane.errors import LedgerError
    from memplane.ledger.file_verification import verify_lines
    from memplane.ledger.line_reader import read_lines

    try:
        with Path(name).open("rb") as file:
            return verify_lines(read_lines(file))
    except OSError as error:
        raise LedgerError(f"{name} cannot be read: {error.strerror}") from error


def _print_file_report(report: FileReport) -> None:
    from memplane.cli.output import colour_text

    for one in report.findings:
        place = f"line {one.line} at byte {one.offset}"
        print(f"{colour_text(one.problem, 'red')}: {place}: {one.found}")
    legacy = f", {report.legacy} of them without an id" if report.legacy else ""
    print(f"{report.entries} entries as recorded{legacy}; {len(report.findings)} findings")


def _checked_ledgers(agents: Sequence[str], roots: Mapping[str, Path]) -> list[LedgerReport]:
    """Check the ledgers below several folders; those of some agents, or all.

    Raises:
        UnknownAgent: An agent has no ledger in any of them.
    """
    from msgspec.structs import replace

    from memplane.cli.agent_argument import make_unknown_agent
    from memplane.ledger.anchors import read_anchors
    from memplane.ledger.chain_verification import verify_ledger
    from memplane.ledger.folder import AgentFolder, list_ledger_agents

    anchors = {name: read_anchors(root) for name, root in roots.items()}
    known = {name: {*list_ledger_agents(root), *anchors[name]} for name, root in roots.items()}
    for agent in agents:
        if not any(agent in names for names in known.values()):
            places = " or ".join(map(str, roots.values()))
            raise make_unknown_agent(
                agent,
                sorted({name for names in known.values() for name in names}),
                f"no ledger in {places}",
            )
    return [
        replace(
            verify_ledger(
                AgentFolder(root, agent), anchors[name].get(agent), opaque_ids=name != "turns"
            ),
            ledger=name,
        )
        for name, root in roots.items()
        for agent in sorted(known[name])
        if agent in agents or not agents
    ]


def _print_reports(reports: Sequence[LedgerReport]) -> None:
    from memplane.cli.output import colour_text

    for report in reports:
        for one in report.findings:
            where = f"{_name_ledger(report)}/{one.file} at byte {one.offset}"
            print(f"{colour_text(one.problem, 'red')}: {where}: {one.found}")
        beside = f", {report.unchained} not in the chain yet" if report.unchained else ""
        gaps = f", {report.gaps} turns that could not be kept" if report.gaps else ""
        state = f"{len(report.findings)} findings"
        word = colour_text(state, "red" if report.findings else "green")
        print(
            f"{_name_ledger(report)}: {report.entries} entries as recorded{beside}{gaps}; {word}"
        )
    if not reports:
        print("no agent has a ledger yet")


def _name_ledger(report: LedgerReport) -> str:
    """Name a ledger: an agent's own turns by its name alone."""
    return report.agent if report.ledger == "turns" else f"{report.ledger}/{report.agent}"
