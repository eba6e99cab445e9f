"""`memplane bench recall`: measure how well recall finds what it should."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memplane.evaluation.dataset import DatasetConversation, DatasetQuestion
    from memplane.evaluation.metrics import MetricChange, RecallMetrics, RecallReport
    from memplane.settings import Settings

_OWN_QUESTIONS_SUFFIX: Final = ".jsonl"
_HEADER: Final = (
    *("", "questions", "hit@1", "hit@3", "@5", "@10", "\u00b1", "@20", "NDCG@10"),
    *("sessions@10", "any session"),
)
_CHANGES_HEADER: Final = ("", "before", "now", "change", "")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    recall = actions.add_parser("recall", help="measure how well recall finds what it should")
    recall.add_argument(
        "dataset",
        type=Path,
        metavar="DATASET",
        help="conversations, as LoCoMo or chats with an assistant, a file or a folder of them, "
        "which are retained in a temporary home; or your own questions about what an agent "
        "remembers, a .jsonl whose "
        "lines have question, entry_ids and perhaps category",
    )
    recall.add_argument(
        "--agent", help="who is asked your own questions; by default MEMPLANE_AGENT"
    )
    recall.add_argument("--json", action="store_true", help="for machines")
    recall.add_argument(
        "--save",
        type=Path,
        metavar="FILE",
        help="keep the figures as JSON, unless they are worse than the baseline",
    )
    recall.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="compare with figures that were kept; exit 1 when recall got worse",
    )


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Measure, print the figures and compare them; exit 1 when they got worse."""
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.output import print_json
    from memplane.evaluation.metrics import compare_reports

    before = _saved(arguments.baseline) if arguments.baseline else None
    if arguments.save:
        _check_writable(arguments.save)
    report = await _measured(arguments, settings)
    changed = compare_reports(before, report) if before else []
    if arguments.json:
        from msgspec import to_builtins

        print_json({**to_builtins(report), "changes": changed})
    else:
        _print(report)
        if before:
            _print_changes(before, report, changed)
    worse = [one for one in changed if one.worse]
    for one in worse:
        told = f"{one.name} was {one.before:.3f} and is {one.now:.3f}"
        print(f"memplane bench: worse than the baseline: {told}", file=sys.stderr)
    if arguments.save and not worse:
        _save(arguments.save, report)
    return EXIT_FAILED if worse else EXIT_OK


async def _measured(arguments: argparse.Namespace, settings: Settings) -> RecallReport:
    from memplane.cli.agent_argument import expect_agent, resolve_agent
    from memplane.errors import InvalidRequest
    from memplane.evaluation.runner import measure_conversations, measure_questions
    from memplane.service.client import Client

    if arguments.dataset.suffix == _OWN_QUESTIONS_SUFFIX:
        agent, questions = resolve_agent(arguments, settings), _questions(arguments.dataset)
        async with Client(settings) as client:
            await expect_agent(agent, client, settings)
            report = await measure_questions(questions, client, agent=agent, watch=_watch)
    elif arguments.agent:
        raise InvalidRequest(
            f"--agent is for your own questions, a {_OWN_QUESTIONS_SUFFIX} file; "
            "conversations have their own"
        )
    else:
        report = await measure_conversations(
            _conversations(arguments.dataset),
            lambda home: Client(_settings_of_own_home(settings, home)),
            _watch,
        )
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    return report


def _settings_of_own_home(settings: Settings, home: Path) -> Settings:
    """Make the settings of a home of its own; only how memory answers is the user's."""
    from memplane.settings import Settings

    return Settings(
        home=home, keep_memory_local=True, memory=settings.memory, vectors=settings.vectors
    )


def _watch(about: str) -> None:
    from memplane.cli.output import escape_text

    if sys.stderr.isatty():
        print(f"\r\x1b[K{escape_text(about)}", end="", file=sys.stderr, flush=True)


# Files


def _conversations(place: Path) -> tuple[DatasetConversation, ...]:
    """Read the conversations of a file, or of all files of a folder."""
    from memplane.errors import InvalidRequest
    from memplane.evaluation.dataset import parse_conversations, select_measurable

    files = sorted(place.glob("*.json")) if place.is_dir() else [place]
    if not files:
        raise InvalidRequest(f"{place} has no .json file in it")
    found: list[DatasetConversation] = []
    for file in files:
        body = _decoded(_read(file), str(file))
        try:
            found += parse_conversations(body)
        except InvalidRequest as error:
            raise InvalidRequest(f"{file}: {error}") from error
    try:
        return select_measurable(found)
    except InvalidRequest as error:
        raise InvalidRequest(f"{place}: {error}") from error


def _questions(file: Path) -> list[DatasetQuestion]:
    """Read somebody's own questions, one a line."""
    from memplane.errors import InvalidRequest
    from memplane.evaluation.dataset import parse_question

    found: list[DatasetQuestion] = []
    for number, line in enumerate(_read(file).split(b"\n"), 1):
        if not line.strip():
            continue
        body = _decoded(line, f"{file}, line {number}")
        try:
            found.append(parse_question(body))
        except InvalidRequest as error:
            raise InvalidRequest(f"{file}, line {number}: {error}") from error
    if not found:
        raise InvalidRequest(f"{file}: there is no question in it")
    return found


def _saved(file: Path) -> RecallReport:
    import msgspec

    from memplane.errors import InvalidRequest
    from memplane.evaluation.metrics import RecallReport

    try:
        return msgspec.json.decode(_read(file), type=RecallReport)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{file} has no figures that were kept: {error}") from error


def _read(file: Path) -> bytes:
    from memplane.errors import InvalidRequest

    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}") from error


def _decoded(body: bytes, place: str) -> object:
    import json

    from memplane.errors import InvalidRequest

    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{place} is not JSON: {error}") from error


def _check_writable(file: Path) -> None:
    """Refuse a place where nothing can be kept before anything is measured."""
    from memplane.errors import InvalidRequest

    if file.is_dir() or not file.parent.is_dir():
        raise InvalidRequest(f"{file} cannot be written: it is a folder, or its folder is missing")


def _save(file: Path, report: RecallReport) -> None:
    import msgspec

    from memplane.errors import InvalidRequest

    body = msgspec.json.format(msgspec.json.encode(report), indent=2)
    try:
        file.write_bytes(body + b"\n")
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be written: {error.strerror}") from error


# For a person


def _print(report: RecallReport) -> None:
    from memplane.cli.output import colour_text, print_rows

    _print_table(_HEADER, [*_rows(report)])
    rows = [("latency", f"p50 {report.latency.p50_ms:.1f} ms, p99 {report.latency.p99_ms:.1f} ms")]
    if report.false_returns is not None:
        about = "of the questions about another conversation returned something"
        rows.append(("false returns", f"{report.false_returns:.1%} {about}"))
    if report.unanswerable_returns is not None:
        about = "of the questions that nothing answers returned something"
        rows.append(("", f"{report.unanswerable_returns:.1%} {about}"))
    if disk := report.disk:
        parts = f"database {_size(disk.database_bytes)}, index {_size(disk.index_bytes)}"
        each = f"{disk.bytes_per_episode:,.0f} bytes for each of {disk.episodes:,} episodes"
        rows.append(("disk", f"{each} ({parts})"))
    print()
    print_rows(rows)
    if report.conversations:
        print()
        print(colour_text("  by conversation, so that some can be held back:", "dim"))
        _print_table(_HEADER, [_row(name, one) for name, one in report.conversations.items()])


def _rows(report: RecallReport) -> Iterator[tuple[str, ...]]:
    for name, one in report.categories.items():
        yield _row(name, one)
    yield _row("all", report.overall)


def _row(name: str, one: RecallMetrics) -> tuple[str, ...]:
    shares = (
        *(one.hit_at_1, one.hit_at_3, one.recall_at_5, one.recall_at_10),
        *(one.recall_at_10_margin, one.recall_at_20, one.ndcg_at_10),
        *(one.session_recall_at_10, one.session_hit_at_10),
    )
    cells = ("-" if share is None else f"{share:.3f}" for share in shares)
    return name, f"{one.questions:,}", *cells


def _size(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB" if count >= 1 << 20 else f"{count / (1 << 10):.1f} KiB"


def _print_changes(
    before: RecallReport, now: RecallReport, changed: Sequence[MetricChange]
) -> None:
    from memplane.cli.output import colour_text

    print()
    print(colour_text("  compared with the baseline; latency is not judged:", "dim"))
    rows = [
        _changed_row(one.name, one.before, one.now, "worse" if one.worse else "")
        for one in changed
    ]
    was, is_now = before.latency, now.latency
    rows.append(_changed_row("p50 ms", was.p50_ms, is_now.p50_ms, ""))
    rows.append(_changed_row("p99 ms", was.p99_ms, is_now.p99_ms, ""))
    _print_table(_CHANGES_HEADER, rows)


def _changed_row(name: str, before: float, now: float, verdict: str) -> tuple[str, ...]:
    return name, f"{before:.3f}", f"{now:.3f}", f"{now - before:+.3f}", verdict


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their header: names to the left, numbers to the right."""
    from memplane.cli.output import escape_text

    shown = [
        list(header),
        *([escape_text(cell).replace("\n", " ") for cell in row] for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        name, *numbers = row
        cells = (cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))
        print("  " + "  ".join([name.ljust(widths[0]), *cells]).rstrip())
