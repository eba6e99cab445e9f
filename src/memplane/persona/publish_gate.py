"""Which documents may leave this machine: with frontmatter, of a sane size, without secrets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from memplane.persona.validation import (
    DEFAULT_LIMIT_BYTES,
    DocumentProblem,
    DocumentRule,
    find_publish_error,
)

SecretFinder = Callable[[str], Mapping[str, int]]
"""Counts the secrets in a text, by kind."""


class PublishRefusal(msgspec.Struct, frozen=True):
    """Why a document is not published; when `harmless`, the container may have a copy aside."""

    reason: str
    harmless: bool = False


class PublishGate:
    """Looks at a document before it is published for the first time with these bytes."""

    def __init__(
        self,
        find_secrets: SecretFinder,
        *,
        allowed: Collection[str] = (),
        limit: int = DEFAULT_LIMIT_BYTES,
    ) -> None:
        self._find_secrets = find_secrets
        self._allowed = allowed
        self.limit = limit

    def refusal(self, key: str, text: bytes) -> PublishRefusal | None:
        """Say why the document may not be published; None when it may."""
        problem = find_publish_error(key, text, limit=self.limit)
        if problem is not None:
            bare = problem.rule is DocumentRule.FRONTMATTER
            secrets = None if not bare else self._secrets(key, text)
            return secrets or PublishRefusal(f"{problem.text}. {problem.fix}", harmless=bare)
        return self._secrets(key, text)

    def _secrets(self, key: str, text: bytes) -> PublishRefusal | None:
        if key in self._allowed:
            return None
        problem = find_secret(key, text, self._find_secrets)
        return None if problem is None else PublishRefusal(f"{problem.text}. {problem.fix}")


def find_secret(key: str, text: bytes, find_secrets: SecretFinder) -> DocumentProblem | None:
    """Say which secrets a document seems to hold; None when it holds none."""
    hits = find_secrets(text.decode("utf-8", "replace"))
    if not hits:
        return None
    kinds = ", ".join(sorted(hits))
    fix = f"Take it out, or say that it may go: memplane persona push {key} --allow-secrets"
    problem = f"it looks as if it held a secret ({kinds})"
    return DocumentProblem(key, DocumentRule.SECRET, "error", problem, fix)
