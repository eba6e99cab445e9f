"""Replies that say only that the answer is not known (pure)."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_MAX_REPLY_CHARS: Final = 400
_PHRASES: Final = (
    r"\bi (?:do not|don't|don\u2019t) (?:know|remember|recall)\b",
    r"\bi(?: am|'m|\u2019m) (?:not sure|not aware|unaware|afraid i)\b",
    r"\bi (?:have|'ve|\u2019ve) no (?:information|record|memory|knowledge|data|idea|notes?)\b",
    r"\bi (?:do not|don't|don\u2019t) have (?:any|that|this|enough|such) \w+",
    r"\bi (?:could not|couldn't|couldn\u2019t|cannot|can't|can\u2019t) find\b",
    r"\byou (?:have not|haven't|haven\u2019t) (?:told|mentioned|said|shared)\b",
    r"\bich wei(?:\u00df|ss) (?:es |das )?nicht\b",
    r"\bdazu habe ich keine\b",
    r"\bje ne sais pas\b",
    r"\bje n['\u2019]ai (?:pas|aucune) (?:d['\u2019])?information",
    r"\bno (?:lo )?s\u00e9\b",
    r"\bno tengo (?:ninguna )?informaci\u00f3n\b",
)
_QUESTION_MARKS: Final = ("?", "\uff1f", "\u061f")


def is_non_answer(question: str, reply: str) -> bool:
    """Say whether a user asked something, and a short reply says that nobody knows.

    Such a turn tells nothing about what was asked; what is known of it is elsewhere.
    """
    if not question.rstrip().endswith(_QUESTION_MARKS):
        return False
    said = reply.strip()
    return 0 < len(said) <= _MAX_REPLY_CHARS and bool(_pattern().search(said.lower()))


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{phrase})" for phrase in _PHRASES))
