"""The ledger of the process that owns the home."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memplane.ledger.writer import Ledger
from memplane.redaction.redactor import Redactor


@dataclass(frozen=True, slots=True)
class Recording:
    """A ledger, and what was taken out of turns before they were written."""

    root: Path
    ledger: Ledger
    redactor: Callable[[], Redactor]
    redacted: Counter[str]
    verbatim: bool
