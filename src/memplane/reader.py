"""A process that answers questions: `python -m memplane.reader`, with a line as standard input.

Memory starts it, see `memplane.memory.readers`. It reads the database and the text index and
writes nothing; when the line is closed it leaves.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from memplane.errors import IndexUnusable, RecordsError
from memplane.memory.asking import Asked, Frames, Opening, Outcome, Replied, asked_of, framed
from memplane.memory.blocks import Shares
from memplane.memory.contract import Recalled
from memplane.memory.indexing import IndexView
from memplane.memory.meaning import MeantQuestion
from memplane.memory.recalling import Now, recalled
from memplane.memory.tails import Tails
from memplane.records.sqlite import Reading
from memplane.records.store import Connection

_AT_ONCE: Final = 1 << 16


def main() -> None:
    """Answer until the line is closed."""
    # Whoever began it closes the line, in its own time; an interrupt is meant for that one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _let_others_go_first()
    opening = msgspec.json.decode(sys.argv[1], type=Opening)
    seen = _Seen(IndexView(Path(opening.indexes)), Tails(), opening.shares)
    with socket.socket(fileno=0) as line, Reading(Path(opening.database)) as reading:
        reading.read(seen.view.current)
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        # A line that is closed while an answer is made says so here.
        try:
            line.sendall(framed(Replied(0, Outcome.ANSWERED)))
            frames = Frames()
            while data := line.recv(_AT_ONCE):
                for frame in frames.feed(data):
                    line.sendall(_reply(reading, seen, asked_of(frame)))
        except (BrokenPipeError, ConnectionResetError):
            return


def _let_others_go_first() -> None:
    """Take the processor from nobody: who asks goes on with the turn, and is done in a moment."""
    if sys.platform == "linux":
        with suppress(OSError):  # where it is not allowed, it is only a little slower
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is kept from one question to the next."""

    view: IndexView
    tails: Tails
    shares: Shares


def _reply(reading: Reading, seen: _Seen, asked: Asked) -> bytes:
    try:
        found = reading.read(partial(_answered, seen=seen, asked=asked))
        return framed(Replied(asked.number, Outcome.ANSWERED, found))
    except IndexUnusable as error:
        return framed(Replied(asked.number, Outcome.INDEX_UNUSABLE, why=str(error)))
    except RecordsError as error:
        return framed(Replied(asked.number, Outcome.FAILED, why=str(error)))


def _answered(rows: Connection, seen: _Seen, asked: Asked) -> Recalled:
    meant = MeantQuestion(asked.model, asked.vector) if asked.model else None
    return recalled(
        rows,
        seen.view.current(rows),
        asked.ask,
        asked.question,
        shares=seen.shares,
        now=Now(asked.at, meant),
        tails=seen.tails,
    )


if __name__ == "__main__":
    main()
