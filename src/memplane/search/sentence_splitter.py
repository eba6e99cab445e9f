"""Texts as sentences, without what nobody says: code, data, tables, traces (pure).

Every step takes time in proportion to the text, and only the beginning of a long one is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

_MAX_READ_CHARS: Final = 32 << 10
_MAX_SENTENCES: Final = 512
_MIN_WRAPPED_LINE_CHARS: Final = 50
_CODE_INDENT_CHARS: Final = 4
_INITIAL_CHARS: Final = 2
_EPOCH_DIGITS: Final = (10, 13, 16, 19)
_DATE_PARTS: Final = 3
_YEAR_DIGITS: Final = 4
_SECONDS: Final = 2
_CLOCK_DIGITS: Final = 2
_BEHIND_MINUTE: Final = frozenset(("", ":", "z", "+", "-", "a", "p"))

# Of Chinese and Japanese, which have no blanks behind them.
_WIDE_ENDS: Final = "\u3002\uff01\uff1f"
_WIDE: Final = f"{_WIDE_ENDS}\u3001\uff0c\uff1b\uff1a\uff08\uff09\u300c\u300d\u3010\u3011"
_QUOTES: Final = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_DASHES: Final = "-\u2013\u2014\u2022\u00b7"
_EDGES: Final = f" \t.,;:!?…؟¡¿()[]{{}}<>*_~#|=+/\\{_QUOTES}{_DASHES}{_WIDE}"
_CLOSING: Final = f"{_QUOTES})]}}*_\uff09\u300d\u3011"
_ENDS: Final = frozenset(f".!?…؟।{_WIDE_ENDS}")
_MAY_END: Final = _ENDS | frozenset(_CLOSING)
_QUESTION_MARKS: Final = ("?", "\uff1f", "؟")
_ABBREVIATIONS: Final = frozenset(
    (
        *("e.g.", "i.e.", "cf.", "vs.", "mr.", "mrs.", "ms.", "dr.", "prof.", "st.", "approx."),
        *("ca.", "al.", "resp.", "z.b.", "d.h.", "bzw."),
    )
)
_MAY_CLOSE: Final = frozenset({"etc.", "inc.", "ltd.", "co.", "jr.", "a.m.", "p.m.", "u.s."})

_NUMBERED: Final = frozenset({"no.", "nr.", "fig.", "p.", "pp."})

_FENCES: Final = ("```", "~~~")
_BULLETS: Final = ("- ", "* ", "+ ", "\u2013 ", "\u2022 ", "\u00b7 ")
_MACHINE_LINE_STARTS: Final = (
    *("|", ">", "{", "}", "]", "$ ", "//", "/*", "*/", "+--", "+++", "--- ", "@@", "diff --git"),
    *(
        "#!",
        "#include",
        'File "',
        "Caused by:",
        "Exception in ",
        "<?",
        "<!",
        "[MEMORY:",
        "\\",
        ">>> ",
    ),
)
_CODE_ENDS: Final = (";", "{", "}", "},", "};", "[", "],", "(", "=>", "->", "\\", "/>", "</")
_CODE_BEGINS: Final = (
    *("def ", "class ", "import ", "from ", "return ", "function ", "const ", "let ", "var "),
    *("public ", "private ", "static ", "async ", "await ", "func ", "fn ", "if (", "for ("),
    *("while (", "elif ", "except ", "catch ", "print(", "assert ", "raise ", "export ", "@"),
    *("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", "package "),
)
_STATEMENT_ENDS: Final = (":", ")", "'", '"', ",")
_ASSIGNS: Final = (" = ", " == ", " := ", " += ", " != ", " && ", " || ", " => ", "::", "():")
_LEVELS: Final = (" INFO", " WARN", " ERROR", " DEBUG", " TRACE", " FATAL", "[INFO", "[ERROR")
_SYMBOLS: Final = str.maketrans("", "", '{}[]()<>=;|\\$&^~@%"')
_MIN_CODE_SYMBOLS: Final = 4
_TRACE: Final = "Traceback (most recent call last)"


class Sentence(NamedTuple):
    """A sentence as it was said, with its words in lower case."""

    text: str
    words: tuple[str, ...]
    asks: bool


def split_sentences(text: str) -> list[Sentence]:
    """Return the sentences of a text, in their order; of a long text, those at its beginning."""
    sentences: list[Sentence] = []
    for run in _runs(text[:_MAX_READ_CHARS]):
        sentences += islice(map(_sentence, _split(run)), _MAX_SENTENCES - len(sentences))
        if len(sentences) == _MAX_SENTENCES:
            return sentences
    if len(text) > _MAX_READ_CHARS and sentences:
        sentences.pop()  # it may go on where nobody looked
    return sentences


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without the punctuation around them."""
    if not text.isascii():
        text = text.replace("\u2019", "'")
    tokens = text.lower().split()
    words = [token if token.isalnum() else token.strip(_EDGES) for token in tokens]
    return list(filter(None, words))


def utf8_size(text: str) -> int:
    """Return how many bytes a text takes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written out with blanks between them."""
    return frozenset(text.split())


def strip_punctuation(token: str) -> str:
    """Take the punctuation around a word off, and leave its case."""
    return token.strip(_EDGES)


# Words that stand for a time.


def is_time(word: str) -> bool:
    """Say whether a word is a date, a clock time or a timestamp."""
    if not has_digit(word):
        return False
    return _is_clock(word) or is_timestamp(word) or _is_date(word) or _is_hour(word)


def is_timestamp(word: str) -> bool:
    """Say whether a word is a moment: to the second, with its date, or counted since 1970."""
    if word.isdigit():
        return "15" <= word[:2] <= "19" and len(word) in _EPOCH_DIGITS
    return _is_clock(word) and (word.count(":") == _SECONDS or "t" in word)


def _is_clock(word: str) -> bool:
    """Say whether a word is a clock time, be it behind its date."""
    head, colon, tail = word.partition(":")
    date, behind_date, hour = head.rpartition("t")
    if (
        not colon
        or not hour.isdigit()
        or len(hour) > _CLOCK_DIGITS
        or (behind_date and not _is_date(date))
    ):
        return False
    return (
        len(tail) >= _CLOCK_DIGITS
        and tail[:_CLOCK_DIGITS].isdigit()
        and tail[_CLOCK_DIGITS : _CLOCK_DIGITS + 1] in _BEHIND_MINUTE
    )


def _is_date(word: str) -> bool:
    for mark in "-/.":
        parts = word.split(mark)
        if len(parts) == _DATE_PARTS and all(part.isdigit() for part in parts):
            _, longer, longest = sorted(map(len, parts))
            return longer <= _CLOCK_DIGITS and (
                longest == _YEAR_DIGITS or (mark == "/" and longest == _CLOCK_DIGITS)
            )
    return False


def _is_hour(word: str) -> bool:
    return word.endswith(("am", "pm")) and word[:-2].isdigit()


def has_digit(word: str) -> bool:
    """Say whether there is a digit in a word."""
    return not word.isalpha() and any(map(str.isdigit, word))


# From here on: how a text is cut up.


def _sentence(text: str) -> Sentence:
    return Sentence(
        text, tuple(split_words(text)), text.rstrip(_CLOSING).endswith(_QUESTION_MARKS)
    )


# Lines that belong together.


def _runs(text: str) -> Iterator[str]:
    """Yield prose, a list item or a paragraph at a time."""
    lines: list[str] = []
    for line in _prose_lines(text):
        if lines and not _continues(lines[-1], line):
            yield " ".join(lines)
            lines = []
        if line:
            lines.append(line)
    if lines:
        yield " ".join(lines)


def _continues(before: str, line: str) -> bool:
    """Say whether a line was only wrapped, and goes on in the next one."""
    if len(before) < _MIN_WRAPPED_LINE_CHARS or before[-1] in _MAY_END or before[-1] in ":;":
        return False
    return line[:1].islower()


def _prose_lines(text: str) -> Iterator[str]:
    """Yield the lines that somebody said, without marks of lists and headings.

    An empty one stands for what was left out, and parts the lines before and behind it.
    """
    apart = in_trace = False
    for line in _unfenced(text):
        plain, sentence_text = line.strip(), ""
        if not plain:
            apart, in_trace = True, False
        elif in_trace or plain.startswith(_TRACE):
            in_trace = True
        elif not (apart and _is_indented(line, plain)) and not _is_code(plain):
            apart, sentence_text = False, _unmarked(plain)
        if not sentence_text or sentence_text != plain:
            yield ""
        if sentence_text:
            yield sentence_text


def _unfenced(text: str) -> Iterator[str]:
    """Yield the lines of a text, empty ones for those between fences; some are never closed."""
    fence = ""
    for line in text.splitlines():
        plain = line.lstrip()
        if fence:
            yield ""
            fence = "" if plain.startswith(fence) else fence
        elif plain.startswith(_FENCES):
            yield ""
            closed = plain.find(plain[:3], len(plain[:3])) > 0
            fence = "" if closed else plain[:3]
        else:
            yield line


def _is_indented(line: str, plain: str) -> bool:
    """Say whether a line behind an empty one is code, as Markdown has it."""
    indent = len(line) - len(line.lstrip())
    return (line[0] == "\t" or indent >= _CODE_INDENT_CHARS) and not plain.startswith(_BULLETS)


def _is_code(plain: str) -> bool:
    """Say whether a line is code, data, a row of a table, a quotation or out of a log."""
    if plain.startswith(_MACHINE_LINE_STARTS) or plain.endswith(_CODE_ENDS):
        return True
    if plain.startswith(_CODE_BEGINS) and (plain.endswith(_STATEMENT_ENDS) or "(" in plain):
        return plain[-1] not in _ENDS
    if any(sign in plain for sign in _ASSIGNS) or plain.count(" | ") > 1:
        return True
    symbols = len(plain) - len(plain.translate(_SYMBOLS))
    return (symbols >= _MIN_CODE_SYMBOLS and symbols * 8 > len(plain)) or _is_reported(plain)


def _is_reported(plain: str) -> bool:
    """Say whether a program wrote a line: a member of JSON, a frame or an error, a log, a tag."""
    first = plain.partition(" ")[0]
    if first.endswith(("Error:", "Exception:")) or (first == "at" and plain.endswith(")")):
        return True
    if first[0].isdigit() and any(level in plain for level in _LEVELS):
        return True
    return (
        (first[0] == '"' and '":' in plain)
        or (first[0] == "[" and plain[-1] == "]")
        or (first[0] == "<" and plain[-1] == ">")
    )


def _unmarked(plain: str) -> str:
    """Take the mark of a heading or a list item off."""
    if plain.startswith(_BULLETS):
        plain = plain[2:].removeprefix("[ ] ").removeprefix("[x] ")
    elif plain[0] == "#":
        plain = plain.lstrip("#")
    number, mark, text = plain[:6].partition(" ")
    if mark and number[-1:] in {".", ")"} and number[:-1].isdigit():
        plain = text + plain[6:]
    return plain.strip()


# Where sentences end.


def _split(run: str) -> Iterator[str]:
    """Yield the sentences of one run of prose, with single blanks."""
    for mark in _WIDE_ENDS:
        if mark in run:
            run = run.replace(mark, f"{mark} ")
    tokens = run.split()
    first = 0
    for index, token in enumerate(tokens):
        if token[-1] in _MAY_END and _ends(token, tokens, index, first):
            yield from _trim_tokens(tokens[first : index + 1])
            first = index + 1
    yield from _trim_tokens(tokens[first:])


def _ends(token: str, tokens: list[str], index: int, first: int) -> bool:
    """Say whether a sentence ends behind a token that is followed by punctuation."""
    core = token.rstrip(_CLOSING)
    if not core or core[-1] not in _ENDS:
        return False
    if core[-1] != "." or index + 1 == len(tokens):
        return True
    short, following = core.lstrip("(\"'\u201c").lower(), tokens[index + 1][0]
    if short in _ABBREVIATIONS or (index == first and core[:-1].isdigit()):
        return False
    if short in _NUMBERED:
        return not following.isdigit()
    if short in _MAY_CLOSE:
        return following.isupper()
    return len(core) != _INITIAL_CHARS or not core[0].isupper() or core[0] == "I"


def _trim_tokens(tokens: list[str]) -> Iterator[str]:
    """Yield the sentence, without emphasis that spans more than it, when it has a word."""
    text = " ".join(tokens)
    if text.count("**") % 2:
        text = text.removeprefix("**").removesuffix("**")
    if text.strip(_EDGES):
        yield text
