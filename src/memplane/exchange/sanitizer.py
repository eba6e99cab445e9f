"""Recalled text and its labels, so that no block can pass for two, or be learned anew (pure)."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Final

from memplane.ledger.entry_head import parse_rfc3339

_MAX_LABEL_CHARS: Final = 64
_MARGIN: Final = " ·"
_MIN_SHOWN_SCORE: Final = 0.005

# Every pattern here is a class of characters, or classes in a row of which none has what ends the
# one before; so none of them ever goes back over the text.
_INVISIBLE: Final = (
    "[\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]+"
)
"""Zero-width characters, bidi overrides, isolates and marks, and tags that nobody sees."""
_CONTROLS: Final = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # a CSI sequence
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # a string
    r"|\x1b[!-/]*[0-~]"  # any other sequence
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_INVISIBLE_IN_BLOCKS: Final = (
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
"""Characters that belong in ordinary text, yet could break a mark up without being seen."""
_MARK: Final = r"(?i)-{2,}\s*(?:BEGIN|END)\s+(?:MEMORY|FEED|CONTEXT)"
_HEADER: Final = r"(?i)\[(?:kind|source|ts|score)="
_MARKER: Final = r"(?i)\[(?=\s*(?:MEMORY(?![A-Za-z0-9_])|(?:EVENT|COOLDOWN)\s*:))"
"""How `[MEMORY:timing:plex] …` begins, and what an agent may have meant to be one."""
_FORGERY_HINTS: Final = (
    *("memory", "feed", "context", "event", "cooldown"),
    *("[kind=", "[source=", "[ts=", "[score="),
)
_HYPHENS: Final = r"-{2,}"
_NOT_A_LABEL: Final = r"[^A-Za-z0-9 _.:/@+-]"


def sanitize_text(text: str) -> str:
    """Return a text in which nothing can pass for a block's mark or header, or for a marker.

    What is told to a prompt may be repeated by a model; a marker in it would be learned again.
    What nobody sees is taken out; a text that has nothing of this kind stays as it is.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        visible = bare = text  # most texts, and it is much quicker to see that
    else:
        visible = _compiled(_CONTROLS).sub("", _compiled(_INVISIBLE).sub("", text))
        bare = _compiled(_INVISIBLE_IN_BLOCKS).sub("", visible)
    if "--" not in bare and "[" not in bare:
        return visible  # neither a mark nor a header can begin
    lowered = bare.lower()
    if not any(part in lowered for part in _FORGERY_HINTS):
        return visible
    # Of what ends a line only the newline and U+2028 and U+2029 are left by now.
    return "".join(map(_defuse_line, visible.splitlines(keepends=True)))


def sanitize_label(text: str) -> str:
    """Return a kind, a source or a service's name as it may stand in a header."""
    return _compiled(_NOT_A_LABEL).sub("_", text[:_MAX_LABEL_CHARS])


def rfc3339_or_none(text: object) -> str | None:
    """Return a time as it is written, if it is one."""
    return text if isinstance(text, str) and parse_rfc3339(text) is not None else None


def finite_score(number: object) -> float | None:
    """Return a score that is worth showing: a finite number that two decimals do not make 0."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    try:
        score = float(number)
    except OverflowError:
        return None
    return score if math.isfinite(score) and abs(score) >= _MIN_SHOWN_SCORE else None


def _defuse_line(line: str) -> str:
    bare = _compiled(_INVISIBLE_IN_BLOCKS).sub("", line)
    if _compiled(_MARKER).search(bare):
        line = bare = _compiled(_MARKER).sub("(", bare)
    start = bare.lstrip()
    if _compiled(_MARK).match(start):
        return _compiled(_HYPHENS).sub("~~~", bare)
    if _compiled(_HEADER).match(start):
        return _MARGIN + line
    return line


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source)
