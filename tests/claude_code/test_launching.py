"""How a program is told what was learned."""

from __future__ import annotations

import pytest

from memplane.errors import InvalidRequest
from memplane.integrations.claude_code.launch_command import (
    LaunchCommand,
    build_launch,
    find_prompt_file,
    inline_prompt_file,
    is_claude_code,
)

TOLD = "## Operational Memory (1 memory, 40 tokens)\n…"


@pytest.mark.parametrize("name", ["claude", "/opt/bin/claude", "C:\\tools\\claude.exe", "Claude"])
def test_claude_code_is_known_by_its_name(name: str) -> None:
    assert is_claude_code([name, "-p", "hi"])


@pytest.mark.parametrize("name", ["npx", "claude-wrapper", "claudette", "/opt/claude/run"])
def test_nothing_else_is_claude_code(name: str) -> None:
    assert not is_claude_code([name, "claude"])


def test_claude_code_is_told_behind_its_name() -> None:
    launch = build_launch(["claude", "-p", "hi"], TOLD)
    assert launch == LaunchCommand(("claude", "--append-system-prompt", TOLD, "-p", "hi"))


@pytest.mark.parametrize("theirs", [["--append-system-prompt", "Be kind."],
                                    ["--append-system-prompt=Be kind."]])  # fmt: skip
def test_a_users_own_prompt_comes_first_in_the_same_argument(theirs: list[str]) -> None:
    launch = build_launch(["claude", "-p", *theirs, "--", "hi"], TOLD)
    both = f"Be kind.\n\n{TOLD}"
    assert launch.arguments == ("claude", "-p", "--append-system-prompt", both, "--", "hi")


@pytest.mark.parametrize(
    "theirs", [["--append-system-prompt-file", "f"], ["--append-system-prompt-file=f"]]
)
def test_a_users_own_prompt_in_a_file_becomes_an_argument(theirs: list[str]) -> None:
    command = ["claude", "-p", *theirs, "hi"]
    assert find_prompt_file(command) == "f"
    assert inline_prompt_file(command, "Be kind.") == (
        "claude", "-p", "--append-system-prompt", "Be kind.", "hi"
    )  # fmt: skip
    assert find_prompt_file(["other", *theirs]) is None
    assert find_prompt_file(["claude", "--", *theirs]) is None


def test_what_stands_behind_the_options_is_the_prompt() -> None:
    words = ["claude", "-p", "--", "--append-system-prompt", "--json-schema"]
    launch = build_launch(words, TOLD, schema="{}")
    assert launch.arguments == (
        "claude", "--json-schema", "{}", "--append-system-prompt", TOLD, *words[1:]
    )  # fmt: skip


@pytest.mark.parametrize("theirs", [["--json-schema", "{}"], ["--json-schema={}"]])
def test_a_users_own_schema_stays(theirs: list[str]) -> None:
    launch = build_launch(["claude", *theirs], "", schema='{"type": "object"}')
    assert launch.arguments == ("claude", *theirs)


def test_an_option_without_its_value_is_left_to_the_program() -> None:
    launch = build_launch(["claude", "--append-system-prompt"], TOLD)
    assert launch.arguments == (
        "claude", "--append-system-prompt", TOLD, "--append-system-prompt"
    )  # fmt: skip


def test_nothing_to_tell_changes_nothing() -> None:
    assert build_launch(["claude", "-p"], "") == LaunchCommand(("claude", "-p"))
    assert build_launch(["other"], "", schema="{}", file="f") == LaunchCommand(("other",))


def test_other_programs_are_told_in_their_environment() -> None:
    launch = build_launch(["python", "agent.py"], TOLD, schema="{}", file="/tmp/told.md")
    assert launch == LaunchCommand(
        ("python", "agent.py"),
        {"MEMPLANE_RUN_CONTEXT": TOLD, "MEMPLANE_RUN_CONTEXT_FILE": "/tmp/told.md"},
    )


@pytest.mark.parametrize(
    ("command", "told", "fits"),
    [
        (["claude"], 128 * 1024 - 1, True),
        (["claude"], 128 * 1024, False),
        (["claude", "--append-system-prompt", "x" * 100_000], 40_000, False),
        (["other"], 128 * 1024 - 1, False),
    ],
)
def test_what_is_too_much_for_a_program_is_refused(
    command: list[str], told: int, *, fits: bool
) -> None:
    if fits:
        assert build_launch(command, "é" * (told // 2) + "x" * (told % 2)).arguments
        return
    with pytest.raises(InvalidRequest, match=r"128 KiB .* --budget"):
        build_launch(command, "é" * (told // 2) + "x" * (told % 2))
