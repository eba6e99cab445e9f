"""Whether a document may leave this machine, and what else is wrong with it (pure).

An error keeps a document from being published. A warning is for its author.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from typing import Final, Literal

import msgspec

from memplane.errors import PersonaError
from memplane.objects.keys import collisions
from memplane.persona import index
from memplane.persona.document import Document, parse, render
from memplane.persona.kinds import (
    INDEX_KEY,
    OTHER,
    PART,
    REQUIRED,
    Kind,
    fits,
    kind_named,
    kind_of,
)
from memplane.persona.naming import objection_to
from memplane.persona.templates import headed, one_line

LIMIT: Final = 256 * 1024
"""How large a document may be unless the settings say otherwise."""
HARD_LIMIT: Final = 5 * 1024 * 1024
"""What the settings cannot raise."""

_LONGEST_DESCRIPTION: Final = 150
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s")
_MARKUP: Final = "#>*+-=_`| "


class Rule(StrEnum):
    """What is broken. Only a document without proper frontmatter is kept aside in the store."""

    BAD_NAME = "bad-name"
    TOO_LARGE = "too-large"
    BINARY = "binary"
    FRONTMATTER = "frontmatter"
    COLLISION = "collision"
    WRONG_TYPE = "wrong-type"
    NO_SECTION = "no-section"
    TOO_LONG = "too-long"
    DOUBLE_LINK = "double-link"
    DEAD_LINK = "dead-link"
    NOT_LINKED = "not-linked"
    SECRET = "secret"  # noqa: S105 - it is the name of a rule


class Problem(msgspec.Struct, frozen=True):
    """Something that is wrong with a document, and what to do about it."""

    key: str
    rule: Rule
    severity: Literal["error", "warning"]
    text: str
    fix: str


def problems_in(files: Mapping[str, bytes], *, limit: int = LIMIT) -> tuple[Problem, ...]:
    """Return what is wrong with the documents of a folder, and with how they hang together."""
    found = [
        problem
        for key, data in files.items()
        for problem in problems_of(key, data, limit=limit, keys=files.keys())
    ]
    found += [*_collisions(files), *_unlinked(files)]
    return tuple(sorted(found, key=lambda one: (one.key, one.severity, one.rule, one.text)))


def problems_of(
    key: str, data: bytes, *, limit: int = LIMIT, keys: Collection[str] | None = None
) -> tuple[Problem, ...]:
    """Return what is wrong with a document; `keys` are those that its links may lead to."""
    problems = tuple(_unfit(key, data, min(limit, HARD_LIMIT)))
    if problems:
        return problems
    if key == INDEX_KEY:
        return tuple(_index_problems(data, keys))
    document = parse(data)
    if problems := tuple(_frontmatter_problems(key, document)):
        return problems
    return tuple(_warnings(key, document))


def refusal_of(key: str, data: bytes, *, limit: int = LIMIT) -> Problem | None:
    """Return why a document may not be published; None when it may."""
    problems = problems_of(key, data, limit=limit)
    return next((problem for problem in problems if problem.severity == "error"), None)


def adopted(key: str, data: bytes) -> bytes:
    """Return a document with the frontmatter that it lacks, and its text as it was.

    Frontmatter that cannot be read becomes part of the text, so that nothing of it is lost.

    Raises:
        PersonaError: It is not a text, or is the index, which has none.
    """
    if key == INDEX_KEY or not _is_text(data):
        what = "needs no frontmatter" if key == INDEX_KEY else "is not a text"
        raise PersonaError(f"{key} cannot be adopted: it {what}")
    document = parse(data)
    name = _name_from(key)
    kind = kind_of(key, None)
    return render(
        headed(
            _with_readable_frontmatter(document),
            name=name,
            description=_first_words(document.body) or name,
            type_name="reference" if kind is OTHER else kind.name,
        )
    )


def _unfit(key: str, data: bytes, limit: int) -> Iterator[Problem]:
    if reason := objection_to(key):
        yield Problem(key, Rule.BAD_NAME, "error", reason, "rename it")
    if len(data) > limit:
        text = f"it has {len(data)} bytes, which is more than {limit}"
        yield Problem(key, Rule.TOO_LARGE, "error", text, "split it into several documents")
    elif not _is_text(data):
        fix = "keep it elsewhere, or save it as UTF-8"
        yield Problem(key, Rule.BINARY, "error", "it is not a text in UTF-8", fix)


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _frontmatter_problems(key: str, document: Document) -> Iterator[Problem]:
    missing = [field for field in REQUIRED if document.text_of(field) is None]
    if document.flaw:
        text = document.flaw
    elif not document.opening:
        text = "" if index.is_part(key) else "it does not begin with frontmatter"
    else:
        text = f"its frontmatter has no {', no '.join(missing)}" if missing else ""
    if text:
        fix = f"memplane persona adopt {key}"
        yield Problem(key, Rule.FRONTMATTER, "error", text, fix)


def _warnings(key: str, document: Document) -> Iterator[Problem]:
    kind = kind_of(key, document.type)
    if kind is PART:
        return
    if text := _misfit(key, document.type or "", kind):
        fix = "change its type or its name"
        yield Problem(key, Rule.WRONG_TYPE, "warning", text, fix)
    headings = [line.lstrip("#").strip().casefold() for line in _headings(document.body)]
    for section in kind.sections:
        if not any(heading.startswith(section.casefold()) for heading in headings):
            text, fix = f"it has no section {section!r}", f"add `## {section}`"
            yield Problem(key, Rule.NO_SECTION, "warning", text, fix)


def _misfit(key: str, type_name: str, kind: Kind) -> str | None:
    """Say how a type and a file's name disagree. What may be called anything fits any name."""
    named = kind_of(key, None)
    if kind_named(type_name) is None:
        return f"its type {type_name!r} is none that memplane knows"
    if named not in {OTHER, kind}:
        return f"it is called like a {named.name}, but its type is {type_name!r}"
    if not fits(kind, key) and "*" not in kind.file:
        return f"its type is {type_name!r}, but such a document is called {kind.file}"
    return None


def _headings(body: str) -> Iterator[str]:
    return (line for line in body.split("\n") if line.startswith("#"))


def _index_problems(data: bytes, keys: Collection[str] | None) -> Iterator[Problem]:
    if not index.fits_in(data):
        text = f"it has more than {index.MOST_LINES} lines or {index.MOST_BYTES} bytes"
        fix = f"move a group of links to {PART.file}; what is beyond that is not loaded"
        yield Problem(INDEX_KEY, Rule.TOO_LONG, "warning", text, fix)
    times = Counter(link.key for link in index.links(data))
    for key in sorted(times):
        if times[key] > 1:
            text, fix = f"it links {key} {times[key]} times", "keep one of the lines"
            yield Problem(INDEX_KEY, Rule.DOUBLE_LINK, "warning", text, fix)
        if keys is not None and key not in keys:
            text, fix = f"it links {key}, which is not there", "remove the line"
            yield Problem(INDEX_KEY, Rule.DEAD_LINK, "warning", text, fix)


def _collisions(files: Collection[str]) -> Iterator[Problem]:
    for first, *others in collisions(files):
        for key in others:
            text = f"on some machines it is the same file as {first}"
            yield Problem(key, Rule.COLLISION, "error", text, "rename one of the two")


def _unlinked(files: Mapping[str, bytes]) -> Iterator[Problem]:
    indexes = [key for key in files if key == INDEX_KEY or index.is_part(key)]
    linked = {link.key for key in indexes for link in index.links(files[key])}
    for key in files.keys() - linked - {INDEX_KEY}:
        text, fix = f"{INDEX_KEY} has no line for it, so no agent finds it", "add a line"
        yield Problem(key, Rule.NOT_LINKED, "warning", text, fix)


def _with_readable_frontmatter(document: Document) -> Document:
    odd = (field for field in REQUIRED if document.value(field) and not document.text_of(field))
    if document.flaw or next(odd, None):
        text = render(document).decode()
        return Document(bom=document.bom, body=text.removeprefix(document.bom))
    return document


def _name_from(key: str) -> str:
    words = re.sub(r"[_\s]+", " ", key.rpartition("/")[2].removesuffix(".md"))
    return words[:1].upper() + words[1:]


def _first_words(body: str) -> str:
    """Return the first heading of a text, else its first sentence."""
    lines = (one_line(line).strip(_MARKUP) for line in chain(_headings(body), body.split("\n")))
    first = next(filter(None, lines), "")
    return _SENTENCE_END.split(first, maxsplit=1)[0][:_LONGEST_DESCRIPTION].strip()
