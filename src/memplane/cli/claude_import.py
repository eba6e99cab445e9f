"""`memplane claude import`: past sessions of Claude Code into memory."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memplane.service.transcript_import import TranscriptReport
    from memplane.settings import Settings


def configure_import(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the action; `add_parser` is that of the command's sub-parsers."""
    action = add_parser("import", help="remember past sessions; goes on where it was stopped")
    action.add_argument("--agent", help="whose memory; by default MEMPLANE_AGENT")
    action.add_argument(
        "--project", action="store_true", help="only the sessions of the project that we are in"
    )
    action.add_argument("--json", action="store_true", help="print JSON")


async def run_import(arguments: argparse.Namespace, settings: Settings) -> int:
    """Import, and say what became of it."""
    from memplane.auth.agent_id import DEFAULT_AGENT
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.agent_argument import resolve_agent
    from memplane.cli.output import print_json
    from memplane.service.client import Client
    from memplane.service.session_digests import list_transcripts
    from memplane.service.transcript_import import import_transcripts

    is_named = bool(arguments.agent or settings.agent)
    agent = resolve_agent(arguments, settings) if is_named else DEFAULT_AGENT
    paths = list_transcripts(find_transcript_folder()) if arguments.project else find_transcripts()
    if not paths:
        print("memplane claude: there are no transcripts to import", file=sys.stderr)
        return EXIT_FAILED
    async with Client(settings) as client:
        report = await import_transcripts(
            settings, client, paths, agent=agent, report_progress=_print_progress
        )
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if arguments.json:
        print_json(report)
    else:
        print(_summarise(report, agent))
    return EXIT_OK


def _print_progress(done: int, total: int, report: TranscriptReport) -> None:
    if sys.stderr.isatty():
        text = f"{done}/{total} sessions, {report.retained} turns"
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _summarise(report: TranscriptReport, agent: str) -> str:
    parts = [f"{report.retained} turns of {report.sessions} sessions imported for {agent}"]
    counts = (
        (report.known, "known before"),
        (report.forgotten, "forgotten before, and they stay so"),
        (report.refused, "refused: they are too large or cannot be read"),
        (report.recorded, "sessions left out, since the proxy recorded them"),
    )
    return "; ".join([*parts, *(f"{count} {what}" for count, what in counts if count)])


def find_transcripts() -> list[Path]:
    """List the transcripts of all projects, the oldest first."""
    from memplane.service.session_digests import list_transcripts

    projects = find_transcript_folder().parent
    found = [path for folder in projects.glob("*/") for path in list_transcripts(folder)]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def find_transcript_folder() -> Path:
    """Return where Claude Code keeps the transcripts of the folder that we are in."""
    import os
    from pathlib import Path

    from memplane.integrations.claude_code.project_slug import make_folder_pattern
    from memplane.settings import get_environment

    environ = get_environment()
    user = Path(environ.get("HOME") or "~").expanduser()
    projects = Path(environ.get("CLAUDE_CONFIG_DIR") or user / ".claude") / "projects"
    pattern = make_folder_pattern(os.path.realpath(Path.cwd()))
    return next(iter(sorted(projects.glob(pattern))), projects / pattern)
