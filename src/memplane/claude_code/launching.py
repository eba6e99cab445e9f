"""How a program is told what was learned: in its arguments, or in its environment (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from memplane.errors import InvalidRequest

VARIABLE: Final = "MEMPLANE_RUN_CONTEXT"
FILE_VARIABLE: Final = "MEMPLANE_RUN_CONTEXT_FILE"

_LONGEST: Final = 128 * 1024 - 1
"""The bytes of one argument or variable; a zero byte ends it, and both are one of 128 KiB."""
_APPEND: Final = "--append-system-prompt"
_APPEND_FILE: Final = "--append-system-prompt-file"
_SCHEMA: Final = "--json-schema"
_NO_MORE_OPTIONS: Final = "--"


class Launch(msgspec.Struct, frozen=True):
    """A program's arguments, and what its environment has besides ours."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


def is_claude_code(command: Sequence[str]) -> bool:
    """Tell Claude Code by the name of the program."""
    name = command[0].replace("\\", "/").rpartition("/")[2]
    return name.lower() in {"claude", "claude.exe"}


def prompt_file_of(command: Sequence[str]) -> str | None:
    """Return the file that Claude Code is given a prompt in, if it is."""
    place = _place(command, _APPEND_FILE) if is_claude_code(command) else None
    return place[2] if place else None


def with_prompt_of_file(command: Sequence[str], prompt: str) -> tuple[str, ...]:
    """Give Claude Code in an argument what it was to read in a file: it does not take both."""
    place = _place(command, _APPEND_FILE)
    if place is None:
        return tuple(command)
    start, end, _ = place
    return (*command[:start], _APPEND, prompt, *command[end:])


def launch_of(command: Sequence[str], told: str, *, schema: str = "", file: str = "") -> Launch:
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
        return Launch(_with_schema(_with_prompt(tuple(command), told), schema))
    _check(f"{VARIABLE}={told}", "the environment")
    variables = {VARIABLE: told} | ({FILE_VARIABLE: file} if file else {})
    return Launch(tuple(command), variables if told else {})


def _with_prompt(command: tuple[str, ...], told: str) -> tuple[str, ...]:
    """Add to the prompt; of two only the last one would count, so they are made one."""
    if not told:
        return command
    place = _place(command, _APPEND)
    if place is None:
        _check(told, _APPEND)
        return (command[0], _APPEND, told, *command[1:])
    start, end, theirs = place
    both = "\n\n".join(filter(None, (theirs, told)))
    _check(both, _APPEND)
    return (*command[:start], _APPEND, both, *command[end:])


def _with_schema(command: tuple[str, ...], schema: str) -> tuple[str, ...]:
    if not schema or _place(command, _SCHEMA) is not None:
        return command
    return (command[0], _SCHEMA, schema, *command[1:])


def _place(command: Sequence[str], option: str) -> tuple[int, int, str] | None:
    """Find the last place of an option: where it begins, where it ends, and its value."""
    options = list(command)
    if _NO_MORE_OPTIONS in options:
        options = options[: options.index(_NO_MORE_OPTIONS)]
    for at in range(len(options) - 1, 0, -1):
        if options[at].startswith(f"{option}="):
            return at, at + 1, options[at].partition("=")[2]
        if options[at] == option and at + 1 < len(options):
            return at, at + 2, options[at + 1]
    return None


def _check(text: str, what: str) -> None:
    size = len(text.encode("utf-8", "surrogateescape"))
    if size > _LONGEST:
        raise InvalidRequest(
            f"{size:,} bytes for {what} are more than the 128 KiB that one argument of a program "
            "may have. Ask for fewer memories with --budget, or shorten your own text"
        )
