"""Logs and tracebacks of a command, with the secrets taken out of them."""

from __future__ import annotations

import io
import logging
import os
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from threading import ExceptHookArgs
    from types import TracebackType

    from memplane.redaction.redactor import Redactor
    from memplane.settings import Settings

_MAX_LOG_BYTES: Final = 5_000_000
_OLDER_LOG_FILES: Final = 3


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


@contextmanager
def redirect_to_log(path: Path) -> Generator[None]:
    """Write to a file whatever is logged and printed; it is rotated, and this user's alone."""
    from logging.handlers import RotatingFileHandler

    from memplane.kit.private_files import make_private_folder

    class PrivateHandler(RotatingFileHandler):
        def _open(self) -> io.TextIOWrapper:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8", errors="replace")

    make_private_folder(path.parent)
    root = logging.getLogger()
    before = root.handlers[:]
    handler = PrivateHandler(path, maxBytes=_MAX_LOG_BYTES, backupCount=_OLDER_LOG_FILES)
    handler.setFormatter(before[0].formatter)
    root.handlers[:] = [handler]
    printed, failed = (_LogStream(level) for level in (logging.INFO, logging.ERROR))
    try:
        with redirect_stdout(printed), redirect_stderr(failed):
            yield
    finally:
        root.handlers[:] = before
        handler.close()


class _LogStream(io.TextIOBase):
    """Logs each line that is printed, whatever the level of logging is."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._begun = ""

    def write(self, text: str, /) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            record = logging.LogRecord("memplane", self._level, __file__, 0, line, None, None)
            logging.getLogger().handle(record)
        return len(text)
