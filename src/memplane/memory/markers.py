"""`[MEMORY:category:service] text` in what a model answered, as the model wrote it (pure).

This is the one grammar of markers. It also finds what was only meant to be one. Whether a category
is one, and what becomes of a marker, is not decided here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import Final

import msgspec

_NAME: Final = "MEMORY"
_MEMORY: Final = f"[{_NAME}:"
_SIBLINGS: Final = ("[EVENT:", "[COOLDOWN:")
_MOST: Final = 100
_LONGEST_NAMES: Final = 160
_LONGEST_TEXT: Final = 2_048
"""More than an observation may have, so that one which is too long is still seen to be."""

# How markers begin; each ends the text of the one before it. What is not quite one has to have its
# end, and to be no link and no index. Without a colon and in small letters it may be prose, which
# ends nothing: `the kernel logs [memory cgroup] and stops`.
_OPENING: Final = (
    r"\[(?:MEMORY|EVENT|COOLDOWN):"
    r"|(?<![\w\]])\[\s{0,8}(?:(?i:memory)\s{0,8}:|MEMORY(?![A-Za-z0-9_]))[^\[\]]{0,140}\](?!\()"
)
_OPENING_OF_LINE: Final = (
    r"[\s*+\-_#\d.)]{0,20}(\[\s{0,8}(?i:memory)(?![A-Za-z0-9_])[^\[\]]{0,140}\](?!\())"
)
_UNCLOSED: Final = r"\[MEMORY:[\w-]{0,80}(?::[\w-]{0,64})?"
_BEFORE_NAMES: Final = " \t:=-/|.,;"
_BETWEEN_NAMES: Final = r"[\s=/|,;]+"

_HIDING_TAGS: Final = (
    ("<!--", "-->"),
    (r"<pre(?:\s[^>]{0,200})?>", "</pre>"),
    (r"<code(?:\s[^>]{0,200})?>", "</code>"),
)
_FENCES: Final = ("```", "~~~")
_CODE_INDENT: Final = 4

_MOST_CONTINUED: Final = 5
_CONTINUED_INDENT: Final = 2
_SENTENCE_ENDS: Final = tuple(".!?:;")
_BRACKETS: Final = tuple("([{")
_LIST_MARKS: Final = r"(?:(?:[-*+]|\d{1,9}[.)])\s+)+"
_NEW_BLOCK: Final = r"#{1,6}(?:\s|$)|[-*+]\s|\d{1,9}[.)]\s|\||[-*_](?:\s*[-*_]){2,}\s*$"

_EMPHASIS: Final = "*_"
_SAID: Final = r"[^\W\d_]|\d+(?![\d.)])"
"""In what is more than the mark of a list or emphasis: a letter, or a number that is none."""
_DASHES: Final = ("- ", "\u2013 ", "\u2014 ")


class Marker(msgspec.Struct, frozen=True):
    """A `[MEMORY:category:service] text` line, as found; the service is empty when not said."""

    category: str
    service: str
    text: str


class Attempt(msgspec.Struct, frozen=True):
    """What was meant to be a marker, be it one or not.

    Args:
        bracket: As it was written, such as `[MEMORY:timing:a]`; without an end if it has none.
        category: What it seems to say, without what stands around it.
        service: The same; empty when not said.
        text: What follows; it may be empty.
    """

    bracket: str
    category: str
    service: str
    text: str

    @property
    def is_well_formed(self) -> bool:
        """Whether the bracket is written as the grammar has it, whatever the names in it are."""
        return bool(self.category) and self.bracket == spelled(self.category, self.service)


class _Answer(msgspec.Struct, frozen=True):
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
        if "[" not in shown:
            return []
        starts = {found.start() for found in re.finditer(_OPENING, shown)}
        if first := re.match(_OPENING_OF_LINE, shown):
            starts.add(first.start(1))
        return sorted(starts)


def markers_of(text: str) -> tuple[Marker, ...]:
    """Return the markers of a text, in order; at most a hundred, and none that says nothing.

    One in code, in a quote or in a comment is an example of a marker.
    """
    if _MEMORY not in text:
        return ()
    return tuple(islice(_markers(_read(text)), _MOST))


def attempts_of(text: str, *, aborted: bool = False) -> tuple[Attempt, ...]:
    """Return all that was meant to be a marker, in order; at most a hundred.

    Args:
        text: One block of an answer.
        aborted: Whether the model was stopped while it wrote. Its last line is then half a line,
            unless it was ended, and what reaches into it is left out.
    """
    if "[" not in text:
        return ()
    return tuple(islice(_attempts(_read(text), aborted=aborted), _MOST))


def without_markers(text: str) -> str:
    """Take all that was meant to be a marker out, with what it says; examples of markers stay.

    A line that has nothing else than one, be it in a list or set in bold, goes as a whole.
    """
    if "[" not in text or "memory" not in text.lower():
        return text
    answer = _read(text)
    spans = list(_marked_spans(answer))
    if not spans:
        return text
    left = list(answer.lines)
    gone: set[int] = set()
    for number, start, end, last in reversed(spans):
        left[number] = (left[number][:start] + left[number][end:]).rstrip()
        gone.update(range(number + 1, last + 1))
        if not re.search(_SAID, left[number]):
            gone.add(number)
    return "\n".join(line for number, line in enumerate(left) if number not in gone)


def fence_after(fence: str, line: str) -> str:
    """Return the fence of code that is open behind a line; empty when there is none.

    Args:
        fence: The one that is open before it.
        line: Any line of a text, without its end.
    """
    if fence:
        bare = line.strip()
        return "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
    bare = _unlisted(line.strip())
    return bare[: len(bare) - len(bare.lstrip(bare[0]))] if _opens_fence(bare) else ""


def spelled(category: str, service: str) -> str:
    """Return the bracket of a marker as it should be written."""
    return f"{_MEMORY}{category}:{service}]" if service else f"{_MEMORY}{category}]"


def _markers(answer: _Answer) -> Iterator[Marker]:
    for one in _attempts(answer):
        if one.text and one.bracket.startswith(_MEMORY) and one.bracket.endswith("]"):
            category, _, service = one.bracket[len(_MEMORY) : -1].partition(":")
            yield Marker(category, service, one.text)


def _attempts(answer: _Answer, *, aborted: bool = False) -> Iterator[Attempt]:
    half = len(answer.lines) - 1 if aborted else -1
    for number, start, end, last in _marked_spans(answer):
        line = answer.lines[number]
        bracket = _bracket(line, start, end)
        said = line[start + len(bracket) : end]
        if last != half:
            whole = " ".join((said, *map(str.strip, answer.lines[number + 1 : last + 1])))
            yield Attempt(bracket, *_names(bracket), _cleaned(whole)[:_LONGEST_TEXT])


def _marked_spans(answer: _Answer) -> Iterator[tuple[int, int, int, int]]:
    """Yield where markers stand: the line, from where to where in it, and the last line."""
    for number, line in enumerate(answer.lines):
        if "[" not in line:
            continue
        starts = answer.openings(number)
        for start, end in pairwise((*starts, len(line))):
            if line.startswith(_SIBLINGS, start):
                continue
            last = number
            if end == len(line):
                bracket = _bracket(line, start, end)
                last = _last_line(answer, number, line[start + len(bracket) :])
            yield number, start, end, last


def _bracket(line: str, start: int, end: int) -> str:
    """Return the bracket that begins at a place, or as much of it as was written."""
    close = line.find("]", start, min(end, start + _LONGEST_NAMES))
    if close >= 0:
        return line[start : close + 1]
    found = re.match(_UNCLOSED, line[start:end])
    return found.group() if found else _MEMORY


def _names(bracket: str) -> tuple[str, str]:
    """Return the category and the service that somebody meant, whatever stands between them."""
    inner = bracket[1:].removesuffix("]").strip()[len(_NAME) :]
    names = inner.lstrip(_BEFORE_NAMES).rstrip()
    category, colon, service = names.partition(":")
    if not colon:
        category, *rest = re.split(_BETWEEN_NAMES, names, maxsplit=1)
        service = rest[0] if rest else ""
    return category.strip(), service.strip()


def _last_line(answer: _Answer, number: int, said: str) -> int:
    """Return the number of the last line over which a text was wrapped."""
    last = number
    indent = _indent(answer.lines[number]) + _CONTINUED_INDENT
    for at in range(number + 1, min(number + 1 + _MOST_CONTINUED, len(answer.lines))):
        line = answer.lines[at]
        bare = line.strip()
        if not answer.prose[at] or answer.openings(at) or re.match(_NEW_BLOCK, bare):
            break
        is_open = not said.rstrip().endswith(_SENTENCE_ENDS)
        goes_on = bare[0].islower() or bare[0].isdigit() or bare.startswith(_BRACKETS)
        if _indent(line) < indent and not (is_open and goes_on):
            break
        said, last = bare, at
    return last


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
        before, fence = fence, fence_after(fence, line)
        if before or fence:
            yield False
        else:
            bare = _unlisted(line.strip())
            may_be_code = not bare or (may_be_code and _indent(line) >= _CODE_INDENT)
            yield not may_be_code and not bare.startswith(">")


def _unlisted(bare: str) -> str:
    """Take the marks of list items off, since code and quotes may stand in a list."""
    found = re.match(_LIST_MARKS, bare)
    return bare[found.end() :] if found else bare


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
    end = 0
    for found in re.finditer(opening, text, re.IGNORECASE):
        if found.start() < end:
            continue
        ending = re.compile(closing, re.IGNORECASE).search(text, found.end())
        if ending is None:
            return
        end = ending.start()
        yield found.start(), end


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
