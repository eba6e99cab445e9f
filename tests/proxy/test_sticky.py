"""What stands in conversations: found at once, of the right session, and written behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from memplane.auth.memory_scope import MemoryScope
from memplane.episodes.injection_store import Injection, TurnPlace
from memplane.errors import RecordsError
from memplane.exchange.dialect import Conversation
from memplane.exchange.openai_chat import OpenAIChat
from memplane.exchange.openai_responses import OpenAIResponses
from memplane.exchange.request_body import parse_body
from memplane.ledger.entry import JsonReply
from memplane.proxy.conversation_position import ConversationPosition, find_position
from memplane.proxy.sticky_injections import AnsweredTurn, StickyInjections

MINUTE = 60_000_000


ADA, BOB = MemoryScope("ada"), MemoryScope("bob")


def text(place: str, session: str = "s", at: int = 0, said: str = "memory") -> Injection:
    return Injection(ADA, place, session, at, "memplane", said)


def answered(
    session: str = "s", prompt: str = "p", *, agent: str = "ada", entry: str = "hist1_1", at: int
) -> AnsweredTurn:
    return AnsweredTurn(
        MemoryScope(agent),
        session,
        prompt,
        entry,
        at,
        lambda: ConversationPosition(f"after {prompt}"),
    )


class Slow:
    """Keeps texts; writing waits until it is let go on."""

    def __init__(self) -> None:
        self.kept: list[Injection] = []
        self.written: list[list[Injection]] = []
        self.told: list[TurnPlace] = []
        self.go_on = asyncio.Event()
        self.tried = asyncio.Event()
        self.fails: Exception | None = None
        self.forgotten: set[str] = set()

    async def injected(self, scope: MemoryScope, places: Sequence[str]) -> list[Injection]:
        await asyncio.sleep(0)
        return [one for one in self.kept[::-1] if one.scope == scope and one.place in places]

    async def any_forgotten(self, agent: str, entries: Collection[str]) -> bool:
        await asyncio.sleep(0)
        return agent == "ada" and not self.forgotten.isdisjoint(entries)

    async def save_injections(self, texts: Sequence[Injection]) -> None:
        await self.go_on.wait()
        self.tried.set()
        if self.fails:
            raise self.fails
        self.kept += texts
        self.written.append(list(texts))

    async def save_turn_places(self, turns: Sequence[TurnPlace]) -> None:
        await asyncio.sleep(0)
        self.told += turns


async def test_where_turns_were_said_is_written_before_the_end() -> None:
    kept = Slow()
    sticky = StickyInjections(kept)
    running = asyncio.create_task(sticky.run())
    for number in range(3):
        sticky.answered(answered(entry=f"hist1_{number}", at=0))
    sticky.end()
    await running
    assert kept.told == [TurnPlace(ADA, "after p", f"hist1_{number}", 0) for number in range(3)]


async def test_a_text_is_found_before_it_is_written_and_after() -> None:
    kept = Slow()
    sticky = StickyInjections(kept)
    running = asyncio.create_task(sticky.run())
    sticky.keep(text("p"))
    assert await sticky.find(ADA, ["p"], "s") == {"p": text("p")}
    assert await sticky.find(BOB, ["p"], "s") == {}
    kept.go_on.set()
    sticky.end()
    await running
    assert kept.kept == [text("p")]
    assert await sticky.find(ADA, ["p", "q"], "s") == {"p": text("p")}


async def test_a_text_that_is_not_written_yet_is_gone_once_its_memory_is_forgotten() -> None:
    kept = Slow()
    sticky = StickyInjections(kept)
    sticky.keep(replace(text("p"), made_of=frozenset({"hist1_1", "hist1_2"})))
    kept.forgotten = {"hist1_3"}
    assert await sticky.find(ADA, ["p"], "s")
    kept.forgotten = {"hist1_2"}
    assert await sticky.find(ADA, ["p"], "s") == {}


async def test_what_is_kept_within_a_moment_is_written_together() -> None:
    kept = Slow()
    kept.go_on.set()
    sticky = StickyInjections(kept, later=3600)
    running = asyncio.create_task(sticky.run())
    sticky.keep(text("p"))
    await asyncio.sleep(0)
    sticky.keep(text("q"))
    assert not kept.tried.is_set()
    sticky.end()
    await running
    assert kept.written == [[text("p"), text("q")]]


async def test_this_sessions_text_goes_before_a_newer_one() -> None:
    kept = Slow()
    kept.kept = [text("p", "mine", 1, "mine"), text("p", "other", 2, "other")]
    sticky = StickyInjections(kept)
    assert (await sticky.find(ADA, ["p"], "mine"))["p"].text == "mine"
    assert (await sticky.find(ADA, ["p"], "third"))["p"].text == "other"


async def test_that_nothing_stands_there_counts_for_its_own_session_only() -> None:
    kept = Slow()
    kept.kept = [text("p", "other", 1, "other"), text("p", "mine", 2, "")]
    sticky = StickyInjections(kept)
    assert (await sticky.find(ADA, ["p"], "mine"))["p"].text == ""
    assert (await sticky.find(ADA, ["p"], "third"))["p"].text == "other"


@pytest.mark.parametrize(
    "error",
    [RecordsError("the disk is full"), UnicodeError("nobody thought that the disk is full")],
)
async def test_what_cannot_be_written_is_given_up_and_others_go_on(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Slow()
    kept.fails = error
    kept.go_on.set()
    sticky = StickyInjections(kept)
    running = asyncio.create_task(sticky.run())
    sticky.keep(text("p"))
    await kept.tried.wait()
    await asyncio.sleep(0)
    assert await sticky.find(ADA, ["p"], "s") == {}
    assert "the disk is full" in caplog.text
    kept.fails = None
    sticky.keep(text("q"))
    sticky.end()
    await running
    assert kept.kept == [text("q")]


@pytest.mark.parametrize(
    ("session", "then", "now", "same"),
    [
        ("s", "s", 9 * MINUTE, True),
        ("s", "s", 10 * MINUTE, False),
        ("s", "t", 0, False),
        ("", "s", 0, False),
        ("s", "", 0, False),
        ("", "", 9 * MINUTE, True),
        ("", "", 10 * MINUTE, False),
    ],
)
def test_a_prompt_sent_again_is_the_same_turn(
    session: str, then: str, now: int, *, same: bool
) -> None:
    assert StickyInjections(Slow()).is_same_turn(text("p", then, at=1), session, now + 1) is same


@pytest.mark.parametrize(
    ("session", "turn", "same"),
    [
        # With a session it is known which prompt was answered.
        ("s", answered("s", "p", at=5), False),
        ("s", answered("s", "q", at=7), True),
        ("s", answered("t", "p", at=7), True),
        ("s", answered("s", "p", at=4), True),
        # Without one whatever was said since may be asked for.
        ("", answered("", "p", at=5), False),
        ("", answered("", "q", at=7), False),
        ("", answered("s", "q", at=7), False),
        ("", answered("", "p", at=4), True),
        ("", answered("", "p", agent="bob", at=7), True),
    ],
)
def test_a_prompt_that_was_answered_is_said_anew(
    session: str, turn: AnsweredTurn, *, same: bool
) -> None:
    sticky = StickyInjections(Slow())
    sticky.answered(turn)
    assert sticky.is_same_turn(text("p", session, at=5), session, 10) is same


def test_nobody_knows_what_was_answered_before_a_restart() -> None:
    sticky = StickyInjections(Slow(), since=5)
    assert not sticky.is_same_turn(text("p", "", at=4), "", 10)
    assert sticky.is_same_turn(text("p", "", at=6), "", 10)
    assert sticky.is_same_turn(text("p", "s", at=4), "s", 10)


def test_only_what_was_answered_lately_is_held() -> None:
    sticky = StickyInjections(Slow())
    for minute in range(100):
        sticky.answered(answered(f"s{minute}", at=minute * MINUTE))
    assert len(sticky._latest) == 12


CHAT, RESPONSES = OpenAIChat(), OpenAIResponses()
ASKED = {"role": "user", "content": "Where is the key?"}
ANSWER = {"role": "assistant", "content": "By the oven."}
FINE = JsonReply(json.dumps({"choices": [{"message": ANSWER}]}).encode())
NEXT = {"role": "user", "content": "And the lamp?"}


def chat(*messages: object) -> Conversation:
    return CHAT.conversation(parse_body(json.dumps({"messages": messages}).encode()))


def turn(entry: str = "hist1_1", agent: str = "ada") -> AnsweredTurn:
    asked = parse_body(json.dumps({"messages": [ASKED]}).encode())
    prompt = CHAT.conversation(asked).prompts[-1].place
    return AnsweredTurn(
        MemoryScope(agent), "", prompt, entry, 1, lambda: find_position(CHAT, asked, FINE)
    )


def test_a_turn_stands_in_its_conversation_before_that_is_written() -> None:
    """Programs go on within milliseconds, and memory may have taken the turn in by then."""
    sticky = StickyInjections(Slow())
    sticky.answered(turn())
    sticky.answered(turn("hist1_2", agent="bob"))
    entries, places = sticky.standing(chat(ASKED, ANSWER, NEXT), ADA)
    assert entries == ["hist1_1"]
    assert len(places) == 1
    other = {"role": "assistant", "content": "By the door."}
    assert sticky.standing(chat(ASKED, other, NEXT), ADA)[0] == []
    assert sticky.standing(chat(ASKED), ADA)[0] == []


def test_where_other_turns_stand_is_not_worked_out() -> None:
    sticky = StickyInjections(Slow())

    def stood() -> ConversationPosition:
        raise AssertionError("that takes a while, and a turn waits for it")

    sticky.answered(AnsweredTurn(ADA, "", "elsewhere", "hist1_1", 1, stood))
    sticky.answered(AnsweredTurn(BOB, "", chat(ASKED).prompts[-1].place, "hist1_2", 1, stood))
    assert sticky.standing(chat(ASKED, ANSWER, NEXT), ADA)[0] == []


def test_what_a_provider_keeps_stands_before_that_is_written() -> None:
    sticky = StickyInjections(Slow())
    first, second = (
        ConversationPosition("a", ("response 1",)),
        ConversationPosition("b", ("response 2",), ("response 1",)),
    )
    sticky.answered(AnsweredTurn(ADA, "", "p", "hist1_1", 1, lambda: first))
    sticky.answered(AnsweredTurn(ADA, "", "q", "hist1_2", 2, lambda: second))
    asked = {"input": "And now?", "previous_response_id": "2"}
    conversation = RESPONSES.conversation(parse_body(json.dumps(asked).encode()))
    entries, places = sticky.standing(conversation, ADA)
    assert entries == ["hist1_2", "hist1_1"]
    assert places == ["response 2", "response 1"]


async def test_the_names_of_what_a_provider_keeps_are_written() -> None:
    kept = Slow()
    sticky = StickyInjections(kept, later=0)
    running = asyncio.create_task(sticky.run())
    stood = ConversationPosition("b", ("response 2",), ("response 1",))
    sticky.answered(AnsweredTurn(ADA, "", "q", "hist1_2", 2, lambda: stood))
    sticky.end()
    await running
    assert kept.told == [
        TurnPlace(ADA, "b", "hist1_2", 2),
        TurnPlace(ADA, "response 2", "hist1_2", 2, ("response 1",)),
    ]
