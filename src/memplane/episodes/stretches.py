"""Groups of turns that were said in one go, and what they were about (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final

from memplane.episodes.episode import Episode
from memplane.search.sentence_splitter import Sentence, strip_punctuation, utf8_size, word_set

_MAX_GAP_US: Final = 30 * 60 * 1_000_000
_MAX_TURNS: Final = 20

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TOPICS: Final = 3
_MAX_TOPIC_WORDS: Final = 4
_MAX_TOPIC_WORD_CHARS: Final = 60
_BREAKS: Final = frozenset(".,;:!?)]\"'…")
_SAYS_LITTLE: Final = word_set(
    """
    a about above actually after again all also always am an and any anything are aren't as ask at
    back be because been before being below between both but by call called can can't cannot come
    could couldn't day did didn't do does doesn't doing don't done down each else every everything
    few find first for from get gets give go goes going good got great had has have haven't having
    he hello help her here hey hi him his how i i'd i'll i'm i've if in into is isn't it it's its
    just keep kind know last let let's like little look lot made make makes many may maybe me mean
    might mine more most much must my need needs never new next no not nothing now of off oh ok
    okay on once one only or other our ours out over own please put quite rather really remember
    right said same say says see set shall she should show since so some something still such sure
    take tell than thank thanks that that's the their them then there there's these they they're
    thing things think this those through time to today told tomorrow too try two under until up
    upon us use used using very want wants was wasn't way we we'd we'll we're we've well were what
    what's when where which while who whom whose why will with within without won't work would
    write yes yesterday yet you you'd you'll you're you've your yours
    """
)


def split_stretches(turns: Iterable[Episode]) -> Iterator[tuple[Episode, ...]]:
    """Yield the stretches of turns that come in (at, id) order, without the noise."""
    stretch: list[Episode] = []
    for turn in turns:
        if stretch and begins_stretch_after(stretch[-1], len(stretch), turn):
            yield tuple(stretch)
            stretch = []
        stretch.append(turn)
    if stretch:
        yield tuple(stretch)


def begins_stretch_after(last: Episode, count: int, turn: Episode) -> bool:
    """Say whether a turn opens a stretch, behind one with so many turns and that last one."""
    return count >= _MAX_TURNS or turn.at - last.at >= _MAX_GAP_US


def format_timeline_line(stretch: Sequence[Episode], topics: Iterable[str], longest: int) -> str:
    """Return a line of so many bytes at most: when a stretch was, and the topics that fit."""
    count = f"{len(stretch)} turn{'s' * (len(stretch) > 1)}"
    line, mark = f"{_when(stretch[0].at, stretch[-1].at)}, {count}", ": "
    for topic in topics:
        longer = f"{line}{mark}{topic}"
        if utf8_size(longer) <= longest:
            line, mark = longer, ", "
    return line


def extract_topics(asked: Iterable[Sentence], spoken: Iterable[Sentence]) -> list[str]:
    """Return what sentences are about: the runs of telling words that come up most.

    Args:
        asked: The sentences that topics are taken from.
        spoken: All sentences; what they mention often counts for more.
    """
    counts = Counter(chain.from_iterable(sentence.words for sentence in spoken))
    runs: dict[tuple[str, ...], str] = {}
    for sentence in asked:
        for run in _runs(sentence.text):
            runs.setdefault(tuple(map(str.lower, run)), " ".join(run))
    chosen: list[str] = []
    known: set[str] = set()
    for words in sorted(runs, key=lambda run: -sum(map(counts.__getitem__, run))):
        if not known.issuperset(words):
            chosen.append(runs[words])
            known.update(words)
        if len(chosen) == _MAX_TOPICS:
            break
    return chosen


def _when(first: int, last: int) -> str:
    try:
        begin, end = (_EPOCH + timedelta(microseconds=at) for at in (first, last))
    except OverflowError:
        return "undated"
    if not last:
        return "undated"
    written = f"{begin:%Y-%m-%d %H:%M}"
    if begin.date() != end.date():
        return f"{written} to {end:%Y-%m-%d %H:%M}"
    return written if f"{end:%H:%M}" == written[-5:] else f"{written} to {end:%H:%M}"


def _runs(text: str) -> Iterator[list[str]]:
    """Yield words that stand together, between those that say little."""
    run: list[str] = []
    for token in text.split():
        if token not in _SAYS_LITTLE and _tells(word := strip_punctuation(token)):
            run.append(word)
            if len(run) < _MAX_TOPIC_WORDS and token[-1] not in _BREAKS:
                continue
        if run:
            yield run
            run = []
    if run:
        yield run


def _tells(word: str) -> bool:
    return (
        word.lower() not in _SAYS_LITTLE
        and 0 < len(word) <= _MAX_TOPIC_WORD_CHARS
        and not word.isdigit()
    )
