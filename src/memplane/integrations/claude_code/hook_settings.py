"""The entries that memplane has in Claude Code's settings: put in, found, taken out (pure).

An entry of ours is known by what it runs, so that it is found also when nobody remembers putting
it there. All other entries stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec

from memplane.errors import InvalidRequest

JsonObject: TypeAlias = dict[str, Any]

SERVER_NAME: Final = "memplane"
PLUGIN_NAME: Final = "memplane@memplane"
MARKETPLACE_NAME: Final = "memplane"

_INDENT: Final = re.compile(r"\{\n([ \t]+)")


class HookEntry(msgspec.Struct, frozen=True):
    """An event, what of it is wanted, and how long the client may wait, in seconds."""

    event: str
    matcher: str
    timeout: int


HOOK_ENTRIES: Final = (
    HookEntry("SessionStart", "startup|resume|clear|fork", 20),
    HookEntry("SessionStart", "compact", 5),
    HookEntry("UserPromptSubmit", "", 10),
    HookEntry("PostToolUse", "Write|Edit|NotebookEdit", 10),
    HookEntry("FileChanged", "", 10),
    HookEntry("PreCompact", "", 10),
    HookEntry("Stop", "", 10),
    HookEntry("SessionEnd", "", 10),
)
"""What memplane listens to."""


class Program(msgspec.Struct, frozen=True):
    """How memplane is run: its path, and what stands before the command."""

    path: str
    options: tuple[str, ...] = ()

    def arguments(self, *words: str) -> list[str]:
        """Return the arguments for a command."""
        return [*self.options, *words]


def add_hooks(settings: JsonObject, program: Program) -> JsonObject:
    """Return settings with our hooks in them, and with none of them twice."""
    cleaned = remove_hooks(settings)
    hooks = dict(_object(cleaned.get("hooks")))
    for entry in HOOK_ENTRIES:
        hooks[entry.event] = [*_list(hooks.get(entry.event)), make_hook_group(entry, program)]
    return {**cleaned, "hooks": hooks}


def make_hook_group(entry: HookEntry, program: Program) -> JsonObject:
    """Return what settings say for one entry: no shell has a part in it."""
    command: JsonObject = {
        "type": "command",
        "command": program.path,
        "args": program.arguments("claude", "hook", entry.event),
        "timeout": entry.timeout,
    }
    matcher = {"matcher": entry.matcher} if entry.matcher else {}
    return {**matcher, "hooks": [command]}


def remove_hooks(settings: JsonObject) -> JsonObject:
    """Return settings without our hooks; what held nothing else goes with them."""
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return settings
    kept: JsonObject = {}
    for event, groups in cast("JsonObject", hooks).items():
        if not isinstance(groups, list):
            kept[event] = groups
            continue
        left = [_without_ours(group) for group in cast("Sequence[Any]", groups)]
        others = [group for group in left if group is not None]
        if others or not groups:
            kept[event] = others
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    if kept or not hooks:
        return {name: kept if name == "hooks" else value for name, value in settings.items()}
    return rest


def list_hooks(settings: JsonObject) -> dict[str, list[JsonObject]]:
    """Return our hooks by event."""
    found: dict[str, list[JsonObject]] = {}
    for event, groups in _object(settings.get("hooks")).items():
        for group in _list(groups):
            for hook in _list(_object(group).get("hooks")):
                if is_ours(hook):
                    found.setdefault(event, []).append(hook)
    return found


def is_ours(hook: object) -> bool:
    """Tell whether an entry runs a hook of memplane's."""
    words = _words(hook)
    return words[-3:-1] == ["claude", "hook"] and _runs_memplane(words)


def add_server(settings: JsonObject, program: Program) -> JsonObject:
    """Return a file of MCP servers with ours in it."""
    servers = {**_object(settings.get("mcpServers")), SERVER_NAME: make_server(program)}
    return {**settings, "mcpServers": servers}


def make_server(program: Program) -> JsonObject:
    """Return the entry of our MCP server; its tools are there without being searched for."""
    return {
        "type": "stdio",
        "command": program.path,
        "args": program.arguments("mcp"),
        "alwaysLoad": True,
    }


def remove_server(settings: JsonObject) -> JsonObject:
    """Return a file of MCP servers without ours."""
    return _without_member(settings, "mcpServers", SERVER_NAME, is_our_server)


def is_our_server(server: object) -> bool:
    """Tell whether an entry runs our MCP server."""
    words = _words(server)
    return words[-1:] == ["mcp"] and _runs_memplane(words)


def add_plugin(settings: JsonObject, folder: str) -> JsonObject:
    """Return settings in which the plugin in a folder is known and enabled."""
    source = {"source": {"source": "directory", "path": folder}}
    known = {**_object(settings.get("extraKnownMarketplaces")), MARKETPLACE_NAME: source}
    enabled = {**_object(settings.get("enabledPlugins")), PLUGIN_NAME: True}
    return {**settings, "extraKnownMarketplaces": known, "enabledPlugins": enabled}


def remove_plugin(settings: JsonObject) -> JsonObject:
    """Return settings without the plugin."""
    without = _without_member(settings, "enabledPlugins", PLUGIN_NAME)
    return _without_member(without, "extraKnownMarketplaces", MARKETPLACE_NAME)


def has_plugin(settings: JsonObject) -> bool:
    """Tell whether the plugin is enabled."""
    return _object(settings.get("enabledPlugins")).get(PLUGIN_NAME) is True


def holds_ours(settings: JsonObject) -> bool:
    """Tell whether settings have something of memplane's."""
    return bool(list_hooks(settings)) or has_plugin(settings)


def edit_json(text: str, edit: Callable[[JsonObject], JsonObject], name: str) -> str:
    """Edit a JSON file as text, with its indentation; one that says the same stays as it is.

    Raises:
        InvalidRequest: It is no JSON object.
    """
    settings = read_json_object(text, name)
    edited = edit(settings)
    if edited == settings:
        return text
    if not edited:
        return "{}\n"
    indent = _INDENT.match(text.lstrip())
    written = json.dumps(edited, indent=indent[1] if indent else 2, ensure_ascii=False)
    return written + ("\n" if not text.strip() or text.endswith("\n") else "")


def read_json_object(text: str, name: str) -> JsonObject:
    """Read a file of settings; an empty one has none.

    Raises:
        InvalidRequest: It is no JSON object.
    """
    if not text.strip():
        return {}
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(
            f"{name} is not valid JSON: {error}. Nothing was changed; put it right and try again"
        ) from error
    if not isinstance(value, dict):
        raise InvalidRequest(f"{name} holds no JSON object. Nothing was changed")
    return cast("JsonObject", value)


def _words(entry: object) -> list[str]:
    """Return what an entry runs: its program, and then the arguments."""
    known = _object(entry)
    command, arguments = str(known.get("command")), _list(known.get("args"))
    if not arguments:
        return command.split()  # for a shell, as other agents have it
    return [command, *(str(word) for word in arguments)]


def _runs_memplane(words: Sequence[str]) -> bool:
    return any("memplane" in word for word in (words[0].rpartition("/")[2], *words[1:4]))


def _without_ours(group: object) -> object | None:
    """Return a group without our hooks; None when it held nothing else."""
    hooks = _list(_object(group).get("hooks"))
    others = [hook for hook in hooks if not is_ours(hook)]
    if len(others) == len(hooks):
        return group
    return {**_object(group), "hooks": others} if others else None


def _without_member(
    settings: JsonObject, table: str, name: str, wanted: Callable[[object], bool] | None = None
) -> JsonObject:
    members = _object(settings.get(table))
    if name not in members or (wanted is not None and not wanted(members[name])):
        return settings
    left = {key: value for key, value in members.items() if key != name}
    if left:
        return {**settings, table: left}
    return {key: value for key, value in settings.items() if key != table}


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()
