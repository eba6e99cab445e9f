"""`memplane run -- CMD…`: run an agent with what was learned, and learn from what it says."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from memplane.claude_code.launching import Launch
    from memplane.observations.contract import SessionBegun, SessionWanted
    from memplane.settings import Settings

NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
"""What a shell answers for a program that cannot be started."""

_LONGEST_COMMAND: Final = 1000
_ABOUT: Final = """\
Claude Code, a program that is called claude, gets what was learned in
--append-system-prompt. Any other program gets it in MEMPLANE_RUN_CONTEXT, and
in the file that MEMPLANE_RUN_CONTEXT_FILE names.

Output goes on unchanged and as it comes, but through a pipe: this is for runs
without a terminal, such as claude -p. With --output-format stream-json
--verbose what the agent says is learned while it runs. Text is learned as it
is printed, which Claude Code does at the end.

The exit code is the program's own, or 128 and the number of a signal."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "memplane run [options] -- CMD …"
    parser.epilog = _ABOUT
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--agent", help="whose memory; by default MEMPLANE_AGENT")
    add_session_options(parser)
    parser.add_argument(
        "--budget", type=int, metavar="N", help="tokens for memories; MEMPLANE_OPS_MEMORY_BUDGET"
    )
    parser.add_argument(
        "--prompt", default="", metavar="TEXT", help="what it is asked; its services are in scope"
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD", help="the program")


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Declare what is said of an agent's session, however it is listened to."""
    parser.add_argument(
        "--tier",
        type=int,
        choices=(1, 2, 3),
        default=1,
        help="1 observes (the default), 2 investigates, 3 remediates",
    )
    parser.add_argument(
        "--service", action="append", default=[], metavar="S", help="in scope; may be repeated"
    )
    parser.add_argument(
        "--mode",
        choices=("markers", "structured"),
        default="markers",
        help="how memories are recorded: [MEMORY:…] in what is said, or structured output",
    )


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Run a program with what was learned, and learn from it."""
    import shutil

    from memplane.cli import MISUSED
    from memplane.cli.opening import warn

    words: list[str] = arguments.words
    command = words[1:] if words[:1] == ["--"] else words
    if not command:
        warn("say what to run: memplane run --agent NAME -- claude -p …")
        return MISUSED
    if shutil.which(command[0], mode=os.F_OK) is None:
        warn(f"there is no program {command[0]}")
        return NOT_FOUND
    return await _run(arguments, settings, command)


async def _run(arguments: argparse.Namespace, settings: Settings, command: Sequence[str]) -> int:
    """Tell, run, listen. Whatever becomes of memory, the program runs."""
    from functools import partial

    from memplane.claude_code.carrying import Carrier
    from memplane.claude_code.launching import Launch, launch_of
    from memplane.claude_code.learning import Hearing
    from memplane.claude_code.listening import Listening, learn_from
    from memplane.claude_code.transcript import Transcript, open_log
    from memplane.cli import FAILED
    from memplane.cli.agents import agent_of
    from memplane.cli.opening import (
        new_log_path,
        open_memories,
        say_it_ourselves,
        scrubbing,
        tell,
        warn,
    )
    from memplane.clock import system_clock
    from memplane.errors import MemplaneError

    agent = agent_of(arguments, settings)
    say_it_ourselves(settings)
    try:
        scrub, log = scrubbing(settings), open_log(new_log_path(settings))
    except MemplaneError as error:
        warn(f"{error}. It runs without memory")
        return await _started(Launch(tuple(command)), lambda _: None)
    wanted = _wanted(arguments, command, agent=agent, log=str(log.path), scrub=scrub)
    begun = await _begun(settings, wanted)
    listening = Listening(Transcript(scrub, log.write), Hearing(arguments.mode), system_clock)
    carrier = Carrier(partial(open_memories, settings), wanted, begun.session if begun else None)

    async def program(heard: Callable[[bytes], None]) -> int:
        with _told(arguments, begun) as (told, file):
            own = _with_own_prompt(command)
            launch = launch_of(own, told, schema=_schema(arguments), file=file)
            return await _started(launch, heard)

    with log:
        code = await learn_from(program, listening, carrier)
    tell(carrier, listening, log)
    return FAILED if code is None else code


def _wanted(
    arguments: argparse.Namespace,
    command: Sequence[str],
    *,
    agent: str,
    log: str,
    scrub: Callable[[bytes], bytes],
) -> SessionWanted:
    import shlex

    from memplane.observations.contract import SessionWanted

    # Not every argument is text; what is none is shown as such.
    shown = scrub(shlex.join(command).encode("utf-8", "backslashreplace")).decode()
    return SessionWanted(
        agent=agent,
        tier=arguments.tier,
        services=tuple(arguments.service),
        budget=arguments.budget,
        command=shown[:_LONGEST_COMMAND],
        prompt=arguments.prompt or shown,
        log=log,
    )


async def _begun(settings: Settings, wanted: SessionWanted) -> SessionBegun | None:
    """Begin the session; None when memory fails, for an agent without it beats no agent.

    Raises:
        InvalidRequest: It cannot be as it was asked for.
    """
    from memplane.cli.opening import open_memories, warn
    from memplane.errors import InvalidRequest, MemplaneError

    try:
        async with open_memories(settings) as memories:
            return await memories.begin(wanted)
    except InvalidRequest:
        raise
    except (MemplaneError, OSError) as error:
        warn(f"{error}. It runs without what was learned before")
        return None


@contextmanager
def _told(arguments: argparse.Namespace, begun: SessionBegun | None) -> Generator[tuple[str, str]]:
    """Give what a program is told, and a file that says the same while it runs."""
    import tempfile

    from memplane.observations.guide import guide

    block = begun.prompt.block if begun else ""
    told = "\n\n".join(filter(None, (block, guide(arguments.tier, arguments.mode))))
    with tempfile.NamedTemporaryFile(
        "w", prefix="memplane-", suffix=".md", encoding="utf-8"
    ) as file:
        file.write(told)
        file.flush()
        yield told, file.name


def _with_own_prompt(command: Sequence[str]) -> Sequence[str]:
    """Read a prompt that the user has in a file, since that would stand in the way of ours.

    Raises:
        InvalidRequest: It cannot be read.
    """
    from pathlib import Path

    from memplane.claude_code.launching import prompt_file_of, with_prompt_of_file
    from memplane.errors import InvalidRequest

    file = prompt_file_of(command)
    if file is None:
        return command
    try:
        return with_prompt_of_file(command, Path(file).read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} cannot be read: {error}") from error


def _schema(arguments: argparse.Namespace) -> str:
    import json

    from memplane.observations.guide import schema

    return json.dumps(schema()) if arguments.mode == "structured" else ""


async def _started(launch: Launch, heard: Callable[[bytes], None]) -> int:
    """Run a program; one that cannot be started has the exit code that a shell would give."""
    from memplane.claude_code.running import run_program
    from memplane.cli.opening import warn
    from memplane.settings import environment

    sys.stdout.flush()
    try:
        return await run_program(
            launch.arguments,
            {**environment(), **launch.variables},
            sink=sys.stdout.fileno(),
            heard=heard,
        )
    except OSError as error:
        warn(f"{launch.arguments[0]} cannot be run: {error.strerror}")
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
