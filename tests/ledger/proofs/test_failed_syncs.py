"""P3: after a failed sync the turns go to a new segment, once, whatever comes back."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memplane.errors import NotRecorded
from memplane.kit.durable_files import sync_data
from memplane.ledger import agent_writer
from memplane.ledger.folder import AgentFolder
from memplane.ledger.writer import LedgerOptions
from tests.ledger.proofs.ledgers import (
    AGENT,
    a_ledger,
    line_of,
    problems_of,
    quarantined,
    record_tokens,
    tokens_in,
    turn_of,
    verdicts,
)

TURNS = [f"t{number}" for number in range(8)]
DOUBTFUL = line_of("t2") + b"\n"
ONE_SEGMENT = LedgerOptions()
SHORT_SEGMENTS = LedgerOptions(max_bytes=3 * len(DOUBTFUL))


@contextmanager
def failing_syncs(*numbers: int) -> Iterator[list[int]]:
    """Let syncs of open segments fail by their numbers; yields the inodes that are synced."""
    synced: list[int] = []

    def sync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        if len(synced) in numbers:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync_data(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent_writer, "sync_data", sync)
        yield synced


async def answers(root: Path, options: LedgerOptions) -> tuple[list[str], list[str], str]:
    """Append the turns; returns which were acknowledged, which refused, and what is degraded."""
    ledger = a_ledger(root, options)
    acked, refused = list[str](), list[str]()
    for token in TURNS:
        try:
            await ledger.append(turn_of(token))
            acked.append(token)
        except NotRecorded:
            refused.append(token)
    await ledger.close()
    return acked, refused, ledger.figures.degraded


def problems(root: Path, acked: Collection[str] = TURNS) -> list[str]:
    return [*problems_of(root, acked=acked, attempted=[*TURNS, "after"]), *verdicts(root)]


def sealed(root: Path, number: int = 1) -> Path:
    return AgentFolder(root, AGENT).sealed_path(number)


def flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def bring_back(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    with path.open("ab") as file:
        file.write(data)


async def test_the_turns_of_a_failed_sync_go_to_a_new_segment(memory: Path) -> None:
    with failing_syncs(3) as synced:
        acked, refused, degraded = await answers(memory, ONE_SEGMENT)
    assert (acked, refused) == (TURNS, [])
    assert "Input/output error" in degraded
    assert synced.count(synced[2]) == 3, "the file was synced again"
    assert sealed(memory).read_bytes().count(b"\n") == 2
    assert problems(memory) == []


@pytest.mark.parametrize("options", [ONE_SEGMENT, SHORT_SEGMENTS], ids=["last", "not-last"])
async def test_a_doubtful_end_that_comes_back_is_moved_away(
    options: LedgerOptions, memory: Path
) -> None:
    """The cut was never synced, so a power loss may undo it, however many segments follow."""
    with failing_syncs(3):
        await answers(memory, options)
    bring_back(sealed(memory), DOUBTFUL)
    ledger = a_ledger(memory, options)
    await ledger.append(turn_of("after"))
    await ledger.close()
    assert problems(memory) == []
    assert DOUBTFUL in quarantined(memory)


async def test_a_doubtful_end_is_not_read_twice_while_it_cannot_be_cut(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "ftruncate", cannot)
    with failing_syncs(3):
        acked, _, _ = await answers(memory, ONE_SEGMENT)
    assert problems_of(memory, acked=acked, attempted=TURNS) == []


async def test_a_ledger_whose_doubtful_segment_is_gone_still_records(memory: Path) -> None:
    with failing_syncs(3):
        await answers(memory, ONE_SEGMENT)
    sealed(memory).unlink()
    ledger = a_ledger(memory)
    await ledger.append(turn_of("after"))
    await ledger.close()
    assert tokens_in(memory) == [*TURNS[2:], "after"]
    assert verdicts(memory)


async def test_damage_beside_a_doubtful_segment_hides_and_cuts_no_entry(memory: Path) -> None:
    """Whatever says where a doubtful segment ends may be damaged as well."""
    with failing_syncs(3):
        await answers(memory / "whole", ONE_SEGMENT)
    segments = memory / "whole" / AGENT / "segments"
    beside = [path for path in segments.iterdir() if path.suffix != ".jsonl"]
    lost: dict[str, list[str]] = {}
    flips = [(one, bit) for one in beside for bit in range(8 * one.stat().st_size)]
    for path, bit in flips:
        shutil.rmtree(memory / "damaged", ignore_errors=True)
        shutil.copytree(memory / "whole", memory / "damaged")
        damaged = memory / "damaged" / AGENT / "segments" / path.name
        damaged.write_bytes(flip(path.read_bytes(), bit))
        ledger = a_ledger(memory / "damaged")
        await ledger.append(turn_of("after"))
        await ledger.close()
        if missing := {*TURNS, "after"} - {*tokens_in(memory / "damaged")}:
            lost[f"bit {bit} of {path.name}"] = sorted(missing)
    assert lost == {}


async def test_a_disk_that_fails_twice_refuses_the_turn_and_goes_on(memory: Path) -> None:
    with failing_syncs(3, 4):
        acked, refused, _ = await answers(memory, ONE_SEGMENT)
    assert refused == ["t2"]
    assert problems(memory, acked) == []


@pytest.mark.parametrize("number", [1, 3, 4])
async def test_a_batch_over_several_segments_survives_a_failed_sync(
    number: int, memory: Path
) -> None:
    ledger = a_ledger(memory, SHORT_SEGMENTS)
    with failing_syncs(number):
        await asyncio.gather(*(ledger.append(turn_of(token)) for token in TURNS))
        await ledger.close()
    assert sorted(tokens_in(memory)) == TURNS
    assert problems(memory) == []


async def test_a_failed_sync_of_one_agent_leaves_the_others_alone(memory: Path) -> None:
    agents = [AGENT, "builder", "critic"]
    ledger = a_ledger(memory)
    with failing_syncs(2):
        for token in TURNS:
            await asyncio.gather(*(ledger.append(turn_of(token, agent)) for agent in agents))
        await ledger.close()
    sealed_segments = [len(AgentFolder(memory, agent).list_sealed()) for agent in agents]
    assert sorted(sealed_segments) == [0, 0, 1]
    for agent in agents:
        assert problems_of(memory, agent, acked=TURNS, attempted=TURNS) == []
        assert verdicts(memory, agent) == []


def test_turns_that_are_in_two_segments_are_noticed(memory: Path) -> None:
    """The control: the end comes back and nothing says that it is doubtful."""
    record_tokens(memory, *TURNS, options=SHORT_SEGMENTS)
    bring_back(sealed(memory), line_of("t3") + b"\n")
    assert "t3 is there 2 times" in problems(memory)
