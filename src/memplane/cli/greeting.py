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
    from memplane.plane.contract import Status
    from memplane.settings import Settings


def beside_events(settings: Settings) -> AbstractContextManager[object]:
    """Let whatever is printed go where it does not come between events."""
    return redirect_stdout(sys.stderr) if settings.telemetry.stdout else nullcontext()


@dataclass(frozen=True, slots=True)
class Greeting:
    """What there is to say; `name` is how this program is called for this home."""

    address: str
    name: str
    home: Home
    status: Status
    settings: Settings

    @property
    def is_short(self) -> bool:
        """Whether it goes into a log that is read as events."""
        return self.settings.telemetry.stdout and not sys.stdout.isatty()

    @property
    def is_of_pod(self) -> bool:
        """Whether agents come with the tokens that a pod gave them."""
        return self.settings.context_root is not None

    def say_ready(self, new_code: Callable[[], str]) -> None:
        """Say where it listens, and how a browser gets in."""
        if self.is_short:
            print(short_line(self), flush=True)
        else:
            self._say_where(new_code())
        if complaint := self.status.storage.complaint:
            from memplane.cli.show import coloured

            print(coloured(f"  {complaint}", "red"))

    def _say_where(self, code: str) -> None:
        from memplane.cli.show import coloured, print_rows

        print(coloured(f"memplane {self.status.version} is up", "bold"))
        storage = self.status.storage
        print_rows(
            [
                ("address", self.address),
                ("token", str(self.home.token_file)),
                ("home", str(self.home.path)),
                ("state", f"{storage.where} ({storage.reason})"),
                # The code stands behind a #: no server and no log sees it in an address.
                ("dashboard", f"{self.address}/login#{code}"),
            ]
        )

    def say_next(self) -> None:
        """Say what to do with it."""
        if self.is_short:
            return
        from memplane.cli.show import coloured, print_rows, say_how_to_stop

        print(coloured("\nPoint an agent at it, and it remembers", "bold"))
        print_rows(agent_rows(self))
        print(coloured("\nIn another terminal", "bold"))
        print_rows(command_rows(self))
        token = f"$(cat {self.home.token_file})"
        print(f'  curl -H "Authorization: Bearer {token}" {self.address}/api/v1/status')
        say_how_to_stop()


def short_line(said: Greeting) -> str:
    """Say in one line where it is, and who may ask."""
    if said.is_of_pod:
        asked = f"agents of the pod ask {_for_agents(said)}/v1, each with the key CLLAMA_TOKEN"
    else:
        asked = f"`{said.name} dashboard` lets a browser in"
    return f"memplane {said.status.version} is up at {said.address}: {asked}"


def agent_rows(said: Greeting) -> list[tuple[str, str]]:
    """Say how an agent is pointed at it. In a pod, the agent is the one that its key names."""
    base = _for_agents(said) if said.is_of_pod else f"{said.address}/agent/me"
    rows = [
        (f"export OPENAI_BASE_URL={base}/v1", "OpenAI's SDKs, and what uses them"),
        (f"export ANTHROPIC_BASE_URL={base}", "Anthropic's, and Claude Code"),
    ]
    return [*rows, ("the key, for either", "the agent's CLLAMA_TOKEN")] if said.is_of_pod else rows


def command_rows(said: Greeting) -> list[tuple[str, str]]:
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


def _for_agents(said: Greeting) -> str:
    """Return the address that agents know: in a pod they are other containers."""
    hosts = said.settings.http.allowed_hosts
    return f"http://{hosts[0]}" if hosts else said.address
