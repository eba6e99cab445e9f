"""Why something is not remembered, or waits for an operator, or should be looked at (pure)."""

from __future__ import annotations

from enum import StrEnum


class RejectReason(StrEnum):
    """Why an assertion was rejected or put into quarantine."""

    MALFORMED = "malformed"
    UNKNOWN_CATEGORY = "unknown_category"
    SWAPPED = "swapped"
    BAD_SERVICE = "bad_service"
    NEW_SERVICE = "new_service"
    EMPTY = "empty"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    SECRET = "secret"  # noqa: S105 - a reason, not a password
    STATUS_NOISE = "status_noise"
    EXAMPLE = "example"
    IMPERATIVE = "imperative"
    SESSION_CAP = "session_cap"


class ReviewFlag(StrEnum):
    """What an operator is told of an assertion that was let through.

    The last three are what an agent would have been refused for.
    """

    NEW_SERVICE = "new_service"
    TOOL_DERIVED = "tool_derived"
    STATUS_NOISE = "status_noise"
    IMPERATIVE = "imperative"
    SESSION_CAP = "session_cap"
