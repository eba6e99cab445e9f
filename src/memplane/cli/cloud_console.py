"""How `memplane cloud` talks to people: at the error output, and with questions on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.settings import Settings


def tell(text: str) -> None:
    """Print a line for people; the output itself is for machines."""
    print(text, file=sys.stderr, flush=True)


async def ask(question: str) -> bool:
    """Ask a question whose answer is no, unless it is yes."""
    return (await read_answer(question)).lower() in {"y", "yes"}


async def read_answer(question: str) -> str:
    """Ask a question, and return what was typed; empty when nobody answers."""
    import asyncio

    print(question, end=" ", file=sys.stderr, flush=True)
    answer: str = await asyncio.to_thread(sys.stdin.readline)
    return answer.strip()


def tell_to_restart(settings: Settings) -> None:
    """Say so when a process of this home goes on with the settings of before."""
    from memplane.home import Home
    from memplane.service.composition.cloud import find_running_owner

    pid = find_running_owner(Home(settings.home))
    if pid is not None:
        tell(
            f"memplane is running (process {pid}) with the settings of before: restart it. What "
            "it writes until then is uploaded by `memplane cloud migrate`"
        )
