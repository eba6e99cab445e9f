"""Where the secrets of some text stand: known ones, forms and assignments together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from memplane.redaction.assignments import KEYWORDS, assignments, assigns
from memplane.redaction.hit import Hit, in_order, masked
from memplane.redaction.known import KnownSecrets
from memplane.redaction.prefilter import Prefilter
from memplane.redaction.rules import RULES
from memplane.secret import Secret

_ASSIGNMENTS: Final = -1
_ESCAPES: Final = -2
_ALWAYS: Final = frozenset(index for index, rule in enumerate(RULES) if not rule.keywords)


class Scanner:
    """Finds secrets in bytes that hold text."""

    __slots__ = ("_known", "_prefilter")

    def __init__(self, known: Iterable[Secret]) -> None:
        self._known = KnownSecrets(known)
        literals = {index: rule.keywords for index, rule in enumerate(RULES) if rule.keywords}
        # What is left of an escape after decoding hides a second level.
        escapes = ("\\/", *(f"\\u00{digit}" for digit in range(8)))
        self._prefilter = Prefilter({**literals, _ASSIGNMENTS: KEYWORDS, _ESCAPES: escapes})

    def hits(self, data: bytes) -> list[Hit]:
        """Return the secrets in order, none overlapping another; markers are passed over."""
        text = masked(data)
        found = [*self._known.hits(text), *self._formed(text)]
        return in_order(data, found) if found else found

    def suspects(self, data: bytes) -> bool:
        """Say whether JSON, its escapes decoded all at once, may hold a secret.

        It errs on the side of yes, and is much cheaper than looking at each string.
        """
        announced = self._prefilter.announced(data)
        if _ESCAPES in announced or self._known.hits(data):
            return True
        if _ASSIGNMENTS in announced and assigns(data):
            return True
        return any(
            RULES[index].compiled().is_in(data) for index in (announced | _ALWAYS) - {_ASSIGNMENTS}
        )

    def _formed(self, text: bytes) -> Iterator[Hit]:
        announced = self._prefilter.announced(text)
        for index in sorted((announced | _ALWAYS) - {_ASSIGNMENTS, _ESCAPES}):
            rule = RULES[index]
            for start, end in rule.compiled().spans(text):
                secret = text[start:end]
                if rule.accepts(secret):
                    yield Hit(start, end, rule.kind, secret)
        if _ASSIGNMENTS in announced:
            yield from assignments(text)
