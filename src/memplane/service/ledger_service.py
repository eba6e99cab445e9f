"""The ledger of the process that owns the home."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from memplane.ledger.turn_redaction import redact_entry_line
from memplane.ledger.writer import Ledger
from memplane.redaction.redactor import RedactionResult, Redactor


class LedgerService(msgspec.Struct, frozen=True):
    """A ledger, and what was taken out of turns before they were written."""

    root: Path
    ledger: Ledger
    redactor: Callable[[], Redactor]
    redacted: Counter[str]
    verbatim: bool

    def scrub_line(self, line: bytes) -> RedactionResult[bytes]:
        """Take the secrets out of an entry that another recorder made; each kind is counted."""
        found = redact_entry_line(self.redactor(), line)
        self.redacted.update(found.counts)
        return found
