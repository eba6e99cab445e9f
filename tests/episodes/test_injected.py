"""What programs put into prompts goes; what people said stays."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.exchange.prompt_cleanup import (
    INJECTED_BLOCK_HEADING,
    strip_injected_memory,
    strip_wrappers,
)

BLOCK = """\
--- BEGIN MEMORY (from mem-svc) ---
[kind=fact, source=ledger, ts=2026-04-03T12:00:00Z, score=0.93]
the user drinks oolong
--- END MEMORY ---"""


STICKY = f"""\
--- BEGIN MEMORY (from memplane) 9f2c41d07be83a65 ---
{INJECTED_BLOCK_HEADING}
[kind=fact, source=memplane]
the user drinks oolong
--- END MEMORY 9f2c41d07be83a65 ---"""


def test_a_block_goes_and_the_rest_stays() -> None:
    assert strip_injected_memory(f"Before.\n\n{BLOCK}\nAfter.") == "Before.\n\nAfter."


def test_more_marks_than_anybody_writes_are_one_block() -> None:
    """Reading each of them would hold everybody up for seconds."""
    mark = "--- BEGIN MEMORY (from x) ---\n"
    assert strip_injected_memory("Before.\n" + mark * 5_000 + "After.") == "Before.\n"


CLARIFY = "or stop and ask for clarification if you are unsure how to proceed."


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n    "])
def test_a_block_with_a_nonce_goes_whole(ending: str) -> None:
    block = STICKY.replace("\n", ending)
    assert strip_injected_memory(f"Which tea?\n\n{block}") == "Which tea?\n\n"
    assert strip_injected_memory(f"Which tea?\n\n{block}\nAfter.") == "Which tea?\n\nAfter."
    assert strip_injected_memory(f"see {block} now") == "see  now"
    assert strip_injected_memory(block) == ""


def test_a_block_with_a_nonce_that_was_cut_goes_to_its_end() -> None:
    cut = STICKY.rpartition("\n")[0].replace("[kind=fact, source=memplane]\n", "")
    assert strip_injected_memory(f"Before.\n{cut}") == "Before.\n"
    assert strip_injected_memory(f"Before.\n{STICKY.partition(']')[0]}") == "Before.\n"


def test_every_block_goes_wherever_it_stands() -> None:
    text = f"{BLOCK}\none\n{BLOCK}\ntwo\n{BLOCK}\n{BLOCK}\nthree"
    assert strip_injected_memory(text) == "one\ntwo\nthree"


@pytest.mark.parametrize(
    "block",
    [
        BLOCK.replace("\n", "\r\n"),
        BLOCK.replace("\n", "\n    "),
        "\t" + BLOCK.replace("\n", "\n\t"),
        BLOCK.lower(),
        BLOCK.replace("---", "-----"),
        BLOCK.replace("---", "--"),
        BLOCK.replace(" (from mem-svc) ---", ""),
        BLOCK.replace("mem-svc", "a--b"),
        BLOCK.replace("oolong", "x --- END MEMORY --- oolong"),
        BLOCK.replace("oolong", "x --- BEGIN MEMORY --- oolong"),
        BLOCK.replace("the user", "--- BEGIN MEMORY ---\nthe user"),
        BLOCK.replace("[kind=fact, source=ledger, ts=2026-04-03T12:00:00Z, score=0.93]\n", ""),
        BLOCK.replace("END MEMORY ---", "END MEMORY"),
        BLOCK.replace("oolong", "\u2028\u0085 caf\u00e9 \U0001f375 oolong"),
    ],
)
def test_how_a_block_may_be_written(block: str) -> None:
    assert strip_injected_memory(f"Before \U0001f600.\n{block}\nAfter \u00e9.") == (
        "Before \U0001f600.\nAfter \u00e9."
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"see {' '.join(BLOCK.split())} now", "see  now"),
        (f"{' '.join(BLOCK.split())} now", " now"),
        (f"see {BLOCK} now", "see  now"),
        (f"> {BLOCK}\nnow", "> \nnow"),
        (f"{' '.join(BLOCK.split())}\nnow\n{BLOCK}", "\nnow\n"),
    ],
)
def test_a_block_within_a_line(text: str, left: str) -> None:
    assert strip_injected_memory(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What do you have in memory?",
        "What does --- BEGIN MEMORY mean?",
        "--- BEGIN MEMORY\nWhat does this line mean, and who wrote it?",
        "--- BEGIN MEMORY (from x) ---\nWhat is that?\n\nI see it each day.",
        "I see --- BEGIN MEMORY (from x) ---\n[kind=fact] what is that?",
        "--- END MEMORY ---\nWhat is that?",
        "--- END MEMORY ---\n--- BEGIN MEMORY ---\nin this order?",
        "-- BEGIN MEMORYLESS --\nx\n-- END MEMORY --",
        "- BEGIN MEMORY -\nx\n- END MEMORY -",
        "--- BEGIN FEED ---\nx\n--- END FEED ---",
        "half a pair \ud83d in memory",
    ],
)
def test_what_is_no_block_stays(text: str) -> None:
    assert strip_injected_memory(text) == text


def test_a_block_that_was_cut_goes_to_its_end() -> None:
    cut = BLOCK.removesuffix("\n--- END MEMORY ---")
    assert strip_injected_memory(f"Before.\n{cut}") == "Before.\n"
    assert strip_injected_memory(f"Before.\n{cut}".replace("\n", "\r\n  ")) == "Before.\r\n"


def test_a_block_that_was_cut_does_not_take_the_next_ones_words() -> None:
    asked = f"What is --- BEGIN MEMORY (x) --- for?\nI wonder.\n\n{BLOCK}"
    assert strip_injected_memory(asked) == "What is --- BEGIN MEMORY (x) --- for?\nI wonder.\n\n"


def test_a_message_that_a_proxy_made_goes_whole() -> None:
    notice = "[Recalled for you; not instructions.]"
    time = "Current time: 2026-11-15 7:57 PM UTC (America/New_York)"
    assert strip_injected_memory(f"{notice}\n\n{BLOCK}\n\n{time}") == ""
    assert strip_injected_memory(f"{BLOCK}\n\n{time}") == ""
    assert strip_injected_memory(f"{notice}\n\n{time}") == f"{notice}\n\n{time}"
    assert time in strip_injected_memory(f"Is it late?\n\n{BLOCK}\n\n{time}")


_WORDS = st.text(st.characters(codec="utf-8", exclude_characters="-<>["), max_size=20)


@given(st.lists(_WORDS, min_size=1, max_size=6), st.lists(_WORDS, min_size=6, max_size=6))
def test_what_stands_around_blocks_stays_whole(around: list[str], inside: list[str]) -> None:
    text = around[0]
    for words, remembered in zip(around[1:], inside, strict=False):
        text += f"\n--- BEGIN MEMORY (from m) ---\n{remembered}\n--- END MEMORY ---\n{words}"
    left = strip_injected_memory(text)
    assert left == "\n".join(around) or (left == "" and not "".join(around).strip("\n \t\r\v\f"))


_MARKS = st.sampled_from(
    [
        "--- BEGIN MEMORY ---",
        "--- END MEMORY ---",
        "--- END MEMORY 9f2c41d07be83a65 ---",
        "-- begin memory",
        "\n",
        " ",
        "x",
        "[kind=",
    ]
)


@given(st.lists(_MARKS, max_size=30).map("".join))
def test_nothing_raises_and_nothing_is_added(text: str) -> None:
    left = iter(text)
    assert all(character in left for character in strip_injected_memory(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<system-reminder>\nToday is Monday.\n</system-reminder>\nHello", "Hello"),
        ("Hello\n<system-reminder>x</system-reminder>", "Hello"),
        ("Hello<system-reminder>x\ny</system-reminder>", "Hello"),
        (2 * "<system-reminder>see <system-reminder></system-reminder>" + "Hello", "Hello"),
        (
            "What is <system-reminder> for?\n<system-reminder>x</system-reminder>",
            "What is <system-reminder> for?",
        ),
        ("<environment_context>\n  <cwd>/x</cwd>\n</environment_context>", ""),
        ("<user_instructions>\n\nbe brief\n\n</user_instructions>", ""),
        (
            "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nbrief\n</INSTRUCTIONS>\n\nHello",
            "Hello",
        ),
        ("<command-message>fix</command-message>\n<command-name>/fix</command-name>", "/fix"),
        ("<command-args>the disk alarm</command-args>", "the disk alarm"),
        ("<bash-input>df</bash-input><bash-stdout>10 %</bash-stdout>", "df"),
        ("<local-command-stdout>ok</local-command-stdout>", ""),
        ("[Request interrupted by user for tool use]", ""),
        ("Another language model started to solve this problem and produced a summary: a", ""),
        (f"Continue if you have next steps, {CLARIFY}", ""),
        ("[Your previous response had no visible output. Please continue.]", ""),
        ("<task-notification>\n<task-id>a1</task-id>\ndone\n</task-notification>", ""),
        ('<teammate-message teammate_id="lead">go</teammate-message>\nWhy?', "Why?"),
        ('<hook_prompt id="7">\nstop\n</hook_prompt>', ""),
        ("<user_shell_command>\n<command>ls</command>\n</user_shell_command>", ""),
        ("<skill>\n<name>pdf</name>\nRead pages.\n</skill>", ""),
        ("<user-memory-input>use tabs</user-memory-input>", "use tabs"),
        (
            "# Context from my IDE setup:\n## Open: a.py\n\n## My request for Codex:\nFix it",
            "Fix it",
        ),
        ("Stop hook feedback:\n- the tests fail", ""),
        ("CRITICAL: Respond with TEXT ONLY. Your task is to create a detailed summary", ""),
        ("You are performing a CONTEXT CHECKPOINT COMPACTION. Create a summary", ""),
        ("<system-reminder>a</system-reminder>Why?<system-reminder>b</system-reminder>", "Why?"),
    ],
)
def test_what_a_client_adds_goes(text: str, words: str) -> None:
    assert " ".join(strip_wrappers(text).split()) == words


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What is <system-reminder> for?",
        "</system-reminder> <system-reminder>",
        "a < b and b > a, <b>bold</b>",
        "<INSTRUCTIONS>be brief</INSTRUCTIONS>",
        "I wrote # AGENTS.md instructions for you",
        "<system-reminders>of our own</system-reminders>",
        "What is <task-notification",
        "<skill>cooking</skill>",
        "# Context from my IDE setup:\nit is a Vim",
        "Why did it say [Request interrupted by user]?",
    ],
)
def test_what_a_client_did_not_add_stays(text: str) -> None:
    assert strip_wrappers(text) == text


def test_many_marks_are_no_trouble() -> None:
    marks = ("--- BEGIN MEMORY ---", "--- END MEMORY", "<system-reminder>", "-", "\n", " ")
    for first, second in product(marks, marks):
        text = (first + second) * 20_000
        assert len(strip_wrappers(strip_injected_memory(text))) <= len(text)
