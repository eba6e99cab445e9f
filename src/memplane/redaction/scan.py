"""Where the secrets of some text stand: known ones, forms and assignments together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from memplane.redaction.assignments import KEYWORDS, assignments, assigns
from memplane.redaction.hit import Hit, in_order, masked
from memplane.redaction.json_text import unescaped
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
        # These can hide a literal; the other escapes of JSON only stand beside it.
        escapes = ("\\/", "\\u")
        self._prefilter = Prefilter({**literals, _ASSIGNMENTS: KEYWORDS, _ESCAPES: escapes})

    def hits(self, data: bytes) -> list[Hit]:
        """Return the secrets in order, none overlapping another; markers are passed over."""
        text = masked(data)
        found = [*self._known.hits(text), *self._formed(text)]
        return in_order(data, found) if found else found

    def suspects(self, raw: bytes) -> bool:
        """Say whether a JSON document may hold a secret.

        It errs on the side of yes, and is much cheaper than looking at each string.
        """
        if self._known.hits(raw):
            return True
        announced = self._prefilter.announced(raw)
        if _ESCAPES in announced:
            return self._suspects_behind_escapes(raw)
        if _ASSIGNMENTS in announced and assigns(raw):
            return True
        announced.discard(_ASSIGNMENTS)
        # An escape may be an edge to a rule, save to those that always run.
        return _has_form(unescaped(raw) if announced else raw, announced)

    def _suspects_behind_escapes(self, raw: bytes) -> bool:
        view = unescaped(raw)
        announced = self._prefilter.announced(view)
        # One that is left belongs to JSON within JSON, which is not looked into from here.
        if _ESCAPES in announced or self._known.hits(view):
            return True
        if _ASSIGNMENTS in announced and assigns(view):
            return True
        return _has_form(view, announced - {_ASSIGNMENTS})

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


def _has_form(text: bytes, announced: set[int]) -> bool:
    rules = [RULES[index] for index in announced | _ALWAYS]
    views = (text, _flattened(text)) if announced and b"\\" in text else (text,)
    return any(rule.compiled().is_in(view) for view in views for rule in rules)


def _flattened(data: bytes) -> bytes:
    """Write the escapes of JSON within JSON, at any depth, as the edges that they are."""
    for escape, meaning in ((b"\\n", b"\n"), (b"\\r", b"\r"), (b"\\t", b"\t"), (b"\\", b"")):
        data = data.replace(escape, meaning)
    return data
