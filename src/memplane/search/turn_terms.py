"""What ranking needs to know of a turn, out of what was asked and what was told (pure).

The terms of a text are written down: how many there are in all, then a line for each with how
often it is there. A question looks into a hundred texts; finding its terms' lines in all of them
at once takes a tenth of the time that it takes to read them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

import msgspec
from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from memplane.search.time_expressions import mentions_time
from memplane.search.tokenizer import count_terms

QUESTION_SIGN: Final = 1
"""A sign: it ends with a question, so it wants to know something rather than to tell it."""

TIME_SIGN: Final = 2
"""A sign: it tells a time."""

NO_TERMS: Final = "0\n"

_QUESTION_MARKS: Final = ("?", "\uff1f", "\u061f")
_MAX_LABEL_CHARS: Final = 80
_MAX_QUESTION_CHARS: Final = 10_000
_MIN_PLAIN_PATTERN_CHARS: Final = 3
_NEWLINE: Final = 10
# The ends of most lines: to look them up takes a third of the time that it takes to read them.
_COUNTS: Final = {b"%d\n" % count: count for count in range(10)}


class TurnTerms(msgspec.Struct, frozen=True):
    """The terms of what was asked and what was told, who told it, and the signs of it."""

    user_terms: str = NO_TERMS
    agent_terms: str = NO_TERMS
    speaker: str = ""
    signs: int = 0

    @property
    def length(self) -> int:
        """How many terms there are, with those that repeat."""
        return parse_total(self.user_terms) + parse_total(self.agent_terms)


class SearchTurn(NamedTuple):
    """A turn of one agent as ranking sees it; the order of turns is (at, id)."""

    key: int
    at: int
    id: str
    length: int
    speaker: str
    signs: int
    user_terms: str
    agent_terms: str


def extract_turn_terms(user_text: str, agent_text: str, tool_names: str = "") -> TurnTerms:
    """Take in a turn; `tool_names` is told too, but nobody said it: the names of tools."""
    signs = QUESTION_SIGN if agent_text.rstrip().endswith(_QUESTION_MARKS) else 0
    if mentions_time(agent_text):
        signs |= TIME_SIGN
    searched_text = f"{agent_text}\n{tool_names}" if tool_names else agent_text
    return TurnTerms(
        format_counts(count_terms(user_text)),
        format_counts(count_terms(searched_text)),
        extract_speaker(agent_text),
        signs,
    )


def format_counts(counts: Mapping[str, int]) -> str:
    """Write counts down; equal ones are written alike."""
    lines = [f"{term} {counts[term]}\n" for term in sorted(counts)]
    return f"{sum(counts.values())}\n{''.join(lines)}"


def parse_total(counts: str) -> int:
    """Return how many terms there are, with those that repeat."""
    return int(counts[: counts.index("\n")])


def parse_counts(*texts: str) -> dict[str, int]:
    """Read all terms, of several texts together."""
    counts: dict[str, int] = {}
    for written in texts:
        for line in written.split("\n")[1:-1]:
            term, _, count = line.partition(" ")
            counts[term] = counts.get(term, 0) + int(count)
    return counts


def repeat_terms(counts: str, mark: str, max_count: int) -> list[str]:
    """Return each term behind a mark, as often as it is there but not more often than `max_count`.

    An index asks for the terms of every turn: all lines are marked at once, and most are then
    done, because a term is there once.
    """
    lines = counts.replace(" 1\n", "\n").replace("\n", f"\n{mark}").split("\n")[1:-1]
    if counts.count(" ") == counts.count(" 1\n"):
        return lines
    single_terms = [line for line in lines if " " not in line]
    several = (line.partition(" ") for line in lines if " " in line)
    return single_terms + [
        term for term, _, count in several for _ in range(min(int(count), max_count))
    ]


MatchedTermCounts: TypeAlias = tuple[Mapping[str, int], Mapping[str, int]]
"""The terms that a turn has of those that are looked for: in what was asked, and what was told."""


def merge_counts(counted: MatchedTermCounts) -> Mapping[str, int]:
    """Count what was asked and told together, in the order in which it is there."""
    user_counts, agent_counts = counted
    if not user_counts or not agent_counts:
        return user_counts or agent_counts
    counts = dict(user_counts)
    for term, count in agent_counts.items():
        counts[term] = counts.get(term, 0) + count
    return counts


class TermFinder:
    """Finds terms in texts that are written down. It is made once for a question."""

    def __init__(self, terms: Iterable[str]) -> None:
        self._terms = list(terms)
        # Most patterns begin with the term, because what all begin with is no help to find them.
        # Short ones would be found at the end of many lines.
        lines = [
            (f"\n{term} " if len(term) < _MIN_PLAIN_PATTERN_CHARS else f"{term} ").encode()
            for term in self._terms
        ]
        self._marks = (
            BytesAhoCorasick(lines, MatchKind.LeftmostFirst, Implementation.ContiguousNFA)
            if lines
            else None
        )

    def count_in_texts(self, texts: Sequence[str]) -> list[dict[str, int]]:
        """Count the terms in each of the texts."""
        counts_by_text: list[dict[str, int]] = [{} for _ in texts]
        if self._marks is None or not texts:
            return counts_by_text
        # Bytes, because places in them need not be counted in characters.
        joined = "".join(texts).encode()
        ends = list(accumulate(map(len, texts)))
        if ends[-1] != len(joined):
            ends = list(accumulate(len(text.encode()) for text in texts))
        terms, text_index, end, current_counts = self._terms, 0, ends[0], counts_by_text[0]
        for mark_index, start, match_end in self._marks.find_matches_as_indexes(joined):
            # A line has one blank, and the leftmost match before it is that of the whole term.
            if joined[start - 1] != _NEWLINE and joined[start] != _NEWLINE:
                continue
            if match_end > end:
                while match_end > ends[text_index]:
                    text_index += 1
                end, current_counts = ends[text_index], counts_by_text[text_index]
            count = _COUNTS.get(joined[match_end : match_end + 2])
            current_counts[terms[mark_index]] = (
                int(joined[match_end : joined.index(b"\n", match_end)]) if count is None else count
            )
        return counts_by_text

    def count_in_turns(self, turns: Sequence[SearchTurn]) -> dict[int, MatchedTermCounts]:
        """Count the terms in each turn, by its key."""
        counts = self.count_in_texts(
            [text for turn in turns for text in (turn.user_terms, turn.agent_terms)]
        )
        keys = [turn.key for turn in turns]
        return dict(zip(keys, zip(counts[::2], counts[1::2], strict=True), strict=True))


def extract_speaker(text: str) -> str:
    """Return the name before what was told, as in `Ada Byron: good morning`; empty for none.

    Where several people talk, whoever records them writes their names there.
    """
    match = _label().match(text)
    return match[1] if match else ""


def names_speaker(speaker: str, words: frozenset[str]) -> bool:
    """Say whether words have a speaker's name, or a part of it."""
    return bool(speaker) and not words.isdisjoint(speaker.split())


def extract_words(text: str) -> frozenset[str]:
    """Return the words of a text, as they are written."""
    return frozenset(_word().findall(text))


def extract_name_terms(text: str) -> frozenset[str]:
    """Return the terms of words that look like names: capitals that no sentence begins with.

    Days and months are none.
    """
    # Most questions have no capital but the first.
    if text.isascii() and text[1:] == text[1:].lower():
        return frozenset()
    words = _name().findall(unicodedata.normalize("NFC", text[:_MAX_QUESTION_CHARS]))
    return frozenset(
        term for word in words if not mentions_time(f"in {word}") for term in count_terms(word)
    )


@cache
def _label() -> re.Pattern[str]:
    name = r"[^\W\d_][\w.-]{0,30}"
    return re.compile(rf"\s{{0,8}}((?=.{{1,{_MAX_LABEL_CHARS}}}: ){name}(?: {name}){{0,2}}): ")


@cache
def _name() -> re.Pattern[str]:
    # A capital behind a small letter, a digit or a comma, in the same sentence.
    return re.compile(r"(?<=[^\W_A-Z] |[,;:] )[A-Z][^\W\d_]+\b")


@cache
def _word() -> re.Pattern[str]:
    return re.compile(r"[^\W_]+(?:[.-][^\W_]+)*")
