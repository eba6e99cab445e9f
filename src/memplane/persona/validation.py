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
from memplane.persona import index_file
from memplane.persona.document import Document, parse, render
from memplane.persona.document_kinds import (
    INDEX_KEY,
    INDEX_PART_KIND,
    OTHER_KIND,
    REQUIRED_FIELDS,
    DocumentKind,
    MergeFamily,
    allows_file_name,
    detect_kind,
    find_kind,
)
from memplane.persona.document_names import explain_invalid_name
from memplane.persona.merge.relationships import read_section_label
from memplane.persona.templates import to_one_line, with_frontmatter
from memplane.storage.keys import find_collisions

DEFAULT_LIMIT_BYTES: Final = 256 * 1024
"""How large a document may be unless the settings say otherwise."""
HARD_LIMIT_BYTES: Final = 5 * 1024 * 1024
"""What the settings cannot raise."""

_MAX_DESCRIPTION_CHARS: Final = 150
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s")
_MARKUP: Final = "#>*+-=_`| "


class DocumentRule(StrEnum):
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


class DocumentProblem(msgspec.Struct, frozen=True):
    """Something that is wrong with a document, and what to do about it."""

    key: str
    rule: DocumentRule
    severity: Literal["error", "warning"]
    text: str
    fix: str


def check_documents(
    files: Mapping[str, bytes], *, limit: int = DEFAULT_LIMIT_BYTES
) -> tuple[DocumentProblem, ...]:
    """Return what is wrong with the documents of a folder, and with how they hang together."""
    problems = [
        problem
        for key, data in files.items()
        for problem in check_document(key, data, limit=limit, keys=files.keys())
    ]
    problems += [*_collisions(files), *_unlinked(files)]
    return tuple(sorted(problems, key=lambda row: (row.key, row.severity, row.rule, row.text)))


def check_document(
    key: str, data: bytes, *, limit: int = DEFAULT_LIMIT_BYTES, keys: Collection[str] | None = None
) -> tuple[DocumentProblem, ...]:
    """Return what is wrong with a document; `keys` are those that its links may lead to."""
    problems = tuple(_unfit(key, data, min(limit, HARD_LIMIT_BYTES)))
    if problems:
        return problems
    if key == INDEX_KEY:
        return tuple(_index_problems(data, keys))
    document = parse(data)
    if problems := tuple(_frontmatter_problems(key, document)):
        return problems
    return tuple(_warnings(key, document))


def find_publish_error(
    key: str, data: bytes, *, limit: int = DEFAULT_LIMIT_BYTES
) -> DocumentProblem | None:
    """Return why a document may not be published; None when it may."""
    problems = check_document(key, data, limit=limit)
    return next((problem for problem in problems if problem.severity == "error"), None)


def add_missing_frontmatter(key: str, data: bytes) -> bytes:
    """Return a document with the frontmatter that it lacks, and its text as it was.

    Frontmatter that cannot be read becomes part of the text, so that nothing of it is lost.

    Raises:
        PersonaError: It is not a text, or is the index, which has none.
    """
    if key == INDEX_KEY or find_text_flaw(data):
        explanation = "needs no frontmatter" if key == INDEX_KEY else "is not a text"
        raise PersonaError(f"{key} cannot be adopted: it {explanation}")
    document = parse(data)
    name = _name_from(key)
    kind = detect_kind(key, None)
    return render(
        with_frontmatter(
            _with_readable_frontmatter(document),
            name=name,
            description=_first_words(document.body) or name,
            type_name="reference" if kind is OTHER_KIND else kind.name,
        )
    )


def _unfit(key: str, data: bytes, limit: int) -> Iterator[DocumentProblem]:
    if reason := explain_invalid_name(key):
        yield DocumentProblem(key, DocumentRule.BAD_NAME, "error", reason, "rename it")
    if len(data) > limit:
        text = f"it has {len(data)} bytes, which is more than {limit}"
        yield DocumentProblem(
            key, DocumentRule.TOO_LARGE, "error", text, "split it into several documents"
        )
    elif flaw := find_text_flaw(data):
        fix = "keep it elsewhere, or save it as UTF-8"
        yield DocumentProblem(key, DocumentRule.BINARY, "error", flaw, fix)


def find_text_flaw(data: bytes) -> str:
    """Say why bytes are no text, wherever they lie; empty when they are one."""
    try:
        return "it is not a text in UTF-8" if "\0" in data.decode() else ""
    except UnicodeDecodeError:
        return "it is not a text in UTF-8"


def _frontmatter_problems(key: str, document: Document) -> Iterator[DocumentProblem]:
    missing = [field for field in REQUIRED_FIELDS if document.text_of(field) is None]
    if document.flaw:
        text = document.flaw
    elif not document.opening:
        text = "" if index_file.is_index_part(key) else "it does not begin with frontmatter"
    else:
        text = f"its frontmatter has no {', no '.join(missing)}" if missing else ""
    if text:
        fix = f"memplane persona adopt {key}"
        yield DocumentProblem(key, DocumentRule.FRONTMATTER, "error", text, fix)


def _warnings(key: str, document: Document) -> Iterator[DocumentProblem]:
    kind = detect_kind(key, document.type)
    if kind is INDEX_PART_KIND:
        return
    if text := _explain_type_mismatch(key, document.type or "", kind):
        fix = "change its type or its name"
        yield DocumentProblem(key, DocumentRule.WRONG_TYPE, "warning", text, fix)
    headings = [line.lstrip("#").strip().casefold() for line in _headings(document.body)]
    if kind.family is MergeFamily.PEOPLE:
        labels = filter(None, map(read_section_label, document.body.splitlines()))
        headings += [section.casefold() for section, _ in labels]
    for section in kind.sections:
        if not any(heading.startswith(section.casefold()) for heading in headings):
            text, fix = f"it has no section {section!r}", f"add `## {section}`"
            yield DocumentProblem(key, DocumentRule.NO_SECTION, "warning", text, fix)


def _explain_type_mismatch(key: str, type_name: str, kind: DocumentKind) -> str | None:
    """Say how a type and a file's name disagree. What may be called anything fits any name."""
    named = detect_kind(key, None)
    if find_kind(type_name) is None:
        return f"its type {type_name!r} is none that memplane knows"
    if named not in {OTHER_KIND, kind}:
        return f"it is called like a {named.name}, but its type is {type_name!r}"
    if not allows_file_name(kind, key) and "*" not in kind.file:
        return f"its type is {type_name!r}, but such a document is called {kind.file}"
    return None


def _headings(body: str) -> Iterator[str]:
    return (line for line in body.split("\n") if line.startswith("#"))


def _index_problems(data: bytes, keys: Collection[str] | None) -> Iterator[DocumentProblem]:
    if not index_file.is_fully_loaded(data):
        text = (
            f"it has more than {index_file.MAX_INDEX_LINES} lines or "
            f"{index_file.MAX_INDEX_BYTES} bytes"
        )
        fix = f"move a group of links to {INDEX_PART_KIND.file}; what is beyond that is not loaded"
        yield DocumentProblem(INDEX_KEY, DocumentRule.TOO_LONG, "warning", text, fix)
    times = Counter(link.key for link in index_file.read_links(data))
    for key in sorted(times):
        if times[key] > 1:
            text, fix = f"it links {key} {times[key]} times", "keep one of the lines"
            yield DocumentProblem(INDEX_KEY, DocumentRule.DOUBLE_LINK, "warning", text, fix)
        if keys is not None and key not in keys:
            text, fix = f"it links {key}, which is not there", "remove the line"
            yield DocumentProblem(INDEX_KEY, DocumentRule.DEAD_LINK, "warning", text, fix)


def _collisions(files: Collection[str]) -> Iterator[DocumentProblem]:
    for first, *others in find_collisions(files):
        for key in others:
            text = f"on some machines it is the same file as {first}"
            yield DocumentProblem(
                key, DocumentRule.COLLISION, "error", text, "rename one of the two"
            )


def _unlinked(files: Mapping[str, bytes]) -> Iterator[DocumentProblem]:
    indexes = [key for key in files if key == INDEX_KEY or index_file.is_index_part(key)]
    linked = {link.key for key in indexes for link in index_file.read_links(files[key])}
    for key in files.keys() - linked - {INDEX_KEY}:
        text, fix = f"{INDEX_KEY} has no line for it, so no agent finds it", "add a line"
        yield DocumentProblem(key, DocumentRule.NOT_LINKED, "warning", text, fix)


def _with_readable_frontmatter(document: Document) -> Document:
    odd = (
        field for field in REQUIRED_FIELDS if document.value(field) and not document.text_of(field)
    )
    if document.flaw or next(odd, None):
        text = render(document).decode()
        return Document(bom=document.bom, body=text.removeprefix(document.bom))
    return document


def _name_from(key: str) -> str:
    name = re.sub(r"[_\s]+", " ", key.rpartition("/")[2].removesuffix(".md"))
    return name[:1].upper() + name[1:]


def _first_words(body: str) -> str:
    """Return the first heading of a text, else its first sentence."""
    lines = (to_one_line(line).strip(_MARKUP) for line in chain(_headings(body), body.split("\n")))
    first = next(filter(None, lines), "")
    return _SENTENCE_END.split(first, maxsplit=1)[0][:_MAX_DESCRIPTION_CHARS].strip()
