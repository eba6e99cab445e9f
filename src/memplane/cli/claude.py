"""`memplane claude`: Claude Code with memory."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memplane.integrations.claude_code.proxy_route import ProxyState
    from memplane.settings import Settings

_HEALTH_DEADLINE_S: Final = 1.0
_RUN_EPILOG: Final = """\
`memplane claude -- ARGS` is the same.

When memplane does not answer within a second, Claude Code goes to the provider
directly, and standard error says so."""


def expand_arguments(words: Sequence[str]) -> list[str]:
    """Add the action to `memplane claude -- ARGS`, which names none."""
    is_run = bool(words) and words[0].startswith("-") and words[0] not in {"-h", "--help"}
    return ["run", *words] if is_run else list(words)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from memplane.cli.claude_import import configure_import
    from memplane.cli.claude_install import configure_install

    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    configure_install(actions.add_parser)
    configure_import(actions.add_parser)
    run_action = actions.add_parser(
        "run",
        help="start Claude Code through the proxy",
        epilog=_RUN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run_action.add_argument("--agent", help="whose memory; by default MEMPLANE_AGENT")
    run_action.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="ARGS", help="arguments of Claude Code"
    )


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Carry out an action."""
    if arguments.action == "run":
        return await _start_client(arguments, settings)
    if arguments.action == "import":
        from memplane.cli.claude_import import run_import

        return await run_import(arguments, settings)
    from memplane.cli.claude_install import run_install

    return run_install(arguments, settings)


async def _start_client(arguments: argparse.Namespace, settings: Settings) -> int:
    """Become Claude Code, with the proxy as its provider where memplane answers."""
    import asyncio
    import os
    import shutil

    from memplane.cli import EXIT_FAILED, EXIT_UNAVAILABLE
    from memplane.cli.run import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND
    from memplane.integrations.claude_code.proxy_route import (
        BASE_URL_VARIABLE,
        build_routed_command,
        choose_route,
    )
    from memplane.settings import get_environment

    words: list[str] = arguments.words
    program = shutil.which("claude")
    if program is None:
        _print_warning("there is no program claude on PATH. Install Claude Code first")
        return EXIT_NOT_FOUND
    command = [program, *(words[1:] if words[:1] == ["--"] else words)]
    environment = get_environment()
    proxy = await asyncio.to_thread(_find_proxy, settings, _read_agent(arguments, settings))
    configured, in_file = _find_variable(BASE_URL_VARIABLE, command, environment)
    route = choose_route(configured, proxy, has_token=_has_token(command, environment))
    if route.warning:
        _print_warning(route.warning)
    if not route.is_possible:
        return EXIT_UNAVAILABLE
    try:
        launch = build_routed_command(
            command,
            environment,
            route.address,
            lambda name: Path(name).read_bytes(),
            in_file=in_file,
        )
    except OSError as error:
        _print_warning(f"{error.filename} cannot be read: {error.strerror}")
        return EXIT_FAILED
    sys.stdout.flush()
    # It becomes the client, so that a terminal, signals and the exit code are the client's own.
    try:
        os.execve(program, launch.arguments, dict(launch.variables))  # noqa: S606 - no shell
    except OSError as error:
        _print_warning(f"{program} cannot be run: {error.strerror}")
        return EXIT_NOT_EXECUTABLE


def _read_agent(arguments: argparse.Namespace, settings: Settings) -> str:
    """Return the agent that was named, or the settings' one; the server knows the default."""
    from memplane.cli.agent_argument import resolve_agent

    named = bool(arguments.agent or settings.agent)
    return resolve_agent(arguments, settings) if named else ""


def _find_proxy(settings: Settings, agent: str) -> ProxyState:
    """Find the process that serves this home, and ask it whether it is there."""
    from memplane.auth.token_store import TokenStore
    from memplane.cli.output import get_program_name
    from memplane.home import Home
    from memplane.integrations.claude_code.proxy_route import ProxyState
    from memplane.kit.clock import system_clock

    home = Home(settings.home)
    server = home.server()
    ports = frozenset({settings.http.port} | ({_get_port(server.address)} if server else set()))
    upstream = settings.proxy.upstream_anthropic.rstrip("/").removesuffix("/v1")
    if server is None:
        start = f"{get_program_name(settings.home)} up --detach"
        trouble = f"memplane is not running ({start} starts it)."
        return ProxyState(ports=ports, upstream=upstream, trouble=trouble)
    if not _is_healthy(server.address):
        trouble = f"memplane at {server.address} does not answer within {_HEALTH_DEADLINE_S:g} s."
        return ProxyState(ports=ports, upstream=upstream, trouble=trouble)
    address = f"{server.address}/agent/{agent}" if agent else server.address
    tokens = TokenStore(home.tokens_file, clock=system_clock, admins={})
    takes_turns = agent or "default"
    governed = takes_turns if tokens.governs(takes_turns, system_clock()) else ""
    return ProxyState(address=address, ports=ports, upstream=upstream, governed_agent=governed)


def _is_healthy(address: str) -> bool:
    """Say whether a server answers at all in time; one that complains passes turns on as well."""
    import http.client
    from contextlib import closing

    host = address.removeprefix("http://")
    with closing(http.client.HTTPConnection(host, timeout=_HEALTH_DEADLINE_S)) as connection:
        try:
            connection.request("GET", "/health")
            connection.getresponse()
        except (OSError, http.client.HTTPException):
            return False
    return True


def _get_port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _has_token(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Say whether the client shows a token of memplane's."""
    from memplane.auth.token_store import TOKEN_PREFIX
    from memplane.integrations.claude_code.proxy_route import KEY_VARIABLES

    keys = (_find_variable(name, command, environment)[0] for name in KEY_VARIABLES)
    return next(filter(None, keys), "").rpartition(":")[2].startswith(TOKEN_PREFIX)


def _find_variable(
    name: str, command: Sequence[str], environment: Mapping[str, str]
) -> tuple[str, bool]:
    """Return a variable as the client has it, and whether one of its settings files sets it."""
    from memplane.integrations.claude_code.proxy_route import find_settings_argument, read_variable

    own = find_settings_argument(command)
    if own.lstrip().startswith("{") and (value := read_variable(own, name)):
        return value, True
    folder = environment.get("CLAUDE_CONFIG_DIR") or "~/.claude"
    files = [
        Path(own) if own and not own.lstrip().startswith("{") else None,
        Path(".claude/settings.local.json"),
        Path(".claude/settings.json"),
        Path(folder).expanduser() / "settings.json",
    ]
    for file in filter(None, files):
        try:
            value = read_variable(file.read_bytes(), name)
        except OSError:
            continue  # the client says what is wrong with it
        if value:
            return value, True
    return environment.get(name, ""), False


def _print_warning(text: str) -> None:
    from memplane.cli.output import escape_text

    print(f"memplane claude: {escape_text(text)}", file=sys.stderr, flush=True)
