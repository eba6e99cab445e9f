"""What `memplane persona` prints for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from memplane.cli.output import colour_text, escape_text, print_rows
from memplane.persona.plan import SyncAction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from memplane.persona.baseline import HeldDocument, QueuedDocument
    from memplane.persona.report import PersonaReport
    from memplane.persona.validation import DocumentProblem

PLAN_WORDS: Final[Mapping[SyncAction, tuple[str, str]]] = {
    SyncAction.CREATE: ("send", "it is new here"),
    SyncAction.PUT: ("send", "it changed here"),
    SyncAction.REPUBLISH: ("send", "it vanished there, and nothing says that it was deleted"),
    SyncAction.PULL: ("bring", "it is new or changed there"),
    SyncAction.MERGE: ("merge", "it changed here and there"),
    SyncAction.SAME: ("note", "it is the same here and there"),
    SyncAction.DELETE: ("delete there", "it was deleted here"),
    SyncAction.REMOVE: ("delete here", "it was deleted there; the text goes to the trash"),
    SyncAction.RESTORE: (
        "bring back",
        "it was deleted here but changed there, and an edit counts",
    ),
    SyncAction.SETTLE: ("look again", "what became of it last time is not known for sure"),
}
"""What would be done, and why."""
_COLOUR_OF_WORD: Final = {"held": "yellow", "waits": "yellow", "error": "red", "deleted": "red"}
_WORD_COLUMNS: Final = 8


def print_report(report: PersonaReport) -> None:
    """Print what a sync did, a line a document, and the sum; `print_unsynced` does the rest."""
    for key, what in report.done:
        _line(what, key)
    for key, reason in report.errors:
        _line("waits" if key in report.waiting else "error", f"{key}: {reason}")
    for path in report.conflicts:
        name = copy_name(path)
        _line("kept", f"{name}, a text that did not fit: memplane persona conflicts show {name}")
    for warning in report.warnings:
        _line("note", warning)
    print(colour_text(_sum(report), "bold"))


def print_unsynced(report: PersonaReport) -> None:
    """Print which documents are not published and why, where scripts do not read results."""
    for key, reason in report.held:
        _line("held", f"{key}: {reason}", file=sys.stderr)


def copy_name(path: str) -> str:
    """Return what a conflict copy is called here: the digest in its name."""
    return path.removesuffix(".md").rpartition(".")[2]


def _line(word: str, rest: str, *, file: TextIO | None = None) -> None:
    colour = _COLOUR_OF_WORD.get(word, "green")
    print(f"{colour_text(word.ljust(_WORD_COLUMNS), colour, file)} {escape_text(rest)}", file=file)


def _sum(report: PersonaReport) -> str:
    from memplane.persona.folder_watcher import summarise_report

    same = f"; {report.skipped} unchanged" if report.skipped else ""
    return f"{summarise_report(report)}{same}"


def print_queue(waiting: Sequence[QueuedDocument]) -> None:
    """Print what could not be sent."""
    for one in waiting:
        _line("waits", f"{one.key} ({_tries(one)})")
    if waiting:
        print("Nothing is lost: the next sync sends what waits.")
    else:
        print("Nothing waits here.")


def _tries(one: QueuedDocument) -> str:
    times = "once" if one.attempts == 1 else f"{one.attempts} times"
    after = ", never again" if one.dead else f", again after {_minute(one.next_try)}"
    return f"tried {times}{after}"


def _minute(stamp: str) -> str:
    return f"{stamp[:10]} {stamp[11:16]}" if stamp else "never"


def print_plan(
    steps: Iterable[Mapping[str, str]], refused: Mapping[str, str], objection: str
) -> None:
    """Print what would be done."""
    count = 0
    for step in steps:
        count += 1
        print(escape_text(f"{step['action']:<13} {step['key']}: {step['why']}"))
    for key, reason in refused.items():
        print(escape_text(f"{'leave alone':<13} {key}: {reason}"))
    if objection:
        print(colour_text(f"It would be refused: {objection}", "red"))
    print(colour_text(f"{count} to do; nothing was changed" if count else "nothing to do", "bold"))


def print_status(
    status: Mapping[str, Any], waiting: Sequence[QueuedDocument], held: Sequence[HeldDocument]
) -> None:
    """Print how the folder stands."""
    count = status["documents"]
    there = f"{count} documents" if status["exists"] else "it is not there yet"
    rows = [
        ("folder", f"{status['folder']} ({there})"),
        ("because", status["why"]),
        ("container", status["container"] or "none"),
        ("prefix", status["prefix"]),
        ("project", status["project"] or "none yet: the first sync joins or makes one"),
        ("device", status["device"] or "none yet"),
        ("last sync", _minute(status["last_sync"])),
        ("watched", _watched(status)),
        ("waiting", f"{len(waiting)}"),
        ("held", f"{len(held)}"),
        ("conflicts", _conflicts(status["conflicts"])),
    ]
    print_rows([(name, escape_text(value)) for name, value in rows])
    for one in waiting:
        _line("waits", f"{one.key}: {one.error} ({_tries(one)})")
    for row in held:
        _line("held", f"{row.key}: {row.reason}")
    for complaint in status["complaints"]:
        print(colour_text(f"  {escape_text(complaint)}", "red"))


def _watched(status: Mapping[str, Any]) -> str:
    return f"by process {status['watched_by']}" if status["watched_by"] else "no"


def _conflicts(count: int) -> str:
    return f"{count} kept: memplane persona conflicts" if count else "0"


def print_documents(rows: Sequence[Mapping[str, Any]], note: str) -> None:
    """Print the documents, and how each stands."""
    wide = max((len(row["key"]) for row in rows), default=0)
    kinds = max((len(row["kind"]) for row in rows), default=0)
    for row in rows:
        size = "" if row["size"] is None else f"{row['size']}"
        etag = row["etag"] or "-"
        line = (
            f"{row['key']:<{wide}}  {row['kind']:<{kinds}}  {size:>7}  {etag:<22}  {row['state']}"
        )
        print(escape_text(line))
    print(f"{len(rows)} in all")
    if note:
        print(colour_text(escape_text(note), "yellow"))


def print_problems(problems: Sequence[DocumentProblem], count: int) -> None:
    """Print what is wrong with documents, and what to do about it."""
    for one in problems:
        colour = "red" if one.severity == "error" else "yellow"
        print(
            f"{colour_text(one.severity.ljust(_WORD_COLUMNS), colour)} "
            f"{escape_text(f'{one.key}: {one.text}')}"
        )
        print(f"         → {escape_text(one.fix)}")
    errors = sum(one.severity == "error" for one in problems)
    print(f"{count} documents, {errors} errors, {len(problems) - errors} warnings")


def print_copies(copies: Sequence[Mapping[str, str]]) -> None:
    """Print the texts that wait for a person."""
    for one in copies:
        print(escape_text(f"{one['name']}  {one['key']}  {_minute(one['at'])}  {one['why']}"))
        print(f"          {escape_text(one['path'])}")
    if copies:
        print("See one: memplane persona conflicts show NAME; then drop or restore it")
    print(f"{len(copies)} in all")


def print_diff(lines: Iterable[str]) -> None:
    """Print a difference between two texts."""
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "dim"}.get(line[:1])
        shown = escape_text(line.rstrip("\n"))
        print(colour_text(shown, colour) if colour else shown)
