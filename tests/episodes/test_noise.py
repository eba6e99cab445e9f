"""What is folded as noise, and above all what is not: nothing that tells something new."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.episodes.episode import Episode
from memplane.episodes.noise_filter import TurnSignature, compute_signature, is_heartbeat, is_noise

Said = tuple[str, str]

PROMPT = (
    "Read HEARTBEAT.md if it exists. Follow it strictly. Do not repeat old tasks. "
    "If nothing needs attention, reply HEARTBEAT_OK. Current time: {}"
)
LONG = (
    "The nightly import reads the orders of the day, checks every one of them against the "
    "catalogue, writes what it found into the warehouse and sends a short note to the team"
)


def noise(*said: Said) -> list[bool]:
    """Say of each turn whether it is noise, with the ten before it in view."""
    seen: list[TurnSignature] = []
    found: list[bool] = []
    for number, (question, answer) in enumerate(said):
        mine = compute_signature(Episode(f"e{number}", number, question, answer))
        found.append(is_noise(mine, seen[-10:]))
        seen.append(mine)
    return found


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            ("Remember that my cat is called Miso", "Got it!"),
            ("Remember that deploys happen on Friday", "Got it!"),
        ),
        (
            ("Remember my cat is called Miso", "Got it!"),
            ("Remember my cat is called Mia", "Got it!"),
        ),
        (("The rent is 500 a month", "Noted."), ("The rent is 600 a month", "Noted.")),
        (("I love C++", "Sure."), ("I love C", "Sure.")),
        (("The offset is 5", "ok"), ("The offset is -5", "ok")),
        (("The launch is 2026-04-03", "Got it!"), ("The launch is 2026-05-03", "Got it!")),
        (
            ("My dentist appointment is at 14:00", "I added it to your calendar."),
            ("My dentist appointment is at 15:00", "I added it to your calendar."),
        ),
        (("Remind me at 14:00", "Will do."), ("Remind me at 15:00", "Will do.")),
        (("Call me at 555-123-4567", "ok"), ("Call me at 555-123-4568", "ok")),
        (("Check order 1234", "No changes."), ("Check order 1235", "No changes.")),
        (("Any updates on ticket 7?", "No updates."), ("Any updates on ticket 8?", "No updates.")),
        (("Is 10.0.0.5:8080 up?", "Yes, it is."), ("Is 10.0.0.6:8080 up?", "Yes, it is.")),
        (("ping node3", "It is alive."), ("ping node4", "It is alive.")),
        (("ping 10.0.0.5", "alive"), ("ping 10.0.0.6", "alive")),
        (("Ping me about invoice 17", "Will do."), ("Ping me about invoice 18", "Will do.")),
        (
            ("The heartbeat interval is 30 seconds", "OK"),
            ("The heartbeat interval is 60 seconds", "OK"),
        ),
        (
            ("Remember the heartbeat interval is 30 s", "Got it!"),
            ("Remember the heartbeat interval is 60 s", "Got it!"),
        ),
        (
            ("Status check on order 1234", "No changes."),
            ("Status check on order 1235", "No changes."),
        ),
        (("When is the standup?", "At 09:30."), ("When is the standup?", "At 10:00.")),
        (
            ("How is the import?", f"{LONG} of 512."),
            ("How is the import?", f"{LONG} of 513."),
        ),
        (
            ("Who is on call?", f"{LONG}, says Anna."),
            ("Who is on call?", f"{LONG}, says Bert."),
        ),
        (("What is new?", "The cat is ill."), ("What is new?", "The dog is well again.")),
        (("Tell me a story", LONG), ("Tell me a joke", LONG)),
    ],
)
def test_what_tells_something_new_is_no_noise(first: Said, second: Said) -> None:
    assert noise(first, second) == [False, False]
    # The same again is, so that the change is what made the difference.
    assert noise(second, second) == [False, True]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("How is the import?", "It is fine."), ("How is the import?", "It is fine.")),
        (("How is the import?", LONG), ("how is the import", f"{LONG} too!")),
        (("[2026-04-03 12:00] Any news?", "None."), ("[2026-04-03 12:10] Any news?", "None.")),
        (
            ("What changed since 2026-04-03T12:00:00Z?", "Not much."),
            ("What changed since 2026-04-03T12:10:00Z?", "Not much."),
        ),
        (("Check my inbox (12:00)", "No new mail."), ("Check my inbox (12:10)", "No new mail.")),
        (("Any mail?", "As of 12:00 there is none."), ("Any mail?", "As of 12:10 there is none.")),
        (("ping 1", "pong"), ("ping 2", "pong")),
        (("heartbeat", "pong"), ("ping", "pong")),
        (("", "HEARTBEAT_OK"), ("", "HEARTBEAT_OK")),
        (("Heartbeat 41 at 12:00", "HEARTBEAT_OK"), ("Heartbeat 42 at 12:10", "HEARTBEAT_OK")),
        (
            ("status check", "All systems nominal, 41 jobs done."),
            ("status check", "All systems nominal, 57 jobs done."),
        ),
        (
            (PROMPT.format("Friday, April 3rd, 2026 - 11:55 AM (UTC)"), "HEARTBEAT_OK"),
            (PROMPT.format("Saturday, May 4th, 2026 - 12:05 PM (UTC)"), "HEARTBEAT_OK"),
        ),
        (
            ("Heartbeat 7: all systems nominal, queue 4", "Acknowledged."),
            ("Heartbeat 8: all systems nominal, queue 9", "Acknowledged."),
        ),
        (
            ("cron tick 1775217600", "Nothing to report."),
            ("cron tick 1775218200", "Nothing to report."),
        ),
        (("health check #7", "healthy, 0 errors"), ("health check #8", "healthy, 0 errors")),
        (("keepalive seq=7", "ok"), ("keepalive seq=8", "ok")),
        (("poll", "no changes"), ("poll", "no changes")),
    ],
)
def test_what_says_the_same_again_is_noise(first: Said, second: Said) -> None:
    assert noise(first, second) == [False, True]


@pytest.mark.parametrize(
    "news",
    [
        ("heartbeat", "heartbeat: disk is full on node 3, paging"),
        ("heartbeat: disk is full on node 3, paging", "HEARTBEAT_OK"),
        ("heartbeat", "All systems nominal, except for the queue."),
        ("heartbeat. My cat is called Miso.", "HEARTBEAT_OK"),
        ("heartbeat", "Nothing to report, but the parcel came."),
        ("heartbeat", "3 errors"),
    ],
)
def test_a_heartbeat_with_news_is_no_noise(news: Said) -> None:
    quiet = [
        ("heartbeat", "HEARTBEAT_OK"),
        ("heartbeat", "All systems nominal."),
        ("heartbeat", "Nothing to report."),
        ("heartbeat", "0 errors"),
    ]
    assert noise(*quiet, news)[-1] is False


def test_an_alarm_that_moves_on_is_no_noise() -> None:
    alarms = [(f"heartbeat: disk is full on node {node}, paging", "ok") for node in (3, 4, 3)]
    assert noise(*alarms) == [False, False, True]


def test_one_new_word_in_a_long_heartbeat_is_no_noise() -> None:
    quiet = ("heartbeat", f"All systems nominal. {LONG}")
    assert noise(quiet, ("heartbeat", f"All systems nominal. {LONG} slowly")) == [False, False]
    prompt = PROMPT.format("12:00")
    assert noise((prompt, "HEARTBEAT_OK"), (f"{prompt} Water plants", "HEARTBEAT_OK"))[-1] is False


def test_empty_answers_are_equal_only_to_equal_questions() -> None:
    assert noise(("go on", ""), ("go on", ""), ("stop", ""), ("", "")) == [
        False,
        True,
        False,
        False,
    ]
    assert noise(("ping 1", ""), ("ping 2", "")) == [False, False]


def test_without_an_answer_other_tools_are_something_new() -> None:
    turns = [Episode("a", 1, "go on", "", ("read",)), Episode("b", 2, "go on", "", ("write",))]
    first, second = map(compute_signature, turns)
    assert not is_noise(second, [first])
    assert is_noise(second, [second])


@pytest.mark.parametrize(("shared", "folded"), [(20, True), (12, True), (11, False), (5, False)])
def test_answers_have_to_be_alike(shared: int, folded: bool) -> None:  # noqa: FBT001
    words = ["".join(two) for two in product("abcde", "fghij")]
    first, second = " ".join(words[: shared + 1]), " ".join((*words[:shared], "zz"))
    assert noise(("Well?", first), ("Well?", second)) == [False, folded]


def test_only_the_turns_in_view_count() -> None:
    mine = compute_signature(Episode("a", 1, "ping", "pong"))
    assert not is_noise(mine, [])
    assert is_noise(mine, [compute_signature(Episode("b", 0, "What is up?", "A lot.")), mine])


def test_eighty_heartbeats_collapse_and_twenty_turns_stay() -> None:
    turns = [
        (f"What about topic {number}?", f"Topic {number} is on the list.")
        if number % 5 == 0
        else (f"heartbeat {number}", "HEARTBEAT_OK")
        for number in range(100)
    ]
    found = noise(*turns)
    assert [number for number, folded in enumerate(found) if not folded] == [
        0,
        1,
        *range(5, 100, 5),
    ]


def test_what_differs_only_far_behind_is_no_noise() -> None:
    long = "All systems nominal. " * 50_000
    assert noise(("ping", long), ("ping", f"{long}Help!")) == [False, False]
    assert noise((long, "ok"), (f"{long}Help!", "ok"), (long, "ok")) == [False, False, True]


@pytest.mark.parametrize(
    "said",
    [
        ("heartbeat", "HEARTBEAT_OK"),
        ("ping", "pong"),
        (PROMPT.format("12:00"), "**HEARTBEAT_OK**"),
        ("status", "all systems operational"),
        ("Heartbeat 7: all systems nominal", "Acknowledged."),
        ("", "Nothing to report."),
        ("are you there", "yes"),
    ],
)
def test_a_heartbeat_is_known_as_one(said: Said) -> None:
    assert is_heartbeat(Episode("a", 1, *said))


@pytest.mark.parametrize(
    "said",
    [
        ("Is the heartbeat of the cat healthy?", "Yes, it is fine."),
        ("Remember that the heartbeat runs each minute", "ok"),
        ("status", "The rollout is at step three and the queue is drained."),
        ("heartbeat", "The disk is full on node 3, paging."),
        ("", "The parcel came."),
        ("", ""),
    ],
)
def test_what_only_mentions_one_is_none(said: Said) -> None:
    assert not is_heartbeat(Episode("a", 1, *said))


@given(st.text(), st.text(), st.text(), st.text())
def test_any_text_is_compared(question: str, answer: str, other: str, more: str) -> None:
    mine = compute_signature(Episode("a", 1, question, answer))
    theirs = compute_signature(Episode("b", 2, other, more))
    assert is_noise(mine, [mine]) is True
    assert is_noise(mine, [theirs]) in {True, False}
    assert is_noise(mine, []) is False


WORDS = st.lists(st.sampled_from(LONG.split()), max_size=12).map(" ".join)


@given(WORDS, WORDS, st.sampled_from(["xylophone", "7391", "zebra's"]))
def test_one_more_word_in_a_question_is_never_noise(said: str, answer: str, word: str) -> None:
    assert noise((said, answer), (f"{said} {word}", answer)) == [False, False]
