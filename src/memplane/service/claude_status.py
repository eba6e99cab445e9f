"""What is installed in Claude Code, and whether it works: a canary goes through the real hook."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from memplane.errors import InvalidRequest
from memplane.home import Home
from memplane.integrations.claude_code import hook_settings
from memplane.integrations.claude_code.hook_settings import HOOK_ENTRIES, JsonObject
from memplane.integrations.claude_code.memory_folder import memory_dir_for_hook
from memplane.persona.guide import SECTION_BEGIN
from memplane.service.checks import CheckFinding, CheckVerdict
from memplane.service.claude_install import ClaudePlaces
from memplane.service.hook_log import read_last_events
from memplane.service.spool import list_jobs

_CANARY_TIMEOUT_S: Final = 20.0
_CANARY_KEY: Final = "user_canary.md"
_CANARY_TEXT: Final = "---\nname: canary\ndescription: a test\ntype: user\n---\n"
_CANARY_SETTINGS: Final = (
    *("--set", "blob.container=canary"),
    *("--set", "blob.endpoint=https://canary.invalid"),
    *("--set", "persona.sync=on"),
)


class ScopeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a scope has of ours. `missing` are events without a hook, `problem` what is wrong."""

    scope: str
    file: str
    is_installed: bool = False
    missing: tuple[str, ...] = ()
    has_server: bool = False
    has_guide: bool = False
    problem: str = ""


class ClaudeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is installed, when events last came, what waits, and what became of the canary."""

    scopes: tuple[ScopeStatus, ...]
    last_events: dict[str, str]
    waiting: int
    canary: str = ""
    """Why the canary was not queued; empty when it was."""
    has_canary: bool = False


def inspect_scopes(places: ClaudePlaces) -> tuple[ScopeStatus, ...]:
    """Look at what each scope has of ours."""
    user, project = places.config / "settings.json", places.project / ".claude" / "settings.json"
    return (
        _inspect("user", user, places.state_file, places.config),
        _inspect("project", project, places.project / ".mcp.json", places.project),
        _inspect_plugin(user, places),
    )


def find_installed_hook(places: ClaudePlaces) -> JsonObject | None:
    """Return the hook that is told of written files, wherever it is installed."""
    files = (
        places.config / "settings.json",
        places.project / ".claude" / "settings.json",
        places.plugin / "hooks" / "hooks.json",
    )
    for file in files:
        try:
            hooks = hook_settings.list_hooks(_read_settings(file))
        except InvalidRequest:
            continue
        if found := hooks.get("PostToolUse"):
            return found[0]
    return None


def _inspect(scope: str, file: Path, servers: Path, root: Path) -> ScopeStatus:
    try:
        hooks = hook_settings.list_hooks(_read_settings(file))
        entries = _read_settings(servers).get("mcpServers")
    except InvalidRequest as error:
        return ScopeStatus(scope=scope, file=str(file), problem=str(error))
    server = cast("JsonObject", entries).get("memplane") if isinstance(entries, dict) else None
    missing = {entry.event for entry in HOOK_ENTRIES} - hooks.keys() if hooks else set[str]()
    return ScopeStatus(
        scope=scope,
        file=str(file),
        is_installed=bool(hooks),
        missing=tuple(sorted(missing)),
        has_server=hook_settings.is_our_server(server),
        has_guide=_has_guide(root),
        problem=_find_program_problem(hooks),
    )


def _inspect_plugin(settings: Path, places: ClaudePlaces) -> ScopeStatus:
    try:
        is_installed = hook_settings.has_plugin(_read_settings(settings))
        hooks = hook_settings.list_hooks(_read_settings(places.plugin / "hooks" / "hooks.json"))
    except InvalidRequest as error:
        return ScopeStatus(scope="plugin", file=str(settings), problem=str(error))
    return ScopeStatus(
        scope="plugin",
        file=str(places.plugin),
        is_installed=is_installed,
        has_server=is_installed and (places.plugin / ".mcp.json").exists(),
        has_guide=_has_guide(places.config),
        problem=_find_program_problem(hooks) if is_installed else "",
    )


def _find_program_problem(hooks: Mapping[str, list[JsonObject]]) -> str:
    programs = {str(hook.get("command")) for found in hooks.values() for hook in found}
    gone = sorted(path for path in programs if not Path(path).exists())
    if not gone:
        return ""
    return f"the hooks run {gone[0]}, which is not there: install again"


def _has_guide(root: Path) -> bool:
    for name in ("CLAUDE.md", "AGENTS.md"):
        try:
            if SECTION_BEGIN in (root / name).read_text("utf-8"):
                return True
        except (OSError, UnicodeDecodeError):
            continue
    return False


def _read_settings(file: Path) -> JsonObject:
    try:
        return hook_settings.read_json_object(file.read_text("utf-8"), str(file))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} cannot be read: {error}") from error


def read_claude_status(home: Home, places: ClaudePlaces) -> ClaudeStatus:
    """Look at what is installed, and try whether a written file is noticed."""
    hook = find_installed_hook(places)
    return ClaudeStatus(
        scopes=inspect_scopes(places),
        last_events=read_last_events(home),
        waiting=len(list_jobs(home.spool)),
        canary="" if hook is None else run_canary(hook),
        has_canary=hook is not None,
    )


def check_claude_hooks(places: ClaudePlaces) -> list[CheckFinding]:
    """Check that the installed hooks fire; nothing is found where none are installed."""
    hook = find_installed_hook(places)
    if hook is None:
        return []
    broken = [scope for scope in inspect_scopes(places) if scope.problem or scope.missing]
    problem = next((scope.problem or "hooks are missing" for scope in broken), "")
    problem = problem or run_canary(hook)
    if problem:
        remedy = "memplane claude install"
        return [CheckFinding("Claude Code", CheckVerdict.FAILED, problem, remedy)]
    return [CheckFinding("Claude Code", CheckVerdict.OK, "the hooks are installed and fire")]


def run_canary(hook: JsonObject) -> str:
    """Write a document in a folder of its own, tell the hook of it, and look into the queue.

    Nothing of the user's is touched: the hook gets another home, and leaves the job there.
    Returns why the document was not queued; empty when it was.
    """
    words = [str(word) for word in cast("list[Any]", hook.get("args", []))]
    with tempfile.TemporaryDirectory(prefix="memplane-canary-") as folder:
        root = Path(folder).resolve()
        home, user, project = Home(root / "home"), root / "user", root / "project"
        project.mkdir()
        environ = {"HOME": str(user), "PATH": "/usr/bin:/bin"}
        memory = memory_dir_for_hook(project, environ=environ, home=user)
        memory.mkdir(parents=True)
        document = memory / _CANARY_KEY
        document.write_text(_CANARY_TEXT)
        options = [*words[:-3], "--home", str(home.path), *_CANARY_SETTINGS]
        command = [str(hook.get("command")), *options, *words[-3:], "--no-wake"]
        payload = {
            "session_id": "canary",
            "cwd": str(project),
            "hook_event_name": "PostToolUse",
            "tool_name": "Write",
            "tool_input": {"file_path": str(document), "content": _CANARY_TEXT},
        }
        try:
            ran = subprocess.run(  # noqa: S603 - what is installed is what has to be tried
                command,
                input=json.dumps(payload).encode(),
                env=environ,
                capture_output=True,
                timeout=_CANARY_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return f"the hook cannot be run: {error}"
        if ran.returncode or ran.stderr:
            return f"the hook ended with {ran.returncode}: {ran.stderr.decode(errors='replace')}"
        queued = [job.details.get("keys", "") for job in list_jobs(home.spool)]
    return "" if queued == [_CANARY_KEY] else "the hook ran and did not queue the document"
