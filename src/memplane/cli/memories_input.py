"""Files that become memories: an agent's output, an export, a database of Claude Ops."""

from __future__ import annotations

import argparse
import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from memplane.observations.api_types import ImportReceipt
    from memplane.observations.requests import ImportedLine, SessionWanted
    from memplane.service.session_ingest import SessionIngest
    from memplane.settings import Settings

_STDIN: Final = "-"
_CHUNK_BYTES: Final = 1 << 16
_BATCH_MEMORIES: Final = 500
"""The memories that are taken in together."""


# An agent's output


async def learn_from_output(arguments: argparse.Namespace, settings: Settings) -> int:
    """Learn from output while it comes; what was learned stays, however this ends."""
    from contextlib import ExitStack
    from functools import partial

    from memplane.cli import EXIT_OK, EXIT_UNAVAILABLE
    from memplane.cli.memories_session import (
        make_log_path,
        make_scrubber,
        open_client,
        print_session_summary,
        silence_rejection_log,
    )
    from memplane.integrations.claude_code.output_extractor import OutputExtractor
    from memplane.integrations.claude_code.session_listener import SessionListener
    from memplane.integrations.claude_code.transcript import (
        TranscriptReader,
        TranscriptWriter,
        create_transcript,
        is_transcript,
    )
    from memplane.kit.clock import system_clock
    from memplane.service.session_ingest import SessionIngest, ingest_session

    silence_rejection_log(settings)
    scrub = make_scrubber(settings)
    with ExitStack() as stack:
        file = stack.enter_context(_opened(arguments.file))
        first = await _run_in_thread(lambda: file.read(_CHUNK_BYTES))
        log = (
            None
            if is_transcript(first)
            else stack.enter_context(create_transcript(make_log_path(settings)))
        )
        lines = TranscriptWriter(scrub, log.write) if log else TranscriptReader(scrub)
        wanted = _session(arguments, settings, str(log.path) if log else _place(arguments.file))
        number = await _number(arguments, settings, wanted.agent)
        carrier = SessionIngest(partial(open_client, settings), wanted, number)
        listening = SessionListener(lines, OutputExtractor(arguments.mode), system_clock)
        await ingest_session(partial(_read, file, first), listening, carrier)
    print_session_summary(carrier, listening, log)
    if arguments.json:
        _print_learned(carrier)
    elif not carrier.learned.summary() and carrier.trouble is None:
        print("nothing was learned")
    return EXIT_OK if carrier.trouble is None else EXIT_UNAVAILABLE


def _opened(name: str) -> io.FileIO:
    from memplane.errors import InvalidRequest

    try:
        return io.FileIO(0, closefd=False) if name == _STDIN else io.FileIO(name)
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from error


def _place(name: str) -> str:
    from pathlib import Path

    return "" if name == _STDIN else str(Path(name).resolve())


def _session(arguments: argparse.Namespace, settings: Settings, log: str) -> SessionWanted:
    from memplane.cli.agent_argument import resolve_agent
    from memplane.observations.requests import SessionWanted

    return SessionWanted(
        agent=resolve_agent(arguments, settings),
        tier=arguments.tier,
        services=tuple(arguments.service),
        cli_session="" if arguments.session.isdecimal() else arguments.session,
        trigger="learn",
        log=log,
        tell=False,
    )


async def _number(arguments: argparse.Namespace, settings: Settings, agent: str) -> int | None:
    """Return the number of the session that is gone on with; None when a new one begins.

    Raises:
        UnknownMemory: There is no session with that number.
    """
    from memplane.cli.memories_session import open_client
    from memplane.service.operations.sessions import get_session

    if not arguments.session.isdecimal():
        return None
    async with open_client(settings) as client:
        return (await client.call(get_session, agent, int(arguments.session))).id


async def _read(file: io.FileIO, first: bytes, heard: Callable[[bytes], None]) -> None:
    data = first
    while data:
        heard(data)
        data = await _run_in_thread(lambda: file.read(_CHUNK_BYTES))


def _run_in_thread(work: Callable[[], bytes]) -> asyncio.Future[bytes]:
    """Do something that may take for ever, in a thread that keeps nobody from leaving."""
    import asyncio
    import threading
    from contextlib import suppress

    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def finish(result: bytes, error: OSError | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def attempt() -> None:
        try:
            result, error = work(), None
        except OSError as raised:
            result, error = b"", raised
        with suppress(RuntimeError):  # everybody has left
            loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=attempt, daemon=True).start()
    return done


def _print_learned(carrier: SessionIngest) -> None:
    from memplane.cli.output import print_json

    learned = carrier.learned
    print_json(
        {
            "session": carrier.session,
            "asserted": sorted(learned.asserted),
            "reinforced": sorted(learned.reinforced),
            "contradicted": sorted(learned.contradicted),
            "echoed": sorted(learned.echoed),
            "quarantined": sorted(learned.quarantined),
            "retracted": learned.retracted,
            "rejects": learned.rejects,
            "left": carrier.left,
        }
    )


# Memories from elsewhere


async def import_memories(arguments: argparse.Namespace, settings: Settings) -> int:
    """Take memories in, and print what became of them."""
    import asyncio

    from memplane.cli import EXIT_OK
    from memplane.cli.agent_argument import resolve_agent
    from memplane.cli.memories_output import print_import
    from memplane.cli.memories_session import open_client
    from memplane.cli.output import print_json
    from memplane.observations.requests import ImportAsked
    from memplane.service.operations.observations import import_memories

    agent = resolve_agent(arguments, settings)
    source, found = await asyncio.to_thread(_memories_in, arguments.file)
    receipts: list[ImportReceipt] = []
    async with open_client(settings) as client:
        for at in range(0, len(found), _BATCH_MEMORIES):
            asked = ImportAsked(memories=found[at : at + _BATCH_MEMORIES], source=source)
            receipts.append(await client.call(import_memories, agent, asked))
    receipt = _sum_receipts(receipts)
    if arguments.json:
        print_json(receipt)
    else:
        print_import(receipt)
    return EXIT_OK


def _memories_in(name: str) -> tuple[str, tuple[ImportedLine, ...]]:
    """Read a file; returns what it is, and its memories."""
    from pathlib import Path

    from memplane.errors import InvalidRequest
    from memplane.integrations.claude_code.claude_ops_import import is_database, read_memories
    from memplane.observations.export_format import parse_jsonl

    try:
        with _opened(name) as raw, io.BufferedReader(raw) as file:
            if not is_database(file.peek()):
                return "export", tuple(parse_jsonl(file))
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from error
    if name == _STDIN:
        raise InvalidRequest("a database cannot be read from standard input: name its file")
    return "claude-ops", read_memories(Path(name))


def _sum_receipts(receipts: list[ImportReceipt]) -> ImportReceipt:
    from memplane.observations.api_types import ImportReceipt

    return ImportReceipt(
        added=sum(one.added for one in receipts),
        known=sum(one.known for one in receipts),
        quarantined=sum(one.quarantined for one in receipts),
        rejects=tuple(reject for one in receipts for reject in one.rejects),
    )
