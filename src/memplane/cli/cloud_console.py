"""How `memplane cloud` talks to people: at the error output, and with questions on a terminal."""

from __future__ import annotations

import sys


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
