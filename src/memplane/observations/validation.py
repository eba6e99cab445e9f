"""What operators write, as memory takes it; each error says which field is wrong (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from memplane.errors import InvalidRequest
from memplane.kit.clock import format_milli_timestamp
from memplane.ledger.entry_head import parse_rfc3339
from memplane.observations.confidence import clamp
from memplane.observations.model import Category
from memplane.observations.projection import NEVER_EXPIRES
from memplane.observations.reject_reasons import RejectReason
from memplane.observations.requests import MemoryPatch

_HUNDRED: Final = 100
_CATEGORIES: Final = f"the category is one of {', '.join(Category)}"
_REJECTION_MESSAGES: Final[Mapping[RejectReason, tuple[str, str]]] = MappingProxyType(
    {
        RejectReason.UNKNOWN_CATEGORY: ("category", _CATEGORIES),
        RejectReason.MALFORMED: ("category", _CATEGORIES),
        RejectReason.SWAPPED: ("category", f"{_CATEGORIES}; category and service are swapped"),
        RejectReason.BAD_SERVICE: ("service", "a service has 1 to 64 letters, digits, - and _"),
        RejectReason.EMPTY: ("observation", "the observation is empty"),
        RejectReason.TOO_SHORT: ("observation", "the observation has fewer than three characters"),
        RejectReason.TOO_LONG: ("observation", "the observation has more than 2,000 characters"),
        RejectReason.SECRET: (
            "observation",
            "there is something in it that looks like a secret, and memories go into prompts",
        ),
    }
)


def rejection_error(reason: RejectReason) -> InvalidRequest:
    """Say why an operator's words may not be remembered."""
    return field_error(*_REJECTION_MESSAGES.get(reason, ("observation", reason.value)))


def field_error(name: str, words: str) -> InvalidRequest:
    """Say what is wrong with a field."""
    return InvalidRequest(words, fields={name: words})


def parse_hundredths(value: float) -> int:
    """Return a confidence in hundredths, between 0 and 100.

    Raises:
        InvalidRequest: It is no number.
    """
    if not math.isfinite(value):
        raise field_error("confidence", "the confidence is a number from 0 to 1")
    return clamp(round(min(max(value, -1.0), 2.0) * _HUNDRED))


def parse_optional_hundredths(value: float | msgspec.UnsetType | None) -> int | None:
    """Do the same with what may not have been given."""
    return (
        None if value is None or isinstance(value, msgspec.UnsetType) else parse_hundredths(value)
    )


def parse_expiry(text: str) -> str:
    """Return when a memory expires, as events say it.

    Raises:
        InvalidRequest: That is no time.
    """
    moment = parse_rfc3339(text)
    if moment is None:
        raise field_error("expires_at", "a time is written such as 2026-03-01T12:00:00Z")
    return format_milli_timestamp(moment)


def parse_optional_expiry(change: MemoryPatch) -> str | None:
    """Return when a memory is to expire from now on; None when nothing was said of it."""
    if isinstance(change.expires_at, msgspec.UnsetType):
        return None
    return parse_expiry(change.expires_at) if change.expires_at else NEVER_EXPIRES


def parse_number(value: object) -> float:
    """Return a number.

    Raises:
        InvalidRequest: It is none.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise field_error("value", "the value is a number")
    return value


def parse_confidence_delta(value: object) -> int:
    """Return by how many hundredths a confidence is to move."""
    return round(min(max(parse_number(value), -1.0), 1.0) * _HUNDRED)


def parse_integer(value: object) -> int:
    """Return a whole number.

    Raises:
        InvalidRequest: It is none.
    """
    found = parse_number(value)
    if found != int(found):
        raise field_error("value", "the value is a whole number")
    return int(found)


def parse_name(value: object) -> str:
    """Return a name.

    Raises:
        InvalidRequest: It is none.
    """
    if not isinstance(value, str):
        raise field_error("value", "the value is a name")
    return value
