"""Times: what a question names or asks for, which texts tell one, and how near a time is."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memplane.search.time_expressions import (
    Period,
    asks_for_time,
    mentions_time,
    nearness,
    parse_periods,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1) // timedelta(microseconds=1)
THURSDAY = "2024-03-14T15:30"
# Each list is written as text, because each word would take a line.
PIECES = """
    the a of in on last this next past since before after between and to until by week weeks
    month years days ago weekend yesterday today May may June 7 31 31st 2023 1850 9999 Q3 summer
    Monday February couple few twelve , - 2023-05-07 0000-00-00 when what day long
    """.split()  # noqa: SIM905
MONTHS = """
    January February March April May June July August September October November December
    """.split()  # noqa: SIM905


def moment(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def named(question: str, now: str = THURSDAY) -> list[tuple[str, str]]:
    """Return the periods that a question names, as they are written in the tables."""
    return [
        (written(period.begin), written(period.end))
        for period in parse_periods(question, moment(now))
    ]


def written(at: int) -> str:
    text = (EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M")
    return text.removesuffix("T00:00")


# Periods


@pytest.mark.parametrize(
    ("question", "begin", "end"),
    [
        # dates
        ("What was said on 2023-05-07?", "2023-05-07", "2023-05-08"),
        ("logs of 2023-05-07T10:00:00Z", "2023-05-07", "2023-05-08"),
        ("the report of 2023-05", "2023-05-01", "2023-06-01"),
        ("What happened on 7 May 2023?", "2023-05-07", "2023-05-08"),
        ("on 7 may 2023", "2023-05-07", "2023-05-08"),
        ("What was found on 1 February, 2023?", "2023-02-01", "2023-02-02"),
        ("on May 7th 2023", "2023-05-07", "2023-05-08"),
        ("on May 7, 2023", "2023-05-07", "2023-05-08"),
        ("shared on December 1,2023", "2023-12-01", "2023-12-02"),
        ("on Dec. 1st, 2023", "2023-12-01", "2023-12-02"),
        ("on May 7", "2023-05-07", "2023-05-08"),
        ("the 7th of May", "2023-05-07", "2023-05-08"),
        ("on 14 March", "2024-03-14", "2024-03-15"),
        ("on 15 March", "2023-03-15", "2023-03-16"),
        ("Sunday, 7 May 2023", "2023-05-07", "2023-05-08"),
        ("on 29 February", "2024-02-29", "2024-03-01"),
        # months, quarters, seasons and years
        ("in May 2023", "2023-05-01", "2023-06-01"),
        ("in may 2023", "2023-05-01", "2023-06-01"),
        ("mid-May 2022", "2022-05-01", "2022-06-01"),
        ("In May 1850", "1850-05-01", "1850-06-01"),
        ("What did we decide last May?", "2023-05-01", "2023-06-01"),
        ("in March", "2024-03-01", "2024-04-01"),
        ("next May", "2024-05-01", "2024-06-01"),
        ("this February", "2024-02-01", "2024-03-01"),
        ("this November", "2024-11-01", "2024-12-01"),
        ("In 2023, what did we plan?", "2023-01-01", "2024-01-01"),
        ("the 1999 party", "1999-01-01", "2000-01-01"),
        ("in Q3 2023", "2023-07-01", "2023-10-01"),
        ("the Q1 of 2022", "2022-01-01", "2022-04-01"),
        ("our Q4 goals", "2023-10-01", "2024-01-01"),
        ("the summer of 2022", "2022-06-01", "2022-09-01"),
        ("in winter 2022", "2022-12-01", "2023-03-01"),
        ("during the summer", "2023-06-01", "2023-09-01"),
        ("in the fall", "2023-09-01", "2023-12-01"),
        ("last spring", "2023-03-01", "2023-06-01"),
        ("in spring", "2024-03-01", "2024-06-01"),
        # days and weeks from now on
        ("What did I ask yesterday?", "2024-03-13", "2024-03-14"),
        ("the day before yesterday", "2024-03-12", "2024-03-13"),
        ("today's plan", "2024-03-14", "2024-03-15"),
        ("What broke this morning?", "2024-03-14", "2024-03-15"),
        ("last night", "2024-03-13", "2024-03-14"),
        ("last week", "2024-03-04", "2024-03-11"),
        ("this week", "2024-03-11", "2024-03-18"),
        ("last month", "2024-02-01", "2024-03-01"),
        ("this month", "2024-03-01", "2024-04-01"),
        ("next month", "2024-04-01", "2024-05-01"),
        ("last year", "2023-01-01", "2024-01-01"),
        ("this year", "2024-01-01", "2025-01-01"),
        ("last weekend", "2024-03-09", "2024-03-11"),
        ("this weekend", "2024-03-16", "2024-03-18"),
        ("What did we say on Monday?", "2024-03-11", "2024-03-12"),
        ("on thursday", "2024-03-14", "2024-03-15"),
        ("last Tuesday", "2024-03-12", "2024-03-13"),
        ("last Thursday", "2024-03-07", "2024-03-08"),
        ("next Thursday", "2024-03-21", "2024-03-22"),
        ("this Friday", "2024-03-15", "2024-03-16"),
        ("Tuesday of last week", "2024-03-05", "2024-03-06"),
        # so long ago
        ("an hour ago", "2024-03-14T14:00", "2024-03-14T15:00"),
        ("3 days ago", "2024-03-11", "2024-03-12"),
        ("two weeks ago", "2024-02-26", "2024-03-04"),
        ("a month ago", "2024-01-30", "2024-03-01"),
        ("Where did she move from 4 years ago?", "2019-09-14", "2020-09-13"),
        ("a couple of days ago", "2024-03-11", "2024-03-14"),
        ("a few days ago", "2024-03-09", "2024-03-13"),
        ("in the past 3 days", "2024-03-11T15:30", "2024-03-14T15:30"),
        ("over the last two weeks", "2024-02-29T15:30", "2024-03-14T15:30"),
        ("in the past month", "2024-02-14T15:30", "2024-03-14T15:30"),
        ("in the last week", "2024-03-07T15:30", "2024-03-14T15:30"),
        # from, to, before and after
        ("since March", "2024-03-01", "2024-03-14T15:30"),
        ("since the end of last May", "2023-05-01", "2024-03-14T15:30"),
        ("since yesterday", "2024-03-13", "2024-03-14T15:30"),
        ("after May 2023", "2023-06-01", "2024-03-14T15:30"),
        ("before 2022", "1970-01-01", "2022-01-01"),
        ("until 2022", "1970-01-01", "2023-01-01"),
        ("How many were won by July 10, 2022?", "1970-01-01", "2022-07-11"),
        ("between June and August 2023", "2023-06-01", "2023-09-01"),
        ("between June and August", "2023-06-01", "2023-09-01"),
        ("between November and February 2023", "2022-11-01", "2023-03-01"),
        ("between August 11 and August 15 2023", "2023-08-11", "2023-08-16"),
        ("between 5 and 9 May 2023", "2023-05-05", "2023-05-10"),
        ("May 5\u20139, 2023", "2023-05-05", "2023-05-10"),
        ("from Monday to Wednesday", "2024-03-11", "2024-03-14"),
        ("from last week until yesterday", "2024-03-04", "2024-03-14"),
        ("2021-2023", "2021-01-01", "2024-01-01"),
        ("the week before August 3, 2023", "2023-07-27", "2023-08-03"),
        ("the day after 7 May 2023", "2023-05-08", "2023-05-09"),
        ("two weeks before August 11, 2023", "2023-07-25", "2023-08-01"),
        ("the Sunday before October 25, 2022", "2022-10-23", "2022-10-24"),
        ("last weekend before April 10, 2023", "2023-04-08", "2023-04-10"),
    ],
)
def test_a_question_names_a_period(question: str, begin: str, end: str) -> None:
    assert named(question) == [(begin, end)]


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Which database did we choose?",
        "May I ask something?",
        "It may work, and they march 20 miles.",
        "Who may march in may?",
        "Theresa May met April",
        "What did June say?",
        "Did he fall in?",
        "on 31 February",
        "on 31 February 2023",
        "February 30th, 2023",
        "on 29 February 2023",
        "2023-02-31 and 2023-13-01",
        "Sundays, and every Monday",
        "What did she do the next day?",
        "for two weeks",
        "years ago",
        "9999 years ago",
        "99999999999 days ago",
        "It cost $2000, see #2023 in v2.2023",
        "year 1850, port 20231, room 2199a",
        "since next May",
        "before 1969",
        "the second week",
        "\u0662\u0660\u0662\u0663 and 2\u00b2",
    ],
)
def test_a_question_names_no_period(question: str) -> None:
    assert named(question) == []


@pytest.mark.parametrize(
    ("question", "now", "begin"),
    [
        ("in May", "2024-05-20", "2024-05-01"),
        ("in May", "2024-05-01", "2023-05-01"),
        ("last May", "2024-05-20", "2024-05-01"),
        ("last summer", "2024-07-01", "2023-06-01"),
        ("last summer", "2024-09-01", "2024-06-01"),
        ("this winter", "2024-01-20", "2023-12-01"),
        ("last winter", "2024-03-01", "2023-12-01"),
        ("last week", "2024-01-01", "2023-12-25"),
        ("last month", "2024-01-31", "2023-12-01"),
        ("last weekend", "2024-03-17T10:00", "2024-03-09"),
        ("on Monday", "2024-03-11", "2024-03-04"),
        ("since two months ago", "2024-04-30", "2024-02-14"),
        ("on 29 February", "2023-01-01", "2020-02-29"),
        ("between June and August", "2024-07-10", "2023-06-01"),
    ],
)
def test_a_period_depends_on_now(question: str, now: str, begin: str) -> None:
    assert [period[0] for period in named(question, now)] == [begin]


def test_periods_come_in_order_and_at_most_four() -> None:
    question = "What of yesterday, last week, in May, in 2021 and in 2022?"
    assert [begin for begin, _ in named(question)] == [
        "2024-03-13",
        "2024-03-04",
        "2023-05-01",
        "2021-01-01",
    ]


def test_an_impossible_date_does_not_hide_another() -> None:
    assert named("31 February 2023 or in 2021") == [("2021-01-01", "2022-01-01")]


def test_only_the_beginning_of_a_long_question_is_read() -> None:
    assert named("x " * 900 + "yesterday")
    assert not named("x " * 1_000 + "yesterday")


def test_a_time_outside_the_calendar_names_nothing() -> None:
    assert parse_periods("yesterday", 10**30) == ()
    assert parse_periods("yesterday", -(10**30)) == ()
    assert parse_periods("yesterday", moment("0001-01-01")) == ()
    assert parse_periods("tomorrow, next year", moment("9999-12-31")) == ()


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)),
    st.datetimes(timezones=st.just(UTC)),
)
@example("the day before " * 60 + "yesterday", EPOCH)
def test_whatever_is_asked_the_periods_are_real(question: str, now: datetime) -> None:
    at = (now - EPOCH) // timedelta(microseconds=1)
    periods = parse_periods(question, at)
    assert len(periods) <= 4
    assert all(period.begin < period.end for period in periods)
    assert periods == parse_periods(question, at)
    asks_for_time(question)
    mentions_time(question)


@given(st.dates(min_value=date(1900, 1, 1), max_value=date(2999, 12, 30)))
def test_a_day_is_the_same_in_every_spelling(day: date) -> None:
    month = MONTHS[day.month - 1]
    spellings = [
        f"on {day.isoformat()}",
        f"on {day.day} {month} {day.year}",
        f"on {month} {day.day}, {day.year}",
        f"the {day.day}th of {month[:3]} {day.year}",
    ]
    expected = [(day.isoformat(), (day + timedelta(days=1)).isoformat())]
    assert [named(one) for one in spellings] == [expected] * 4


# Asking for a time


@pytest.mark.parametrize(
    "question",
    [
        "When did we ship it?",
        "when was that",
        "When's the release?",
        "Nice. And when?",
        "The release was moved: when was that decided?",
        "Since when do we use it?",
        "Until when is it valid?",
        "Do you remember when she left?",
        "Tell me when it broke.",
        "What day did he arrive?",
        "On what date was it signed?",
        "In which month's game did he score?",
        "What year was it?",
        "At what time does it run?",
        "Which week did they visit?",
        "What was the date of the outage?",
        "How long did it take?",
        "How long ago was the birthday?",
        "How many weeks passed between them?",
        "Wann war das?",
        "Seit wann l\u00e4uft das?",
        "C'est quand, la r\u00e9union ?",
        "\u00bfCu\u00e1ndo fue?",
        "\u00bfCua\u0301ndo fue?",
    ],
)
def test_a_question_asks_for_a_time(question: str) -> None:
    assert asks_for_time(question)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Which database did we choose?",
        "What did she say when they met?",
        "How did he feel when someone wrote a letter?",
        "What happens whenever it fails?",
        "What happened yesterday?",
        "How many people came in 2023?",
        "How much longer is the rope?",
        "What daylight lamp did I buy?",
        "Which dataset was it?",
        "What timezone are we in?",
        "Where was he last week?",
        "Who is it?",
        "What did the date cake cost?",
        "Why did it take so much time?",
        "Was war gestern?",
        "Gewann er?",
        "Call me when you are there.",
        "Who left, when we came?",
        "What does the monthly report say?",
        "What is the weekly plan?",
    ],
)
def test_a_question_asks_for_something_else(question: str) -> None:
    assert not asks_for_time(question)


# Telling a time


@pytest.mark.parametrize(
    "text",
    [
        "I went there yesterday.",
        "YESTERDAY!",
        "We moved it last week",
        "The trip is next month.",
        "that was years ago",
        "We met on Friday's walk.",
        "She comes on Sundays",
        "It was in October",
        "It was in May.",
        "on 7 May",
        "May 7th",
        "Dec. 5 or so",
        "the 3rd of March",
        "I bought it in 2019.",
        "signed 2023-05-07",
        "It starts at 10:30",
        "see you at 5pm",
        "see you at 11 p.m.",
        "I recently changed jobs",
        "She has been busy lately",
        "since the move",
        "We camp every summer",
        "in the spring we planted",
        "the other day I saw it",
        "the past few days were hard",
        "last night it rained",
    ],
)
def test_a_text_tells_a_time(text: str) -> None:
    assert mentions_time(text)
    assert mentions_time("\u00fc \ud800 " + "word " * 200 + text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "We use SQLite.",
        "It may work, this may not.",
        "May I ask? Option 7 may work.",
        "They march on and fall.",
        "A spring of 5 cm",
        "Good morning, have a nice day!",
        "It costs $35 for 12 people",
        "ratio 3:1, room 12345",
        "version 1.2.3",
        "the sundae and the mondayish",
        "I am 30.",
        "The last one is next to this.",
        "agora, sincere, ago_x",
        "summery weather",
        "It took a second.",
        "the 5th element",
        "Decide on 5 things",
        "Janet has 3",
        "a year of work",
    ],
)
def test_a_text_tells_no_time(text: str) -> None:
    assert not mentions_time(text)


def test_a_word_late_in_a_long_text_tells_a_time() -> None:
    assert mentions_time("word " * 13_000 + "yesterday")


# Nearness

MAY = Period(moment("2023-05-01"), moment("2023-06-01"))
MONDAY = Period(moment("2023-05-08"), moment("2023-05-09"))
FORTNIGHT = Period(moment("2023-05-01"), moment("2023-05-15"))


@pytest.mark.parametrize(
    ("at", "periods", "near"),
    [
        ("2023-05-08", [MONDAY], 1.0),
        ("2023-05-08T23:59", [MONDAY], 1.0),
        ("2023-05-09", [MONDAY], 1.0),
        ("2023-05-12T12:00", [MONDAY], 0.5),
        ("2023-05-16", [MONDAY], 0.0),
        ("2023-05-17", [MONDAY], 0.0),
        ("2023-05-07T23:59", [MONDAY], 0.0),
        ("2022-05-08", [MONDAY], 0.0),
        ("2023-05-22", [FORTNIGHT], 0.5),
        ("2023-05-29", [FORTNIGHT], 0.0),
        ("2023-05-20", [MAY], 1.0),
        ("2023-06-16", [MAY], 0.5),
        ("2023-06-30", [MAY], pytest.approx(1 / 30)),
        ("2023-07-01", [MAY], 0.0),
        ("2023-05-12T12:00", [MONDAY, MAY], 1.0),
        ("2023-06-16", [MAY, MONDAY], 0.5),
        ("2023-05-12T12:00", [MONDAY, MONDAY], 0.5),
        ("2023-05-08", [], 0.0),
        ("1970-01-01", [Period(-DAY, DAY)], 0.0),
        ("1969-12-31T12:00", [Period(-DAY, DAY)], 1.0),
    ],
)
def test_a_time_is_so_near(at: str, periods: list[Period], near: float) -> None:
    assert nearness(moment(at), periods) == near


LONG = 10**17


@given(
    st.integers(-LONG, LONG),
    st.lists(st.tuples(st.integers(-LONG, LONG), st.integers(1, LONG)), max_size=4),
)
def test_nearness_is_that_of_the_best_period(at: int, pairs: list[tuple[int, int]]) -> None:
    periods = [Period(begin, begin + length) for begin, length in pairs]
    near = nearness(at, periods)
    assert 0.0 <= near <= 1.0
    assert near == max((nearness(at, [one]) for one in periods), default=0.0)
    assert near == nearness(at, periods[::-1])
    if at and any(one.begin <= at < one.end for one in periods):
        assert near == 1.0


@given(st.integers(1, LONG), st.integers(1, LONG), st.integers(0, 60), st.integers(0, 60))
def test_nearness_never_grows_behind_a_period(
    begin: int, length: int, days: int, more: int
) -> None:
    period = Period(begin, begin + length)
    sooner = nearness(period.end + days * DAY, [period])
    assert nearness(period.end + (days + more) * DAY, [period]) <= sooner
    assert (sooner == 0.0) is (days >= min(max(7, length / DAY), 30))
