"""A process that answers recalls; a socket is its standard input.

Memory starts it as `python -m memplane.episodes.recall_worker`, see
`memplane.episodes.recall_worker_pool`. It reads the database and the text index and writes
nothing; when its input is closed it ends.
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

from memplane.database.interface import Connection
from memplane.database.sqlite import ReadOnlyDatabase
from memplane.episodes.api_types import RecallResponse
from memplane.episodes.episode_embeddings import EmbeddedQuery
from memplane.episodes.episode_index import ReadOnlyIndex
from memplane.episodes.pending_turns import PendingTurns
from memplane.episodes.provenance import TrustPolicy
from memplane.episodes.response_builder import ResponseBudget
from memplane.episodes.search import QueryContext, recall_episodes
from memplane.episodes.vector_cache import VectorCache
from memplane.episodes.worker_protocol import (
    FrameDecoder,
    WorkerConfig,
    WorkerOutcome,
    WorkerReply,
    WorkerRequest,
    decode_request,
    encode_frame,
)
from memplane.errors import IndexUnusable, RecordsError

_RECEIVE_BYTES: Final = 1 << 16


def main() -> None:
    """Answer until the line is closed."""
    # Whoever began it closes the line, in its own time; an interrupt is meant for that one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _let_others_go_first()
    opening = msgspec.json.decode(sys.argv[1], type=WorkerConfig)
    seen = _WorkerState(
        ReadOnlyIndex(Path(opening.indexes)),
        PendingTurns(),
        VectorCache(),
        opening.shares,
        opening.trust,
    )
    with socket.socket(fileno=0) as line, ReadOnlyDatabase(Path(opening.database)) as reading:
        reading.read(seen.view.current)
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        # A line that is closed while an answer is made says so here.
        try:
            line.sendall(encode_frame(WorkerReply(0, WorkerOutcome.ANSWERED)))
            frames = FrameDecoder()
            while data := line.recv(_RECEIVE_BYTES):
                for frame in frames.feed(data):
                    line.sendall(_build_reply(reading, seen, decode_request(frame)))
        except (BrokenPipeError, ConnectionResetError):
            return


def _let_others_go_first() -> None:
    """Take the processor from nobody: who asks goes on with the turn, and is done in a moment."""
    if sys.platform == "linux":
        with suppress(OSError):  # where it is not allowed, it is only a little slower
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@dataclass(frozen=True, slots=True)
class _WorkerState:
    """What is kept from one question to the next."""

    view: ReadOnlyIndex
    tails: PendingTurns
    vectors: VectorCache
    shares: ResponseBudget
    trust: TrustPolicy


def _build_reply(reading: ReadOnlyDatabase, seen: _WorkerState, asked: WorkerRequest) -> bytes:
    try:
        found = reading.read(partial(_recall, seen=seen, asked=asked))
        return encode_frame(WorkerReply(asked.number, WorkerOutcome.ANSWERED, found))
    except IndexUnusable as error:
        return encode_frame(
            WorkerReply(asked.number, WorkerOutcome.INDEX_UNUSABLE, why=str(error))
        )
    except RecordsError as error:
        return encode_frame(WorkerReply(asked.number, WorkerOutcome.FAILED, why=str(error)))


def _recall(rows: Connection, seen: _WorkerState, asked: WorkerRequest) -> RecallResponse:
    meant = EmbeddedQuery(asked.model, asked.vector, seen.vectors) if asked.model else None
    return recall_episodes(
        rows,
        seen.view.current(rows),
        asked.ask,
        asked.question,
        shares=seen.shares,
        now=QueryContext(asked.at, meant),
        tails=seen.tails,
        trust=seen.trust,
    )


if __name__ == "__main__":
    main()
