"""The service of a user that keeps memplane running: a unit of systemd, or an agent of launchd.

What the two differ in is data: a file, and the commands that let the system know of it (pure).
"""

from __future__ import annotations

import hashlib
import plistlib
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, TypeAlias

import msgspec

from memplane.errors import InvalidRequest

Command: TypeAlias = tuple[str, ...]

_UNIT: Final = """\
# Written by `memplane service install`; `memplane service uninstall` removes it.
[Unit]
Description=memplane: durable memory for AI agents ({home})
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=exec
ExecStart={command}
WorkingDirectory={home}
Restart=on-failure
RestartSec=2
TimeoutStopSec=60
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""
_LAUNCHD_LABEL: Final = "memplane.server"


class UserService(msgspec.Struct, frozen=True, kw_only=True):
    """A service as its system wants it.

    Args:
        name: What the system calls it.
        file: Where its description lies.
        content: The description.
        start: Commands that start it, now and at each login.
        forget: Commands after its file is gone.
        stop: Commands that stop it, now and for later logins.
        state: The command that exits with 0 while it runs.
        log_hint: The command that shows what the system says about it.
        login_hint: What to know about logins; may be empty.
    """

    name: str
    file: PurePath
    content: bytes
    start: tuple[Command, ...]
    stop: tuple[Command, ...]
    forget: tuple[Command, ...]
    state: Command
    log_hint: str
    login_hint: str = ""


def make_systemd_service(
    command: Sequence[str], home: PurePath, configuration: PurePath, *, is_usual: bool
) -> UserService:
    """Make the unit that runs a command for a home.

    Args:
        command: The program and its arguments.
        home: The home that it serves.
        configuration: The user's folder of configuration, such as `~/.config`.
        is_usual: Whether the home is the usual one, which the name then need not tell.

    Raises:
        InvalidRequest: A path cannot be written into a unit.
    """
    name = f"memplane{'' if is_usual else _short_hash(home)}.service"
    _check_words([*command, str(home)])
    text = _UNIT.format(
        home=str(home).replace("%", "%%"), command=" ".join(map(_quote_systemd_word, command))
    )
    control = ("systemctl", "--user")
    return UserService(
        name=name,
        file=configuration / "systemd" / "user" / name,
        content=text.encode(),
        start=(
            (*control, "daemon-reload"),
            (*control, "enable", name),
            (*control, "restart", name),
        ),
        stop=((*control, "disable", "--now", name),),
        forget=((*control, "daemon-reload"),),
        state=(*control, "is-active", "--quiet", name),
        log_hint=f"journalctl --user -u {name}",
        login_hint="It starts when you log in, and ends when you log out. To have it run all the "
        "time: loginctl enable-linger",
    )


def make_launchd_service(
    command: Sequence[str], home: PurePath, user_home: PurePath, user_id: int, *, is_usual: bool
) -> UserService:
    """Make the agent that runs a command for a home.

    Raises:
        InvalidRequest: A path cannot be written into a property list.
    """
    label = f"{_LAUNCHD_LABEL}{'' if is_usual else _short_hash(home)}"
    _check_words([*command, str(home)])
    file = user_home / "Library" / "LaunchAgents" / f"{label}.plist"
    properties = {
        "Label": label,
        "ProgramArguments": list(command),
        "WorkingDirectory": str(home),
        "RunAtLoad": True,
        # It is started again when it fails, and not when `memplane stop` ended it.
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": 60,
        "ProcessType": "Background",
        "StandardErrorPath": str(home / "logs" / "start.log"),
    }
    domain = f"gui/{user_id}"
    return UserService(
        name=label,
        file=file,
        content=plistlib.dumps(properties, sort_keys=False),
        start=(("launchctl", "bootstrap", domain, str(file)),),
        stop=(("launchctl", "bootout", f"{domain}/{label}"),),
        forget=(),
        state=("launchctl", "print", f"{domain}/{label}"),
        log_hint=f"launchctl print {domain}/{label}",
    )


def _short_hash(home: PurePath) -> str:
    return f"-{hashlib.sha256(str(home).encode()).hexdigest()[:8]}"


def _check_words(words: Sequence[str]) -> None:
    for word in words:
        if not word.isprintable():
            raise InvalidRequest(f"a service cannot be given {word!r}: it is not printable")


def _quote_systemd_word(word: str) -> str:
    """Quote a word of a unit's command: `%` begins a specifier there, and `$` a variable."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped.replace("%", "%%").replace("$", "$$")}"'
