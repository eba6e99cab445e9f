"""The ledger of the process that owns the home."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from memplane.ledger.redacting import redact_line
from memplane.ledger.writer import Ledger
from memplane.redaction.redactor import Redacted, Redactor


class Recording(msgspec.Struct, frozen=True):
    """A ledger, and what was taken out of turns before they were written."""

    root: Path
    ledger: Ledger
    redactor: Callable[[], Redactor]
    redacted: Counter[str]
    verbatim: bool

    def scrub_line(self, line: bytes) -> Redacted[bytes]:
        """Take the secrets out of an entry that another recorder made; each kind is counted."""
        found = redact_line(self.redactor(), line)
        self.redacted.update(found.counts)
        return found
