"""The times that a question names or asks for, and whether a text tells one (pure).

What is written is read word by word, each place by a few rules that look a few words ahead; so
the time it takes grows with the length alone. Weeks begin on Monday, and all is UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, pairwise
from typing import Final, NamedTuple, TypeAlias

import msgspec

_MAX_TEXT_CHARS: Final = 2_000
_MAX_PERIODS: Final = 4
_MAX_LOOKAHEAD_WORDS: Final = 16
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_WEEK: Final = 7 * _DAY
_MICROSECOND: Final = timedelta(microseconds=1)
_MIN_FADE_US: Final = _WEEK // _MICROSECOND
_MAX_FADE_US: Final = 30 * _DAY // _MICROSECOND

# Lists of words are written as text, because each word would take a line.
_MONTHS: Final = (
    {"sept": 9}
    | {
        spelling: number
        for number, name in enumerate(
            "january february march april may june july august "  # noqa: SIM905
            "september october november december".split(),
            1,
        )
        for spelling in (name, name[:3])
    }
)
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_QUARTERS: Final = {"q1": 1, "q2": 4, "q3": 7, "q4": 10}
_WEEKDAYS: Final = {"weekend": 5} | {
    name: index
    for index, name in enumerate(
        "monday tuesday wednesday thursday friday saturday sunday".split()  # noqa: SIM905
    )
}
_DAYS: Final = {"yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1}
_PARTS_OF_A_DAY: Final = frozenset({"morning", "afternoon", "evening", "night"})
_RELATIVE_SHIFTS: Final = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1}
_NUMBERS: Final = {"a": 1, "an": 1} | {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(),  # noqa: SIM905
        1,
    )
}
_VAGUE: Final = {"couple": (1, 3), "few": (2, 5), "several": (3, 7)}
# How far off "three weeks ago" may be, to either side.
_UNIT_SLACK: Final = {
    "minute": timedelta(minutes=15),
    "hour": timedelta(minutes=30),
    "day": timedelta(),
    "week": 3 * _DAY,
    "month": 15 * _DAY,
    "year": 182 * _DAY,
}
# Behind one of these words, the name of a month or a season is no verb and nobody's name.
_MONTH_NEIGHBOURS: Final = frozenset(
    "in last this next previous past of since by during until till before after between "  # noqa: SIM905
    "from the early mid late around about through throughout to -".split()
)
_ALSO_VERBS: Final = frozenset({"may", "march", "mar"})
_FILLERS: Final = frozenset(
    ", - the of last this next early mid late about around beginning start middle end".split()  # noqa: SIM905
)
_SIDES: Final = {"ago": -1, "before": -1, "after": 1}
_TO: Final = frozenset({"to", "through", "until", "till", "-"})

_WORDS: Final = r"[0-9]{4}[-/][0-9]{1,2}(?:[-/][0-9]{1,2})?(?![0-9])|[#$€£.]?\w+|[-\u2013,]"
_TIME_QUESTION: Final = (
    r"(?i)(?:^|[.?!:;\n])\W{0,9}(?:and |but |so |or )?when\b|\bwhen\s{0,9}\?"
    r"|\bwhen(?:['\u2019]s| (?:did|do|does|was|were|is|are|will|would|has|have|had|can|should)\b)"
    r"|\b(?:since|until|till|by|know|tell me|tell us|remind me|remember|recall) when\b"
    r"|\b(?:what|which) (?:exact )?(?:day|date|week|weekend|month|year|season|time|hour)\b"
    r"|\bwhat(?:['\u2019]s| is| was) the (?:exact )?(?:day|date|month|year|time)\b"
    r"|\bhow (?:long|recently)\b|\bhow many (?:hours|days|weeks|months|years)\b"
    r"|\b(?:wann|quand|cu(?:á|a\u0301)ndo)\b"
)
# One of these is in every question in which that is found, as long as it is all ASCII.
_TIME_QUESTION_WORDS: Final = (
    *("when", "day", "date", "week", "month", "year", "season", "time", "hour"),
    *("how long", "how recently", "wann", "quand"),
)
# Words that tell a time, and those that may do so beside another; each 0 is any digit.
_TIME_WORDS: Final = frozenset(
    b"yesterday today tonight tomorrow ago recently lately since weekend weekends"
    b" monday mondays tuesday tuesdays wednesday wednesdays thursday thursdays friday fridays"
    b" saturday saturdays sunday sundays january february april june july august september"
    b" october november december summer autumn winter".split()
)
_POSSIBLE_TIME_WORDS: Final = frozenset(
    b"week weeks month months year years days day night morning afternoon evening may march jan"
    b" feb mar apr jun jul aug sep sept oct nov dec spring fall 0000 00 0 0st 0nd 0rd 0th 00st"
    b" 00nd 00rd 00th 0am 00am 0pm 00pm".split()
)
_PERIOD_WORDS: Final = (
    _TIME_WORDS | _POSSIBLE_TIME_WORDS | frozenset(b"minute minutes hour hours quarter q0".split())
)
_MONTH: Final = "(?:(?-i:May|March)|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
_TIME_MENTION: Final = (
    r"(?i)\b(?:(?:last|next|this|past|previous) (?:few |couple of )?"
    r"(?:days|week|month|year|night|morning|afternoon|evening|spring|fall|(?-i:May|March)\b)"
    r"|(?:in|of|since|by|until|during|early|late) (?:the )?(?:(?-i:May|March)|spring|fall)\b"
    rf"|the other day|{_MONTH}\.? [0-9]|[0-9]{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}\b"
    r"|(?:19|20)[0-9]{2}(?![0-9])|[0-9]{1,2}:[0-5][0-9](?![0-9])|[0-9]{1,2} ?[ap]\.?m\b)"
)


class Period(msgspec.Struct, frozen=True):
    """A stretch of time that a question names; the end is not in it.

    Attributes:
        begin: When it begins, in microseconds since 1970.
        end: When it is over, in the same.
    """

    begin: int
    end: int


class _Span(NamedTuple):
    begin: datetime
    end: datetime


class _ParsedSpan(NamedTuple):
    """A span, or none where what is written is no real date, and where the next word is."""

    span: _Span | None
    after: int


class _Count(NamedTuple):
    """At least and at most so many, and where the next word is."""

    least: int
    most: int
    after: int


_Rule: TypeAlias = Callable[[Sequence[str], int, datetime], _ParsedSpan | None]
"""Reads what stands at a place, as somebody understands it at a moment."""


def parse_periods(question: str, now: int) -> tuple[Period, ...]:
    """Return the periods that a question names, in its order and at most four.

    A month, a season or a day of the week without more is the latest that began before now.
    """
    # Few questions name a time, and reading one word by word takes ten times as long.
    if _PERIOD_WORDS.isdisjoint(_fold_words(question[:_MAX_TEXT_CHARS])):
        return ()
    try:
        at = _EPOCH + timedelta(microseconds=now)
    except OverflowError:
        return ()
    return tuple(islice(_periods(_words(question), at), _MAX_PERIODS))


def asks_for_time(question: str) -> bool:
    """Tell whether a question asks for a time: when, what day, how long."""
    text = question[:_MAX_TEXT_CHARS]
    if text.isascii():
        # The pattern takes fifty times as long, and most questions have nothing of it.
        lowered = text.lower()
        if not any(part in lowered for part in _TIME_QUESTION_WORDS):
            return False
    return _compiled(_TIME_QUESTION).search(text) is not None


def mentions_time(text: str) -> bool:
    """Tell whether a text mentions a time, be it a date, a day of the week or "recently"."""
    words = _fold_words(text)
    if not _TIME_WORDS.isdisjoint(words):
        return True
    # The pattern takes ten times as long as the sets, and few texts need it.
    needs_it = not _POSSIBLE_TIME_WORDS.isdisjoint(words)
    return needs_it and _compiled(_TIME_MENTION).search(text[:_MAX_TEXT_CHARS]) is not None


def _fold_words(text: str) -> list[bytes]:
    """Return the words of a text in small letters, with a 0 for each digit."""
    return text.lower().encode("utf-8", "replace").translate(_folding()).split()


def nearness(at: int, periods: Sequence[Period]) -> float:
    """Return how near a time is to the nearest of the periods: 1 inside, 0 far off or before.

    People talk about an event for a while, so it falls to 0 within as long as the period was,
    but at least in a week and at most in thirty days. A time of 0 is unknown, and near to none.
    """
    return max((_nearness_to(at, period) for period in periods), default=0.0) if at else 0.0


def _nearness_to(at: int, period: Period) -> float:
    if at < period.begin:
        return 0.0
    length = period.end - period.begin
    fade_us = min(max(length, _MIN_FADE_US), _MAX_FADE_US)
    return min(1.0, max(0.0, 1.0 - (at - period.end) / fade_us))


def _words(text: str) -> list[str]:
    """Cut a text into words in lower case; empty ones follow, so that rules may look around."""
    tokens = _compiled(_WORDS).findall(text[:_MAX_TEXT_CHARS].replace("\u2013", "-"))
    words = [
        "" if word in _ALSO_VERBS and _year(following) is None else word.lower()
        for word, following in pairwise([*tokens, ""])
    ]
    return words + [""] * _MAX_LOOKAHEAD_WORDS


def _periods(words: Sequence[str], now: datetime) -> Iterator[Period]:
    at = 0
    while at < len(words) - _MAX_LOOKAHEAD_WORDS:
        try:
            parsed = _stretch(words, at, now)
        except (ValueError, OverflowError):  # it lies outside the calendar
            parsed = None
        at = parsed.after if parsed else at + 1
        if parsed and parsed.span and parsed.span.begin < parsed.span.end:
            yield Period(*((bound - _EPOCH) // _MICROSECOND for bound in parsed.span))


def _stretch(words: Sequence[str], at: int, now: datetime) -> _ParsedSpan | None:
    """Read a period with the word before it, or two that make one."""
    parsed = _single(words, at, now)
    if parsed is None or parsed.span is None:
        return parsed
    span, after = parsed.span, parsed.after
    word, joint = _word_before(words, at), words[after]
    if joint in _TO or (joint == "and" and word == "between"):
        last = _look_ahead(_single, words, after + 1, now)
        if last and last.span:
            # As of the end, because "June" in "June to August 2023" is that of 2023.
            dated = _calendar(words, at, last.span.end)
            first = dated.span if dated and dated.span else span
            return _ParsedSpan(_Span(first.begin, last.span.end), last.after)
    spans = {
        "since": _Span(span.begin, now),
        "after": _Span(span.end, now),
        "before": _Span(_EPOCH, span.begin),
        "until": _Span(_EPOCH, span.end),
        "till": _Span(_EPOCH, span.end),
        "by": _Span(_EPOCH, span.end),
    }
    return _ParsedSpan(spans.get(word, span), after)


def _single(words: Sequence[str], at: int, now: datetime) -> _ParsedSpan | None:
    """Read a period, which a later one may tell apart: the last weekend before 10 April."""
    parsed = _counted(words, at, now) or _simple(words, at, now)
    if parsed and words[parsed.after] == "before":
        later_span = _look_ahead(_simple, words, parsed.after + 1, now)
        if later_span and later_span.span:
            second = _simple(words, at, later_span.span.begin) or parsed
            return _ParsedSpan(second.span, later_span.after)
    return parsed


def _simple(words: Sequence[str], at: int, now: datetime) -> _ParsedSpan | None:
    return _relative(words, at, now) or _calendar(words, at, now)


def _calendar(words: Sequence[str], at: int, now: datetime) -> _ParsedSpan | None:
    rules = (_iso_date, _date, _part_of_year, _weekday)
    parsed = next((parsed for rule in rules if (parsed := rule(words, at, now))), None)
    if parsed is None and (year := _year(words[at])) and words[at][:2] in {"19", "20"}:
        return _ParsedSpan(_months(year, 1, 12), at + 1)
    return parsed


def _look_ahead(rule: _Rule, words: Sequence[str], at: int, now: datetime) -> _ParsedSpan | None:
    """Read what stands here or behind a few words that do not matter."""
    for position in range(at, at + 4):
        if parsed := rule(words, position, now):
            return parsed
        if words[position] not in _FILLERS:
            break
    return None


def _word_before(words: Sequence[str], at: int) -> str:
    positions = range(at - 1, max(-1, at - 6), -1)
    return next((words[position] for position in positions if words[position] not in _FILLERS), "")


def _counted(words: Sequence[str], at: int, now: datetime) -> _ParsedSpan | None:
    """Read "two weeks ago", "two weeks before 11 August" and "the week after 11 August"."""
    count = _count(words, at)
    position = count.after if count else at
    unit, side = _unit(words[position]), words[position + 1]
    if unit is None or side not in _SIDES:
        return None
    current = _ParsedSpan(_Span(now, now), position + 2) if count else None
    anchor = current if side == "ago" else _look_ahead(_simple, words, position + 2, now)
    if anchor is None or anchor.span is None:
        return anchor
    anchor_start, end = anchor.span
    direction = _SIDES[side]
    if count:
        bounds = sorted((direction * count.least, direction * count.most))
        first, last = (_span_around(_shift(anchor_start, number, unit), unit) for number in bounds)
        return _ParsedSpan(_Span(first.begin, last.end), anchor.after)
    span = (
        _Span(end, _shift(end, 1, unit))
        if direction > 0
        else _Span(_shift(anchor_start, -1, unit), anchor_start)
    )
    return _ParsedSpan(span, anchor.after)


def _relative(words: Sequence[str], at: int, now: datetime) -> _ParsedSpan | None:
    """Read "yesterday", "last week", "this morning" and "the past three days"."""
    today = _midnight(now)
    if words[at] in _DAYS:
        day = today + _DAYS[words[at]] * _DAY
        return _ParsedSpan(_Span(day, day + _DAY), at + 1)
    turn = _RELATIVE_SHIFTS.get(words[at])
    if turn is None:
        return None
    ends_now = words[at] == "past" or words[at - 1] == "the"  # the last week is not last week
    if not ends_now and (span := _apply_turn(words[at + 1], turn, today)):
        return _ParsedSpan(span, at + 2)
    count = _count(words, at + 1) or _Count(1, 1, at + 1)
    unit = _unit(words[count.after])
    if unit is None or turn >= 0:
        return None
    return _ParsedSpan(_Span(_shift(now, -count.most, unit), now), count.after + 1)


def _apply_turn(word: str, turn: int, today: datetime) -> _Span | None:
    """Return the day, week, month or year that is so many from this one."""
    match "day" if word in _PARTS_OF_A_DAY else word:
        case "day":
            return _Span(today + turn * _DAY, today + (turn + 1) * _DAY)
        case "week":
            monday = today - today.weekday() * _DAY
            return _Span(monday + turn * _WEEK, monday + (turn + 1) * _WEEK)
        case "month":
            return _months(today.year, today.month + turn, 1)
        case "year":
            return _months(today.year + turn, 1, 12)
        case _:
            return None


def _iso_date(words: Sequence[str], at: int, _: datetime) -> _ParsedSpan | None:
    parts = words[at].replace("/", "-").split("-")
    if len(parts) == 1 or not parts[0]:
        return None
    year, month, *day = map(int, parts)
    return _ParsedSpan(_in_year(year, month, (day[0], day[0]) if day else None), at + 1)


def _date(words: Sequence[str], at: int, now: datetime) -> _ParsedSpan | None:
    """Read "7 May 2023", "the 7th of May", "May 7th, 2023", "May 5-9", "May 2023", "in May"."""
    days, position = _days(words, at)
    position += days is not None and words[position] == "of"
    month = _MONTHS.get(words[position])
    if month is None:
        return None
    after = position + 1
    if days is None:
        days, after = _days(words, after)
    year, after = _year_at(words, after)
    if year:
        return _ParsedSpan(_in_year(year, month, days), after)
    if days is None and not _is_beside(words, at):
        return None
    turn = "" if words[at - 1] == "last" else words[at - 1]
    return _ParsedSpan(_latest(lambda year: _in_year(year, month, days), now, turn), after)


def _part_of_year(words: Sequence[str], at: int, now: datetime) -> _ParsedSpan | None:
    """Read "the summer of 2022", "last summer" and "Q3 2023"."""
    name = words[at]
    month = _SEASONS.get(name) or _QUARTERS.get(name)
    if month is None:
        return None
    year, after = _year_at(words, at + 1)
    if year:
        return _ParsedSpan(_months(year, month, 3), after)
    if name in _SEASONS and not _is_beside(words, at):
        return None
    return _ParsedSpan(_latest(lambda year: _months(year, month, 3), now, words[at - 1]), after)


def _weekday(words: Sequence[str], at: int, now: datetime) -> _ParsedSpan | None:
    """Read "on Tuesday", "last weekend", "Tuesday last week" and "Sunday, 7 May 2023"."""
    index = _WEEKDAYS.get(words[at])
    if index is None or words[at - 1] in {"every", "each"}:
        return None
    after, turn = at + 1, words[at - 1]
    date = _look_ahead(_date, words, after, now)
    if date and date.span and date.span.end - date.span.begin == _DAY:
        return date
    week = _look_ahead(_relative, words, after, now)
    if week and week.span and week.span.end - week.span.begin == _WEEK:
        now, after, turn = week.span.end, week.after, ""
    days = 2 if words[at] == "weekend" else 1
    today = _midnight(now)
    back = (today.weekday() - index) % 7
    if turn == "next":
        back -= 7
    elif turn == "this":
        back = today.weekday() - index
    elif (turn == "last" and back < days) or (back == 0 and today == now):
        back += 7
    day = today - back * _DAY
    return _ParsedSpan(_Span(day, day + days * _DAY), after)


def _latest(make: Callable[[int], _Span | None], now: datetime, turn: str) -> _Span | None:
    """Return the one that began before now the latest, or whichever one it is turned to."""
    years = range(now.year - 8, now.year + 9)  # 29 February may be eight years away
    spans = [span for year in years if (span := make(year))]
    match turn:
        case "last":
            return next((candidate for candidate in reversed(spans) if candidate.end <= now), None)
        case "this":
            return next(
                (
                    candidate
                    for candidate in spans
                    if candidate.end > now or candidate.begin.year == now.year
                ),
                None,
            )
        case "next":
            return next((candidate for candidate in spans if candidate.begin > now), None)
        case _:
            return next(
                (candidate for candidate in reversed(spans) if candidate.begin < now), None
            )


def _is_beside(words: Sequence[str], at: int) -> bool:
    """Tell whether the word before makes a month or a season of a name: in May, May or June."""
    word = words[at - 1]
    if word in {"and", "or", ","}:
        word = words[at - 2]
        return word in _MONTHS or word in _SEASONS
    return word in _MONTH_NEIGHBOURS


def _in_year(year: int, month: int, days: tuple[int, int] | None) -> _Span | None:
    """Return a month or the days in it; none if there are no such."""
    try:
        if days is None:
            return _months(year, month, 1)
        first, last = (datetime(year, month, day, tzinfo=UTC) for day in days)
        return _Span(first, last + _DAY)
    except (ValueError, OverflowError):
        return None


def _months(year: int, month: int, count: int) -> _Span:
    return _Span(_first_of(year, month), _first_of(year, month + count))


def _first_of(year: int, month: int) -> datetime:
    """Return where a month begins; the thirteenth is January of the next year."""
    years, index = divmod(month - 1, 12)
    return datetime(year + years, index + 1, 1, tzinfo=UTC)


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _shift(at: datetime, count: int, unit: str) -> datetime:
    if unit not in {"month", "year"}:
        return at + count * timedelta(**{f"{unit}s": 1})
    month = _months(at.year, at.month + count * (12 if unit == "year" else 1), 1)
    day = min(at.day, (month.end - month.begin).days)
    return at.replace(year=month.begin.year, month=month.begin.month, day=day)


def _span_around(at: datetime, unit: str) -> _Span:
    slack = _UNIT_SLACK[unit]
    if unit in {"minute", "hour"}:
        return _Span(at - slack, at + slack)
    day = _midnight(at)
    return _Span(day - slack, day + slack + _DAY)


def _unit(word: str) -> str | None:
    unit = word.removesuffix("s")
    return unit if unit in _UNIT_SLACK else None


def _count(words: Sequence[str], at: int) -> _Count | None:
    """Read "3", "a", "twelve", "few" and "a couple of"."""
    if words[at] == "a" and words[at + 1] in _VAGUE:
        at += 1
    if vague := _VAGUE.get(words[at]):
        return _Count(*vague, at + (2 if words[at + 1] == "of" else 1))
    number = _NUMBERS.get(words[at]) or _number(words[at], 4)
    return _Count(number, number, at + 1) if number else None


def _number(word: str, digits: int) -> int | None:
    is_number = word.isascii() and word.isdigit() and len(word) <= digits
    return int(word) if is_number else None


def _days(words: Sequence[str], at: int) -> tuple[tuple[int, int] | None, int]:
    """Return the first and the last day that stand here, and where the next word is."""
    position = at + (words[at] == "the")
    first = _day(words[position])
    if first is None:
        return None, at
    is_joined = words[position + 1] in _TO or words[position + 1] == "and"
    last = _day(words[position + 2]) if is_joined else None
    return ((first, first), position + 1) if last is None else ((first, last), position + 3)


def _day(word: str) -> int | None:
    number = _number(word[:-2] if word[-2:] in {"st", "nd", "rd", "th"} else word, 2)
    return number if number and number <= 31 else None  # noqa: PLR2004 - the days of a month


def _year_at(words: Sequence[str], at: int) -> tuple[int | None, int]:
    """Return the year that follows what was read, and where the next word is."""
    position = at + (words[at] in {",", "of"})
    year = _year(words[position])
    return (year, position + 1) if year else (None, at)


def _year(word: str) -> int | None:
    number = _number(word, 4)
    return number if number and len(word) == 4 and "1" <= word[0] <= "2" else None  # noqa: PLR2004


@cache
def _folding() -> bytes:
    """Return the table that makes zeros of digits, and blanks of what is in no word."""
    folded = re.sub(r"[^\w]", " ", re.sub(r"[0-9]", "0", bytes(range(128)).decode()))
    return folded.encode() + bytes(range(128, 256))


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source)
