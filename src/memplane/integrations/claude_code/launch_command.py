"""How a program is told what was learned: in its arguments, or in its environment (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from memplane.errors import InvalidRequest

CONTEXT_VARIABLE: Final = "MEMPLANE_RUN_CONTEXT"
CONTEXT_FILE_VARIABLE: Final = "MEMPLANE_RUN_CONTEXT_FILE"

_MAX_ARGUMENT_BYTES: Final = 128 * 1024 - 1
"""The bytes of one argument or variable; a zero byte ends it, and both are one of 128 KiB."""
_APPEND_OPTION: Final = "--append-system-prompt"
_APPEND_FILE_OPTION: Final = "--append-system-prompt-file"
_SCHEMA_OPTION: Final = "--json-schema"
_END_OF_OPTIONS: Final = "--"
_STANDALONE_OPTIONS: Final = frozenset({"-h", "--help", "-v", "--version"})
_VALUE_OPTIONS: Final = frozenset(
    {
        *("--model", "--fallback-model", "--agent", "--agents", "--effort", "--session-id"),
        *("--output-format", "--input-format", "--permission-mode", "--max-turns"),
        *("--max-budget-usd", "--settings", "--setting-sources", "--system-prompt"),
        *("--system-prompt-file", "--permission-prompt-tool", "--resume", "-r", "-n", "--name"),
        *(_APPEND_OPTION, _APPEND_FILE_OPTION, _SCHEMA_OPTION),
    }
)
"""Options that are followed by a value, which is no prompt."""


class LaunchCommand(msgspec.Struct, frozen=True):
    """A program's arguments, and what its environment has besides ours."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


def is_claude_code(command: Sequence[str]) -> bool:
    """Tell Claude Code by the name of the program."""
    name = command[0].replace("\\", "/").rpartition("/")[2]
    return name.lower() in {"claude", "claude.exe"}


def lacks_prompt(command: Sequence[str]) -> bool:
    """Tell whether Claude Code is started with nothing to do, other than what it reads.

    A word that no option takes may be a prompt or a command of its own, such as `mcp`. An option
    that is not known here is taken to have no value, and then its value is such a word.
    """
    if not is_claude_code(command):
        return False
    words = iter(command[1:])
    for word in words:
        if word in _STANDALONE_OPTIONS or not word.startswith("-") or word == _END_OF_OPTIONS:
            return word == _END_OF_OPTIONS and next(words, None) is None
        if word in _VALUE_OPTIONS:
            next(words, None)
    return True


def find_prompt_file(command: Sequence[str]) -> str | None:
    """Return the file that Claude Code is given a prompt in, if it is."""
    place = find_option(command, _APPEND_FILE_OPTION) if is_claude_code(command) else None
    return place[2] if place else None


def inline_prompt_file(command: Sequence[str], prompt: str) -> tuple[str, ...]:
    """Give Claude Code in an argument what it was to read in a file: it does not take both."""
    place = find_option(command, _APPEND_FILE_OPTION)
    if place is None:
        return tuple(command)
    start, end, _ = place
    return (*command[:start], _APPEND_OPTION, prompt, *command[end:])


def build_launch(
    command: Sequence[str], told: str, *, schema: str = "", file: str = ""
) -> LaunchCommand:
    """Say how a program is started so that it knows.

    Args:
        command: The program and its arguments, as they were given.
        told: What it is told; it may be empty.
        schema: What its output is to look like; for Claude Code only.
        file: Where the same is written, for a program that is told in its environment.

    Raises:
        InvalidRequest: It is more than can be handed to a program.
    """
    if is_claude_code(command):
        return LaunchCommand(_with_schema(_with_prompt(tuple(command), told), schema))
    _check(f"{CONTEXT_VARIABLE}={told}", "the environment")
    variables = {CONTEXT_VARIABLE: told} | ({CONTEXT_FILE_VARIABLE: file} if file else {})
    return LaunchCommand(tuple(command), variables if told else {})


def _with_prompt(command: tuple[str, ...], told: str) -> tuple[str, ...]:
    """Add to the prompt; of two only the last one would count, so they are made one."""
    if not told:
        return command
    place = find_option(command, _APPEND_OPTION)
    if place is None:
        _check(told, _APPEND_OPTION)
        return (command[0], _APPEND_OPTION, told, *command[1:])
    start, end, theirs = place
    both = "\n\n".join(filter(None, (theirs, told)))
    _check(both, _APPEND_OPTION)
    return (*command[:start], _APPEND_OPTION, both, *command[end:])


def _with_schema(command: tuple[str, ...], schema: str) -> tuple[str, ...]:
    if not schema or find_option(command, _SCHEMA_OPTION) is not None:
        return command
    return (command[0], _SCHEMA_OPTION, schema, *command[1:])


def find_option(command: Sequence[str], option: str) -> tuple[int, int, str] | None:
    """Find the last place of an option: where it begins, where it ends, and its value."""
    options = list(command)
    if _END_OF_OPTIONS in options:
        options = options[: options.index(_END_OF_OPTIONS)]
    for at in range(len(options) - 1, 0, -1):
        if options[at].startswith(f"{option}="):
            return at, at + 1, options[at].partition("=")[2]
        if options[at] == option and at + 1 < len(options):
            return at, at + 2, options[at + 1]
    return None


def _check(text: str, what: str) -> None:
    size = len(text.encode("utf-8", "surrogateescape"))
    if size > _MAX_ARGUMENT_BYTES:
        raise InvalidRequest(
            f"{size:,} bytes for {what} are more than the 128 KiB that one argument of a program "
            "may have. Ask for fewer memories with --budget, or shorten your own text"
        )
