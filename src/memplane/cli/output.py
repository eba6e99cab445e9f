"""What commands share when they print: colour on a terminal, and JSON for machines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memplane.episodes.api_types import ForgetCheck, MemoryBlock
    from memplane.ledger.turn_note import InjectedBlock

_ANSI_CODES: Final = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


def colour_text(text: str, colour: str, file: TextIO | None = None) -> str:
    """Return the text in colour where a person looks at it: by default at the output."""
    if not (file or sys.stdout).isatty():
        return text
    return f"\x1b[{_ANSI_CODES[colour]}m{text}\x1b[0m"


def escape_text(text: str) -> str:
    """Return text that does nothing to a terminal: what cannot be printed is shown as a code."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one == "\n" else f"\\u{ord(one):04x}" for one in text
    )


def format_origin(block: MemoryBlock | InjectedBlock) -> str:
    """Say where the words of a memory come from, and if they are untrusted."""
    named = ", ".join(block.sources) or block.origin
    trust = "untrusted" if block.trust == "untrusted" else ""
    return escape_text("  ".join(filter(None, (f"from {named}" if named else "", trust))))


def print_json(body: object) -> None:
    """Print a value as JSON, indented."""
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())


def print_rows(rows: list[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {colour_text(name.ljust(width), 'dim')}  {value}")


def print_forget_checks(checked: Sequence[ForgetCheck]) -> None:
    """Print what was searched, and what was found there."""
    for one in checked:
        verdict = colour_text("ok    ", "green") if one.clean else colour_text("failed", "red")
        if one.unsure:
            verdict = colour_text("unsure", "yellow")
        print(f"{verdict} {one.place}{': ' if one.note else ''}{escape_text(one.note)}")
    if checked:
        unsure = sum(one.unsure for one in checked)
        wrong = sum(not one.clean for one in checked) - unsure
        beside = f"; of {unsure} nobody can tell" if unsure else ""
        print(f"{len(checked)} places searched; {wrong} still have something{beside}")


def get_program_name(home: Path) -> str:
    """Return how this program is called here, for commands that somebody is to type.

    They are typed elsewhere, and so name the home unless it is the usual one.
    """
    import shlex
    from pathlib import Path

    usual = Path("~/.memplane").expanduser().absolute()
    return (
        _find_program_call()
        if home == usual
        else f"{_find_program_call()} --home {shlex.quote(str(home))}"
    )


def _find_program_call() -> str:
    import shutil

    if shutil.which("memplane"):
        return "memplane"
    called = sys.argv[0]
    return f"{sys.executable} -m memplane" if called.endswith("__main__.py") else called


def print_stop_hint() -> None:
    """End what a server says at its start."""
    print("\nCtrl-C stops it.", flush=True)
