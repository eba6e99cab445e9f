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
_SIBLING_OPENINGS: Final = ("[EVENT:", "[COOLDOWN:")
_MAX_MARKERS: Final = 100
_MAX_BRACKET_CHARS: Final = 160
_MAX_MARKER_TEXT_CHARS: Final = 2_048
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
    (r"<samp(?:\s[^>]{0,200})?>", "</samp>"),
    (r"<table(?:\s[^>]{0,200})?>", "</table>"),
    (r"<blockquote(?:\s[^>]{0,200})?>", "</blockquote>"),
    (r"<q(?:\s[^>]{0,200})?>", "</q>"),
)
_FENCES: Final = ("```", "~~~")
_CODE_INDENT: Final = 4

_MAX_CONTINUATION_LINES: Final = 5
_CONTINUED_INDENT: Final = 2
_SENTENCE_ENDS: Final = tuple(".!?:;")
_BRACKETS: Final = tuple("([{")
_LIST_MARKS: Final = r"(?:(?:[-*+]|\d{1,9}[.)])\s+)+"
_NEW_BLOCK: Final = r"#{1,6}(?:\s|$)|[-*+]\s|\d{1,9}[.)]\s|\||[-*_](?:\s*[-*_]){2,}\s*$"

# Quotation marks, each opening one with those that close it. A straight one opens behind a blank
# or a bracket, and closes behind anything else.
_CLOSING_QUOTES: Final = {
    '"': '"',
    "'": "'",
    "\u201c": "\u201d\u201c",
    "\u201e": "\u201c\u201d",
    "\u2018": "\u2019",
    "\u201a": "\u2018\u2019",
    "\u00ab": "\u00bb",
    "\u00bb": "\u00ab",
    "\u2039": "\u203a",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
}
_MAX_ESCAPE_CHARS: Final = 16
_STRAIGHT_QUOTES: Final = "\"'"
_SINGLE_QUOTES: Final = "'\u2018\u2019\u201a"
_QUOTE: Final = re.compile("[\"'\u2018-\u201a\u201c-\u201e\u00ab\u00bb\u2039\u203a\u300c-\u300f]")
_BEFORE_OPENING_QUOTE: Final = "([{<=:,-\u2013\u2014/*_|\"'\u201c\u201e\u2018"

_TABLE_ROW: Final = re.compile(r"[|\u2502\u2503\u2551]")
_TABLE_RULE: Final = re.compile(r"[|+]?[ \t]*:?-+:?[ \t]*(?:[|+][ \t]*:?-*:?[ \t]*)+")

# How a line of a log begins: with a time, a level, a process, or the container it came from.
_TIMESTAMP: Final = (
    r"\d{4}[-/.]\d\d[-/.]\d\d(?:[T _]\d\d:\d\d(?::\d\d)?)"
    r"|\d{4}[-/.]\d\d[-/.]\d\d\s"
    r"|\d\d?[-/](?:\d\d|[A-Z][a-z]{2})[-/]\d{4}[ T:]\d\d:\d\d"
    r"|(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    r" {1,2}\d\d? \d\d:\d\d"
    r"|\d\d:\d\d:\d\d"
    r"|\[ {0,8}\d{1,10}\.\d{3,9}\]"
    r"|[IWEF]\d{4} \d\d:\d\d:\d\d"
    r"|<\d{1,3}>\d? ?"
)
_LEVEL: Final = (
    "(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|CRIT|CRITICAL|ALERT|EMERG|FATAL|SEVERE)"
)
_LOG_LINE: Final = re.compile(
    rf"[\[(]?(?:{_TIMESTAMP})"
    rf"|\[?{_LEVEL}\]?(?:[:\s]|$)"
    r"|\[(?:trace|debug|info|notice|warn|warning|error|critical|fatal)\]"
    r"|(?:level|lvl|time|ts|msg|logger)="
    r"|[\w.@/-]{1,64}\[\d{1,10}\]:"
    r"|\$ "
    r"|\d{1,3}(?:\.\d{1,3}){3} - "
)
_LOG_ANNOUNCED: Final = re.compile(
    r"\b(?:logs?(?: (?:line|lines|entry|file|message|output))?|journal|std(?:out|err)"
    r"|(?:tool |command )?output)"
    r"(?: (?:says?|said|shows?|showed|reads?|has|had|contains?|contained|prints?|printed|is|was))?"
    r"\s{0,4}:[\s*_]{0,8}$",
    re.IGNORECASE,
)

_EMPHASIS: Final = "*_"
_TEXT_CHARACTER: Final = r"[^\W\d_]|\d+(?![\d.)])"
"""In what is more than the mark of a list or emphasis: a letter, or a number that is none."""
_DASHES: Final = ("- ", "\u2013 ", "\u2014 ")


class MemoryMarker(msgspec.Struct, frozen=True):
    """A `[MEMORY:category:service] text` line, as found; the service is empty when not said."""

    category: str
    service: str
    text: str


class MarkerAttempt(msgspec.Struct, frozen=True):
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
        return bool(self.category) and self.bracket == format_bracket(self.category, self.service)


class _AnswerLines(msgspec.Struct, frozen=True):
    """The lines of an answer.

    Args:
        lines: All of their text.
        visible: The same without the brackets that stand in comments or in quotation marks.
        prose: Which of them are no code, no quote, no row of a table, and not blank.
    """

    lines: list[str]
    visible: list[str]
    prose: list[bool]

    def openings(self, number: int) -> list[int]:
        """Return where markers begin in a line, if it is one in which they count."""
        if not self.prose[number]:
            return []
        line = self.visible[number]
        visible = _without_brackets(line, _code_spans(line)) if "`" in line else line
        if "[" not in visible:
            return []
        starts = {match.start() for match in re.finditer(_OPENING, visible)}
        if first := re.match(_OPENING_OF_LINE, visible):
            starts.add(first.start(1))
        if starts and _is_quoted_log(line, min(starts)):
            return []
        return sorted(starts)


def parse_markers(text: str) -> tuple[MemoryMarker, ...]:
    """Return the markers of a text, in order; at most a hundred, and none that says nothing.

    One in code, in a quote, in quotation marks, in a table, in a line of a log or in a comment is
    an example of a marker.
    """
    if _MEMORY not in text:
        return ()
    return tuple(islice(_markers(_read(text)), _MAX_MARKERS))


def parse_attempts(text: str, *, aborted: bool = False) -> tuple[MarkerAttempt, ...]:
    """Return all that was meant to be a marker, in order; at most a hundred.

    Args:
        text: One block of an answer.
        aborted: Whether the model was stopped while it wrote. Its last line is then half a line,
            unless it was ended, and what reaches into it is left out.
    """
    if "[" not in text:
        return ()
    return tuple(islice(_attempts(_read(text), aborted=aborted), _MAX_MARKERS))


def strip_markers(text: str) -> str:
    """Take all that was meant to be a marker out, with what it says; examples of markers stay.

    A line that has nothing else than one, be it in a list or set in bold, goes as a whole.
    """
    if "[" not in text or "memory" not in text.lower():
        return text
    answer = _read(text)
    spans = list(_marked_spans(answer))
    if not spans:
        return text
    remaining = list(answer.lines)
    removed: set[int] = set()
    for number, start, end, last in reversed(spans):
        remaining[number] = (remaining[number][:start] + remaining[number][end:]).rstrip()
        removed.update(range(number + 1, last + 1))
        if not re.search(_TEXT_CHARACTER, remaining[number]):
            removed.add(number)
    return "\n".join(line for number, line in enumerate(remaining) if number not in removed)


def update_fence(fence: str, line: str) -> str:
    """Return the fence of code that is open behind a line; empty when there is none.

    Args:
        fence: The one that is open before it.
        line: Any line of a text, without its end.
    """
    if fence:
        bare = line.strip()
        return "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
    bare = _strip_list_marks(line.strip())
    return bare[: len(bare) - len(bare.lstrip(bare[0]))] if _opens_fence(bare) else ""


def format_bracket(category: str, service: str) -> str:
    """Return the bracket of a marker as it should be written."""
    return f"{_MEMORY}{category}:{service}]" if service else f"{_MEMORY}{category}]"


def _markers(answer: _AnswerLines) -> Iterator[MemoryMarker]:
    for attempt in _attempts(answer):
        if attempt.text and attempt.bracket.startswith(_MEMORY) and attempt.bracket.endswith("]"):
            category, _, service = attempt.bracket[len(_MEMORY) : -1].partition(":")
            yield MemoryMarker(category, service, attempt.text)


def _attempts(answer: _AnswerLines, *, aborted: bool = False) -> Iterator[MarkerAttempt]:
    cut_line = len(answer.lines) - 1 if aborted else -1
    for number, start, end, last in _marked_spans(answer):
        line = answer.lines[number]
        bracket = _bracket(line, start, end)
        memory_text = line[start + len(bracket) : end]
        if last != cut_line:
            full_text = " ".join(
                (memory_text, *map(str.strip, answer.lines[number + 1 : last + 1]))
            )
            yield MarkerAttempt(
                bracket, *_names(bracket), _clean_memory_text(full_text)[:_MAX_MARKER_TEXT_CHARS]
            )


def _marked_spans(answer: _AnswerLines) -> Iterator[tuple[int, int, int, int]]:
    """Yield where markers stand: the line, from where to where in it, and the last line."""
    for number, line in enumerate(answer.lines):
        if "[" not in line:
            continue
        starts = answer.openings(number)
        for start, end in pairwise((*starts, len(line))):
            if line.startswith(_SIBLING_OPENINGS, start):
                continue
            last = number
            if end == len(line):
                bracket = _bracket(line, start, end)
                last = _last_line(answer, number, line[start + len(bracket) :])
            yield number, start, end, last


def _bracket(line: str, start: int, end: int) -> str:
    """Return the bracket that begins at a place, or as much of it as was written."""
    close = line.find("]", start, min(end, start + _MAX_BRACKET_CHARS))
    if close >= 0:
        return line[start : close + 1]
    match = re.match(_UNCLOSED, line[start:end])
    return match.group() if match else _MEMORY


def _names(bracket: str) -> tuple[str, str]:
    """Return the category and the service that somebody meant, whatever stands between them."""
    inner = bracket[1:].removesuffix("]").strip()[len(_NAME) :]
    names = inner.lstrip(_BEFORE_NAMES).rstrip()
    category, colon, service = names.partition(":")
    if not colon:
        category, *other_names = re.split(_BETWEEN_NAMES, names, maxsplit=1)
        service = other_names[0] if other_names else ""
    return category.strip(), service.strip()


def _last_line(answer: _AnswerLines, number: int, memory_text: str) -> int:
    """Return the number of the last line over which a text was wrapped."""
    last = number
    indent = _indent(answer.lines[number]) + _CONTINUED_INDENT
    for at in range(number + 1, min(number + 1 + _MAX_CONTINUATION_LINES, len(answer.lines))):
        line = answer.lines[at]
        bare = line.strip()
        if not answer.prose[at] or answer.openings(at) or re.match(_NEW_BLOCK, bare):
            break
        is_open = not memory_text.rstrip().endswith(_SENTENCE_ENDS)
        continues = bare[0].islower() or bare[0].isdigit() or bare.startswith(_BRACKETS)
        if _indent(line) < indent and not (is_open and continues):
            break
        memory_text, last = bare, at
    return last


def _clean_memory_text(raw: str) -> str:
    """Take the emphasis and the punctuation between a marker and its text away."""
    text = unicodedata.normalize("NFC", " ".join(raw.split())).lstrip(" :" + _EMPHASIS)
    if text.startswith(_DASHES):
        text = text[1:].lstrip(" " + _EMPHASIS)
    if text.endswith("`") and text.count("`") % 2:
        text = text[:-1]
    bare = text.rstrip(_EMPHASIS)
    emphasis = text[len(bare) :]
    return (bare if emphasis and emphasis not in bare else text).strip()


def _read(text: str) -> _AnswerLines:
    text = text.replace("\r\n", "\n")
    visible = text
    for opening, closing in _HIDING_TAGS:
        visible = _without_brackets(visible, _spans(visible, opening, closing))
    lines = text.split("\n")
    prose = list(_prose(lines))
    _exclude_tables(lines, prose)
    return _AnswerLines(lines, _without_quotations(visible.split("\n"), prose), prose)


def _prose(lines: list[str]) -> Iterator[bool]:
    """Tell of each line whether it is prose, as Markdown has it."""
    fence = ""
    may_be_code = True
    for line in lines:
        before, fence = fence, update_fence(fence, line)
        if before or fence:
            yield False
        else:
            bare = _strip_list_marks(line.strip())
            may_be_code = not bare or (may_be_code and _indent(line) >= _CODE_INDENT)
            yield not may_be_code and not bare.startswith(">")


def _exclude_tables(lines: list[str], prose: list[bool]) -> None:
    """Mark the rows of tables as no prose, with or without a pipe at their beginning."""
    in_table = False
    for number, line in enumerate(lines):
        bare = _strip_list_marks(line.strip())
        if not prose[number] or not bare:
            in_table = False
            continue
        if _TABLE_RULE.fullmatch(bare):
            in_table = True
            if number and "|" in lines[number - 1]:
                prose[number - 1] = False
        is_row = in_table and ("|" in bare or "+" in bare)
        in_table = is_row
        if is_row or _TABLE_ROW.match(bare):
            prose[number] = False


def _is_quoted_log(line: str, start: int) -> bool:
    """Tell a line of a log, or a cell of a row, by what stands before its first marker."""
    before = _strip_list_marks(line[:start].lstrip())
    if before.rstrip(" \t*_").endswith("|") or ("|" in before and "|" in line[start:]):
        return True
    return bool(_LOG_LINE.match(before) or _LOG_ANNOUNCED.search(before[-_MAX_BRACKET_CHARS:]))


def _without_quotations(lines: list[str], prose: list[bool]) -> list[str]:
    """Blank the brackets in quotation marks; a quotation ends with its paragraph at the latest."""
    visible = list(lines)
    begin = 0
    while begin < len(lines):
        end = begin + 1
        if prose[begin]:
            while end < len(lines) and prose[end]:
                end += 1
            paragraph = "\n".join(lines[begin:end])
            if "[" in paragraph and _QUOTE.search(paragraph):
                masked = "\n".join(_with_code_masked(line) for line in lines[begin:end])
                spans = _outermost(sorted(_quotations(masked)))
                visible[begin:end] = _without_brackets(paragraph, spans).split("\n")
        begin = end
    return visible


def _with_code_masked(line: str) -> str:
    """Put letters in the place of code, whose quotation marks quote nothing."""
    if "`" not in line:
        return line
    for start, end in list(_code_spans(line)):
        line = line[:start] + "x" * (end - start) + line[end:]
    return line


def _quotations(text: str) -> Iterator[tuple[int, int]]:
    """Yield where quotations stand; a mark that is never closed quotes nothing."""
    opened: list[tuple[str, int]] = []
    for match in _QUOTE.finditer(text):
        mark, at = match.group(), match.start()
        before = text[max(0, at - _MAX_ESCAPE_CHARS) : at].rstrip("\\")[-1:]
        after = text[at + 1 : at + 2]
        level = _closed_level(mark, opened) if _may_close(mark, before, after) else None
        if level is not None and not (mark in _STRAIGHT_QUOTES and _opens(before, after)):
            start = opened[level][1]
            del opened[level:]
            if mark not in _SINGLE_QUOTES or "\n" not in text[start:at]:
                yield start, at + 1
        elif mark in _CLOSING_QUOTES and (
            mark not in _STRAIGHT_QUOTES or _opens(before, after) or _stands_alone(before, after)
        ):
            opened.append((mark, at))


def _closed_level(mark: str, opened: list[tuple[str, int]]) -> int | None:
    """Return the place of the newest opening mark that a mark can close."""
    for level in range(len(opened) - 1, max(-1, len(opened) - 1 - _MAX_CONTINUATION_LINES), -1):
        if mark in _CLOSING_QUOTES[opened[level][0]]:
            return level
    return None


def _may_close(mark: str, before: str, after: str) -> bool:
    if mark in _SINGLE_QUOTES:
        return not after.isalnum() and bool(before.strip())  # it may be an apostrophe
    return bool(before)


def _opens(before: str, after: str) -> bool:
    is_free = not before.strip() or before in _BEFORE_OPENING_QUOTE
    return is_free and bool(after.strip())


def _stands_alone(before: str, after: str) -> bool:
    return not before.strip() and not after.strip()


def _outermost(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Leave out the spans that lie within another one; they come in order of their beginning."""
    reached = 0
    for start, end in spans:
        if end > reached:
            yield max(start, reached), end
            reached = end


def _strip_list_marks(bare: str) -> str:
    """Take the marks of list items off, since code and quotes may stand in a list."""
    match = re.match(_LIST_MARKS, bare)
    return bare[match.end() :] if match else bare


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
    for match in re.finditer(opening, text, re.IGNORECASE):
        if match.start() < end:
            continue
        end_match = re.compile(closing, re.IGNORECASE).search(text, match.end())
        if end_match is None:
            return
        end = end_match.start()
        yield match.start(), end


def _code_spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield where code stands between runs of as many back-ticks."""
    runs = [match.span() for match in re.finditer("`+", line)]
    last_of_length = {end - start: start for start, end in runs}
    code: tuple[int, int] | None = None
    for start, end in runs:
        if code is None:
            code = (start, end - start) if last_of_length[end - start] > start else None
        elif code[1] == end - start:
            yield code[0], end
            code = None
