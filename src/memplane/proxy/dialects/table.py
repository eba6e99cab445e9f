"""Which dialect is spoken at a path (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memplane.proxy.dialects.anthropic import Anthropic
from memplane.proxy.dialects.contract import Dialect
from memplane.proxy.dialects.openai_chat import OpenAIChat
from memplane.proxy.dialects.openai_responses import OpenAIResponses
from memplane.proxy.paths import plain

DIALECTS: Final[tuple[Dialect, ...]] = (OpenAIChat(), OpenAIResponses(), Anthropic())

_AT: Final[Mapping[str, Dialect]] = {dialect.path: dialect for dialect in DIALECTS}


def dialect_at(path: str) -> Dialect | None:
    """Return the dialect of the requests to a path; None when their bodies are only passed on.

    A turn is one however its path is spelled, since a provider may take it for one.
    """
    return _AT.get(plain(path).lower())
