"""`[MEMORY:category:service] text` in what a model answered, as the model wrote it (pure).

Whether a category is one, and what becomes of a marker, is not decided here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

_MEMORY: Final = "[MEMORY:"
_OPENINGS: Final = (_MEMORY, "[EVENT:", "[COOLDOWN:")
"""How markers begin; each ends the text of the one before it."""
_MOST: Final = 100
_LONGEST_NAMES: Final = 160
_LONGEST_TEXT: Final = 2_048
"""More than an observation may have, so that one which is too long is still seen to be."""

_HIDING_TAGS: Final = (("<!--", "-->"), ("<pre>", "</pre>"), ("<code>", "</code>"))
_FENCES: Final = ("```", "~~~")
_CODE_INDENT: Final = 4

_MOST_CONTINUED: Final = 5
_CONTINUED_INDENT: Final = 2
_SENTENCE_ENDS: Final = tuple(".!?:;")
_BRACKETS: Final = tuple("([{")
_NEW_BLOCK: Final = r"#{1,6}(?:\s|$)|[-*+]\s|\d{1,9}[.)]\s|\||[-*_](?:\s*[-*_]){2,}\s*$"

_EMPHASIS: Final = "*_"
_DASHES: Final = ("- ", "\u2013 ", "\u2014 ")


@dataclass(frozen=True, slots=True)
class Marker:
    """A `[MEMORY:category:service] text` line, as found; the service is empty when not said."""

    category: str
    service: str
    text: str


@dataclass(frozen=True, slots=True)
class _Answer:
    """The lines of an answer.

    Args:
        lines: All of their text.
        visible: The same without the brackets that stand in comments.
        prose: Which of them are no code, no quote, and not blank.
    """

    lines: list[str]
    visible: list[str]
    prose: list[bool]

    def openings(self, number: int) -> list[int]:
        """Return where markers begin in a line, if it is one in which they count."""
        if not self.prose[number]:
            return []
        line = self.visible[number]
        shown = _without_brackets(line, _code_spans(line)) if "`" in line else line
        return sorted(at for opening in _OPENINGS for at in _positions(shown, opening))


def markers_of(text: str) -> tuple[Marker, ...]:
    """Return the markers of a text, in order; at most a hundred, and none that says nothing.

    One in code, in a quote or in a comment is an example of a marker.
    """
    if _MEMORY not in text:
        return ()
    return tuple(islice(_markers(_read(text)), _MOST))


def _markers(answer: _Answer) -> Iterator[Marker]:
    for number, line in enumerate(answer.lines):
        if _MEMORY not in line:
            continue
        starts = answer.openings(number)
        for start, end in pairwise((*starts, len(line))):
            close = line.find("]", start, start + _LONGEST_NAMES)
            if close < 0 or not line.startswith(_MEMORY, start):
                continue
            category, _, service = line[start + len(_MEMORY) : close].partition(":")
            said = line[close + 1 : end]
            text = _cleaned(said if end < len(line) else _continued(answer, number, said))
            if text:
                yield Marker(category, service, text[:_LONGEST_TEXT])


def _positions(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def _continued(answer: _Answer, number: int, said: str) -> str:
    """Add the lines over which a text was wrapped."""
    parts = [said]
    indent = _indent(answer.lines[number]) + _CONTINUED_INDENT
    for at in range(number + 1, min(number + 1 + _MOST_CONTINUED, len(answer.lines))):
        line = answer.lines[at]
        bare = line.strip()
        if not answer.prose[at] or answer.openings(at) or re.match(_NEW_BLOCK, bare):
            break
        is_open = not parts[-1].rstrip().endswith(_SENTENCE_ENDS)
        goes_on = bare[0].islower() or bare[0].isdigit() or bare.startswith(_BRACKETS)
        if _indent(line) < indent and not (is_open and goes_on):
            break
        parts.append(bare)
    return " ".join(parts)


def _cleaned(said: str) -> str:
    """Take the emphasis and the punctuation between a marker and its text away."""
    text = unicodedata.normalize("NFC", " ".join(said.split())).lstrip(" :" + _EMPHASIS)
    if text.startswith(_DASHES):
        text = text[1:].lstrip(" " + _EMPHASIS)
    if text.endswith("`") and text.count("`") % 2:
        text = text[:-1]
    bare = text.rstrip(_EMPHASIS)
    emphasis = text[len(bare) :]
    return (bare if emphasis and emphasis not in bare else text).strip()


def _read(text: str) -> _Answer:
    text = text.replace("\r\n", "\n")
    visible = text
    for opening, closing in _HIDING_TAGS:
        visible = _without_brackets(visible, _spans(visible, opening, closing))
    lines = text.split("\n")
    return _Answer(lines, visible.split("\n"), list(_prose(lines)))


def _prose(lines: list[str]) -> Iterator[bool]:
    """Tell of each line whether it is prose, as Markdown has it."""
    fence = ""
    may_be_code = True
    for line in lines:
        bare = line.strip()
        if fence:
            fence = "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
            yield False
        elif _opens_fence(bare):
            fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
            yield False
        else:
            may_be_code = not bare or (may_be_code and _indent(line) >= _CODE_INDENT)
            yield not may_be_code and not bare.startswith(">")


def _opens_fence(bare: str) -> bool:
    """Tell a fence from code within a line that has as many back-ticks."""
    return bare.startswith(_FENCES) and not (bare[0] == "`" and "`" in bare.lstrip("`"))


def _indent(line: str) -> int:
    return len(line[: len(line) - len(line.lstrip())].expandtabs(_CODE_INDENT))


def _without_brackets(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Blank the brackets within spans, so that no marker begins there and all else stays put."""
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += text[position:start], text[start:end].replace("[", " ")
        position = end
    return "".join((*parts, text[position:])) if parts else text


def _spans(text: str, opening: str, closing: str) -> Iterator[tuple[int, int]]:
    start = text.find(opening)
    while start >= 0:
        end = text.find(closing, start)
        if end < 0:
            return
        yield start, end
        start = text.find(opening, end)


def _code_spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield where code stands between runs of as many back-ticks."""
    runs = [found.span() for found in re.finditer("`+", line)]
    last_of_length = {end - start: start for start, end in runs}
    code: tuple[int, int] | None = None
    for start, end in runs:
        if code is None:
            code = (start, end - start) if last_of_length[end - start] > start else None
        elif code[1] == end - start:
            yield code[0], end
            code = None
