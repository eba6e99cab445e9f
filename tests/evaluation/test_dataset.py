"""Conversations and questions out of decoded JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from memplane.errors import InvalidRequest
from memplane.evaluation.dataset import (
    DatasetConversation,
    DatasetQuestion,
    build_entries,
    parse_conversations,
    parse_question,
    select_measurable,
)
from tests.evaluation.talks import asked, harbour, orchard, turn


def one_of(value: object) -> DatasetConversation:
    (found,) = parse_conversations(value)
    return found


def changed(**sessions: Any) -> dict[str, Any]:
    made = harbour()
    made["conversation"] |= sessions
    return made


def test_a_list_of_conversations_is_read_and_so_is_a_single_one() -> None:
    assert [one.name for one in parse_conversations([harbour(), orchard()])] == [
        "harbour",
        "orchard",
    ]
    assert parse_conversations(harbour()) == parse_conversations([harbour()])


def test_turns_have_ids_sessions_and_a_minute_each() -> None:
    turns = one_of(harbour()).turns
    assert [(one.id, one.session) for one in turns] == [
        ("harbour:D1:1", 1),
        ("harbour:D1:2", 1),
        ("harbour:D1:3", 1),
        ("harbour:D2:1", 2),
        ("harbour:D2:2", 2),
    ]
    assert [one.at for one in turns] == [
        datetime(2023, 5, 8, 13, 56, tzinfo=UTC),
        datetime(2023, 5, 8, 13, 57, tzinfo=UTC),
        datetime(2023, 5, 8, 13, 58, tzinfo=UTC),
        datetime(2023, 9, 13, 0, 9, tzinfo=UTC),
        datetime(2023, 9, 13, 0, 10, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("said", "hour"),
    [
        ("12:00 pm on 1 May, 2023", 12),
        ("12:00 am on 1 May, 2023", 0),
        ("11:00 PM on 1 May 2023", 23),
    ],
)
def test_hours_are_those_of_a_clock_with_twelve(said: str, hour: int) -> None:
    first = one_of(changed(session_1_date_time=said)).turns[0]
    assert (first.at.month, first.at.day, first.at.hour) == (5, 1, hour)


def test_a_caption_stands_in_brackets_behind_the_words() -> None:
    said = [one.said for one in one_of(harbour()).turns]
    assert said[0] == "Brindle: My sailboat finally has a turquoise hull."
    assert said[2] == "Brindle: Look. [a photo of a pelican on a pier]"


def test_sessions_come_in_the_order_of_their_numbers() -> None:
    late = {
        "session_10_date_time": "9:00 am on 1 December, 2023",
        "session_10": [turn("D10:1", "Tovik", "Snow.")],
    }
    turns = one_of(changed(**late)).turns
    assert [one.session for one in turns] == [1, 1, 1, 2, 2, 10]


def test_an_entry_answers_the_turn_before_it_in_its_session() -> None:
    entries = list(build_entries(one_of(harbour()), "sailor"))
    requests = [one["request_original"]["messages"] for one in entries]
    assert requests[0] == requests[3] == []
    assert requests[1] == [
        {"role": "user", "content": "Brindle: My sailboat finally has a turquoise hull."}
    ]
    assert requests[4][0]["content"].startswith("Tovik: The ferry")
    (choice,) = entries[4]["response"]["json"]["choices"]
    assert choice["message"]["content"].startswith("Brindle: Then I will repair")
    assert [entries[4][name] for name in ("id", "ts", "claw_id")] == [
        "harbour:D2:2",
        "2023-09-13T00:10:00Z",
        "sailor",
    ]


def test_questions_keep_the_evidence_that_there_is_and_others_are_left_out() -> None:
    assert one_of(harbour()).questions[1:] == (
        DatasetQuestion(
            "Where was the rhubarb planted?", "single-hop", frozenset({"harbour:D1:2"})
        ),
        DatasetQuestion(
            "Which pelican and which winch were there?",
            "multi-hop",
            frozenset({"harbour:D1:3", "harbour:D2:2"}),
        ),
        DatasetQuestion(
            "When was the ferry cancelled by fog?", "temporal", frozenset({"harbour:D2:1"})
        ),
    )


@pytest.mark.parametrize("value", [[], {}, None, "text", [1, {"qa": []}], [[harbour()]]])
def test_a_file_without_a_conversation_is_said_so(value: object) -> None:
    with pytest.raises(InvalidRequest, match="no conversation"):
        parse_conversations(value)


@pytest.mark.parametrize(
    ("sessions", "told"),
    [
        ({"session_1": [], "session_2": []}, "no session has a turn"),
        ({"session_2": [turn("D1:1", "Tovik", "Again.")]}, "the same dia_id"),
        ({"session_2": [{"speaker": "Tovik", "text": "Fog."}]}, "turn 1 of session_2 has no dia"),
        ({"session_2": [17]}, "turn 1 of session_2 has no dia"),
        ({"session_1_date_time": None}, "session_1_date_time"),
        ({"session_2_date_time": "2023-09-13"}, "session_2_date_time"),
        ({"session_2_date_time": "1:56 pm on 31 June, 2023"}, "session_2_date_time"),
        ({"session_2_date_time": "1:56 pm on 3 Floreal, 2023"}, "session_2_date_time"),
        ({"session_2_date_time": "13:56 pm on 3 June, 2023"}, "session_2_date_time"),
    ],
)
def test_a_conversation_of_another_shape_is_named(sessions: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=f"conversation harbour: .*{told}"):
        parse_conversations([changed(**sessions)])


def test_a_conversation_without_a_name_is_counted() -> None:
    with pytest.raises(InvalidRequest, match="conversation 2 has no sample_id"):
        parse_conversations([harbour(), orchard() | {"sample_id": " "}])


def test_two_conversations_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="the sample_id 'harbour'"):
        select_measurable(parse_conversations([harbour(), orchard(), harbour()]))


@pytest.mark.parametrize(
    "questions", [[], None, [asked("Who?", "D1:1", category=5)], [asked("Who?", "D8:1")]]
)
def test_without_a_question_nothing_can_be_measured(questions: object) -> None:
    silent = parse_conversations(harbour() | {"qa": questions})
    with pytest.raises(InvalidRequest, match="no question"):
        select_measurable(silent)
    both = (*silent, *parse_conversations(orchard()))
    assert select_measurable(both) == both


@pytest.mark.parametrize(
    ("category", "name"), [({}, ""), ({"category": "work"}, "work"), ({"category": 3}, "3")]
)
def test_a_question_of_ones_own_names_entries(category: dict[str, object], name: str) -> None:
    value = {"question": " Where? ", "entry_ids": ["a", "b", "a"], **category}
    assert parse_question(value) == DatasetQuestion("Where?", name, frozenset({"a", "b"}))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "JSON object"),
        ({"entry_ids": ["a"]}, "question must"),
        ({"question": " ", "entry_ids": ["a"]}, "question must"),
        ({"question": 1, "entry_ids": ["a"]}, "question must"),
        ({"question": "Where?"}, "entry_ids must"),
        ({"question": "Where?", "entry_ids": "a"}, "entry_ids must"),
        ({"question": "Where?", "entry_ids": []}, "entry_ids must"),
        ({"question": "Where?", "entry_ids": ["a", 1]}, "entry_ids must"),
        ({"question": "Where?", "entry_ids": ["a"], "category": ["x"]}, "category must"),
        ({"question": "Where?", "entry_ids": ["a"], "category": True}, "category must"),
    ],
)
def test_a_question_of_another_shape_is_said_so(value: object, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        parse_question(value)
