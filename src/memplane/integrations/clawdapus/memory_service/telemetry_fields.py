"""How an operation of a memory service is told about: never with the service's words (pure)."""

from __future__ import annotations

from memplane.integrations.clawdapus.memory_service.client import (
    NoServiceResponse,
    ServiceResponse,
    ServiceResult,
    explain_failure,
)
from memplane.secret import Secret
from memplane.telemetry import OperationStatus


def memory_status_of(outcome: ServiceResult) -> OperationStatus:
    """Say how it ended."""
    match outcome:
        case ServiceResponse():
            return OperationStatus.SUCCEEDED if outcome.ok else OperationStatus.FAILED
        case NoServiceResponse(late=late):
            return OperationStatus.TIMED_OUT if late else OperationStatus.FAILED


def error_text_of(operation: str, outcome: ServiceResult, token: Secret | None) -> str:
    """Say why it was not done; nothing that the service said, which may quote a memory."""
    match outcome:
        case ServiceResponse(status):
            return "" if outcome.ok else f"{operation} returned status {status}"
        case NoServiceResponse():
            return explain_failure(operation, outcome, token)


def status_code_of(outcome: ServiceResult) -> int:
    """Return the status that it was answered with; 0 is no answer."""
    return outcome.status if isinstance(outcome, ServiceResponse) else 0
