"""What the proofs share: a process that starts recorders, and a folder in memory."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.proofs.ledgers import fast_folder
from tests.ledger.proofs.workers import Workers, running_workers


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with running_workers() as running:
        yield running


@pytest.fixture
def rng() -> random.Random:
    """Chance, with a seed that is shown when a test fails; PROOF_SEED=1 runs it again."""
    seed = int(os.environ.get("PROOF_SEED") or random.randrange(1 << 32))  # noqa: S311 - a test
    print("PROOF_SEED", seed)
    return random.Random(seed)  # noqa: S311 - a test


@pytest.fixture
def memory() -> Iterator[Path]:
    with fast_folder() as folder:
        yield folder


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    """Damage is logged, and the proofs do thousands of times."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
