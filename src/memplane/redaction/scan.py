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
_UNCONDITIONAL_RULES: Final = frozenset(
    index for index, rule in enumerate(RULES) if not rule.keywords
)


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
        hits = [*self._known.hits(text), *self._issued.hits(text), *self._find_by_rules(text)]
        return merge_hits(data, hits) if hits else hits

    def suspects(self, raw: bytes) -> bool:
        """Say whether a JSON document may hold a secret.

        It errs on the side of yes, and is much cheaper than looking at each string.
        """
        raw = mask_markers(raw)
        view = unescape_json(raw)
        if self._known.hits(raw) or any(self._issued.hits(view)):
            return True
        candidates = self._prefilter.find_candidates(raw)
        if _ESCAPES in candidates:
            return self._suspects_behind_escapes(view)
        if _ASSIGNMENTS in candidates and assigns(raw):
            return True
        candidates.discard(_ASSIGNMENTS)
        # An escape may be an edge to a rule, save to those that always run.
        return _has_form(view if candidates else raw, candidates)

    def _suspects_behind_escapes(self, view: bytes) -> bool:
        candidates = self._prefilter.find_candidates(view)
        # One that is left belongs to JSON within JSON, which is not looked into from here.
        if _ESCAPES in candidates or self._known.hits(view):
            return True
        if _ASSIGNMENTS in candidates and assigns(view):
            return True
        return _has_form(view, candidates - {_ASSIGNMENTS})

    def _find_by_rules(self, text: bytes) -> Iterator[SecretHit]:
        candidates = self._prefilter.find_candidates(text)
        reported: list[SecretHit] = []
        for rule in _open_rules(text, candidates - {_ASSIGNMENTS, _ESCAPES}):
            for start, end in rule.compiled().spans(text):
                secret = text[start:end]
                if rule.accepts(secret):
                    hit = SecretHit(start, end, rule.kind, secret)
                    if rule.kind == DISCLOSED:
                        reported.append(hit)
                    else:
                        yield hit
        if _ASSIGNMENTS in candidates:
            yield from assignments(text)
        yield from reported  # of equal hits the first gives the kind, and a name says more


def _has_form(text: bytes, candidates: set[int]) -> bool:
    views = (text, _unescape(text)) if candidates and b"\\" in text else (text,)
    return any(
        rule.compiled().is_in(view) for view in views for rule in _open_rules(view, candidates)
    )


def _open_rules(text: bytes, candidates: set[int]) -> Iterator[Rule]:
    """Yield the rules that are worth a look; rules that share a gate look for it once."""
    gates = {"": True}
    for index in sorted(candidates | _UNCONDITIONAL_RULES):
        rule = RULES[index]
        if rule.gate not in gates:
            gates[rule.gate] = compile_pattern(rule.gate).is_in(text)
        if gates[rule.gate]:
            yield rule


def _unescape(data: bytes) -> bytes:
    """Write the escapes of JSON within JSON, at any depth, as the edges that they are."""
    for escape, replacement in ((b"\\n", b"\n"), (b"\\r", b"\r"), (b"\\t", b"\t"), (b"\\", b"")):
        data = data.replace(escape, replacement)
    return data
