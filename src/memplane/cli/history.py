"""`memplane history`: read, hand out and check the record of what happened.

Reading needs no owner: it is safe beside a running one.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

    from memplane.ledger.checking import LedgerReport
    from memplane.ledger.folder import AgentFolder
    from memplane.ledger.summary import Summary
    from memplane.ledger.verify import FileReport
    from memplane.settings import Settings

_SHOWN: Final = 20
_ID_SHOWN: Final = 18
_QUESTION: Final = 60
_CITED: Final = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    show = actions.add_parser("show", help="list the last turns, or show one whole")
    show.add_argument("id", nargs="?", help="a turn's id, or the beginning of it")
    show.add_argument("--agent", help="whose ledger; by default MEMPLANE_AGENT, or the only one")
    _add_pod(show)
    show.add_argument("--limit", type=_positive, default=_SHOWN, metavar="N", help="how many")
    show.add_argument("--json", action="store_true", help="for machines: one entry a line")
    show.add_argument(
        "--receipt", action="store_true", help="only which memories were in that turn's prompt"
    )
    export = actions.add_parser("export", help="print entries, one a line, oldest first")
    export.add_argument("agent", help="whose ledger")
    _add_pod(export)
    start = export.add_mutually_exclusive_group()
    start.add_argument("--after", type=_moment, metavar="T", help="only later ones (RFC 3339)")
    start.add_argument("--cursor", help="go on behind an earlier export")
    most = export.add_mutually_exclusive_group()
    most.add_argument("--limit", type=_positive, metavar="N", help="at most; 100, up to 1000")
    most.add_argument("--all", action="store_true", help="all there are")
    export.add_argument("--redact", action="store_true", help="take secrets out once more")
    verify = actions.add_parser(
        "verify", help="check ledgers against their chains; exit 1 on any finding"
    )
    verify.add_argument("agent", nargs="*", help="whose ledgers; by default all")
    which = verify.add_mutually_exclusive_group()
    which.add_argument(
        "--received", action="store_true", help="check what other recorders gave to memory instead"
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


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError("limit must be an integer") from None
    if number <= 0:
        raise argparse.ArgumentTypeError("limit must be > 0")
    return number


def _moment(text: str) -> datetime:
    from memplane.ledger.heads import instant

    told = instant(text)
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

    from memplane.cli import OK
    from memplane.errors import LedgerError
    from memplane.home import Home
    from memplane.ledger.folder import AgentFolder
    from memplane.ledger.reader import open_entry

    home = Home(settings.home)
    agent = arguments.agent or settings.agent
    folder = _folder_of(agent, _ledgers(arguments, settings), home.received)
    if arguments.id is None:
        _list(folder, arguments)
        return OK
    start = arguments.id if arguments.id.startswith("hist1_") else f"hist1_{arguments.id}"
    with open_entry(folder, start) as page:
        if len(page.entries) != 1:
            how_many = f"{len(page.entries)} turns begin" if page.entries else "no turn begins"
            raise LedgerError(f"{how_many} with {start} in the ledger of {folder.agent}")
        line = next(page.lines())
    received = AgentFolder(home.received, folder.agent)
    if arguments.receipt:
        _print_receipt((folder, received), line, as_json=arguments.json)
    elif arguments.json:
        sys.stdout.buffer.write(line + b"\n")
    else:
        _print_entry(line, page.entries[0].segment)
        _print_receipt((folder, received), line, as_json=False)
    return OK


def _ledgers(arguments: argparse.Namespace, settings: Settings) -> Path:
    """Find the ledgers that are meant: those of a pod, or else of the home."""
    from pathlib import Path

    from memplane.operate.targets import pod_of, pod_place

    pod = pod_of(arguments.file, Path.cwd())
    return pod_place(pod).ledgers if pod is not None else settings.ledger.dir


def _folder_of(agent: str, ledgers: Path, received: Path) -> AgentFolder:
    from memplane.access.agents import AGENT_RULE, is_agent_id
    from memplane.errors import InvalidRequest, UnknownAgent
    from memplane.ledger.folder import AgentFolder, agents_in

    known = agents_in(ledgers)
    if not agent and len(known) == 1:
        agent = known[0]
    if not agent:
        there = f"There are: {', '.join(known)}" if known else "No agent has a ledger yet"
        raise InvalidRequest(f"whose ledger? Name it with --agent. {there}")
    if agent not in known and not is_agent_id(agent):
        raise InvalidRequest(f"{agent!r} is no agent's id: {AGENT_RULE}")
    if agent not in known:
        raise UnknownAgent(f"{agent} has no ledger in {ledgers}{_instead(agent, known, received)}")
    return AgentFolder(ledgers, agent)


def _instead(agent: str, known: Sequence[str], received: Path) -> str:
    from memplane.ledger.folder import agents_in

    if agent in agents_in(received):
        return (
            ". What it was given to remember is no turn of its own; the dashboard's turns show it"
        )
    return f". There are: {', '.join(known)}" if known else ""


def _list(folder: AgentFolder, arguments: argparse.Namespace) -> None:
    """Print the last turns, a line each."""
    import sys

    from memplane.errors import InvalidRequest
    from memplane.ledger.reader import open_last

    if arguments.receipt:
        raise InvalidRequest("whose receipt? Name a turn by its id; without one they are listed")
    with open_last(folder, arguments.limit) as page:
        if arguments.json:
            sys.stdout.buffer.writelines(line + b"\n" for line in page.lines())
        else:
            _print_list(folder, page.lines())


def _print_list(folder: AgentFolder, lines: Iterable[bytes]) -> None:
    """List turns; those that are none of a user's say so."""
    from memplane.ledger.notes import Notes
    from memplane.ledger.summary import summary_of

    turns = [summary_of(line) for line in lines]
    wanted = {one.id for one in turns}
    left_out = {one.id: one.left_out for one in Notes(folder).new_lines() if one.id in wanted}
    for turn in turns:
        print(_summary(turn, left_out.get(turn.id, "")))


def _summary(turn: Summary, left_out: str) -> str:
    """Put a turn into one line: when, which, what model, what was asked."""
    from memplane.cli.show import coloured, harmless

    tokens = f"{turn.usage.prompt_tokens}→{turn.usage.completion_tokens}"
    status = coloured(" error", "red") if turn.status == "error" else ""
    asked = turn.question[:_QUESTION] + ("…" if len(turn.question) > _QUESTION else "")
    when, model = harmless(turn.ts), harmless(turn.effective_model)
    marked = coloured(f"({harmless(left_out)}) ", "dim") if left_out else ""
    return (
        f"{when:20}  {coloured(harmless(turn.id[:_ID_SHOWN]), 'dim')}  {model:24.24}  "
        f"{tokens:>12}{status}  {marked}{harmless(asked)}"
    )


def _print_entry(line: bytes, segment: int) -> None:
    import json

    from memplane.cli.show import harmless, print_rows
    from memplane.ledger.summary import summary_of

    turn = summary_of(line)
    rows = [
        ("turn", turn.id),
        ("when", turn.ts),
        ("agent", turn.claw_id),
        ("asked for", f"{turn.requested_model} at {turn.path}"),
        ("answered by", f"{turn.effective_provider}, {turn.effective_model}"),
        ("size", f"{len(line):,} bytes, in segment {segment}"),
    ]
    print_rows([(name, harmless(value)) for name, value in rows])
    entry = json.loads(line.decode("utf-8", "replace"))
    print(harmless(json.dumps(entry, indent=2, ensure_ascii=False)))


def _print_receipt(folders: Sequence[AgentFolder], line: bytes, *, as_json: bool) -> None:
    """Say which memories were in a turn's prompt; they come from turns of any of the folders."""
    from memplane.cli.show import coloured, harmless, print_json
    from memplane.ledger.note import Note
    from memplane.ledger.notes import note_of
    from memplane.ledger.summary import summary_of

    entry_id = summary_of(line).id
    note = note_of(folders[0], entry_id) or Note(id=entry_id)
    if as_json:
        print_json(note)
        return
    print(coloured("memories in its prompt", "bold"))
    if note.left_out:
        print(f"  none, and nothing is remembered of it: {harmless(note.left_out)}")
    elif not note.injected:
        print("  none" + (f" (recall {note.recall})" if note.recall else ""))
    for one in note.injected:
        since = ", since an earlier turn" if one.replayed else ""
        where = f"in message {one.message + 1}" if one.message >= 0 else "beside the last message"
        print(f"  {where}, from {harmless(one.service)}, {one.bytes:,} bytes{since}")
        for block in one.blocks:
            score = "" if block.score is None else f" {block.score:.2f}"
            cited = ", ".join(entry[:_ID_SHOWN] for entry in block.entry_ids) or block.id
            print(f"    {harmless(block.kind)}{score}  {coloured(harmless(cited), 'dim')}")
            for entry in block.entry_ids[:_CITED]:
                print(f"      {harmless(_question_of(folders, entry))}")
    for dropped in note.dropped:
        print(f"  left out: {harmless(dropped.id)} ({harmless(dropped.why)})")


def _question_of(folders: Sequence[AgentFolder], entry_id: str) -> str:
    """Return what was asked in a turn, or answered where nobody asked anything."""
    import json

    from memplane.ledger.reader import open_entry
    from memplane.memory.episode import episode_of

    for folder in folders:
        with open_entry(folder, entry_id) as page:
            for found, line in page.identified():
                if found == entry_id:
                    turn = episode_of(json.loads(line.decode("utf-8", "replace")))
                    said = " ".join((turn.question or turn.answer).split())
                    return said[:_QUESTION] + ("…" if len(said) > _QUESTION else "")
    return "(that turn is in no ledger here)"


def _export(arguments: argparse.Namespace, settings: Settings) -> int:
    import sys

    from memplane.assemble.redactors import open_redactor
    from memplane.cli import OK
    from memplane.home import Home
    from memplane.ledger.cursor import BEGINNING, decode_cursor, encode_cursor
    from memplane.ledger.reader import LARGEST_PAGE, PAGE, open_page
    from memplane.ledger.redacting import redact_line

    received = Home(settings.home).received
    folder = _folder_of(arguments.agent, _ledgers(arguments, settings), received)
    cursor = decode_cursor(arguments.cursor) if arguments.cursor else BEGINNING
    redactor = open_redactor(settings) if arguments.redact else None
    limit = LARGEST_PAGE if arguments.all else min(arguments.limit or PAGE, LARGEST_PAGE)
    more, skipped = True, 0
    while more:
        with open_page(folder, cursor=cursor, after=arguments.after, limit=limit) as page:
            for line in page.lines():
                shown = redact_line(redactor, line).value if redactor else line
                sys.stdout.buffer.write(shown + b"\n")
        cursor, more = page.next, page.has_more and arguments.all
        skipped += page.skipped
    if skipped:
        print(f"{skipped} lines could not be read and were left out", file=sys.stderr)
    if cursor.id:
        print(f"to go on from here: --cursor {encode_cursor(cursor)}", file=sys.stderr)
    return OK


def _verify(arguments: argparse.Namespace, settings: Settings) -> int:
    from memplane.cli import FAILED, OK
    from memplane.cli.show import print_json
    from memplane.home import Home

    if arguments.file:
        report = _checked_file(arguments.file)
        if arguments.json:
            print_json(report)
        else:
            _print_file_report(report)
        return FAILED if report.findings else OK
    home, root = Home(settings.home), settings.ledger.dir
    if arguments.received or arguments.events:
        root = home.received if arguments.received else home.events
    reports = _checked_ledgers(arguments.agent, root)
    if arguments.json:
        print_json(reports)
    else:
        _print_reports(reports)
    return FAILED if any(report.findings for report in reports) else OK


def _checked_file(name: str) -> FileReport:
    from pathlib import Path

    from memplane.errors import LedgerError
    from memplane.ledger.lines import lines_of
    from memplane.ledger.verify import verify_lines

    try:
        with Path(name).open("rb") as file:
            return verify_lines(lines_of(file))
    except OSError as error:
        raise LedgerError(f"{name} cannot be read: {error.strerror}") from error


def _print_file_report(report: FileReport) -> None:
    from memplane.cli.show import coloured

    for one in report.findings:
        place = f"line {one.line} at byte {one.offset}"
        print(f"{coloured(one.problem, 'red')}: {place}: {one.found}")
    legacy = f", {report.legacy} of them without an id" if report.legacy else ""
    print(f"{report.entries} entries as recorded{legacy}; {len(report.findings)} findings")


def _checked_ledgers(agents: Sequence[str], root: Path) -> list[LedgerReport]:
    from memplane.errors import UnknownAgent
    from memplane.ledger.anchors import read_anchors
    from memplane.ledger.checking import verify_ledger
    from memplane.ledger.folder import AgentFolder, agents_in

    anchors = read_anchors(root)
    known = sorted({*agents_in(root), *anchors})
    for agent in agents:
        if agent not in known:
            raise UnknownAgent(f"{agent} has no ledger in {root}")
    return [
        verify_ledger(AgentFolder(root, agent), anchors.get(agent)) for agent in agents or known
    ]


def _print_reports(reports: Sequence[LedgerReport]) -> None:
    from memplane.cli.show import coloured

    for report in reports:
        for one in report.findings:
            where = f"{report.agent}/{one.file} at byte {one.offset}"
            print(f"{coloured(one.problem, 'red')}: {where}: {one.found}")
        beside = f", {report.unchained} not in the chain yet" if report.unchained else ""
        gaps = f", {report.gaps} turns that could not be kept" if report.gaps else ""
        state = f"{len(report.findings)} findings"
        word = coloured(state, "red" if report.findings else "green")
        print(f"{report.agent}: {report.entries} entries as recorded{beside}{gaps}; {word}")
    if not reports:
        print("no agent has a ledger yet")
