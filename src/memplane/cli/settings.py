"""`memplane settings`: what is set, and where."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="show settings, their values and where these come from")
    show.add_argument(
        "names", nargs="*", metavar="NAME", help="a setting, or a group such as http"
    )
    show.add_argument("--all", action="store_true", help="those that have their default, too")
    show.add_argument("--json", action="store_true", help="for machines; all of them")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print settings. A secret is only said to be set."""
    from memplane.cli import EXIT_OK, list_flags
    from memplane.cli.output import colour_text, escape_text, print_json
    from memplane.service.composition.redactors import log_redactor
    from memplane.settings import find_setting_sources, list_settings

    sources, redactor = find_setting_sources(list_flags(arguments)), log_redactor(settings)
    defaults = {one.name: one.default for one in list_settings()}
    rows: dict[str, dict[str, str]] = {}
    for name in _select(list(defaults), arguments.names):
        value = _get_value(settings, name)
        other = "default" if value == defaults[name] else "follows from other settings"
        text = redactor.text(_format_value(value)).value
        rows[name] = {"value": text, "source": sources.get(name, other)}
    if arguments.json:
        print_json(rows)
        return EXIT_OK
    for name, row in rows.items():
        if arguments.all or arguments.names or name in sources:
            place = colour_text(f"  # {row['source']}", "dim")
            print(f"{name} = {escape_text(row['value'])}{place}")
    if not (arguments.all or arguments.names):
        count = len(rows.keys() - sources.keys())
        print(f"{count} others have their defaults: memplane settings show --all", file=sys.stderr)
    return EXIT_OK


def _select(names: list[str], wanted: list[str]) -> list[str]:
    """Return the settings that are wanted, by name or group; all, where none is named.

    Raises:
        InvalidRequest: One names no setting.
    """
    from difflib import get_close_matches

    from memplane.errors import InvalidRequest

    groups = {name.partition(".")[0] for name in names}
    for word in wanted:
        if word not in names and word not in groups:
            near = get_close_matches(word, [*names, *groups], n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise InvalidRequest(f"there is no setting {word}.{hint}")
    return [
        name for name in names if not wanted or name in wanted or name.partition(".")[0] in wanted
    ]


def _get_value(settings: Settings, name: str) -> object:
    value: Any = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", value)))
    return "" if value is None else str(value)
