"""`memplane agent`: memory for Codex, opencode and Gemini CLI."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    install = actions.add_parser(
        "install", help="write Codex's hooks and MCP server, or print what to paste elsewhere"
    )
    install.add_argument("client", choices=("codex", "opencode", "gemini"), metavar="CLIENT")
    install.add_argument("--agent", help="whose memory hooks use; by default MEMPLANE_AGENT")
    uninstall = actions.add_parser("uninstall", help="remove what was written for Codex")
    uninstall.add_argument("client", choices=("codex",), metavar="CLIENT")
    for action in (install, uninstall):
        action.add_argument("--yes", action="store_true", help="change the files without asking")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Install, or say how."""
    from memplane.cli.claude_install import carry_out, find_program, open_records
    from memplane.service.agent_install import (
        describe_gemini,
        describe_opencode,
        list_codex_files,
    )

    program = find_program(settings, getattr(arguments, "agent", "") or "")
    if arguments.client != "codex":
        describe = describe_opencode if arguments.client == "opencode" else describe_gemini
        print(describe(program), end="")
        return 0
    files = list_codex_files(_find_codex_folder(), program)
    code = carry_out(arguments, files, open_records(settings), "Codex")
    if arguments.action == "install" and code == 0:
        print("Codex runs hooks only after you trusted them: it asks at its next start.")
    return code


def _find_codex_folder() -> Path:
    from pathlib import Path

    from memplane.settings import get_environment

    environ = get_environment()
    own = environ.get("CODEX_HOME", "")
    return Path(own) if own else Path(environ.get("HOME") or "~").expanduser() / ".codex"
