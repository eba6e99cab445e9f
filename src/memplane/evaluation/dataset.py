"""Conversations and questions whose answers are known, out of decoded JSON (pure).

A conversation has one of two shapes. That of the LoCoMo benchmark has dated sessions in which two
people talk, and questions that name the turns with their answers. The other is a chat with an
assistant: `turns` with `id`, `session`, `ts`, `user` and `assistant`, and `questions` with `kind`,
`question` and `evidence`, which is empty where nothing in the chat answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from memplane.errors import InvalidRequest

CATEGORIES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
"""The categories that are asked; others have no answer to find."""

_TURN_INTERVAL: Final = timedelta(minutes=1)
_NOON: Final = 12
_SESSION_KEY: Final = re.compile(r"session_(\d+)", re.ASCII)
_EVIDENCE_SEPARATOR: Final = re.compile(r"[\s;,]+")
_SESSION_TIME: Final = re.compile(
    r"(\d{1,2}):(\d{2})\s*([ap])m on (\d{1,2}) ([a-z]{3})[a-z]*,? (\d{4})",
    re.ASCII | re.IGNORECASE,
)
_MONTHS: Final = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DatasetTurn:
    """What was said at once, and what it replies to; `id` is that of the entry it becomes."""

    id: str
    session: int
    at: datetime
    said: str
    asked: str = ""


@dataclass(frozen=True, slots=True)
class DatasetQuestion:
    """A question, and the entries that answer it, if any; the category may be empty."""

    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class DatasetConversation:
    """A conversation over many sessions, and the questions about it that can be asked."""

    name: str
    turns: tuple[DatasetTurn, ...]
    questions: tuple[DatasetQuestion, ...]


def parse_conversations(value: object) -> tuple[DatasetConversation, ...]:
    """Read the conversations of a file: a list of them, or one.

    Raises:
        InvalidRequest: There is none in it, or one has another shape.
    """
    members = [_members(one) for one in _listed(value)]
    conversations = [one for one in members if "conversation" in one or "turns" in one]
    if not conversations:
        raise InvalidRequest("there is no conversation in it")
    return tuple(
        _conversation(one, number) if "conversation" in one else _chat(one, number)
        for number, one in enumerate(conversations, 1)
    )


def select_measurable(
    conversations: Iterable[DatasetConversation],
) -> tuple[DatasetConversation, ...]:
    """Return the conversations when something can be measured with them.

    Raises:
        InvalidRequest: Two have the same name, or no question names a turn that there is.
    """
    known: dict[str, DatasetConversation] = {}
    for one in conversations:
        if one.name in known:
            raise InvalidRequest(f"two conversations have the sample_id {one.name!r}")
        known[one.name] = one
    questions = (question for one in known.values() for question in one.questions)
    if not any(question.evidence for question in questions):
        raise InvalidRequest(
            "no question of the categories 1 to 4 names a turn of its conversation as evidence"
        )
    return tuple(known.values())


def parse_question(value: object) -> DatasetQuestion:
    """Read one question of somebody's own, with the ids of the entries that answer it.

    Raises:
        InvalidRequest: It has another shape.
    """
    if not isinstance(value, dict):
        raise InvalidRequest("a line is a JSON object with question and entry_ids")
    members = _members(cast("object", value))
    text = _text(members.get("question"))
    if not text:
        raise InvalidRequest("question must be text")
    ids = members.get("entry_ids")
    named = [_text(one) for one in _items(ids)]
    if not named or not all(named):
        raise InvalidRequest("entry_ids must be a list of entry ids, at least one")
    category = members.get("category")
    if isinstance(category, bool) or not isinstance(category, str | int | None):
        raise InvalidRequest("category must be text or a whole number")
    return DatasetQuestion(
        text, "" if category is None else _text(str(category)), frozenset(named)
    )


def build_entries(conversation: DatasetConversation, agent: str) -> Iterator[dict[str, Any]]:
    """Yield each turn as another recorder sends it.

    Where two people talk, the turn before is the question, and this one the reply.
    """
    before: DatasetTurn | None = None
    for turn in conversation.turns:
        follows = before is not None and before.session == turn.session
        asked = turn.asked or (before.said if before is not None and follows else "")
        yield _entry(turn, asked, agent)
        before = turn


def _entry(turn: DatasetTurn, asked: str, agent: str) -> dict[str, Any]:
    answer = {"message": {"role": "assistant", "content": turn.said}}
    return {
        "id": turn.id,
        "version": 1,
        "ts": turn.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "claw_id": agent,
        "path": "/v1/chat/completions",
        "requested_model": "none",
        "effective_provider": "none",
        "effective_model": "none",
        "status_code": 200,
        "stream": False,
        "request_original": {"messages": [{"role": "user", "content": asked}] if asked else []},
        "response": {"format": "json", "json": {"choices": [answer]}},
        "usage": {},
    }


def _chat(members: Mapping[str, Any], number: int) -> DatasetConversation:
    name = _text(members.get("id"))
    if not name:
        raise InvalidRequest(f"chat {number} has no id")
    turns = tuple(_chat_turn(name, _members(one)) for one in _items(members.get("turns")))
    known = {turn.id for turn in turns}
    if not turns or len(known) < len(turns):
        raise InvalidRequest(f"chat {name}: it has no turn, or two turns have the same id")
    questions = tuple(
        DatasetQuestion(
            _text(one.get("question")),
            _text(one.get("kind")),
            frozenset(_evidence(name, one.get("evidence"))) & known,
        )
        for one in map(_members, _items(members.get("questions")))
        if _text(one.get("question"))
    )
    return DatasetConversation(name, turns, questions)


def _chat_turn(name: str, members: Mapping[str, Any]) -> DatasetTurn:
    turn, session = _text(members.get("id")), members.get("session")
    try:
        at = datetime.fromisoformat(_text(members.get("ts")))
    except ValueError as error:
        raise InvalidRequest(f"chat {name}: turn {turn!r} has no time in ts") from error
    if not turn or not isinstance(session, int) or at.tzinfo is None:
        raise InvalidRequest(f"chat {name}: a turn has an id, a session and a time with a zone")
    user, assistant = _text(members.get("user")), _text(members.get("assistant"))
    return DatasetTurn(_entry_id(name, turn), session, at, said=assistant, asked=user)


def _conversation(members: Mapping[str, Any], number: int) -> DatasetConversation:
    name = _text(members.get("sample_id"))
    if not name:
        raise InvalidRequest(f"conversation {number} has no sample_id")
    try:
        turns = _all_turns(name, _members(members.get("conversation")))
    except InvalidRequest as error:
        raise InvalidRequest(f"conversation {name}: {error}") from error
    known = {turn.id for turn in turns}
    return DatasetConversation(name, turns, tuple(_questions(name, members.get("qa"), known)))


def _all_turns(name: str, sessions: Mapping[str, Any]) -> tuple[DatasetTurn, ...]:
    turns = tuple(_turns(name, sessions))
    if not turns:
        raise InvalidRequest("no session has a turn in it")
    if len({turn.id for turn in turns}) < len(turns):
        raise InvalidRequest("two turns have the same dia_id")
    return turns


def _turns(name: str, sessions: Mapping[str, Any]) -> Iterator[DatasetTurn]:
    numbers = (match[1] for key in sessions if (match := _SESSION_KEY.fullmatch(key)))
    for number in sorted(numbers, key=int):
        turns = _items(sessions[f"session_{number}"])
        if not turns:
            continue
        began = _said_at(sessions.get(f"session_{number}_date_time"), number)
        for place, turn in enumerate(turns):
            members = _members(turn)
            dialogue = _text(members.get("dia_id"))
            if not dialogue:
                raise InvalidRequest(f"turn {place + 1} of session_{number} has no dia_id")
            at = began + place * _TURN_INTERVAL
            yield DatasetTurn(_entry_id(name, dialogue), int(number), at, _said(members))


def _said(turn: Mapping[str, Any]) -> str:
    speaker, text = _text(turn.get("speaker")), _text(turn.get("text"))
    caption = _text(turn.get("blip_caption"))
    words = " ".join(part for part in (text, f"[{caption}]" if caption else "") if part)
    return f"{speaker}: {words}" if speaker else words


def _said_at(value: object, number: str) -> datetime:
    try:
        return _moment(_text(value))
    except ValueError as error:
        raise InvalidRequest(
            f"session_{number}_date_time is no time such as '1:56 pm on 8 May, 2023'"
        ) from error


def _moment(text: str) -> datetime:
    """Read a time by words of our own: what the library knows depends on the locale."""
    said = _SESSION_TIME.fullmatch(text)
    if said is None:
        raise ValueError("it has another form")
    hour, minute, half, day, month, year = said.groups()
    if not 1 <= int(hour) <= _NOON:
        raise ValueError("there is no such hour")
    return datetime(
        int(year),
        _MONTHS.index(month.lower()) + 1,
        int(day),
        int(hour) % _NOON + (_NOON if half.lower() == "p" else 0),
        int(minute),
        tzinfo=UTC,
    )


def _questions(name: str, value: object, known: set[str]) -> Iterator[DatasetQuestion]:
    """Yield the questions that can be asked: of a known category, with evidence that is there."""
    for one in _items(value):
        members = _members(one)
        number, text = members.get("category"), _text(members.get("question"))
        category = CATEGORIES.get(number, "") if isinstance(number, int) else ""
        evidence = frozenset(_evidence(name, members.get("evidence"))) & known
        if text and category and evidence:
            yield DatasetQuestion(text, category, evidence)


def _evidence(name: str, value: object) -> Iterator[str]:
    """Yield the entries that are named; one text may name several turns."""
    for one in _listed(value):
        for dialogue in _EVIDENCE_SEPARATOR.split(_text(one)):
            yield _entry_id(name, dialogue)


def _entry_id(name: str, dialogue: str) -> str:
    return f"{name}:{dialogue}"


def _text(value: object) -> str:
    """Return text, trimmed and such that it can be encoded; empty when it is none."""
    return value.strip().encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _members(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _listed(value: object) -> list[object]:
    """Return the items of a list; what is none is an item itself."""
    return cast("list[object]", value) if isinstance(value, list) else [value]
