"""What a command did to memory, told like what a server does."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from memplane.telemetry import MemoryOp, MemoryOperation

_OURSELVES: Final = "memplane"


@contextmanager
def telling(
    operation: MemoryOperation, agent: str, emit: Callable[[MemoryOp], None]
) -> Generator[None]:
    """Tell how an operation on memplane's own memory went; what went wrong with asking is none."""
    from memplane.clock import system_clock
    from memplane.errors import InvalidRequest, MemplaneError, UnknownAgent
    from memplane.telemetry import MemoryOp, MemoryStatus

    def told(status: MemoryStatus, error: str = "") -> None:
        emit(
            MemoryOp(
                ts=system_clock(),
                claw_id=agent,
                latency_ms=round((time.perf_counter() - started) * 1000),
                error=error,
                memory_service=_OURSELVES,
                memory_op=operation,
                memory_status=status,
            )
        )

    started = time.perf_counter()
    try:
        yield
    except (InvalidRequest, UnknownAgent):
        raise  # nothing was done, and the command says why
    except MemplaneError as wrong:
        told(MemoryStatus.FAILED, type(wrong).__name__)
        raise
    told(MemoryStatus.SUCCEEDED)
