"""What commands about operational memory share: opening it, and what may be kept of a session."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from memplane.claude_code.carrying import Carrier
    from memplane.claude_code.listening import Listening
    from memplane.claude_code.transcript import Log
    from memplane.observations.contract import OperationalMemory
    from memplane.settings import Settings


@asynccontextmanager
async def open_memories(settings: Settings) -> AsyncGenerator[OperationalMemory]:
    """Open operational memory, here or where the home's owner is."""
    from memplane.assemble.plane import open_plane

    async with open_plane(settings) as plane:
        yield await plane.memories()


def scrubbing(settings: Settings) -> Callable[[bytes], bytes]:
    """Return what takes secrets out of output, if that is wanted.

    Raises:
        HomeError: The home cannot be used.
    """
    if settings.ledger.verbatim:
        return bytes
    from memplane.assemble.redactors import open_redactor

    redactor = open_redactor(settings)
    return lambda raw: redactor.json(raw).value


def say_it_ourselves(settings: Settings) -> None:
    """Keep the log from saying what was not remembered: that is in the summary."""
    import logging

    if settings.log_level == "warning":
        logging.getLogger("memplane.observations").setLevel(logging.ERROR)


def new_log_path(settings: Settings) -> Path:
    """Make up where a session's output is kept."""
    from memplane.clock import system_clock
    from memplane.ids import new_id

    return settings.home / "sessions" / f"{system_clock():%Y%m%dT%H%M%SZ}-{new_id()}.log"


def operator() -> str:
    """Return who is at work here, for the record."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"  # This user has no name.


def warn(sentence: str) -> None:
    """Tell whoever runs an agent something, beside the agent's own output."""
    import sys

    print(f"memplane: {sentence}", file=sys.stderr)


def tell(carrier: Carrier, listening: Listening, log: Log | None) -> None:
    """Say what was learned from a session, and what was not."""
    summary = carrier.learned.summary()
    if summary:
        rejected = ": memplane memories rejects" if carrier.learned.rejects else ""
        warn(f"{summary}{rejected}")
    if listening.hearing.misses_document:
        warn("there was no structured output, so markers were read instead")
    for refusal in carrier.refused:
        warn(f"something could not be learned: {refusal}")
    if log is not None and log.trouble:
        warn(f"the session's log {log.path} ends early: {log.trouble}")
    if carrier.trouble is not None:
        warn(f"memory did not take all that was said: {carrier.trouble}")
        if carrier.left and carrier.wanted.log:
            warn(f"learn it later: {_learning_later(carrier)}")


def _learning_later(carrier: Carrier) -> str:
    import shlex

    wanted = carrier.wanted
    words = ["memplane", "memories", "learn", wanted.log, "--agent", wanted.agent]
    words += ["--session", str(carrier.session)] if carrier.session is not None else []
    words += ["--tier", str(wanted.tier)] if wanted.tier != 1 else []
    return shlex.join(words)
