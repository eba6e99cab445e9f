"""What an agent may be called. Pure."""

from __future__ import annotations

import re
from typing import Final

_AGENT_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)

DEFAULT_AGENT: Final = "default"
"""Whose memory it is where neither a request nor a setting names an agent."""

AGENT_ID_RULE: Final = (
    "an agent's id has 1 to 128 letters, digits, dots, dashes or underscores, begins with a "
    "letter or digit and has no two dots in a row"
)


def is_agent_id(text: str) -> bool:
    """Say whether the text names an agent, so that it can safely be a part of a path."""
    return _AGENT_ID_PATTERN.fullmatch(text) is not None and ".." not in text
