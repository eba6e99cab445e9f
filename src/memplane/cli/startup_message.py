"""What `memplane up` says when it listens: where it is, and what to do next.

Where standard output is for events, everything is said on standard error. A log that nobody
looks at yet gets one line, and no code that would let its reader in.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.home import Home
    from memplane.server.server import ServerAddresses
    from memplane.service.model import Status
    from memplane.settings import Settings


def redirect_output_from_events(settings: Settings) -> AbstractContextManager[object]:
    """Let whatever is printed go where it does not come between events."""
    return redirect_stdout(sys.stderr) if settings.telemetry.stdout else nullcontext()


@dataclass(frozen=True, slots=True)
class StartupMessage:
    """What there is to say; `name` is how this program is called for this home."""

    address: str
    name: str
    home: Home
    status: Status
    settings: Settings
    public: str = ""
    """The address that others use, where it is not the same."""
    is_logged: bool = False
    """Whether it goes into a log, and not to a terminal."""

    @property
    def shown(self) -> str:
        """The address that is good for everybody who can reach it."""
        return self.public or self.address

    @property
    def is_short(self) -> bool:
        """Whether it goes into a log: a file, or one that is read as events."""
        is_event_log = self.settings.telemetry.stdout and not sys.stdout.isatty()
        return self.is_logged or is_event_log

    @property
    def is_of_pod(self) -> bool:
        """Whether agents come with the tokens that a pod gave them."""
        return self.settings.context_root is not None

    def print_ready(self, new_code: Callable[[], str]) -> None:
        """Say where it listens, and how a browser gets in."""
        if self.is_short:
            print(format_short_line(self), flush=True)
        else:
            self._say_where(new_code())
        if complaint := self.status.storage.complaint:
            from memplane.cli.output import colour_text

            print(colour_text(f"  {complaint}", "red"))

    def _say_where(self, code: str) -> None:
        from memplane.cli.output import colour_text, print_rows

        print(colour_text(f"memplane {self.status.version} is up", "bold"))
        storage = self.status.storage
        print_rows(
            [
                ("address", self.shown),
                *([("on this machine", self.address)] if self.shown != self.address else []),
                ("token", str(self.home.token_file)),
                ("home", str(self.home.path)),
                ("state", f"{storage.where} ({storage.reason})"),
                # The code stands behind a #: no server and no log sees it in an address.
                ("dashboard", f"{self.shown}/login#{code}"),
            ]
        )

    def print_next_steps(self) -> None:
        """Say what to do with it."""
        if self.is_short:
            return
        from memplane.cli.output import colour_text, print_rows, print_stop_hint

        print(colour_text("\nPoint an agent at it, and it remembers", "bold"))
        print_rows(list_agent_rows(self))
        print(colour_text("\nIn another terminal", "bold"))
        print_rows(list_command_rows(self))
        token = f"$(cat {self.home.token_file})"
        print(f'  curl -H "Authorization: Bearer {token}" {self.address}/api/v1/status')
        print_stop_hint()


def format_short_line(said: StartupMessage) -> str:
    """Say in one line where it is, and who may ask."""
    if said.is_of_pod:
        asked = (
            f"agents of the pod ask {_get_agent_address(said)}/v1, each with the key CLLAMA_TOKEN"
        )
    else:
        asked = f"`{said.name} dashboard` lets a browser in"
    return f"memplane {said.status.version} is up at {said.shown}: {asked}"


def list_agent_rows(said: StartupMessage) -> list[tuple[str, str]]:
    """Say how an agent is pointed at it. In a pod, the agent is the one that its key names."""
    base = _get_agent_address(said) if said.is_of_pod else f"{said.shown}/agent/me"
    rows = [
        (f"export OPENAI_BASE_URL={base}/v1", "OpenAI's SDKs, and what uses them"),
        (f"export ANTHROPIC_BASE_URL={base}", "Anthropic's, and Claude Code"),
    ]
    return [*rows, ("the key, for either", "the agent's CLLAMA_TOKEN")] if said.is_of_pod else rows


def list_command_rows(said: StartupMessage) -> list[tuple[str, str]]:
    """Say which commands there are for this home."""
    rows = [
        (f"{said.name} status", "what is configured and what is pending"),
        (f"{said.name} doctor", "is this machine fit, and what to do if not"),
    ]
    if said.is_of_pod:
        return [*rows, (f"{said.name} history show", "the turns that were captured")]
    return [
        *rows,
        (f'{said.name} retain --agent me "I like tea"', "give an agent something to remember"),
        (f'{said.name} recall --agent me "what to drink, tea?"', "and ask for it"),
    ]


def get_public_address(addresses: ServerAddresses, settings: Settings) -> str:
    """Return the address that others use: by the name that was allowed, or by a number."""
    hosts = settings.http.allowed_hosts
    is_local = addresses.public == addresses.here
    return f"http://{hosts[0]}" if hosts and not is_local else addresses.public


def _get_agent_address(said: StartupMessage) -> str:
    """Return the address that agents know: in a pod they are other containers."""
    hosts = said.settings.http.allowed_hosts
    return f"http://{hosts[0]}" if hosts else said.shown
