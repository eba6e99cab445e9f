"""A new document of each kind: its name, its frontmatter, its sections, and no content (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from memplane.errors import InvalidRequest
from memplane.persona.document import Document, FrontmatterField, render, with_value
from memplane.persona.document_kinds import INDEX_KIND, OTHER_KIND, DocumentKind
from memplane.persona.document_names import (
    format_period,
    has_period,
    parse_period_days,
    relationship_key,
    slugify,
)

_LISTS: Final = frozenset({"sessions", "chats", "sources"})
_NO_PEOPLE: Final[Mapping[str, str]] = MappingProxyType({})


def new_document(
    kind: DocumentKind,
    *,
    name: str = "",
    description: str = "",
    upn: str = "",
    people: Mapping[str, str] = _NO_PEOPLE,
    now: datetime,
) -> tuple[str, bytes]:
    """Return the key and the text of a new document.

    `name` is a title, the name of a person, or the period of a digest, which is by default the
    one that `now` is in; `now` tells the zone too. `people` holds the UPN of each relationship
    there is, by its key.

    Raises:
        InvalidRequest: There is no such document: its name is missing, or is one too many.
    """
    title = to_one_line(name)
    key = _key_of(kind, title, upn=upn, people=people, now=now)
    if kind is INDEX_KIND:
        return key, b"# Memory\n"
    document = with_frontmatter(
        Document(body=_body(kind)),
        name=_title(kind, title, key),
        description=to_one_line(description) or _description(kind, title, key),
        type_name=kind.name,
    )
    known = {
        "status": "active",
        "tz": str(now.tzinfo or "UTC"),
        "upn": to_one_line(upn),
        "period": _period(key),
    }
    return key, render(_with_fields(document, kind, known))


def with_frontmatter(
    document: Document, *, name: str, description: str, type_name: str
) -> Document:
    """Return a document with the frontmatter that every one needs; what it has of that stays."""
    values = {"name": name, "description": description, "type": type_name}
    for field, text in values.items():
        if document.text_of(field) is None:
            document = with_value(document, field, to_one_line(text))
    return document


def to_one_line(text: str) -> str:
    """Return a text as a value of the frontmatter can be: one line without control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _key_of(
    kind: DocumentKind, title: str, *, upn: str, people: Mapping[str, str], now: datetime
) -> str:
    if kind.name == "relationship":
        return relationship_key(title, upn, people)
    if has_period(kind):
        return _dated_key(kind, title or format_period(kind, now.date()))
    if _is_free(kind):
        return _free_key(kind, title)
    if title:
        raise InvalidRequest(f"there is one {kind.file} only, so it takes no name")
    return kind.file


def _dated_key(kind: DocumentKind, period: str) -> str:
    key = f"{kind.name}_{period}.md"
    if parse_period_days(kind, key) is None:
        shape = kind.file.removeprefix(f"{kind.name}_").removesuffix(".md")
        raise InvalidRequest(f"{period!r} is no period of a {kind.name}: it is {shape}")
    return key


def _free_key(kind: DocumentKind, title: str) -> str:
    slug = slugify(title).strip("_").removeprefix(f"{kind.name}_")
    if kind is OTHER_KIND or not slug:
        raise InvalidRequest(f"a document of the kind {kind.name!r} needs a name with letters")
    return kind.file.replace("*", slug)


def _is_free(kind: DocumentKind) -> bool:
    """Say whether there may be any number of the kind, each with a name of its own."""
    return "*" in kind.file


def _title(kind: DocumentKind, title: str, key: str) -> str:
    text = key.removesuffix(".md").replace("_", " ")
    return _capital(text) if has_period(kind) or not title else title


def _description(kind: DocumentKind, title: str, key: str) -> str:
    if _is_free(kind):
        return title
    subject = _period(key) if has_period(kind) else title
    return _capital(kind.about) + (f": {subject}" if subject else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _period(key: str) -> str:
    return key.removesuffix(".md").rpartition("_")[2]


def _body(kind: DocumentKind) -> str:
    hint = kind.form + (f": {', '.join(kind.entry)}" if kind.entry else "")
    comment = [f"<!-- {hint} -->"] if hint else []
    sections = [f"## {section}" for section in kind.sections]
    return "".join(f"\n{part}\n" for part in (*comment, *sections)) or "\n"


def _with_fields(document: Document, kind: DocumentKind, known: Mapping[str, str]) -> Document:
    """Add the frontmatter of the kind: what is known, else an empty value to fill in."""
    for field in kind.fields:
        if known.get(field):
            document = with_value(document, field, known[field])
        else:
            line = f"{field}: []\n" if field in _LISTS else f"{field}:\n"
            document = replace(document, fields=(*document.fields, FrontmatterField(field, line)))
    return document
