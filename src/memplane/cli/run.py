"""`memplane run -- CMD…`: run an agent with what was learned, and learn from what it says."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from memplane.cli.number_argument import TOKENS_RANGE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from memplane.integrations.claude_code.launch_command import LaunchCommand
    from memplane.observations.api_types import StartedSession
    from memplane.observations.requests import SessionWanted
    from memplane.settings import Settings

EXIT_NOT_EXECUTABLE: Final = 126
EXIT_NOT_FOUND: Final = 127
"""What a shell answers for a program that cannot be started."""

_MAX_COMMAND_CHARS: Final = 1000
_EPILOG: Final = """\
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
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--agent", help="whose memory; by default MEMPLANE_AGENT")
    add_session_options(parser)
    parser.add_argument(
        "--budget",
        type=TOKENS_RANGE,
        metavar="N",
        help="tokens for memories; MEMPLANE_OPS_MEMORY_BUDGET",
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
    import shlex
    import shutil

    from memplane.cli import EXIT_USAGE
    from memplane.cli.memories_session import print_warning
    from memplane.integrations.claude_code.launch_command import lacks_prompt

    words: list[str] = arguments.words
    command = words[1:] if words[:1] == ["--"] else words
    if not command:
        print_warning("say what to run: memplane run --agent NAME -- claude -p …")
        return EXIT_USAGE
    if shutil.which(command[0], mode=os.F_OK) is None:
        print_warning(f"there is no program {command[0]}")
        return EXIT_NOT_FOUND
    if lacks_prompt(command) and _nothing_to_read():
        print_warning(
            "claude has no prompt, and here it cannot show a screen to type one in: its output "
            "goes through a pipe, so that memories can be learned from it. Give it one:\n"
            f'  memplane run -- {shlex.quote(command[0])} -p "Check the hosts."'
        )
        return EXIT_USAGE
    return await _run(arguments, settings, command)


def _nothing_to_read() -> bool:
    """Tell whether standard input is a terminal, nothing, or closed: no prompt comes that way."""
    import stat

    try:
        return stat.S_ISCHR(os.fstat(0).st_mode)
    except OSError:
        return True


async def _run(arguments: argparse.Namespace, settings: Settings, command: Sequence[str]) -> int:
    """Tell, run, listen. Whatever becomes of memory, the program runs."""
    from functools import partial

    from memplane.cli import EXIT_FAILED
    from memplane.cli.agent_argument import resolve_agent
    from memplane.cli.memories_session import (
        make_log_path,
        make_scrubber,
        open_client,
        print_session_summary,
        print_warning,
        silence_rejection_log,
    )
    from memplane.errors import MemplaneError
    from memplane.integrations.claude_code.launch_command import LaunchCommand, build_launch
    from memplane.integrations.claude_code.output_extractor import OutputExtractor
    from memplane.integrations.claude_code.session_listener import SessionListener
    from memplane.integrations.claude_code.transcript import TranscriptWriter, create_transcript
    from memplane.kit.clock import system_clock
    from memplane.service.session_ingest import SessionIngest, ingest_session

    agent = resolve_agent(arguments, settings)
    silence_rejection_log(settings)
    try:
        scrub, log = make_scrubber(settings), create_transcript(make_log_path(settings))
    except MemplaneError as error:
        print_warning(f"{error}. It runs without memory")
        return await _start_program(LaunchCommand(tuple(command)), lambda _: None)
    wanted = _wanted(arguments, command, agent=agent, log=str(log.path), scrub=scrub)
    begun = await _begin_session(settings, wanted)
    listening = SessionListener(
        TranscriptWriter(scrub, log.write), OutputExtractor(arguments.mode), system_clock
    )
    carrier = SessionIngest(
        partial(open_client, settings), wanted, begun.session if begun else None
    )

    async def program(heard: Callable[[bytes], None]) -> int:
        with _provide_prompt(arguments, begun) as (told, file):
            own = _with_own_prompt(command)
            launch = build_launch(own, told, schema=_schema(arguments), file=file)
            return await _start_program(launch, heard)

    with log:
        code = await ingest_session(program, listening, carrier)
    print_session_summary(carrier, listening, log)
    return EXIT_FAILED if code is None else code


def _wanted(
    arguments: argparse.Namespace,
    command: Sequence[str],
    *,
    agent: str,
    log: str,
    scrub: Callable[[bytes], bytes],
) -> SessionWanted:
    import shlex

    from memplane.observations.requests import SessionWanted

    # Not every argument is text; what is none is shown as such.
    shown = scrub(shlex.join(command).encode("utf-8", "backslashreplace")).decode()
    return SessionWanted(
        agent=agent,
        tier=arguments.tier,
        services=tuple(arguments.service),
        budget=arguments.budget,
        command=shown[:_MAX_COMMAND_CHARS],
        prompt=arguments.prompt or shown,
        log=log,
    )


async def _begin_session(settings: Settings, wanted: SessionWanted) -> StartedSession | None:
    """Begin the session; None when memory fails, for an agent without it beats no agent.

    Raises:
        InvalidRequest: It cannot be as it was asked for.
    """
    from memplane.cli.memories_session import open_client, print_warning
    from memplane.errors import InvalidRequest, MemplaneError
    from memplane.service.operations.sessions import begin_session

    try:
        async with open_client(settings) as client:
            return await client.call(begin_session, wanted.agent, wanted)
    except InvalidRequest:
        raise
    except (MemplaneError, OSError) as error:
        print_warning(f"{error}. It runs without what was learned before")
        return None


@contextmanager
def _provide_prompt(
    arguments: argparse.Namespace, begun: StartedSession | None
) -> Generator[tuple[str, str]]:
    """Give what a program is told, and a file that says the same while it runs."""
    import tempfile

    from memplane.observations.agent_guide import build_guide

    block = begun.prompt.block if begun else ""
    told = "\n\n".join(filter(None, (block, build_guide(arguments.tier, arguments.mode))))
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

    from memplane.errors import InvalidRequest
    from memplane.integrations.claude_code.launch_command import (
        find_prompt_file,
        inline_prompt_file,
    )

    file = find_prompt_file(command)
    if file is None:
        return command
    try:
        return inline_prompt_file(command, Path(file).read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} cannot be read: {error}") from error


def _schema(arguments: argparse.Namespace) -> str:
    import json

    from memplane.observations.agent_guide import build_output_schema

    return json.dumps(build_output_schema()) if arguments.mode == "structured" else ""


async def _start_program(launch: LaunchCommand, heard: Callable[[bytes], None]) -> int:
    """Run a program; one that cannot be started has the exit code that a shell would give."""
    from memplane.cli.memories_session import print_warning
    from memplane.integrations.claude_code.process_runner import run_program
    from memplane.settings import get_environment

    sys.stdout.flush()
    try:
        return await run_program(
            launch.arguments,
            {**get_environment(), **launch.variables},
            sink=sys.stdout.fileno(),
            heard=heard,
        )
    except OSError as error:
        print_warning(f"{launch.arguments[0]} cannot be run: {error.strerror}")
        return EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_EXECUTABLE
