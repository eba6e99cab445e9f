"""Secrets that memplane itself holds: in clear, or only as hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from memplane.redaction.known_secrets import KNOWN_KIND
from memplane.redaction.pattern import compile_pattern
from memplane.redaction.secret_hit import SecretHit
from memplane.secret import Secret

_CANDIDATE_PATTERN: Final = (
    r"(?:[^A-Za-z0-9_-]|\A)((?:mpt_)?[A-Za-z0-9_-]{43})(?:[^A-Za-z0-9_-]|\z)"
)
_AGENT_CHARACTERS: Final = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)
_MAX_AGENT_CHARS: Final = 128


class IssuedTokens(msgspec.Struct, frozen=True):
    """Tokens of which only the SHA-256 is kept, and the agents that they were issued for."""

    hashes: frozenset[bytes] = frozenset()
    agents: frozenset[bytes] = frozenset()

    def hits(self, data: bytes) -> Iterator[SecretHit]:
        """Yield the tokens: what has their form is hashed, and compared with the hashes."""
        if not self.hashes:
            return
        for start, end in compile_pattern(_CANDIDATE_PATTERN).spans(data):
            if self._is_issued(data, start, end):
                yield SecretHit(start, end, KNOWN_KIND, data[start:end])

    def _is_issued(self, data: bytes, start: int, end: int) -> bool:
        secret = data[start:end]
        if _hash(secret) in self.hashes:
            return True
        if data[start - 1 : start] != b":":
            return False
        colon = start - 1
        first = colon
        while (
            first > 0 and colon - first < _MAX_AGENT_CHARS and data[first - 1] in _AGENT_CHARACTERS
        ):
            first -= 1
        # Other words may stand directly before the name, so every ending of them is tried.
        names = (data[name_start:colon] for name_start in range(first, colon))
        return any(
            name in self.agents and _hash(b"%s:%s" % (name, secret)) in self.hashes
            for name in names
        )


class HeldSecrets(msgspec.Struct, frozen=True):
    """All secrets that are held at one moment."""

    clear: tuple[Secret, ...] = ()
    issued: IssuedTokens = IssuedTokens()


ReadHeldSecrets: TypeAlias = Callable[[], HeldSecrets]
"""Returns what is held now; the same object for as long as nothing changed."""


def _hash(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
