"""P2: any damage is found, stays known, is never cut silently, and stops nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path

import pytest

from memplane.ledger import agent_writer
from memplane.ledger.anchors import read_anchors
from memplane.ledger.chain import ChainEnd
from memplane.ledger.chain_file import ChainFile
from memplane.ledger.chain_verification import verify_ledger
from memplane.ledger.entry_head import read_entry_head
from memplane.ledger.folder import OPEN_SEGMENT_NAME, STATE_FOLDER_NAME, AgentFolder
from memplane.ledger.recovery import RecoveryReport, recover
from memplane.ledger.segments import FileModes
from tests.ledger.proofs.damage import (
    ENTRIES,
    HISTORY,
    LAST_SEALED,
    RECORDS,
    SEALED,
    Damage,
    Image,
    around_every_line,
    at_random,
    deleted,
    doubled,
    flipped,
    last_entry_dropped,
    problems_with,
    swapped,
    truncated,
    whole_ledger,
    zeroed,
)
from tests.ledger.proofs.ledgers import (
    AGENT,
    fast_folder,
    quarantined,
    record_tokens,
    tokens_in,
    verdicts,
    write_image,
)

# The machine may be busy; a hang shows all the same.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with fast_folder() as scratch:
        yield whole_ledger(scratch)


def all_problems(image: Image, damages: Collection[Damage], root: Path) -> dict[str, list[str]]:
    found = {damage.name: problems_with(image, damage, root) for damage in damages}
    return {name: told for name, told in found.items() if told}


def test_the_ledger_is_whole_before_it_is_damaged(image: Image, memory: Path) -> None:
    write_image(image, memory)
    assert len(tokens_in(memory)) == ENTRIES
    assert verdicts(memory) == []


@pytest.mark.parametrize("runs", [350, pytest.param(3000, marks=pytest.mark.long)])
def test_damage_of_any_kind_is_found_and_kept(
    runs: int, rng: random.Random, image: Image, memory: Path
) -> None:
    damages = [at_random(image, rng) for _ in range(runs)]
    assert all_problems(image, damages, memory / "damaged") == {}


@pytest.mark.parametrize(
    "runs", [250, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)
def test_a_cut_around_the_end_of_any_line_is_found_and_kept(
    runs: int, rng: random.Random, image: Image, memory: Path
) -> None:
    cuts = [*chain.from_iterable(around_every_line(image, name) for name in (HISTORY, RECORDS))]
    chosen = rng.sample(cuts, min(runs, len(cuts)))
    assert all_problems(image, chosen, memory / "damaged") == {}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_cut_at_any_byte_is_found(image: Image, memory: Path) -> None:
    write_image(image, memory)
    folder, anchor = AgentFolder(memory, AGENT), read_anchors(memory)[AGENT]
    path = folder.path / OPEN_SEGMENT_NAME
    for size in range(len(image[HISTORY]) - 1, -1, -1):
        with path.open("r+b") as file:
            file.truncate(size)
        assert verify_ledger(folder, anchor).findings, f"cut at {size}"


def capital_hash(image: Image) -> Damage:
    """One bit turns a letter of a record's salt into a capital, which reads as the same bytes."""
    salt = image[RECORDS].index(b'"salt":"') + len(b'"salt":"')
    at = next(at for at in range(salt, salt + 32) if chr(image[RECORDS][at]).isalpha())
    return flipped(image, RECORDS, at, 5)


PARTICULAR: dict[str, Callable[[Image], Damage]] = {
    "chain": lambda image: deleted(RECORDS),
    "segment": lambda image: deleted(SEALED),
    "last-segment": lambda image: deleted(LAST_SEALED),
    "open-segment": lambda image: deleted(HISTORY),
    "empty": lambda image: truncated(image, HISTORY, 0),
    "last-entry": last_entry_dropped,
    "last-newline-missing": lambda image: truncated(image, HISTORY, len(image[HISTORY]) - 1),
    "last-newline-changed": lambda image: flipped(image, HISTORY, len(image[HISTORY]) - 1, 0),
    "last-bytes-zero": lambda image: zeroed(
        image, HISTORY, len(image[HISTORY]) - 9, len(image[HISTORY])
    ),
    "last-line-twice": lambda image: doubled(image, HISTORY, -1, ENTRIES),
    "first-line-again-at-the-end": lambda image: doubled(image, HISTORY, 0, ENTRIES),
    "equal-length-lines-swapped": lambda image: swapped(image, HISTORY, 3, 4),
    "letters-of-a-hash-made-capital": capital_hash,
}


@pytest.mark.parametrize("kind", PARTICULAR)
def test_damage_that_is_easily_missed_is_found_and_kept(
    kind: str, image: Image, memory: Path
) -> None:
    damage = PARTICULAR[kind](image)
    assert problems_with(image, damage, memory / "damaged") == []


def test_a_whole_last_line_that_lost_its_newline_is_read_again(image: Image, memory: Path) -> None:
    write_image(truncated(image, HISTORY, len(image[HISTORY]) - 1).done_to(image), memory)
    record_tokens(memory, "after")
    assert f"t{ENTRIES - 1}" in tokens_in(memory)


def test_torn_anchors_do_not_swallow_the_next_one(image: Image, memory: Path) -> None:
    write_image(image, memory)
    with (memory / STATE_FOLDER_NAME / "anchors.jsonl").open("ab") as file:
        file.write(b'{"agent":"analyst","seq":9')
    record_tokens(memory, "after")
    last = (memory / RECORDS).read_bytes().count(b"\n")
    assert read_anchors(memory)[AGENT].seq == last
    (memory / STATE_FOLDER_NAME / "anchors.jsonl").write_bytes(b"\xff\xfe\0")
    assert read_anchors(memory) == {}


def test_what_is_cut_from_the_chain_is_in_quarantine_first(
    image: Image, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the torn end is to be kept, so it must not have been cut yet."""
    write_image(image, memory)
    torn = b'{"kind":"entry","seq":'
    with (memory / RECORDS).open("ab") as file:
        file.write(torn)

    def full(*words: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("memplane.ledger.segments.replace_file", full)
        with pytest.raises(Exception, match="No space left"):
            record_tokens(memory, "refused")
    record_tokens(memory, "after")
    assert torn in quarantined(memory)


# Controls


def test_a_check_that_ignores_the_anchor_is_noticed(image: Image, memory: Path) -> None:
    damage = last_entry_dropped(image)
    noticed = problems_with(
        image, damage, memory / "damaged", lambda folder, _: verify_ledger(folder, None)
    )
    assert "the damage is not found" in noticed


def test_a_recovery_that_cuts_at_the_first_bad_line_is_noticed(
    image: Image, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cutting(
        folder: AgentFolder, records: ChainFile, anchor: ChainEnd | None, modes: FileModes
    ) -> RecoveryReport:
        path = folder.path / OPEN_SEGMENT_NAME
        lines = path.read_bytes().splitlines(keepends=True)
        bad = next(
            (at for at, line in enumerate(lines) if read_entry_head(line) is None), len(lines)
        )
        path.write_bytes(b"".join(lines[:bad]))
        return recover(folder, records, anchor, modes)

    monkeypatch.setattr(agent_writer, "recover", cutting)
    damage = zeroed(image, HISTORY, 5000, 5100)
    noticed = problems_with(image, damage, memory / "damaged")
    assert f"bytes of {HISTORY} are gone" in noticed
    assert any("is whole and was not read" in one for one in noticed)


def test_a_ledger_that_was_not_damaged_is_not_taken_for_one_that_was(
    image: Image, memory: Path
) -> None:
    noticed = problems_with(image, Damage("nothing", {}), memory / "whole")
    assert noticed == [
        "the damage is not found",
        "the damage is forgotten once the ledger is open",
    ]
