"""`memplane claude install`, `uninstall` and `status`: hooks, skills and the MCP server."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.integrations.claude_code.hook_settings import Program
    from memplane.service.claude_install import (
        ClaudePlaces,
        InstallPlan,
        InstallRecords,
        ManagedFile,
        Scope,
    )
    from memplane.service.claude_status import ClaudeStatus, ScopeStatus
    from memplane.settings import Settings

SCOPES: Final[tuple[Scope, ...]] = ("user", "project", "plugin")
_SCOPE_HELP: Final = (
    "where: user, for all projects (the default); project, in its .claude; plugin, as a plugin"
)


def configure_install(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the actions; `add_parser` is that of the command's sub-parsers."""
    install = add_parser(
        "install", help="add hooks, skills, the MCP server and the guide; shows the changes first"
    )
    install.add_argument("--scope", choices=SCOPES, default="user", help=_SCOPE_HELP)
    install.add_argument("--agent", help="whose memory hooks use; by default MEMPLANE_AGENT")
    install.add_argument(
        "--no-claude-md", action="store_true", help="leave CLAUDE.md and AGENTS.md as they are"
    )
    uninstall = add_parser("uninstall", help="remove all of that again")
    uninstall.add_argument("--scope", choices=SCOPES, help="where; by default everywhere")
    for action in (install, uninstall):
        action.add_argument("--yes", action="store_true", help="change the files without asking")
    status = add_parser("status", help="show what is installed, and whether it fires")
    status.add_argument("--json", action="store_true", help="print JSON")
    hook = add_parser("hook", help="what Claude Code runs; JSON on standard input")
    hook.add_argument("event", metavar="EVENT", help="its name, such as SessionStart")


def run_install(arguments: argparse.Namespace, settings: Settings) -> int:
    """Carry out an action."""
    if arguments.action == "install":
        return _install(arguments, settings)
    if arguments.action == "uninstall":
        return _uninstall(arguments, settings)
    return _status(arguments, settings)


# Installing


def _install(arguments: argparse.Namespace, settings: Settings) -> int:
    from memplane.service.claude_install import list_managed_files

    program = find_program(settings, arguments.agent or "")
    files = list_managed_files(
        arguments.scope, find_claude_places(settings), program, guide=not arguments.no_claude_md
    )
    code = carry_out(arguments, files, open_records(settings), "Claude Code")
    if code == 0:
        print("`memplane claude status` tries it; `memplane claude uninstall` removes it.")
    return code


def _uninstall(arguments: argparse.Namespace, settings: Settings) -> int:
    from memplane.service.claude_install import list_installed_files

    scopes = (arguments.scope,) if arguments.scope else SCOPES
    files = list_installed_files(scopes, find_claude_places(settings), find_program(settings, ""))
    return carry_out(arguments, files, open_records(settings), "Claude Code")


def carry_out(
    arguments: argparse.Namespace, files: list[ManagedFile], records: InstallRecords, client: str
) -> int:
    """Plan, show the changes, ask, and make them; returns the exit code."""
    from memplane.service import claude_install

    is_install = arguments.action == "install"
    plan_changes = claude_install.plan_install if is_install else claude_install.plan_uninstall
    plan = plan_changes(files, records)
    if not plan.changes:
        _print_notes(plan)
        state = "is installed" if is_install else "is not installed"
        print(f"memplane {state} in {client}: nothing to {'change' if is_install else 'remove'}")
        return 0
    if not _confirm(plan, arguments, "Install" if is_install else "Remove"):
        return 1
    if is_install:
        claude_install.apply_install(plan, records)
        print(f"Installed: {len(plan.changes)} files. It takes effect in the next session.")
    else:
        claude_install.apply_uninstall(plan, records)
        print("Removed. What memplane knows stays in its home and in the container.")
    return 0


def _confirm(plan: InstallPlan, arguments: argparse.Namespace, what: str) -> bool:
    """Show the changes, and ask unless told not to."""
    _print_changes(plan)
    _print_notes(plan)
    if arguments.yes:
        return True
    if not sys.stdin.isatty():
        print("memplane claude: nothing was changed: say --yes to change it", file=sys.stderr)
        return False
    print(f"{what} this? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    print("Nothing was changed.")
    return False


def _print_changes(plan: InstallPlan) -> None:
    import difflib

    from memplane.cli.output import escape_text

    for change in plan.changes:
        before = (change.before or b"").decode().splitlines()
        after = (change.after or b"").decode().splitlines()
        name = str(change.path)
        old, new = (
            name if text is not None else "(no file)" for text in (change.before, change.after)
        )
        for line in difflib.unified_diff(before, after, old, new, lineterm=""):
            print(escape_text(line))
        print()


def _print_notes(plan: InstallPlan) -> None:
    for note in plan.notes:
        print(f"memplane claude: {note}", file=sys.stderr)


# Looking


def _status(arguments: argparse.Namespace, settings: Settings) -> int:
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.output import print_json
    from memplane.home import Home
    from memplane.service.claude_status import read_claude_status

    status = read_claude_status(Home(settings.home), find_claude_places(settings))
    if arguments.json:
        print_json(status)
    else:
        _print_status(status, settings)
    problems = [scope for scope in status.scopes if scope.problem or scope.missing]
    works = status.has_canary and not status.canary and not problems
    return EXIT_OK if works else EXIT_FAILED


def _print_status(status: ClaudeStatus, settings: Settings) -> None:
    from memplane.auth.agent_id import DEFAULT_AGENT
    from memplane.service.claude_hooks import has_container

    for scope in status.scopes:
        print(f"{scope.scope:<10} {_describe_scope(scope)}")
    if status.has_canary:
        fires = f"FAILED: {status.canary}" if status.canary else "a written document was queued"
        print(f"{'canary':<10} {fires}")
    last = ", ".join(f"{event} {at}" for event, at in sorted(status.last_events.items()))
    print(f"{'fired':<10} {last or 'never'}")
    goes = "to the container" if has_container(settings) else "nowhere: no container is configured"
    if not settings.persona.sync:
        goes = "nowhere: sync is switched off, and the hooks are quiet"
    print(f"{'documents':<10} go {goes}; {status.waiting} jobs wait")
    print(f"{'agent':<10} {settings.agent or DEFAULT_AGENT}")


def _describe_scope(scope: ScopeStatus) -> str:
    if scope.problem:
        return f"{scope.file}: {scope.problem}"
    if not scope.is_installed:
        return "not installed"
    parts = [
        "hooks" + (f" but {', '.join(scope.missing)}" if scope.missing else ""),
        "server" if scope.has_server else "no server",
        "guide" if scope.has_guide else "no guide",
    ]
    return f"{scope.file}: {', '.join(parts)}"


# Places


def find_program(settings: Settings, agent: str) -> Program:
    """Say how the client runs this memplane: by its absolute path, with the same home."""
    import shutil
    from pathlib import Path

    from memplane.integrations.claude_code.hook_settings import Program
    from memplane.kit.own_program import get_own_program

    found = shutil.which(sys.argv[0])
    options: list[str] = []
    if settings.home != Path("~/.memplane").expanduser():
        options += ["--home", str(settings.home)]
    if agent:
        options += ["--set", f"agent={agent}"]
    if found is None or Path(found).suffix == ".py":
        program, *words = get_own_program()
        return Program(program, (*words, *options))
    return Program(str(Path(found).absolute()), tuple(options))


def find_claude_places(settings: Settings) -> ClaudePlaces:
    """Say where Claude Code keeps its things, for this user and the project that we are in."""
    from pathlib import Path

    from memplane.integrations.claude_code.memory_folder import find_main_root
    from memplane.service.claude_install import ClaudePlaces
    from memplane.settings import get_environment

    environ = get_environment()
    user = Path(environ.get("HOME") or "~").expanduser()
    own = environ.get("CLAUDE_CONFIG_DIR", "")
    cwd = Path.cwd()
    return ClaudePlaces(
        config=Path(own) if own else user / ".claude",
        state_file=(Path(own) if own else user) / ".claude.json",
        project=find_main_root(cwd) or cwd,
        plugin=settings.home / "claude-plugin",
    )


def open_records(settings: Settings) -> InstallRecords:
    """Open what was installed from this home."""
    from memplane.home import Home
    from memplane.service.claude_install import InstallRecords

    Home(settings.home).create()
    return InstallRecords(settings.state_dir / "claude" / "installed.json")
