"""The help of every command, as its parser has it: the same on every version of Python."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module

from memplane.cli import COMMANDS, HIDDEN_COMMANDS


def describe_commands() -> str:
    """Describe every command and action with its arguments."""
    lines: list[str] = []
    for name, about in {**COMMANDS, **HIDDEN_COMMANDS}.items():
        parser = argparse.ArgumentParser(prog=f"memplane {name}", description=about)
        import_module(f"memplane.cli.{name}").configure(parser)
        lines += _describe(parser)
    return "\n".join(lines) + "\n"


def _describe(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"{parser.prog}: {parser.description or ''}".rstrip()
    if parser.epilog:
        yield from (f"    {line}".rstrip() for line in parser.epilog.splitlines())
    actions = [action for action in parser._actions if "--help" not in action.option_strings]
    for action in actions:
        if not isinstance(action, argparse._SubParsersAction):
            yield f"    {_name(action)}  {_about(action)}".rstrip()
    for action in actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, chosen in action.choices.items():
                chosen.description = chosen.description or helps.get(name, "")
                yield from _describe(chosen)


def _name(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings) or action.dest
    value = action.metavar or f"{{{','.join(map(str, action.choices or ()))}}}"
    takes = "" if action.nargs == 0 else f" {value}"
    return f"{names}{takes}"


def _about(action: argparse.Action) -> str:
    about = action.help or ""
    needed = " (required)" if action.required and action.option_strings else ""
    many = f" (nargs {action.nargs})" if action.nargs not in {None, 0} else ""
    is_silent = action.default is None or action.default == argparse.SUPPRESS
    default = "" if is_silent or action.nargs == 0 else f" (default {action.default!r})"
    return f"{about}{needed}{many}{default}"
