"""What commands about operational memory share: opening it, and what may be kept of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memplane.integrations.claude_code.session_listener import SessionListener
    from memplane.integrations.claude_code.transcript import TranscriptFile
    from memplane.service.client import Client
    from memplane.service.session_ingest import SessionIngest
    from memplane.settings import Settings


def open_client(settings: Settings) -> Client:
    """Return a client for whoever is at work here: of this process, or of the home's owner."""
    from memplane.service.client import Client

    return Client(settings, operator=get_operator_name())


def make_scrubber(settings: Settings) -> Callable[[bytes], bytes]:
    """Return what takes secrets out of output, if that is wanted.

    Raises:
        HomeError: The home cannot be used.
    """
    if settings.ledger.verbatim:
        return bytes
    from memplane.service.composition.redactors import open_redactor

    redactor = open_redactor(settings)
    return lambda raw: redactor.json(raw).value


def silence_rejection_log(settings: Settings) -> None:
    """Keep the log from saying what was not remembered: that is in the summary."""
    import logging

    if settings.log_level == "warning":
        logging.getLogger("memplane.observations").setLevel(logging.ERROR)


def make_log_path(settings: Settings) -> Path:
    """Make up where a session's output is kept."""
    from memplane.kit.clock import system_clock
    from memplane.kit.ids import new_id

    return settings.home / "sessions" / f"{system_clock():%Y%m%dT%H%M%SZ}-{new_id()}.log"


def get_operator_name() -> str:
    """Return who is at work here, for the record."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"  # This user has no name.


def print_warning(sentence: str) -> None:
    """Tell whoever runs an agent something, beside the agent's own output."""
    import sys

    print(f"memplane: {sentence}", file=sys.stderr)


def print_session_summary(
    carrier: SessionIngest, listening: SessionListener, log: TranscriptFile | None
) -> None:
    """Say what was learned from a session, and what was not."""
    summary = carrier.learned.summary()
    if summary:
        rejected = ": memplane memories rejects" if carrier.learned.rejects else ""
        print_warning(f"{summary}{rejected}")
    if listening.hearing.misses_document:
        print_warning("there was no structured output, so markers were read instead")
    for refusal in carrier.refused:
        print_warning(f"something could not be learned: {refusal}")
    if log is not None and log.trouble:
        print_warning(f"the session's log {log.path} ends early: {log.trouble}")
    if carrier.trouble is not None:
        print_warning(f"memory did not take all that was said: {carrier.trouble}")
        if carrier.left and carrier.wanted.log:
            print_warning(f"learn it later: {_learning_later(carrier)}")


def _learning_later(carrier: SessionIngest) -> str:
    import shlex

    wanted = carrier.wanted
    words = ["memplane", "memories", "learn", wanted.log, "--agent", wanted.agent]
    words += ["--session", str(carrier.session)] if carrier.session is not None else []
    words += ["--tier", str(wanted.tier)] if wanted.tier != 1 else []
    return shlex.join(words)
