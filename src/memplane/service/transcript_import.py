"""Past transcripts of Claude Code's into the ledger of received entries, and so into memory.

A turn has the same id each time, so an import that was stopped goes on where it was, and one that
is repeated adds nothing. A session that the proxy recorded is not imported again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from memplane.episodes.api_types import RetainRequest
from memplane.errors import EntryTooLarge, InvalidEntry, InvalidRequest
from memplane.integrations.claude_code.session_transcript import TranscriptTurn, read_turns
from memplane.kit.private_files import make_private_folder, replace_private_file
from memplane.ledger.entry import JsonReply, Turn, make_entry
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_reader import NoteReader
from memplane.service.client import Client
from memplane.service.operations.memory import retain
from memplane.settings import Settings

_PATH = "/v1/messages"
_PROVIDER = "anthropic"

ReportProgress = Callable[[int, int, "TranscriptReport"], None]
"""Is told how many transcripts of how many are done, and what became of them."""


class TranscriptReport(msgspec.Struct):
    """What became of the turns: retained now, known before, forgotten before, refused."""

    sessions: int = 0
    retained: int = 0
    known: int = 0
    forgotten: int = 0
    refused: int = 0
    recorded: int = 0
    """Sessions that the proxy recorded already."""


class _Progress:
    """Which transcripts were imported, by path, agent and size: one that grew is read again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._done = msgspec.json.decode(file.read_bytes(), type=dict[str, int])
        except (OSError, msgspec.DecodeError):
            self._done = {}  # what is known already is only compared again

    def is_done(self, agent: str, path: Path) -> bool:
        return self._done.get(f"{agent}:{path}") == path.stat().st_size

    def note(self, agent: str, path: Path, size: int) -> None:
        self._done[f"{agent}:{path}"] = size
        make_private_folder(self._file.parent)
        replace_private_file(self._file, msgspec.json.encode(self._done))


async def import_transcripts(
    settings: Settings,
    client: Client,
    paths: list[Path],
    *,
    agent: str,
    report_progress: ReportProgress | None = None,
) -> TranscriptReport:
    """Retain the turns of transcripts for an agent, transcript by transcript.

    Raises:
        MemplaneError: Memory cannot be reached. What was retained stays so.
    """
    report = TranscriptReport()
    progress = _Progress(settings.state_dir / "claude" / "imported.json")
    recorded = await asyncio.to_thread(_find_recorded_sessions, settings, agent)
    for number, path in enumerate(paths, 1):
        size = path.stat().st_size
        if path.stem in recorded:
            report.recorded += 1
        elif not progress.is_done(agent, path):
            report.sessions += 1
            for turn in await asyncio.to_thread(_read, path):
                await _retain(client, agent, turn, report)
            progress.note(agent, path, size)
        if report_progress is not None:
            report_progress(number, len(paths), report)
    return report


def _read(path: Path) -> list[TranscriptTurn]:
    with path.open("rb") as lines:
        return list(read_turns(lines))


async def _retain(
    client: Client, agent: str, turn: TranscriptTurn, report: TranscriptReport
) -> None:
    line = make_transcript_entry(agent, turn)
    try:
        receipt = await client.call(retain, RetainRequest(agent=agent, entry=msgspec.Raw(line)))
    except (InvalidRequest, InvalidEntry, EntryTooLarge):
        report.refused += 1
        return
    name = {"known": "known", "forgotten": "forgotten"}.get(receipt.status, "retained")
    setattr(report, name, getattr(report, name) + 1)


def make_transcript_entry(agent: str, turn: TranscriptTurn) -> bytes:
    """Write a turn as an entry. The same turn always becomes the same entry."""
    request = {"model": turn.model, "messages": [{"role": "user", "content": turn.prompt}]}
    text = "\n\n".join(turn.replies)
    reply = {"role": "assistant", "content": [{"type": "text", "text": text}]} if text else None
    return make_entry(
        Turn(
            ts=turn.asked_at,
            agent=agent,
            path=_PATH,
            requested_model=turn.model,
            effective_provider=_PROVIDER,
            effective_model=turn.model,
            status_code=200,
            stream=False,
            request_original=msgspec.json.encode(request),
            request_effective=b"",
            reply=JsonReply(msgspec.json.encode(reply) if reply else b""),
        )
    ).line


def _find_recorded_sessions(settings: Settings, agent: str) -> set[str]:
    """Return the sessions of which the agent's own ledger has turns."""
    folder = AgentFolder(settings.ledger.dir, agent)
    if not folder.path.is_dir():
        return set()
    return {note.session for note in NoteReader(folder).new_lines() if note.session}
