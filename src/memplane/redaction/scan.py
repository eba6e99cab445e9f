"""Where the secrets of some text stand: known ones, forms and assignments together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from memplane.redaction.assignments import KEYWORDS, assignments, assigns
from memplane.redaction.held_secrets import IssuedTokens
from memplane.redaction.json_scan import unescape_json
from memplane.redaction.known_secrets import KnownSecrets
from memplane.redaction.pattern import compile_pattern
from memplane.redaction.prefilter import Prefilter
from memplane.redaction.prose_rules import KIND as DISCLOSED
from memplane.redaction.rules import RULES, Rule
from memplane.redaction.secret_hit import SecretHit, mask_markers, merge_hits
from memplane.secret import Secret

_ASSIGNMENTS: Final = -1
_ESCAPES: Final = -2
_ALWAYS: Final = frozenset(index for index, rule in enumerate(RULES) if not rule.keywords)


class Scanner:
    """Finds secrets in bytes that hold text."""

    __slots__ = ("_issued", "_known", "_prefilter")

    def __init__(self, known: Iterable[Secret], issued: IssuedTokens | None = None) -> None:
        self._known = KnownSecrets(known)
        self._issued = issued or IssuedTokens()
        literals = {index: rule.keywords for index, rule in enumerate(RULES) if rule.keywords}
        # These can hide a literal; the other escapes of JSON only stand beside it.
        escapes = ("\\/", "\\u")
        self._prefilter = Prefilter({**literals, _ASSIGNMENTS: KEYWORDS, _ESCAPES: escapes})

    def hits(self, data: bytes) -> list[SecretHit]:
        """Return the secrets in order, none overlapping another; markers are passed over."""
        text = mask_markers(data)
        found = [*self._known.hits(text), *self._issued.hits(text), *self._formed(text)]
        return merge_hits(data, found) if found else found

    def suspects(self, raw: bytes) -> bool:
        """Say whether a JSON document may hold a secret.

        It errs on the side of yes, and is much cheaper than looking at each string.
        """
        raw = mask_markers(raw)
        view = unescape_json(raw)
        if self._known.hits(raw) or any(self._issued.hits(view)):
            return True
        announced = self._prefilter.announced(raw)
        if _ESCAPES in announced:
            return self._suspects_behind_escapes(view)
        if _ASSIGNMENTS in announced and assigns(raw):
            return True
        announced.discard(_ASSIGNMENTS)
        # An escape may be an edge to a rule, save to those that always run.
        return _has_form(view if announced else raw, announced)

    def _suspects_behind_escapes(self, view: bytes) -> bool:
        announced = self._prefilter.announced(view)
        # One that is left belongs to JSON within JSON, which is not looked into from here.
        if _ESCAPES in announced or self._known.hits(view):
            return True
        if _ASSIGNMENTS in announced and assigns(view):
            return True
        return _has_form(view, announced - {_ASSIGNMENTS})

    def _formed(self, text: bytes) -> Iterator[SecretHit]:
        announced = self._prefilter.announced(text)
        told: list[SecretHit] = []
        for rule in _open_rules(text, announced - {_ASSIGNMENTS, _ESCAPES}):
            for start, end in rule.compiled().spans(text):
                secret = text[start:end]
                if rule.accepts(secret):
                    hit = SecretHit(start, end, rule.kind, secret)
                    if rule.kind == DISCLOSED:
                        told.append(hit)
                    else:
                        yield hit
        if _ASSIGNMENTS in announced:
            yield from assignments(text)
        yield from told  # of equal hits the first gives the kind, and a name says more


def _has_form(text: bytes, announced: set[int]) -> bool:
    views = (text, _flattened(text)) if announced and b"\\" in text else (text,)
    return any(
        rule.compiled().is_in(view) for view in views for rule in _open_rules(view, announced)
    )


def _open_rules(text: bytes, announced: set[int]) -> Iterator[Rule]:
    """Yield the rules that are worth a look; rules that share a gate look for it once."""
    gates = {"": True}
    for index in sorted(announced | _ALWAYS):
        rule = RULES[index]
        if rule.gate not in gates:
            gates[rule.gate] = compile_pattern(rule.gate).is_in(text)
        if gates[rule.gate]:
            yield rule


def _flattened(data: bytes) -> bytes:
    """Write the escapes of JSON within JSON, at any depth, as the edges that they are."""
    for escape, meaning in ((b"\\n", b"\n"), (b"\\r", b"\r"), (b"\\t", b"\t"), (b"\\", b"")):
        data = data.replace(escape, meaning)
    return data
