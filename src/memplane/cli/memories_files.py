"""Files that become memories: an agent's output, an export, a database of Claude Ops."""

from __future__ import annotations

import argparse
import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from memplane.claude_code.carrying import Carrier
    from memplane.observations.contract import ImportedLine, ImportReceipt, SessionWanted
    from memplane.settings import Settings

_STDIN: Final = "-"
_PIECE: Final = 1 << 16
_AT_ONCE: Final = 500
"""The memories that are taken in together."""


# An agent's output


async def learn(arguments: argparse.Namespace, settings: Settings) -> int:
    """Learn from output while it comes; what was learned stays, however this ends."""
    from contextlib import ExitStack
    from functools import partial

    from memplane.claude_code.carrying import Carrier
    from memplane.claude_code.learning import Hearing
    from memplane.claude_code.listening import Listening, learn_from
    from memplane.claude_code.transcript import Reading, Transcript, is_log, open_log
    from memplane.cli import OK, UNAVAILABLE
    from memplane.cli.opening import (
        new_log_path,
        open_memories,
        say_it_ourselves,
        scrubbing,
        tell,
    )
    from memplane.clock import system_clock

    say_it_ourselves(settings)
    scrub = scrubbing(settings)
    with ExitStack() as stack:
        file = stack.enter_context(_opened(arguments.file))
        first = await _off_the_loop(lambda: file.read(_PIECE))
        log = None if is_log(first) else stack.enter_context(open_log(new_log_path(settings)))
        lines = Transcript(scrub, log.write) if log else Reading(scrub)
        wanted = _session(arguments, settings, str(log.path) if log else _place(arguments.file))
        number = await _number(arguments, settings, wanted.agent)
        carrier = Carrier(partial(open_memories, settings), wanted, number)
        listening = Listening(lines, Hearing(arguments.mode), system_clock)
        await learn_from(partial(_read, file, first), listening, carrier)
    tell(carrier, listening, log)
    if arguments.json:
        _print_learned(carrier)
    elif not carrier.learned.summary() and carrier.trouble is None:
        print("nothing was learned")
    return OK if carrier.trouble is None else UNAVAILABLE


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
    from memplane.cli.agents import agent_of
    from memplane.observations.contract import SessionWanted

    return SessionWanted(
        agent=agent_of(arguments, settings),
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
    from memplane.cli.opening import open_memories

    if not arguments.session.isdecimal():
        return None
    async with open_memories(settings) as memories:
        return (await memories.session(agent, int(arguments.session))).id


async def _read(file: io.FileIO, first: bytes, heard: Callable[[bytes], None]) -> None:
    data = first
    while data:
        heard(data)
        data = await _off_the_loop(lambda: file.read(_PIECE))


def _off_the_loop(work: Callable[[], bytes]) -> asyncio.Future[bytes]:
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


def _print_learned(carrier: Carrier) -> None:
    from memplane.cli.show import print_json

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


async def take_in(arguments: argparse.Namespace, settings: Settings) -> int:
    """Take memories in, and print what became of them."""
    import asyncio

    from memplane.cli import OK
    from memplane.cli.agents import agent_of
    from memplane.cli.memories_show import print_imported
    from memplane.cli.opening import open_memories, operator
    from memplane.cli.show import print_json
    from memplane.observations.contract import ImportAsked

    agent = agent_of(arguments, settings)
    source, found = await asyncio.to_thread(_memories_in, arguments.file)
    receipts: list[ImportReceipt] = []
    async with open_memories(settings) as memories:
        for at in range(0, len(found), _AT_ONCE):
            asked = ImportAsked(memories=found[at : at + _AT_ONCE], source=source)
            receipts.append(await memories.take_in(agent, asked, by=operator()))
    receipt = _summed(receipts)
    if arguments.json:
        print_json(receipt)
    else:
        print_imported(receipt)
    return OK


def _memories_in(name: str) -> tuple[str, tuple[ImportedLine, ...]]:
    """Read a file; returns what it is, and its memories."""
    from pathlib import Path

    from memplane.claude_code.claude_ops import is_database, memories_in
    from memplane.errors import InvalidRequest
    from memplane.observations.exporting import read_jsonl

    try:
        with _opened(name) as raw, io.BufferedReader(raw) as file:
            if not is_database(file.peek()):
                return "export", tuple(read_jsonl(file))
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from error
    if name == _STDIN:
        raise InvalidRequest("a database cannot be read from standard input: name its file")
    return "claude-ops", memories_in(Path(name))


def _summed(receipts: list[ImportReceipt]) -> ImportReceipt:
    from memplane.observations.contract import ImportReceipt

    return ImportReceipt(
        added=sum(one.added for one in receipts),
        known=sum(one.known for one in receipts),
        quarantined=sum(one.quarantined for one in receipts),
        rejects=tuple(reject for one in receipts for reject in one.rejects),
    )
