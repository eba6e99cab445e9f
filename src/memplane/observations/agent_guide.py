"""What an agent is told about recording what it learns, in either of two ways (pure)."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

from memplane.errors import InvalidRequest
from memplane.observations.model import (
    MAX_SERVICE_CHARS,
    MAX_SHOWN_CHARS,
    MAX_TEXT_CHARS,
    Category,
)

GuideMode: TypeAlias = Literal["markers", "structured"]
"""Whether memories stand in what an agent says, or in a JSON document that it returns."""


class _Example(NamedTuple):
    service: str
    text: str


_CATEGORY_SCOPE: Final = {
    Category.TIMING: "start-up delays, timeouts, schedules; not a single latency reading",
    Category.DEPENDENCY: "ordering and prerequisites; not what is up or down now",
    Category.BEHAVIOR: "quirks, workarounds, known issues; not that all is healthy",
    Category.REMEDIATION: "what works or fails as a fix; not that you restarted something",
    Category.MAINTENANCE: "recurring chores; not a version number",
}
# The services are invented, so that nobody takes an example for something that was seen.
_EXAMPLES: Final = {
    Category.TIMING: (
        _Example("quillmoor", "Takes 60s to start after a restart; wait before checking health"),
        _Example("tarnbeck", "The nightly export slows queries down between 02:00 and 02:30 UTC"),
    ),
    Category.DEPENDENCY: (
        _Example("quillmoor", "Must be started after tarnbeck, or it binds to the wrong address"),
        _Example("osprela", "Fails its health check until the quillmoor share is mounted"),
    ),
    Category.BEHAVIOR: (
        _Example("osprela", "The first restart fails on a stale lock; the second succeeds"),
        _Example("", "Checks through the fernwick tunnel can fail while it reconnects"),
    ),
    Category.REMEDIATION: (
        _Example("tarnbeck", "When connections run out, restarting its pooler is enough"),
        _Example("", "When a check through the fernwick tunnel fails, retry once before acting"),
    ),
    Category.MAINTENANCE: (
        _Example("tarnbeck", "The journal table needs a full compaction every week"),
        _Example("fernwick", "The tunnel certificate has to be renewed by hand each year"),
    ),
}

_TIER_ADVICE: Final = {
    1: "You observe. Record a pattern only when you have seen it repeatedly, over several checks.",
    2: "You investigate. Record what a diagnosis found out: causes, dependencies, conditions.",
    3: "You remediate. Record how a fix turned out: what worked, what failed, and when.",
}

_SELECTIVITY_ADVICE: Final = """\
Be very selective; most runs record nothing.
Record only what will still help another session in a month.
Record no status, health, versions or readings, and never a password, token or key."""

_MARKER_FORM: Final = f"""\
Write a memory as a line of its own in your answer, in one of these forms:

```
[MEMORY:<category>] <observation>
[MEMORY:<category>:<service>] <observation>
```

The category is one of the five below, in lower case.
The service is a name of up to {MAX_SERVICE_CHARS} letters, digits, `_` and `-`; leave it out
when the observation is about no single service.
The observation is one sentence that makes sense by itself, best below {MAX_SHOWN_CHARS} characters.
What stands in a code block, in back-ticks, in quotation marks, in a table or in a quote is not
recorded, and neither is an example of this guide."""  # noqa: E501 - as agents read it

_DOCUMENT_FORM: Final = f"""\
Return your memories in the list `memories` of your structured output. Each of them has:

- `category`: one of the five below, in lower case
- `service`: a name of up to {MAX_SERVICE_CHARS} letters, digits, `_` and `-`; leave it out
  when the observation is about no single service
- `observation`: one sentence that makes sense by itself, best below {MAX_SHOWN_CHARS} characters

When there is nothing to record, the list is empty."""

_CONTRADICTION_ADVICE: Final = (
    "When a memory that you were given turns out to be wrong, record what is true instead, with "
    "the same category and service."
)


def build_guide(tier: int, mode: GuideMode) -> str:
    """Return what an agent of a tier, from 1 to 3, is told.

    Its examples stand in code, so that nothing is recorded when somebody quotes it.

    Raises:
        InvalidRequest: There is no such tier, or no such mode.
    """
    if tier not in _TIER_ADVICE:
        raise InvalidRequest(f"there is no guide for tier {tier}: the tiers of agents are 1 to 3")
    if mode not in {"markers", "structured"}:
        raise InvalidRequest(f"there is no mode {mode!r}: it is markers or structured")
    structured = mode == "structured"
    parts = (
        "## Recording operational memory",
        f"{_SELECTIVITY_ADVICE}\n{_TIER_ADVICE[tier]}",
        _DOCUMENT_FORM if structured else _MARKER_FORM,
        "### Categories",
        *(_category(one, structured=structured) for one in Category),
        _CONTRADICTION_ADVICE,
    )
    return "\n\n".join(parts) + "\n"


def is_example(service: str, text: str) -> bool:
    """Say whether a statement repeats an example of the guide; case and blanks do not matter."""
    return (service.casefold(), _plain(text)) in _plain_examples()


@cache
def _plain_examples() -> frozenset[tuple[str, str]]:
    return frozenset(
        (one.service, _plain(one.text)) for examples in _EXAMPLES.values() for one in examples
    )


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).strip(" .!*_`\"'")


def build_output_schema() -> dict[str, object]:
    """Return the JSON schema of structured output, which the program wants inline."""
    memory = {
        "type": "object",
        "properties": {
            "category": {"type": "string", "enum": [one.value for one in Category]},
            "service": {
                "type": ["string", "null"],
                "description": "What it is about; left out when it is about no single service",
                "pattern": f"^[a-zA-Z0-9_-]{{1,{MAX_SERVICE_CHARS}}}$",
            },
            "observation": {
                "type": "string",
                "description": "One sentence that makes sense by itself",
                "minLength": 3,
                "maxLength": MAX_TEXT_CHARS,
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
    return "\n".join(
        (f"`{category}`: {_CATEGORY_SCOPE[category]}", "", f"```{language}", *written, "```")
    )


def _markers(category: Category) -> Iterator[str]:
    for service, text in _EXAMPLES[category]:
        yield f"[MEMORY:{category}{service and ':'}{service}] {text}"


def _documents(category: Category) -> Iterator[str]:
    for service, text in _EXAMPLES[category]:
        about = {"service": service} if service else {}
        yield json.dumps({"category": category, **about, "observation": text})
