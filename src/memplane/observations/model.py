"""The words of operational memory: what an observation is, and what may be said of it (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Category(StrEnum):
    """What an observation is about; the list is closed."""

    TIMING = "timing"
    DEPENDENCY = "dependency"
    BEHAVIOR = "behavior"
    REMEDIATION = "remediation"
    MAINTENANCE = "maintenance"


class SourceClass(StrEnum):
    """Who said it."""

    AGENT = "agent"
    SUBAGENT = "subagent"
    TOOL = "tool"
    OPERATOR = "operator"
    IMPORT = "import"


class ObservationState(StrEnum):
    """What an observation is now; only an active one is put into prompts."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    QUARANTINED = "quarantined"
    RETIRED = "retired"
    SUPERSEDED = "superseded"
    PURGED = "purged"


MAX_TEXT_CHARS: Final = 2000
"""The characters that an observation may have."""
MAX_SHOWN_CHARS: Final = 500
"""Those of them that go into a prompt."""
MAX_SERVICE_CHARS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """Something that somebody says is so, before anybody has looked at it.

    `category` and `service` are as they were written; a service that was not said is empty.
    """

    category: str
    service: str
    text: str
    source: SourceClass
