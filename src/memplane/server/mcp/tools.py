"""The tools: rows of the table of operations, with descriptions that a model reads."""

from __future__ import annotations

from typing import Any, Final

from memplane.server.mcp.tool import McpCaller, Tool
from memplane.server.mcp.tool_results import (
    render_document,
    render_documents,
    render_forgotten,
    render_learned,
    render_memories,
    render_receipt,
    render_status,
    render_written,
)
from memplane.service.operations import documents, home, memory, sessions

MAX_MATCHES: Final = 8

TOOLS: Final[tuple[Tool[Any], ...]] = (
    Tool(
        name="recall",
        title="Recall from memory",
        operation=memory.recall,
        description=(
            "Search what was said and learned in earlier sessions. Call it before you answer a "
            "question about the user, their projects, decisions, machines or preferences, and "
            "before you say that you do not know. Returns quoted memories with their sources."
        ),
        fields={
            "text": "What you want to know, in plain words, with the names and terms that occur.",
            "limit": "How many memories at most.",
        },
        defaults={"limit": MAX_MATCHES},
        required=frozenset({"text"}),
        render=render_memories,
    ),
    Tool(
        name="retain",
        title="Keep a note",
        operation=memory.retain_note,
        description=(
            "Keep a note for later sessions: a decision, a fact or a preference that will still "
            "matter. Write one self-contained sentence or paragraph with names and dates. Never "
            "include a password, token or key."
        ),
        fields={"text": "The note. It must make sense without this conversation."},
        render=render_receipt,
    ),
    Tool(
        name="forget",
        title="Forget entries",
        operation=memory.forget,
        description=(
            "Forget entries for good, on request of the user only. Take the ids from the "
            "`entries` of recall. It cannot be undone."
        ),
        fields={
            "ids": "The ids of the entries, such as hist1_0123….",
            "reason": "Why, in the user's words.",
        },
        render=render_forgotten,
        is_destructive=True,
    ),
    Tool(
        name="observe",
        title="Record an observation",
        operation=sessions.observe,
        description=(
            "Record how a service or system behaves, learned from your own work: timing, "
            "dependencies, quirks, what fixes it, recurring chores. Be very selective: no status, "
            "readings or versions. For everything else use retain."
        ),
        fields={
            "category": "What it is about.",
            "observation": "One sentence that makes sense by itself.",
            "service": "The service, when it is about one.",
        },
        render=render_learned,
    ),
    Tool(
        name="persona_list",
        title="List documents",
        operation=documents.list_documents,
        description=(
            "List your persona documents (Markdown files about the user, feedback, projects, "
            "commitments, digests), with type and description."
        ),
        fields={},
        render=render_documents,
    ),
    Tool(
        name="persona_read",
        title="Read a document",
        operation=documents.read_document,
        description=(
            "Read one persona document and its version. At the start of a session and after a "
            "compaction read MEMORY.md, today's session_digest and carry_forward.md."
        ),
        fields={"key": "The document's name, such as MEMORY.md or user_role.md."},
        render=render_document,
    ),
    Tool(
        name="persona_write",
        title="Write a document",
        operation=documents.write_document,
        description=(
            "Write a persona document whole. To change one, read it first and give its version; "
            "without a version a new one is created. A document begins with frontmatter: name, "
            "description, type. A new one gets its line in MEMORY.md by itself."
        ),
        fields={
            "key": "Its name: letters, digits, _, - and ., ending in .md.",
            "text": "The whole text, frontmatter included.",
            "expected_version": "The version that persona_read gave; leave it out for a new one.",
        },
        render=render_written,
    ),
    Tool(
        name="status",
        title="Memory status",
        operation=home.get_status,
        description="Show whether memory works: where it lives, how much it holds, what is wrong.",
        fields={},
        render=render_status,
    ),
)
"""In the order in which they are listed, which does not change."""

_BY_NAME: Final = {tool.name: tool for tool in TOOLS}


def list_tools(caller: McpCaller) -> list[Tool[Any]]:
    """Return the tools that a caller may use."""
    return [tool for tool in TOOLS if caller.allows(tool.operation.scope)]


def find_tool(caller: McpCaller, name: object) -> Tool[Any] | None:
    """Return a tool by its name; None when there is none for this caller."""
    tool = _BY_NAME.get(name) if isinstance(name, str) else None
    return tool if tool is not None and caller.allows(tool.operation.scope) else None
