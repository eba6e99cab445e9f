"""What Claude Code tells a hook on its standard input (pure).

Fields that are not known here are ignored: every version adds some.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

_CONTRACT_NAMES: Final = {"context": "SessionStart", "changed": "PostToolUse"}
"""Names in memplane's contract that are not the client's in other letters."""
HANDLED_EVENTS: Final = frozenset(
    {
        *("SessionStart", "UserPromptSubmit", "PostToolUse", "FileChanged"),
        *("PreCompact", "Stop", "SessionEnd"),
    }
)
_FILE_FIELDS: Final = ("file_path", "notebook_path")
_NOTIFICATION: Final = "<task-notification>"


class HookPayload(msgspec.Struct, frozen=True):
    """One event of a session. What an event does not have is empty."""

    session_id: str = ""
    transcript_path: str = ""
    cwd: str = ""
    source: str = ""
    prompt: str = ""
    tool_name: str = ""
    tool_input: dict[str, Any] | None = None
    file_path: str = ""
    event: str = ""
    reason: str = ""
    trigger: str = ""
    agent_id: str = ""

    @property
    def changed_file(self) -> str:
        """The file that a tool or somebody else wrote; empty when the event names none."""
        written = self.tool_input or {}
        paths = (written.get(field) for field in _FILE_FIELDS)
        return next((path for path in paths if isinstance(path, str) and path), self.file_path)

    @property
    def is_notification(self) -> bool:
        """Whether the prompt is the client's word about a background task, and no user's."""
        return self.prompt.lstrip().startswith(_NOTIFICATION)


def find_event(name: str) -> str:
    """Return the client's name of an event: `SessionStart`, for `session-start` as well."""
    if name in _CONTRACT_NAMES:
        return _CONTRACT_NAMES[name]
    if name[:1].isupper():
        return name
    return "".join(word.capitalize() for word in name.split("-"))


def read_payload(data: bytes) -> HookPayload:
    """Read what the client sent; a field of an unexpected type counts as missing.

    Raises:
        ValueError: It is not a JSON object.
    """
    try:
        return msgspec.json.decode(data, type=HookPayload)
    except msgspec.ValidationError:
        fields = msgspec.json.decode(data, type=dict[str, Any])
    known: dict[str, Any] = {
        name: value
        for name, value in fields.items()
        if isinstance(value, dict if name == "tool_input" else str)
    }
    return msgspec.convert(known, type=HookPayload)
