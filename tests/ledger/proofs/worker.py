"""A process that forks recorders on request: `python -m tests.ledger.proofs.worker`.

Importing is what makes a process slow to start, so it is done once. Each line on stdin is a job;
the recorder that it starts speaks on the same stdout, one line at a time:

    started PID          by this process
    ack TOKEN            after `append` has returned
    no TOKEN ERROR       after `append` has raised
    closed               after `close` has returned
    ended STATUS         by this process, once the recorder is gone
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from memplane.ledger.writer import Ledger, LedgerOptions
from tests.ledger.proofs.ledgers import a_ledger, turn_of
from tests.ledger.proofs.mutants import MUTANTS


@dataclass(frozen=True, slots=True)
class Job:
    """What a recorder does: so many writers, each appending so many turns one after the other."""

    root: str
    prefix: str
    agents: tuple[str, ...] = ("analyst",)
    writers: int = 1
    turns: int = 20
    max_bytes: int = 1500
    waits: bool = False
    largest_file: int = 0
    limited: tuple[int, ...] = ()
    mutant: str = ""
    user: int = 0

    def agent_of(self, writer: int) -> str:
        return self.agents[writer % len(self.agents)]

    def token(self, writer: int, number: int) -> str:
        return f"{self.prefix}-{writer}-{number}"

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: str) -> Job:
        body = json.loads(line)
        body["agents"], body["limited"] = tuple(body["agents"]), tuple(body["limited"])
        return cls(**body)


def say(*words: object) -> None:
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


async def _append(ledger: Ledger, job: Job, writer: int) -> None:
    agent = job.agent_of(writer)
    for number in range(job.turns):
        token = job.token(writer, number)
        if job.largest_file:
            _limit_files(job.largest_file if number in job.limited else resource.RLIM_INFINITY)
        try:
            await ledger.append(turn_of(token, agent))
        except Exception as error:  # noqa: BLE001 - the parent judges it
            say("no", token, type(error).__name__, repr(str(error)))
        else:
            say("ack", token)


def _limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def _record(job: Job) -> None:
    ledger = a_ledger(Path(job.root), LedgerOptions(max_bytes=job.max_bytes))
    await asyncio.gather(*(_append(ledger, job, writer) for writer in range(job.writers)))
    await ledger.close()
    say("closed")


def _recorder(job: Job) -> None:
    try:
        if job.mutant:
            MUTANTS[job.mutant]()
        if job.user:
            os.setuid(job.user)
        if job.waits:
            say("ready")
            signal.sigwait([signal.SIGUSR1])
        asyncio.run(_record(job))
    except BaseException:  # noqa: BLE001 - it must never return into the parent's loop
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    logging.disable()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for line in sys.stdin:
        job = Job.decode(line)
        pid = os.fork()
        if pid == 0:
            _recorder(job)
        say("started", pid)
        say("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()
