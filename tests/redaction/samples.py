"""Sample texts with synthetic secrets, filled from templates, and the check whether one leaked.

A template holds fields: `{A:20}` is replaced by twenty random characters of alphabet `A`, which
must not survive redaction. `{-d:6}` is random too but may stay (an account's number, say). A
broken bar stands for nothing: it splits the well-known prefixes, so that the scanners of code
hosts don't take the templates for secrets.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

WINDOW_CHARS: Final = 8
"""A leak is a piece of this length of a secret, or the whole of a shorter one."""

_DIGITS: Final = "0123456789"
_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_UPPER: Final = _LOWER.upper()
ALPHABETS: Final = {
    "A": _DIGITS + _LOWER + _UPPER,
    "B": _DIGITS + _LOWER + _UPPER + "+/",
    "L": _LOWER + _UPPER,
    "a": _LOWER,
    "d": _DIGITS,
    "h": _DIGITS + "abcdef",
    "l": _DIGITS + _LOWER,
    "u": _DIGITS + _UPPER,
    "U": _UPPER,
    "w": _DIGITS + _LOWER + _UPPER + "_-",
    "32": _UPPER + "234567",
    "X": _DIGITS + "ABCDEF",
}
_FIELD: Final = re.compile(r"\{(-?)(\w+):(\d+)\}")


@dataclass(frozen=True, slots=True)
class Sample:
    """A text, its kind, and the pieces in it that have to go."""

    kind: str
    text: str
    hidden: tuple[str, ...]


def fill(template: str, rng: random.Random) -> tuple[str, tuple[str, ...]]:
    """Fill the fields; return the text and the values that must not survive."""
    hidden: list[str] = []

    def replace(match: re.Match[str]) -> str:
        may_stay, alphabet, length = match.groups()
        value = "".join(rng.choices(ALPHABETS[alphabet], k=int(length)))
        if alphabet in {"A", "w", "B"} and value[-1] in "_-+/":
            value = value[:-1] + "k"
        if not may_stay:
            hidden.append(value)
        return value

    text = _FIELD.sub(replace, template).replace("¦", "")
    return text, tuple(hidden)


def leaks(sample: Sample, redacted: str) -> bool:
    """Tell whether a piece of a hidden value is still there."""
    for value in sample.hidden:
        size = min(WINDOW_CHARS, len(value))
        pieces = (value[start : start + size] for start in range(len(value) - size + 1))
        if any(piece in redacted for piece in pieces):
            return True
    return False


def make_tokens(
    kinds: Mapping[str, Sequence[str]], contexts: Sequence[str], *, seed: str, count: int
) -> list[Sample]:
    """Make `count` samples of each kind: its templates in turn, each in some context."""
    samples: list[Sample] = []
    for kind, templates in kinds.items():
        rng = random.Random(f"{seed}/{kind}")  # noqa: S311 - repeatable test data
        for number in range(count):
            token, hidden = fill(templates[number % len(templates)], rng)
            context = rng.choice(contexts)
            samples.append(Sample(kind, context.replace("{t}", token), hidden))
    return samples


def make_valued(
    templates: Mapping[str, Sequence[str]], values: Sequence[str], *, seed: str
) -> list[Sample]:
    """Put a value into each template at `{v}`; values are drawn at random and filled."""
    samples: list[Sample] = []
    for kind, texts in templates.items():
        rng = random.Random(f"{seed}/{kind}")  # noqa: S311 - repeatable test data
        for text in texts:
            value, _ = fill(rng.choice(values), rng)
            filled, _ = fill(text, rng)
            samples.append(Sample(kind, filled.replace("{v}", value), (value,)))
    return samples
