"""A secret that cannot print itself."""

from __future__ import annotations

import hmac
from typing import NoReturn


class Secret:
    """Wraps a secret; only `reveal()` gives it away.

    Formatting, logging, `repr`, pickling and JSON show or refuse, so that a secret reaches a log
    only where somebody wrote `reveal()`, which is easy to search for.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self), _bytes(other))

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __repr__(self) -> str:
        return "Secret('…')" if self._value else "Secret('')"

    def __str__(self) -> str:
        return "…" if self._value else ""

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled")


def _bytes(secret: Secret) -> bytes:
    # Bytes of the environment that are not UTF-8 arrive as lone surrogates.
    return secret.reveal().encode("utf-8", "surrogatepass")
