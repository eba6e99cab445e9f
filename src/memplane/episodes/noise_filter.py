"""Turns that say again what was just said: heartbeats, polls, repeated answers (pure).

Noise is counted and no longer searched, so nothing that tells something new may pass for it:
when in doubt, a turn is none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from memplane.episodes.episode import Episode
from memplane.search.sentence_splitter import has_digit, is_time, is_timestamp, word_set

_MAX_READ_CHARS: Final = 32 << 10
_MIN_SIMILARITY_PERCENT: Final = 85
_HUNDRED: Final = 100
_MAX_SHORT_ANSWER_WORDS: Final = 8
_MAX_HEARTBEAT_WORDS: Final = 16
_MAX_UNIT_CHARS: Final = 3
_OPENING_WORDS: Final = 4
_YEAR_DIGITS: Final = 4

_NUMBER: Final = "0"
_TIME: Final = "0:0"

# Less than around other words: C and C++, 5 and -5 are not the same.
_OPENING: Final = "\"'`([{*\u2018\u201c\u00ab"
_CLOSING: Final = ".,;:!?…\"'`)]}*\u2019\u201d\u00bb\u3002\uff01\uff1f"
_MARKS: Final = word_set("- \u2013 \u2014 \u2022 | & # _")

_BEATS: Final = word_set(
    """
    heartbeat heartbeats heartbeat_ok heartbeat-ok heartbeat.md keepalive keep-alive healthcheck
    health-check healthz liveness readiness
    """
)
_BEAT_PHRASES: Final = (
    *("health check", "status check", "status poll", "system status", "systems check"),
    *("cron tick", "scheduled check", "scheduled tick", "periodic check", "routine check"),
    *("keep alive", "are you alive", "are you there", "poll tick"),
)
_HINTS: Final = (*_BEATS, *_BEAT_PHRASES)
_CALLS: Final = _BEATS | word_set("ping pong status health poll polling tick cron alive")
# What a call for a heartbeat may be made of, besides numbers, and say nothing at all.
_PHATIC: Final = _CALLS | word_set(
    """
    check checks job run scheduled periodic routine system systems report update keep still are is
    you there the a this please reply with ok okay hello hey yes up test hourly daily number at seq
    sequence id utc gmt am pm uptime load cpu memory mem disk queue depth percent seconds minutes
    here fine
    """
)
_QUIET: Final = word_set("heartbeat_ok heartbeat-ok pong nominal operational alive healthy idle")
_QUIET_PHRASES: Final = (
    *("nothing to report", "nothing new", "nothing needs attention", "nothing changed"),
    *("nothing has changed", "no change", "no changes", "no updates", "no news", "no new"),
    *("all systems", "all good", "all clear", "all quiet", "all normal", "all fine", "all ok"),
    *("all green", "everything is fine", "everything is normal", "everything is ok"),
    *("status ok", "status normal", "heartbeat ok", "still running", "still up"),
)
_HEARTBEAT_OK: Final = "heartbeat_ok"
_MARKER_OPENING: Final = "[MEMORY:"

_ALARMS: Final = word_set(
    """
    full fail fails failed failing failure failures error errors down critical paging page alert
    alerts alarm warning warnings degraded timeout timeouts crash crashed crashing restarted lost
    unreachable exceeded outage broken unhealthy stuck missing denied refused expired urgent
    attention leak corrupt corrupted killed overdue escalate escalating incident offline
    """
)
_DENIALS: Final = word_set("no 0 zero without not none nothing")
# A number behind one of these tells which, not how many.
_THINGS: Final = word_set(
    """
    node order ticket invoice pr issue account customer user flight job build pod server host room
    worker shard service case version port release task device sensor gate line step phase
    """
)
_TAUGHT: Final = word_set(
    """
    remember remind reminder note forget prefer always never must decided agreed meeting
    appointment birthday deadline due book schedule moved
    """
)
_LOOKS: Final = word_set(
    """
    check poll scan look monitor watch fetch read report list show tell give summarise summarize
    review query inspect verify what what's which who where when why how is are was were do does
    did any anything has have can could
    """
)
_ACKNOWLEDGED: Final = (
    *("got it", "noted", "understood", "will do", "i'll remember", "i will remember", "saved"),
    *("remembered", "duly noted", "roger", "acknowledged", "sure", "done", "ok", "okay", "thanks"),
    *("thank you", "i've noted", "makes sense", "sounds good", "alright", "copy that"),
)
_MONTHS: Final = word_set(
    """
    january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec
    """
)
_DAYS: Final = word_set(
    "monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun"
)
_HALVES: Final = word_set("am pm")
_CALENDAR: Final = _MONTHS | _DAYS | _HALVES
_STAMPED: Final = word_set("of time now date timestamp ts today utc gmt")


class TurnSignature(msgspec.Struct, frozen=True):
    """What of a turn is compared with earlier ones.

    Args:
        question: The question with its dates and times made alike, unless it tells something.
        answer: The words of the answer.
        telling: The numbers and names in the answer; one that changed is news.
        heartbeat: Whether the turn only says that all is as it was.
        asked: The words of a heartbeat's question, with all counts alike.
        reported: The words of a heartbeat's answer, with all counts alike.
        names: The names in the answer.
        phatic: Whether the question is nothing but a call for a heartbeat.
    """

    question: str
    answer: frozenset[str]
    telling: frozenset[str]
    heartbeat: bool
    asked: frozenset[str]
    reported: frozenset[str]
    names: frozenset[str]
    phatic: bool


def compute_signature(turn: Episode) -> TurnSignature:
    """Return what of a turn is compared."""
    question, answer = _words(turn.question), _words(turn.answer)
    names = frozenset(_names(turn.answer))
    told = _tells(question, answer)
    said = frozenset(_unstamped(answer))
    unread = frozenset(_unread(turn.answer))
    heartbeat = not told and _is_heartbeat_text(question, answer)
    return TurnSignature(
        question="\n".join(
            (*(question if told else _undated(question)), *_unread(turn.question), *_tools(turn))
        ),
        answer=said,
        telling=names | unread | _telling(turn, said),
        heartbeat=heartbeat,
        asked=_unnumbered(question) if heartbeat else frozenset(),
        reported=_unnumbered(answer) if heartbeat else frozenset(),
        names=names | unread,
        phatic=_is_phatic(question),
    )


def is_noise(turn: TurnSignature, before: Iterable[TurnSignature]) -> bool:
    """Say whether a turn says nothing that one of the few turns before it did not say."""
    return any(_repeats(turn, one) or _repeats_heartbeat(turn, one) for one in before)


def is_heartbeat(turn: Episode) -> bool:
    """Say whether a turn only says that all is as it was, be it the first or a later one."""
    if not _may_be_heartbeat(turn):
        return False
    question, answer = _words(turn.question), _words(turn.answer)
    if _HEARTBEAT_OK in answer and len(answer) <= _MAX_SHORT_ANSWER_WORDS:
        return True
    if _tells(question, answer) or not _is_heartbeat_text(question, answer):
        return False
    return _is_quiet(answer) or _is_quiet(question) or all(map(_says_nothing, answer))


def _may_be_heartbeat(turn: Episode) -> bool:
    """Say whether it is worth looking: ordinary turns are told apart without cutting them up."""
    if len(turn.question.split(None, _MAX_HEARTBEAT_WORDS)) <= _MAX_HEARTBEAT_WORDS:
        return True
    asked = turn.question[:_MAX_READ_CHARS].lower()
    return (
        any(hint in asked for hint in _HINTS)
        or _HEARTBEAT_OK in turn.answer[:_MAX_READ_CHARS].lower()
    )


def _repeats(turn: TurnSignature, earlier: TurnSignature) -> bool:
    """Say whether the same question got an answer that is much the same.

    From a heartbeat one word more is news; other answers are worded anew each time.
    """
    return (
        turn.question == earlier.question
        and turn.telling == earlier.telling
        and (not turn.heartbeat or turn.answer <= earlier.answer)
        and _are_alike(turn.answer, earlier.answer)
    )


def _repeats_heartbeat(turn: TurnSignature, earlier: TurnSignature) -> bool:
    """Say whether a heartbeat differs from an earlier one in its numbers at most."""
    if not (turn.heartbeat and earlier.heartbeat and turn.reported and earlier.reported):
        return False
    asked_alike = turn.asked <= earlier.asked and _are_alike(turn.asked, earlier.asked)
    return (
        (asked_alike or (turn.phatic and earlier.phatic))
        and turn.names == earlier.names
        and turn.reported <= earlier.reported
        and _are_alike(turn.reported, earlier.reported)
    )


def _are_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Say whether two sets have a Jaccard index of 0.85 at least; two empty ones are equal."""
    first, second = len(one), len(other)
    if min(first, second) * _HUNDRED < max(first, second) * _MIN_SIMILARITY_PERCENT:
        return False
    common = len(one & other)
    return common * _HUNDRED >= (first + second - common) * _MIN_SIMILARITY_PERCENT


# What a turn is about.


def _is_heartbeat_text(question: Sequence[str], answer: Sequence[str]) -> bool:
    """Say whether a turn calls for a heartbeat, or has nothing to report."""
    if _is_alarmed(question) or _is_alarmed(answer):
        return False
    if not question:
        return _is_quiet(answer)
    if _is_phatic(question):
        return True
    if _HEARTBEAT_OK in answer and _has(question, _BEATS, _BEAT_PHRASES):
        return True
    return _calls_for_heartbeat(question) and (_is_quiet(answer) or _is_quiet(question))


def _is_phatic(question: Sequence[str]) -> bool:
    """Say whether a question is empty, or a call that carries nothing but numbers."""
    return not question or (
        len(question) <= _MAX_HEARTBEAT_WORDS
        and _has(question, _CALLS, _BEAT_PHRASES)
        and all(map(_says_nothing, question))
    )


def _says_nothing(word: str) -> bool:
    return word in _PHATIC or _is_count(word) or is_time(word)


def _calls_for_heartbeat(question: Sequence[str]) -> bool:
    """Say whether a question begins as a call for a heartbeat does, and not as a question."""
    first = next((place for place, word in enumerate(question) if not is_time(word)), 0)
    opening = question[first : first + _OPENING_WORDS]
    return opening[0] not in _LOOKS and _has(opening, _BEATS, _BEAT_PHRASES)


def _is_quiet(words: Sequence[str]) -> bool:
    return _has(words, _QUIET, _QUIET_PHRASES)


def _is_alarmed(words: Sequence[str]) -> bool:
    return not _ALARMS.isdisjoint(words) and any(
        word in _ALARMS and _DENIALS.isdisjoint(words[max(0, place - 2) : place])
        for place, word in enumerate(words)
    )


def _tells(question: Sequence[str], answer: Sequence[str]) -> bool:
    """Say whether a question tells something, so that a date in it is what matters."""
    if _is_phatic(question) or _HEARTBEAT_OK in answer:
        return False
    if not _TAUGHT.isdisjoint(question):
        return True
    if _calls_for_heartbeat(question) and _is_quiet(question):
        return False
    first = next((word for word in question if not is_time(word)), "")
    return _acknowledges(answer) or (first not in _LOOKS and not _is_quiet(answer))


def _acknowledges(answer: Sequence[str]) -> bool:
    return len(answer) <= _MAX_SHORT_ANSWER_WORDS and f"{' '.join(answer)} ".startswith(
        _ACKNOWLEDGING
    )


_ACKNOWLEDGING: Final = tuple(f"{phrase} " for phrase in _ACKNOWLEDGED)


def _has(words: Sequence[str], single: frozenset[str], phrases: Iterable[str]) -> bool:
    if not single.isdisjoint(words):
        return True
    text = f" {' '.join(words)} "
    return any(f" {phrase} " in text for phrase in phrases)


# What is made alike.


def _words(text: str) -> list[str]:
    """Return the words of a text, without the punctuation that changes no word."""
    tokens = text[:_MAX_READ_CHARS].lower().split()
    found = [token.lstrip(_OPENING).rstrip(_CLOSING) for token in tokens]
    return [word for word in found if word and word not in _MARKS]


def _names(text: str) -> Iterator[str]:
    """Yield words with a capital that they do not owe to the beginning of a sentence."""
    begins = True
    for piece in text[:_MAX_READ_CHARS].split():
        if not begins and piece != piece.lower():
            yield piece.lstrip(_OPENING).rstrip(_CLOSING)
        begins = piece[-1] in ".!?:"


def _telling(turn: Episode, said: frozenset[str]) -> frozenset[str]:
    """Return the words of an answer that matter by themselves: all, when it is to be kept."""
    if _MARKER_OPENING in turn.answer:
        return said
    return frozenset(word for word in said if word != _TIME and has_digit(word))


def _unnumbered(words: Sequence[str]) -> frozenset[str]:
    """Make counts alike, and dates and times; a number that names something stays."""
    made: set[str] = set()
    before = ""
    for word in _undated(words):
        made.add(_NUMBER if _is_count(word) and before not in _THINGS else word)
        before = word
    return frozenset(made)


def _is_count(word: str) -> bool:
    """Say whether a word is a plain number, be it with a unit or a name: `17`, `41%`, `n=3`."""
    if not has_digit(word):
        return False
    number = word.rpartition("=")[2].strip("#%+-~")
    digits = number.rstrip("abcdefghijklmnopqrstuvwxyz")
    plain = digits.replace(",", "").replace(".", "", 1)
    return plain.isdigit() and len(number) - len(digits) <= _MAX_UNIT_CHARS


def _undated(words: Sequence[str]) -> Iterator[str]:
    """Make dates and clock times alike, also when they are written out."""
    timed = False
    for place, word in enumerate(words):
        if (word.isalpha() and word not in _CALENDAR) or not (
            is_time(word) or _is_written(words, place, timed=timed)
        ):
            timed = False
            yield word
        elif not timed:
            timed = True
            yield _TIME


def _is_written(words: Sequence[str], place: int, *, timed: bool) -> bool:
    """Say whether a word is part of a date that is written out, such as `Friday, April 3rd`."""
    word = words[place]
    following = words[place + 1] if place + 1 < len(words) else ""
    if word in _MONTHS:
        return timed or _is_day(following)
    if word in _DAYS:
        return timed or is_time(following) or following in _MONTHS
    if word in _HALVES:
        return timed
    if not _is_day(word):
        return False
    year = timed and len(word) == _YEAR_DIGITS
    return following in _MONTHS or (place > 0 and words[place - 1] in _MONTHS) or year


def _unstamped(words: Sequence[str]) -> Iterator[str]:
    """Make stamps alike; a plain date or hour in an answer may be what was asked for."""
    before = ""
    for word in words:
        stamped = not word.isalpha() and (
            is_timestamp(word) or (before in _STAMPED and is_time(word))
        )
        yield _TIME if stamped else word
        before = word


def _is_day(word: str) -> bool:
    """Say whether a word may be the day or the year of a date."""
    digits = word[:-2] if word.endswith(("st", "nd", "rd", "th")) else word
    return digits.isdigit() and len(digits) <= _YEAR_DIGITS


def _unread(text: str) -> Iterator[str]:
    """Yield something that stands for the rest of a text that is too long to be read."""
    if len(text) > _MAX_READ_CHARS:
        yield hashlib.sha256(text[_MAX_READ_CHARS:].encode("utf-8", "surrogatepass")).hexdigest()


def _tools(turn: Episode) -> Iterator[str]:
    """Yield the tools that were called, when nothing else was answered."""
    if not turn.answer.strip():
        yield from turn.calls
