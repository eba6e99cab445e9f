"""Which dialect is spoken at a path (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memplane.exchange.anthropic import AnthropicMessages
from memplane.exchange.dialect import Dialect
from memplane.exchange.openai_chat import OpenAIChat
from memplane.exchange.openai_responses import OpenAIResponses
from memplane.exchange.url_paths import canonical_path

DIALECTS: Final[tuple[Dialect, ...]] = (OpenAIChat(), OpenAIResponses(), AnthropicMessages())

_DIALECT_BY_PATH: Final[Mapping[str, Dialect]] = {dialect.path: dialect for dialect in DIALECTS}


def find_dialect(path: str) -> Dialect | None:
    """Return the dialect of the requests to a path; None when their bodies are only passed on.

    A turn is one however its path is spelled, since a provider may take it for one.
    """
    return _DIALECT_BY_PATH.get(canonical_path(path).lower())
