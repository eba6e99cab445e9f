"""What a command did to memory, told like what a server does."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from memplane.telemetry import MemoryEvent, MemoryOperation

_OWN_SERVICE_NAME: Final = "memplane"


@contextmanager
def record_operation(
    operation: MemoryOperation, agent: str, emit: Callable[[MemoryEvent], None]
) -> Generator[None]:
    """Tell how an operation on memplane's own memory went; what went wrong with asking is none."""
    from memplane.errors import InvalidRequest, MemplaneError, UnknownAgent, UnknownMemory
    from memplane.kit.clock import system_clock
    from memplane.telemetry import MemoryEvent, OperationStatus

    def told(status: OperationStatus, error: str = "") -> None:
        emit(
            MemoryEvent(
                ts=system_clock(),
                claw_id=agent,
                latency_ms=round((time.perf_counter() - started) * 1000),
                error=error,
                memory_service=_OWN_SERVICE_NAME,
                memory_op=operation,
                memory_status=status,
            )
        )

    started = time.perf_counter()
    try:
        yield
    except (InvalidRequest, UnknownAgent, UnknownMemory):
        raise  # nothing was done, and the command says why
    except MemplaneError as wrong:
        told(OperationStatus.FAILED, type(wrong).__name__)
        raise
    told(OperationStatus.SUCCEEDED)
