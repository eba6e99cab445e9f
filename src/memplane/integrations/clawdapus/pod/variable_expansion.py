"""`${VAR}` in values, and the file `.env` that it is taken from. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from memplane.errors import PodError

_VARIABLE: Final = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<bare>[A-Za-z_]\w*)"
    r"|\{(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-?+])(?P<rest>[^{}]*))?\})",
    re.ASCII,
)
_QUOTED: Final = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"")


def expand_variables(text: str, environment: Mapping[str, str]) -> str:
    """Put values in their places: `$A`, `${A}`, `${A:-else}`, `${A:?message}`, `${A:+instead}`.

    `$$` is one dollar, and a variable that is not there is empty, as in Docker Compose.

    Raises:
        PodError: A variable that the text insists on has no value.
    """

    def value(place: re.Match[str]) -> str:
        if place["dollar"]:
            return "$"
        name, how, rest = place["bare"] or place["name"], place["how"] or "", place["rest"] or ""
        variable = environment.get(name)
        # With a colon an empty value counts as none.
        is_set = bool(variable) if how.startswith(":") else variable is not None
        match how[-1:]:
            case "-":
                return (variable or "") if is_set else rest
            case "+":
                return rest if is_set else ""
            case "?" if not is_set:
                raise PodError(f"{name} has no value: {rest or 'it is required'}")
            case _:
                return variable or ""

    return _VARIABLE.sub(value, text)


def read_dotenv(text: str) -> dict[str, str]:
    """Read lines of `NAME=value`; quotes are taken off, and comments left out."""
    variables: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        name = name.strip()
        if equals and name and not name.startswith("#"):
            variables[name] = _plain(value.strip())
    return variables


def _plain(value: str) -> str:
    quoted = _QUOTED.match(value)
    if quoted is None:
        return re.split(r"(?:^|\s)#", value, maxsplit=1)[0].strip()
    if quoted[1] is not None:
        return quoted[1]
    escapes = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[1]), quoted[2])
