"""What a model only says again because its prompt had it from memory (pure).

Recalled text that is echoed word for word is known from where it was first said. It gains nothing
by being said again, and it goes when that is forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from memplane.memory.injected import injected_in

_MARK: Final = "BEGIN MEMORY"
_PIECES: Final = re.compile(
    r"(?<=[.!?;:])\s+|(?<=[\u3002\uff01\uff1f])\s*|\n+|\s[/|\u00b7\u2022]\s"
)
_WORDS: Final = re.compile(r"\w+")
_SHORTEST: Final = 12
"""A shorter piece is as likely the model's own."""


def injected_into(request: object) -> str:
    """Return the memory that stands in a request's conversation; empty when there is none."""
    if not isinstance(request, dict):
        return ""
    body = cast("Mapping[str, Any]", request)
    texts = _texts([body.get("messages"), body.get("input")])
    return "\n".join(block for text in texts for block in injected_in(text))


def without_echoes(answer: str, injected: str) -> str:
    """Take out of an answer what stands in the injected memory word for word, piece by piece."""
    if not injected or not answer:
        return answer
    known = f" {_plain(injected)} "
    kept: list[str] = []
    position, found = 0, False
    for start, end in _pieces(answer):
        if _is_echo(answer[start:end], known):
            kept.append(answer[position:start])
            position, found = end, True
    return "".join((*kept, answer[position:])).strip() if found else answer


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if _MARK in value:
            yield value
    elif isinstance(value, dict):
        for one in cast("Mapping[str, object]", value).values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _texts(one)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    position = 0
    for between in _PIECES.finditer(text):
        yield position, between.start()
        position = between.end()
    yield position, len(text)


def _is_echo(piece: str, known: str) -> bool:
    said = _plain(piece)
    return len(said) >= _SHORTEST and f" {said} " in known


def _plain(text: str) -> str:
    """Return the words alone, in one case and with one blank between."""
    return " ".join(_WORDS.findall(text.casefold()))
