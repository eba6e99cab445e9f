"""Log lines without secrets."""

from __future__ import annotations

import logging

from memplane.redaction.redactor import Redactor


class RedactingFormatter(logging.Formatter):
    """Redacts all that another formatter writes: the message, its arguments and the traceback."""

    def __init__(self, inner: logging.Formatter, redactor: Redactor) -> None:
        super().__init__()
        self._inner = inner
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.text(self._inner.format(record)).value
