"""Which later turns repeat what was said in one: the whole of it, and nothing by chance."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memplane.errors import InvalidCursor
from memplane.kit.clock import system_clock
from memplane.ledger.cursor import Cursor
from memplane.ledger.entry import Entry, JsonReply, Reply, StreamReply, Turn
from memplane.ledger.folder import AgentFolder
from memplane.ledger.purge import purge_ledger
from memplane.ledger.reader import open_entries_by_id
from memplane.ledger.residual_copies import find_residual_copies
from memplane.ledger.segments import FileModes
from tests.support.turns import NOON, record, turn

RULES = "<system-reminder>Always answer in plain words.</system-reminder>"
SECRET = 'My passport has the number "C01X00T47", <keep it>.\nAlso: caf\u00e9 \u2028 \U0001f600.'
ANSWER = "I will remember the number of the passport, of course."
SHORT = JsonReply(b'{"choices":[{"message":{"content":"Yes."}}]}')


def user(*texts: str) -> dict[str, Any]:
    if len(texts) == 1:
        return {"role": "user", "content": texts[0]}
    return {"role": "user", "content": [{"type": "text", "text": one} for one in texts]}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def asked(*messages: dict[str, Any], reply: Reply | None = None) -> Turn:
    body = json.dumps({"model": "m", "messages": messages}).encode()
    answer = json.dumps({"choices": [{"message": assistant(ANSWER)}]}).encode()
    return turn(
        "",
        request_original=body,
        request_effective=body,
        reply=reply or JsonReply(answer),
    )


async def recorded(root: Path, turns: list[Turn]) -> list[Entry]:
    """Record turns, one a second."""
    spread = [replace(one, ts=NOON + timedelta(seconds=n)) for n, one in enumerate(turns)]
    return await record(root, spread)


def repeats(root: Path, entry: Entry) -> list[str]:
    folder = AgentFolder(root, "analyst")
    with open_entries_by_id(folder, entry.id) as page:
        [found] = page.entries
        return list(find_residual_copies(folder, next(page.lines()), after=found.cursor))


async def test_later_turns_of_the_conversation_are_named_and_no_others(tmp_path: Path) -> None:
    hello, secret = user(RULES, "Good morning to you, how are you?"), user(RULES, SECRET)
    fine = assistant("I am fine, thank you, and how are you today?")
    other = user(RULES, "Another matter altogether, please.")
    quoting = JsonReply(json.dumps({"content": [{"type": "text", "text": SECRET}]}).encode())
    turns = [
        asked(hello, reply=SHORT),
        asked(hello, fine, secret),
        asked(hello, fine, secret, assistant(ANSWER), user("And now?"), reply=SHORT),
        asked(hello, fine, other, reply=SHORT),
        asked(hello, fine, user(SECRET), assistant("-"), user("Later"), reply=SHORT),
        asked(user("What did you say?"), assistant(f"I said: {ANSWER}"), user("So"), reply=SHORT),
        asked(user(SECRET[:30]), reply=SHORT),
        asked(hello, reply=quoting),
    ]
    made = await recorded(tmp_path, turns)
    assert repeats(tmp_path, made[1]) == [made[n].id for n in (2, 4, 5, 7)]


async def test_what_every_request_repeats_is_nobodys(tmp_path: Path) -> None:
    made = await recorded(
        tmp_path,
        [
            asked(user(RULES, "short"), reply=SHORT),
            asked(user(RULES, SECRET), reply=SHORT),
            asked(user(RULES, "other"), reply=SHORT),
            asked(user(RULES, "then"), user(SECRET), user(RULES, "x"), reply=SHORT),
        ],
    )
    assert repeats(tmp_path, made[1]) == [made[3].id]


async def test_what_was_said_before_is_looked_for_when_there_is_nothing_else(
    tmp_path: Path,
) -> None:
    made = await recorded(
        tmp_path,
        [
            asked(user(RULES, SECRET), reply=SHORT),
            asked(user(RULES, SECRET), reply=SHORT),
            asked(user(RULES, "other"), reply=SHORT),
            asked(user(RULES, SECRET), user("next"), reply=SHORT),
        ],
    )
    assert repeats(tmp_path, made[1]) == [made[3].id]


def events(*bodies: Any) -> StreamReply:
    data = b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in bodies)
    return StreamReply(data + b"data: [DONE]\n\n")


PIECES = [ANSWER[:7], ANSWER[7:30], ANSWER[30:]]
STREAMS = {
    "chat": events(*({"choices": [{"delta": {"content": one}}]} for one in PIECES)),
    "messages": events(
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": one}}
            for one in PIECES
        ),
    ),
    "responses": events(
        *({"type": "response.output_text.delta", "delta": one} for one in PIECES),
        {"type": "response.output_text.done", "text": ANSWER},
        {"type": "response.completed", "response": {"output": [{"content": [{"text": ANSWER}]}]}},
    ),
}


@pytest.mark.parametrize("dialect", STREAMS)
async def test_an_answer_that_came_in_pieces(dialect: str, tmp_path: Path) -> None:
    made = await recorded(
        tmp_path,
        [
            asked(user("hi"), reply=STREAMS[dialect]),
            asked(user("hi"), assistant(ANSWER), user("so"), reply=SHORT),
            asked(user("hi"), assistant(ANSWER[:-9]), user("so"), reply=SHORT),
        ],
    )
    assert repeats(tmp_path, made[0]) == [made[1].id]


async def test_the_responses_dialect_has_its_words_elsewhere(tmp_path: Path) -> None:
    def request(given: object) -> Turn:
        body = json.dumps({"model": "m", "input": given}).encode()
        return turn("", request_original=body, request_effective=body)

    parts = [{"type": "input_text", "text": SECRET}]
    made = await recorded(
        tmp_path,
        [
            request(SECRET),
            request([{"role": "user", "content": parts}, user("next")]),
            request("something else that is long enough to count"),
        ],
    )
    assert repeats(tmp_path, made[0]) == [made[1].id]
    assert repeats(tmp_path, made[1]) == []


async def test_little_is_not_enough_to_tell(tmp_path: Path) -> None:
    turns = [asked(user("Go on, please."), reply=SHORT) for n in range(3)]
    made = await recorded(tmp_path, turns)
    assert repeats(tmp_path, made[0]) == []


async def test_what_is_not_json_is_passed_over(tmp_path: Path) -> None:
    made = await recorded(tmp_path, [asked(user(SECRET))])
    history = tmp_path / "analyst" / "history.jsonl"
    half = b'{"id":"half","messages":["\\ud83d %s"]}\n' % json.dumps(SECRET)[1:-1].encode()
    with history.open("ab") as file:
        file.write(b"garbage\n[1]\n" + half)
    assert repeats(tmp_path, made[0]) == ["half"]
    folder = AgentFolder(tmp_path, "analyst")
    after = Cursor(1, 0, made[0].id)
    assert list(find_residual_copies(folder, b"garbage", after=after)) == []
    assert list(find_residual_copies(folder, b"[1]", after=after)) == []
    with pytest.raises(InvalidCursor):
        list(find_residual_copies(folder, made[0].line, after=Cursor(1, 0, "nobody's")))


async def test_erased_turns_are_named_no_more(tmp_path: Path) -> None:
    made = await recorded(
        tmp_path,
        [asked(user(SECRET), user(f"{n}"), reply=SHORT) for n in range(4)],
    )
    folder = AgentFolder(tmp_path, "analyst")
    line, after = made[0].line, Cursor(1, 0, made[0].id)
    assert list(find_residual_copies(folder, line, after=after)) == [one.id for one in made[1:]]
    purge_ledger(folder, [made[0].id, made[2].id], modes=FileModes(), clock=system_clock)
    assert list(find_residual_copies(folder, line, after=after)) == [made[1].id, made[3].id]
