"""The command line. Starting is cheap: only the command that was asked for is imported.

Each command is a module with `configure(parser)` and `async run(arguments, settings) -> int`, and
with `new_loop()` where the usual event loop is not the right one, and `expand_arguments(words)`
where an action has a short form.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memplane.errors import MemplaneError
    from memplane.settings import Settings

COMMANDS: Final = {
    "up": "start memplane on this machine",
    "stop": "stop what memplane up started",
    "logs": "show the log of a memplane in the background",
    "service": "keep memplane running from login to login",
    "dashboard": "open the dashboard in a browser",
    "status": "show what is configured, where state lives and what is pending",
    "settings": "show what is set, and where",
    "version": "print the versions of memplane and of what it runs on",
    "doctor": "check this machine and say what to do about each finding",
    "retain": "give an agent something to remember",
    "recall": "ask an agent's memory",
    "memories": "see and correct what was learned",
    "run": "run an agent with what was learned, and learn from it",
    "claude": "give Claude Code memory, or start it with memory",
    "mcp": "offer memory as tools to a coding agent (Model Context Protocol)",
    "persona": "keep a folder of documents the same on every machine",
    "agent": "give Codex memory, or say how other agents get it",
    "digest": "say what happened in a session or on a day, without a model",
    "rebuild": "derive all memory again from the ledgers, and compare",
    "backfill": "replay recorded turns into a memory service",
    "forget": "forget entries for good",
    "users": "the end users of an agent, and what they share",
    "export": "everything of one end user, with a receipt",
    "memory": "the same: memory backfill, memory forget",
    "audit": "show what turns and memory operations told, and their sums",
    "history": "read, export or check the record of what happened",
    "token": "say who may ask this memplane, and for what",
    "pod": "compile a pod's file, or show memplane's descriptor",
    "cloud": "set up a container of the agent's own, or move state to one",
    "manifest": "check or rebuild the index of the container",
    "queue": "show or send what has not reached the container or a memory service",
    "bench": "measure how well recall finds what it should",
}
HIDDEN_COMMANDS: Final = {"worker": "do the jobs that hooks left"}

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNAVAILABLE: Final = 3
EXIT_INTERRUPTED: Final = 130

_READ_ONLY_ACTIONS: Final = {
    "status": frozenset({""}),
    "recall": frozenset({""}),
    "rebuild": frozenset({""}),
    "token": frozenset({"list"}),
    "users": frozenset({"list"}),
    "export": frozenset({""}),
    "memories": frozenset(
        {
            *("list", "show", "history", "evidence", "sessions", "stats", "preview"),
            *("conflicts", "rejects", "export", "rebuild"),
        }
    ),
}
"""What only looks into the home, by command and action."""

_HELP_TEXT: Final = """\
usage: memplane [--home DIR] [--set NAME=VALUE] COMMAND …

memplane gives AI agents durable memory.

commands:
{commands}

options:
  --home DIR        the folder that holds memplane's state (MEMPLANE_HOME)
  --set NAME=VALUE  override one setting, such as --set http.port=7000
  --version         print the version
  -h, --help        print this; `memplane help COMMAND` tells more

exit codes: 0 done, 1 failed, 2 wrong usage or configuration or an incomplete migration,
            3 a store or owner did not answer
"""


class Command(Protocol):
    """What a command's module offers."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""
        ...

    async def run(self, arguments: argparse.Namespace, settings: Settings) -> int:
        """Carry it out and return the exit code."""
        ...


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = _Parser(prog="memplane", add_help=False)
    parser.add_argument("--home")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("command", nargs="?")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    typed = list(sys.argv[1:] if words is None else words)
    # What stands behind a `--` is the command's own, and argparse would take the mark away.
    split = typed.index("--") if "--" in typed else len(typed)
    given = parser.parse_args(typed[:split])
    given.rest += typed[split:]
    if given.version:
        from memplane.version import VERSION

        print(VERSION)
        return EXIT_OK
    if given.command == "claude" and given.rest[:1] == ["hook"] and not given.help:
        # Its own way: it has to start fast, and to end with 0 whatever happens.
        from memplane.cli.claude_hook import run_claude_hook

        return run_claude_hook(given.rest[1:], _flags(given, parser))
    if given.command == "help":
        given.command, *given.rest = [*given.rest, "--help"] if given.rest else [None]
        given.help = given.command is None
    if given.command is None or given.help:
        listed = "\n".join(f"  {name:<10} {about}" for name, about in COMMANDS.items())
        print(
            _HELP_TEXT.format(commands=listed),
            end="",
            file=sys.stdout if given.help else sys.stderr,
        )
        return EXIT_OK if given.help else EXIT_USAGE
    if given.command not in COMMANDS and given.command not in HIDDEN_COMMANDS:
        parser.error(f"there is no command {given.command!r}{_suggest_command(given.command)}")
    return _run(given, parser)


def _suggest_command(command: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(command, COMMANDS, n=1)
    return f". Did you mean `memplane {near[0]}`?" if near else ""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        ends = "" if message.endswith((".", "?")) else "."
        print(f"{self.prog}: {message}{ends} See `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(EXIT_USAGE)


def _run(given: argparse.Namespace, parser: _Parser) -> int:
    import gc

    # A tenth of a short command's work is looking for garbage in what it has just imported.
    gc.set_threshold(20_000, 20, 20)

    import asyncio
    from importlib import import_module

    from memplane.cli.log_setup import set_up_logs
    from memplane.errors import MemplaneError
    from memplane.home import Home

    command = cast("Command", import_module(f"memplane.cli.{given.command}"))
    about = {**COMMANDS, **HIDDEN_COMMANDS}[given.command]
    own = _Parser(prog=f"memplane {given.command}", description=about[0].upper() + about[1:] + ".")
    command.configure(own)
    expand = getattr(command, "expand_arguments", list)
    arguments = own.parse_args(expand(given.rest))
    arguments.global_flags = _flags(given, parser)
    try:
        settings = _settings(arguments)
        if _is_read_only(given.command, arguments):
            Home(settings.home).expect()
        set_up_logs(settings)
        # The server's loop is a faster one than most commands need.
        with asyncio.Runner(loop_factory=getattr(command, "new_loop", None)) as runner:
            return runner.run(command.run(arguments, settings))
    except MemplaneError as error:
        print(f"memplane {given.command}: {error}", file=sys.stderr)
        return get_exit_code(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left; there is nobody to tell.
        sys.stderr.close()
        return EXIT_FAILED


def _settings(arguments: argparse.Namespace) -> Settings:
    """Read the settings; a flag of the command's own is blamed by its own name."""
    from memplane.errors import SettingsError
    from memplane.settings import load_settings_from_environment

    own = _own_flags(arguments)
    try:
        return load_settings_from_environment(list_flags(arguments))
    except SettingsError as error:
        said = str(error)
        for name in own:
            said = said.replace(f"--set {name} is", f"--{name.rpartition('.')[2]} is")
        raise SettingsError(said) from error


def _is_read_only(command: str, arguments: argparse.Namespace) -> bool:
    """Tell whether a command only looks into the home, and so must not make one."""
    return getattr(arguments, "action", "") in _READ_ONLY_ACTIONS.get(command, ())


def _flags(given: argparse.Namespace, parser: _Parser) -> dict[str, str]:
    flags: dict[str, str] = {}
    for override in cast("list[str]", given.overrides):
        name, equals, value = override.partition("=")
        if not equals or not name:
            parser.error(f"--set takes NAME=VALUE, not {override!r}")
        flags[name] = value
    if given.home:
        flags["home"] = given.home
    return flags


def list_flags(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the settings that a command was given, on either side of its name."""
    return {**arguments.global_flags, **_own_flags(arguments)}


def _own_flags(arguments: argparse.Namespace) -> dict[str, str]:
    """Collect the command's flags that are settings: those whose destination has a dot."""
    return {
        name: str(value)
        for name, value in vars(arguments).items()
        if "." in name and value is not None
    }


def get_exit_code(error: MemplaneError) -> int:
    """Return the exit code for an error."""
    from memplane import errors

    misused = (errors.SettingsError, errors.BackendMisconfigured, errors.UnknownProject)
    if isinstance(error, (*misused, errors.InvalidRequest, errors.InvalidCursor)):
        return EXIT_USAGE
    if isinstance(error, (errors.BackendUnavailable, errors.OwnerUnavailable, errors.AuthError)):
        return EXIT_UNAVAILABLE
    return EXIT_FAILED
