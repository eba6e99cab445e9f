"""How an operation of a memory service is told about: never with the service's words (pure)."""

from __future__ import annotations

from memplane.secret import Secret
from memplane.services.client import Answered, Outcome, Unanswered, explained
from memplane.telemetry import MemoryStatus


def status_of(outcome: Outcome) -> MemoryStatus:
    """Say how it ended."""
    match outcome:
        case Answered():
            return MemoryStatus.SUCCEEDED if outcome.ok else MemoryStatus.FAILED
        case Unanswered(late=late):
            return MemoryStatus.TIMED_OUT if late else MemoryStatus.FAILED


def error_of(operation: str, outcome: Outcome, token: Secret | None) -> str:
    """Say why it was not done; nothing that the service said, which may quote a memory."""
    match outcome:
        case Answered(status):
            return "" if outcome.ok else f"{operation} returned status {status}"
        case Unanswered():
            return explained(operation, outcome, token)


def code_of(outcome: Outcome) -> int:
    """Return the status that it was answered with; 0 is no answer."""
    return outcome.status if isinstance(outcome, Answered) else 0
