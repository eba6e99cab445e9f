"""Installing memplane into other agents: Codex's files are written, the others' are printed.

Codex runs hooks of Claude Code's form, so the same program answers them.
"""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any, Final

from memplane.errors import InvalidRequest
from memplane.integrations.claude_code import hook_settings
from memplane.integrations.claude_code.hook_settings import Program
from memplane.service.claude_install import ManagedFile, make_json_file

_BEGIN: Final = "# memplane:begin"
_END: Final = "# memplane:end"
_CODEX_EVENTS: Final = {
    "SessionStart": 20,
    "UserPromptSubmit": 10,
    "PreCompact": 10,
    "Stop": 10,
    "SessionEnd": 3,
}
"""What Codex tells of, and how long it may wait, in seconds. Files that its tools write are found
after each turn."""


def list_codex_files(folder: Path, program: Program) -> list[ManagedFile]:
    """Return the files of Codex's folder that have something of ours."""
    config = folder / "config.toml"
    return [
        make_json_file(
            folder / "hooks.json",
            lambda settings: add_codex_hooks(settings, program),
            hook_settings.remove_hooks,
        ),
        ManagedFile(
            config, lambda text: add_codex_server(text, program, str(config)), remove_codex_server
        ),
    ]


def add_codex_hooks(settings: dict[str, Any], program: Program) -> dict[str, Any]:
    """Return Codex's hooks with ours in them, and with none of them twice."""
    cleaned = hook_settings.remove_hooks(settings)
    hooks = dict(cleaned.get("hooks") or {})
    for event, timeout in _CODEX_EVENTS.items():
        group = {"hooks": [_make_hook(event, program, timeout)]}
        hooks[event] = [*hooks.get(event, []), group]
    return {**cleaned, "hooks": hooks}


def _make_hook(event: str, program: Program, timeout: int) -> dict[str, Any]:
    words = [program.path, *program.arguments("claude", "hook", event)]
    return {"type": "command", "command": shlex.join(words), "timeout": timeout}


def add_codex_server(text: str, program: Program, name: str) -> str:
    """Return Codex's configuration with our MCP server, between marks.

    Raises:
        InvalidRequest: It is no TOML, or has a server of that name that is not ours.
    """
    own = remove_codex_server(text)
    servers = _read_toml(own, name).get("mcp_servers", {})
    if hook_settings.SERVER_NAME in servers:
        raise InvalidRequest(
            f"{name} has an MCP server called {hook_settings.SERVER_NAME} already. Rename or "
            "remove it, and try again"
        )
    block = (
        f"{_BEGIN}\n[mcp_servers.{hook_settings.SERVER_NAME}]\n"
        f"command = {json.dumps(program.path)}\nargs = {json.dumps(program.arguments('mcp'))}\n"
        f"{_END}\n"
    )
    gap = "" if not own else "\n" if own.endswith("\n") else "\n\n"
    return f"{own}{gap}{block}"


def remove_codex_server(text: str) -> str:
    """Return Codex's configuration without what is between our marks, and the line before it."""
    lines = text.splitlines(keepends=True)
    marks = [number for number, line in enumerate(lines) if line.strip() in {_BEGIN, _END}]
    if [lines[number].strip() for number in marks] != [_BEGIN, _END]:
        return text
    before = lines[: marks[0]]
    if before and not before[-1].strip():
        before.pop()
    return "".join([*before, *lines[marks[1] + 1 :]])


def _read_toml(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{name} is not valid TOML: {error}. Nothing was changed") from error


def describe_opencode(program: Program) -> str:
    """Return what a user of opencode pastes, and where."""
    command = [program.path, *program.arguments("mcp")]
    entry = {"mcp": {"memplane": {"type": "local", "command": command, "enabled": True}}}
    return (
        "Put this into ~/.config/opencode/opencode.json, or into the project's opencode.json:\n\n"
        f"{json.dumps(entry, indent=2)}\n\n"
        "Then tell the agent about its documents, in the project's AGENTS.md:\n\n"
        "  memplane persona guide --for agent >> AGENTS.md\n"
    )


def describe_gemini(program: Program) -> str:
    """Return what a user of Gemini CLI pastes, and where."""
    server = {"command": program.path, "args": program.arguments("mcp")}
    hooks = {
        event: [{"hooks": [{**_make_hook(event, program, 0), "timeout": milliseconds}]}]
        for event, milliseconds in (("SessionStart", 20_000), ("SessionEnd", 5_000))
    }
    entry = {"mcpServers": {"memplane": server}, "hooks": hooks}
    return (
        "Put this into ~/.gemini/settings.json, beside what is there:\n\n"
        f"{json.dumps(entry, indent=2)}\n\n"
        "Then tell the agent about its documents, in ~/.gemini/GEMINI.md:\n\n"
        "  memplane persona guide --for agent >> ~/.gemini/GEMINI.md\n"
    )
