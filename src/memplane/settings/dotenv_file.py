"""Changes to a file of variables that leave its other lines alone."""

from __future__ import annotations

from collections.abc import Mapping


def edit_dotenv(text: str, changes: Mapping[str, str | None]) -> str:
    """Set variables in the text of a `.env` file; None removes one.

    A variable that is there keeps its place, and a second line of the same name goes. Every other
    line stays as it is.
    """
    left = dict(changes)
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        name = line.strip().removeprefix("export ").partition("=")[0].strip()
        if name not in changes:
            lines.append(line)
        elif (value := left.pop(name, None)) is not None:
            lines.append(f"{name}={value}\n")
    added = [f"{name}={value}\n" for name, value in left.items() if value is not None]
    if added and lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return "".join([*lines, *added])
