"""What an agent is told about recording what it learns, in either of two ways (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from memplane.errors import InvalidRequest
from memplane.observations.model import LONGEST, LONGEST_SERVICE, LONGEST_SHOWN, Category

Mode: TypeAlias = Literal["markers", "structured"]
"""Whether memories stand in what an agent says, or in a JSON document that it returns."""


class _Example(NamedTuple):
    service: str
    text: str


_HOLDS: Final = {
    Category.TIMING: "start-up delays, timeouts, schedules; not a single latency reading",
    Category.DEPENDENCY: "ordering and prerequisites; not what is up or down now",
    Category.BEHAVIOR: "quirks, workarounds, known issues; not that all is healthy",
    Category.REMEDIATION: "what works or fails as a fix; not that you restarted something",
    Category.MAINTENANCE: "recurring chores; not a version number",
}
_EXAMPLES: Final = {
    Category.TIMING: (
        _Example("jellyfin", "Takes 60s to start after a restart; wait before checking health"),
        _Example("postgres", "The nightly backup slows queries down between 02:00 and 02:30 UTC"),
    ),
    Category.DEPENDENCY: (
        _Example("caddy", "Must be started after WireGuard, or it binds to the wrong address"),
        _Example("sonarr", "Fails its health check until the NFS share is mounted"),
    ),
    Category.BEHAVIOR: (
        _Example("jellyfin", "The first restart fails on a database lock; the second succeeds"),
        _Example("", "DNS checks can fail while WireGuard reconnects"),
    ),
    Category.REMEDIATION: (
        _Example("postgres", "When connections run out, restarting pgbouncer is enough"),
        _Example("", "When a DNS check fails, retry once before acting on it"),
    ),
    Category.MAINTENANCE: (
        _Example("postgres", "The events table needs VACUUM FULL every week"),
        _Example("caddy", "The internal CA certificate has to be renewed by hand each year"),
    ),
}

_OF_TIER: Final = {
    1: "You observe. Record a pattern only when you have seen it repeatedly, over several checks.",
    2: "You investigate. Record what a diagnosis found out: causes, dependencies, conditions.",
    3: "You remediate. Record how a fix turned out: what worked, what failed, and when.",
}

_SELECTIVE: Final = """\
Be very selective; most runs record nothing.
Record only what will still help another session in a month.
Record no status, health, versions or readings, and never a password, token or key."""

_FORM_OF_MARKERS: Final = f"""\
Write a memory as a line of its own in your answer, in one of these forms:

```
[MEMORY:<category>] <observation>
[MEMORY:<category>:<service>] <observation>
```

The category is one of the five below, in lower case.
The service is a name of up to {LONGEST_SERVICE} letters, digits, `_` and `-`; leave it out
when the observation is about no single service.
The observation is one sentence that makes sense by itself, best below {LONGEST_SHOWN} characters.
What stands in a code block, in back-ticks or in a quote is not recorded."""

_FORM_OF_DOCUMENTS: Final = f"""\
Return your memories in the list `memories` of your structured output. Each of them has:

- `category`: one of the five below, in lower case
- `service`: a name of up to {LONGEST_SERVICE} letters, digits, `_` and `-`; leave it out
  when the observation is about no single service
- `observation`: one sentence that makes sense by itself, best below {LONGEST_SHOWN} characters

When there is nothing to record, the list is empty."""

_CONTRADICTING: Final = (
    "When a memory that you were given turns out to be wrong, record what is true instead, with "
    "the same category and service."
)


def guide(tier: int, mode: Mode) -> str:
    """Return what an agent of a tier, from 1 to 3, is told.

    Its examples stand in code, so that nothing is recorded when somebody quotes it.

    Raises:
        InvalidRequest: There is no such tier, or no such mode.
    """
    if tier not in _OF_TIER:
        raise InvalidRequest(f"there is no guide for tier {tier}: the tiers of agents are 1 to 3")
    if mode not in {"markers", "structured"}:
        raise InvalidRequest(f"there is no mode {mode!r}: it is markers or structured")
    structured = mode == "structured"
    parts = (
        "## Recording operational memory",
        f"{_SELECTIVE}\n{_OF_TIER[tier]}",
        _FORM_OF_DOCUMENTS if structured else _FORM_OF_MARKERS,
        "### Categories",
        *(_category(one, structured=structured) for one in Category),
        _CONTRADICTING,
    )
    return "\n\n".join(parts) + "\n"


def schema() -> dict[str, object]:
    """Return the JSON schema of structured output, which the program wants inline."""
    memory = {
        "type": "object",
        "properties": {
            "category": {"type": "string", "enum": [one.value for one in Category]},
            "service": {
                "type": ["string", "null"],
                "description": "What it is about; left out when it is about no single service",
                "pattern": f"^[a-zA-Z0-9_-]{{1,{LONGEST_SERVICE}}}$",
            },
            "observation": {
                "type": "string",
                "description": "One sentence that makes sense by itself",
                "minLength": 3,
                "maxLength": LONGEST,
            },
        },
        "required": ["category", "observation"],
        "additionalProperties": False,
    }
    memories = {
        "type": "array",
        "description": "What will still help another session; most runs have nothing to record",
        "items": memory,
    }
    return {"type": "object", "properties": {"memories": memories}, "required": ["memories"]}


def _category(category: Category, *, structured: bool) -> str:
    written = _documents(category) if structured else _markers(category)
    language = "json" if structured else ""
    return "\n".join((f"`{category}`: {_HOLDS[category]}", "", f"```{language}", *written, "```"))


def _markers(category: Category) -> Iterator[str]:
    for service, text in _EXAMPLES[category]:
        yield f"[MEMORY:{category}{service and ':'}{service}] {text}"


def _documents(category: Category) -> Iterator[str]:
    for service, text in _EXAMPLES[category]:
        about = {"service": service} if service else {}
        yield json.dumps({"category": category, **about, "observation": text})
