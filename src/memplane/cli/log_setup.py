"""Logs and tracebacks of a command, with the secrets taken out of them."""

from __future__ import annotations

import logging
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import ExceptHookArgs
    from types import TracebackType

    from memplane.redaction.redactor import Redactor
    from memplane.settings import Settings


def set_up_logs(settings: Settings) -> None:
    """Send log lines and tracebacks to stderr; the redactor is made when the first one comes."""
    import threading

    @cache
    def redactor() -> Redactor:
        from memplane.service.composition.redactors import log_redactor

        return log_redactor(settings)

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return redactor().text(super().format(record)).value

    def show(
        kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import traceback

        text = "".join(traceback.format_exception(kind, error, trace))
        sys.stderr.write(redactor().text(text).value)

    def show_of_thread(raised: ExceptHookArgs) -> None:
        show(raised.exc_type, raised.exc_value, raised.exc_traceback)

    handler = logging.StreamHandler()
    handler.setFormatter(Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
    # A record that cannot be written would be shown raw.
    logging.raiseExceptions = False
    sys.excepthook = show
    threading.excepthook = show_of_thread
