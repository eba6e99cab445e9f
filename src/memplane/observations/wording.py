"""What operators write, as memory takes it; each error says which field is wrong (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from memplane.clock import milli_stamp
from memplane.errors import InvalidRequest
from memplane.ledger.heads import instant
from memplane.observations.confidence import clamped
from memplane.observations.contract import MemoryChange
from memplane.observations.folding import NEVER
from memplane.observations.model import Category
from memplane.observations.reasons import Reason

_HUNDRED: Final = 100
_CATEGORIES: Final = f"the category is one of {', '.join(Category)}"
_WRONG: Final[Mapping[Reason, tuple[str, str]]] = MappingProxyType(
    {
        Reason.UNKNOWN_CATEGORY: ("category", _CATEGORIES),
        Reason.MALFORMED: ("category", _CATEGORIES),
        Reason.SWAPPED: ("category", f"{_CATEGORIES}; category and service are swapped"),
        Reason.BAD_SERVICE: ("service", "a service has 1 to 64 letters, digits, - and _"),
        Reason.EMPTY: ("observation", "the observation is empty"),
        Reason.TOO_SHORT: ("observation", "the observation has fewer than three characters"),
        Reason.TOO_LONG: ("observation", "the observation has more than 2,000 characters"),
        Reason.SECRET: (
            "observation",
            "there is something in it that looks like a secret, and memories go into prompts",
        ),
    }
)


def refused(reason: Reason) -> InvalidRequest:
    """Say why an operator's words may not be remembered."""
    return wrong(*_WRONG.get(reason, ("observation", reason.value)))


def wrong(name: str, words: str) -> InvalidRequest:
    """Say what is wrong with a field."""
    return InvalidRequest(words, fields={name: words})


def hundredths(value: float) -> int:
    """Return a confidence in hundredths, between 0 and 100.

    Raises:
        InvalidRequest: It is no number.
    """
    if not math.isfinite(value):
        raise wrong("confidence", "the confidence is a number from 0 to 1")
    return clamped(round(min(max(value, -1.0), 2.0) * _HUNDRED))


def hundredths_if_given(value: float | msgspec.UnsetType | None) -> int | None:
    """Do the same with what may not have been given."""
    return None if value is None or isinstance(value, msgspec.UnsetType) else hundredths(value)


def expiry(text: str) -> str:
    """Return when a memory expires, as events say it.

    Raises:
        InvalidRequest: That is no time.
    """
    moment = instant(text)
    if moment is None:
        raise wrong("expires_at", "a time is written such as 2026-03-01T12:00:00Z")
    return milli_stamp(moment)


def expiry_if_given(change: MemoryChange) -> str | None:
    """Return when a memory is to expire from now on; None when nothing was said of it."""
    if isinstance(change.expires_at, msgspec.UnsetType):
        return None
    return expiry(change.expires_at) if change.expires_at else NEVER


def number(value: object) -> float:
    """Return a number.

    Raises:
        InvalidRequest: It is none.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise wrong("value", "the value is a number")
    return value


def difference(value: object) -> int:
    """Return by how many hundredths a confidence is to move."""
    return round(min(max(number(value), -1.0), 1.0) * _HUNDRED)


def whole(value: object) -> int:
    """Return a whole number.

    Raises:
        InvalidRequest: It is none.
    """
    found = number(value)
    if found != int(found):
        raise wrong("value", "the value is a whole number")
    return int(found)


def name(value: object) -> str:
    """Return a name.

    Raises:
        InvalidRequest: It is none.
    """
    if not isinstance(value, str):
        raise wrong("value", "the value is a name")
    return value
