"""What a model only says again because its prompt had it from memory (pure).

Recalled text that is echoed word for word is known from where it was first said. It gains nothing
by being said again, and it goes when that is forgotten. The summary of a compacted conversation
repeats memory as well, and what it has from the conversation was said in turns before.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from memplane.exchange.prompt_cleanup import find_injected_blocks, is_compaction_summary

_MARK: Final = "BEGIN MEMORY"
_PIECES: Final = re.compile(
    r"(?<=[.!?;:])\s+|(?<=[\u3002\uff01\uff1f])\s*|\n+|\s[/|\u00b7\u2022]\s"
)
_WORDS: Final = re.compile(r"\w+")
_MIN_ECHO_CHARS: Final = 12
"""A shorter piece is as likely the model's own, unless it stands beside an echo."""
_LEAD_IN_ENDINGS: Final = (":", "\uff1a")


def extract_injected_memory(request: object) -> str:
    """Return the memory that stands in a request's conversation; empty when there is none.

    The summary of what the client compacted counts as memory.
    """
    if not isinstance(request, dict):
        return ""
    body = cast("Mapping[str, Any]", request)
    known: list[str] = []
    for text in _texts([body.get("messages"), body.get("input")]):
        known += [text] if is_compaction_summary(text) else find_injected_blocks(text)
    return "\n".join(known)


def strip_echoes(answer: str, injected: str) -> str:
    """Take out of an answer what stands in the injected memory word for word, piece by piece.

    What led to it goes with it, and so do scraps around it, which say nothing alone.
    """
    if not injected or not answer:
        return answer
    known = f" {_plain(injected)} "
    pieces = list(_pieces(answer))
    said = [answer[start:end] for start, end in pieces]
    echoes = [_is_echo(one, known) for one in said]
    if not any(echoes):
        return answer
    kept = [not gone for gone in _mark_leftovers(said, echoes, known)]
    parts: list[str] = []
    for place, (start, end) in enumerate(pieces):
        if kept[place]:
            parts += _between(answer, pieces, kept, place), answer[start:end]
    return "".join(parts).strip()


def _mark_leftovers(said: Sequence[str], echoes: Sequence[bool], known: str) -> list[bool]:
    """Tell of each piece whether it goes: as an echo, or as what is left around one."""
    worded = [place for place, piece in enumerate(said) if _plain(piece)]
    spoken = [said[place] for place in worded]
    gone = [echoes[place] for place in worded]
    # Each way, so that a scrap beside a scrap goes too.
    for places in (range(len(spoken)), reversed(range(len(spoken)))):
        for at in places:
            beside = any(gone[max(at - 1, 0) : at] + gone[at + 1 : at + 2])
            gone[at] |= beside and f" {_plain(spoken[at])} " in known
    for at in reversed(range(len(spoken) - 1)):
        gone[at] |= gone[at + 1] and spoken[at].endswith(_LEAD_IN_ENDINGS)
    # Signs without a word stay with the words beside them, such as the fences around code.
    return [all(gone[_around(worded, place)]) for place in range(len(said))]


def _around(worded: Sequence[int], place: int) -> slice:
    """Return which pieces with words a place is: one of them, or between two, or at an end."""
    at = bisect_left(worded, place)
    if at < len(worded) and worded[at] == place:
        return slice(at, at + 1)
    return slice(max(at - 1, 0), at + 1)


def _between(
    answer: str, pieces: Sequence[tuple[int, int]], kept: Sequence[bool], place: int
) -> str:
    """Return what stands before a piece: as it was, or one blank or line where something went."""
    if not place:
        return ""
    between = answer[pieces[place - 1][1] : pieces[place][0]]
    if kept[place - 1]:
        return between
    return "\n" if "\n" in between else " "


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if _MARK in value or is_compaction_summary(value):
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
    return len(said) >= _MIN_ECHO_CHARS and f" {said} " in known


def _plain(text: str) -> str:
    """Return the words alone, in one case and with one blank between."""
    return " ".join(_WORDS.findall(text.casefold()))
