"""`memplane service`: keep memplane running from login to login, with systemd or launchd."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable

    from memplane.home import Home
    from memplane.integrations.user_service import Command, UserService
    from memplane.settings import Settings

_COMMAND_TIMEOUT_S: Final = 90
_START_TIMEOUT_S: Final = 30.0
_POLL_INTERVAL_S: Final = 0.05


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    install = actions.add_parser("install", help="start it now and at each login")
    install.add_argument("--port", dest="http.port", metavar="N", help="where it listens")
    actions.add_parser("uninstall", help="stop it, and start it no more")
    status = actions.add_parser(
        "status",
        help="say whether it is installed and runs",
        epilog="Exit codes: 0 it runs; 3 it does not.",
    )
    status.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Carry out an action."""
    import asyncio

    service = _make_service(arguments, settings)
    match arguments.action:
        case "install":
            return await asyncio.to_thread(_install, service, settings)
        case "uninstall":
            return _uninstall(service)
        case _:
            return _print_status(service, settings, as_json=arguments.json)


def _make_service(arguments: argparse.Namespace, settings: Settings) -> UserService:
    """Make the service of this system for this home."""
    import os
    import sys

    from memplane.cli import list_flags
    from memplane.integrations.user_service import make_launchd_service, make_systemd_service
    from memplane.service.server_process import build_server_command
    from memplane.settings import get_environment

    flags = {name: value for name, value in list_flags(arguments).items() if name != "home"}
    command, user_home = build_server_command(settings.home, flags), Path("~").expanduser()
    is_usual = settings.home == user_home / ".memplane"
    if sys.platform == "darwin":
        return make_launchd_service(
            command, settings.home, user_home, os.getuid(), is_usual=is_usual
        )
    configuration = Path(get_environment().get("XDG_CONFIG_HOME") or user_home / ".config")
    return make_systemd_service(command, settings.home, configuration, is_usual=is_usual)


def _install(service: UserService, settings: Settings) -> int:
    """Write the description, and start it; where it cannot be started, nothing stays behind."""
    from memplane.cli import EXIT_OK
    from memplane.errors import HomeError
    from memplane.home import Home

    home, file = Home(settings.home), Path(service.file)
    is_running = _is_running(service)
    if is_running and file.exists() and file.read_bytes() == service.content:
        print(f"{service.name} is installed already, and runs")
        return EXIT_OK
    if not is_running and (server := home.server()) is not None:
        raise HomeError(
            f"memplane is up at {server.address} already, and not as a service. Stop it first: "
            "memplane stop"
        )
    home.create()
    before = file.read_bytes() if file.exists() else None
    _write(file, service.content)
    try:
        if is_running:
            _run_all(service.stop)
        _run_all(service.start)
        address = _wait_for_server(home, service)
    except HomeError:
        _run_all(service.stop, may_fail=True)
        _restore(file, before)
        _run_all(service.forget, may_fail=True)
        raise
    print(f"{service.name} is installed, and memplane is up at {address}")
    print(f"  {file}")
    if service.login_hint:
        print(service.login_hint)
    return EXIT_OK


def _uninstall(service: UserService) -> int:
    from memplane.cli import EXIT_OK

    file = Path(service.file)
    if not file.exists():
        print(f"{service.name} is not installed")
        return EXIT_OK
    _run_all(service.stop)
    file.unlink()
    _run_all(service.forget)
    print(f"{service.name} is uninstalled. Memories stay as they are")
    return EXIT_OK


def _print_status(service: UserService, settings: Settings, *, as_json: bool) -> int:
    from memplane.cli import EXIT_OK, EXIT_UNAVAILABLE
    from memplane.cli.output import print_json, print_rows
    from memplane.home import Home

    is_installed, is_running = Path(service.file).exists(), _is_running(service)
    server = Home(settings.home).server()
    if as_json:
        print_json(
            {
                "service": service.name,
                "file": str(service.file),
                "installed": is_installed,
                "running": is_running,
                "address": server.address if server else "",
            }
        )
    else:
        installed = str(service.file) if is_installed else "no: memplane service install"
        started = "" if is_running or server is None else ", not as a service"
        address = f"up at {server.address}{started}" if server else "not running"
        print_rows(
            [
                ("service", service.name),
                ("installed", installed),
                ("running", "yes" if is_running else "no"),
                ("memplane", address),
            ]
        )
    return EXIT_OK if is_running else EXIT_UNAVAILABLE


def _wait_for_server(home: Home, service: UserService) -> str:
    """Wait until the server listens.

    Raises:
        HomeError: It does not.
    """
    import time

    from memplane.errors import HomeError

    give_up = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < give_up:
        if (server := home.server()) is not None:
            return server.address
        time.sleep(_POLL_INTERVAL_S)
    raise HomeError(
        f"{service.name} was started, and memplane does not listen after {_START_TIMEOUT_S:g} s. "
        f"See {home.log_file} and {service.log_hint}"
    )


def _is_running(service: UserService) -> bool:
    import subprocess

    try:
        return _run_command(service.state).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _run_all(commands: Iterable[Command], *, may_fail: bool = False) -> None:
    """Run commands of the system, one after the other.

    Raises:
        HomeError: One is not there, or fails.
    """
    import shlex
    import subprocess

    from memplane.errors import HomeError

    for command in commands:
        try:
            ran = _run_command(command)
            reason = (ran.stderr or ran.stdout).strip() if ran.returncode else ""
            failed = ran.returncode != 0
        except (OSError, subprocess.TimeoutExpired) as error:
            reason, failed = str(error), True
        if failed and not may_fail:
            raise HomeError(
                f"`{shlex.join(command)}` failed: {reason or 'it does not say why'}. Without a "
                "service: memplane up --detach"
            )


def _run_command(command: Command) -> subprocess.CompletedProcess[str]:
    import subprocess

    return subprocess.run(  # noqa: S603 - the system's own program, with our own words
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_COMMAND_TIMEOUT_S,
        check=False,
    )


def _write(file: Path, content: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        HomeError: It cannot be written.
    """
    from memplane.errors import HomeError
    from memplane.kit.private_files import replace_private_file

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HomeError(f"{file.parent} cannot be made: {error.strerror}") from error
    replace_private_file(file, content)


def _restore(file: Path, before: bytes | None) -> None:
    if before is None:
        file.unlink(missing_ok=True)
    else:
        _write(file, before)
