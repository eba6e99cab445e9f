"""Log lines lose their secrets, tracebacks too."""

from __future__ import annotations

import io
import logging

from memplane.redaction.logs import RedactingFormatter
from memplane.redaction.redactor import Redactor
from memplane.secret import Secret

KNOWN = "canary-" + "7d1f0a"


def _logged(log: logging.Logger) -> io.StringIO:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    redactor = Redactor(key=b"k", known=[Secret(KNOWN)])
    handler.setFormatter(RedactingFormatter(logging.Formatter("%(name)s %(message)s"), redactor))
    log.addHandler(handler)
    log.propagate = False
    return written


def _fail() -> None:
    raise ValueError(f"cannot use {KNOWN}")


def test_messages_arguments_and_tracebacks_are_redacted() -> None:
    log = logging.getLogger("test.redaction.logs")
    written = _logged(log)
    try:
        _fail()
    except ValueError:
        log.exception("token %s of %s", "sk-" + "live-123456789", "me")
    out = written.getvalue()
    assert out.startswith("test.redaction.logs token [redacted:sk-key:")
    assert "ValueError: cannot use [redacted:known:" in out
    assert KNOWN not in out
