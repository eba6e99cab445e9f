"""What a document may be called, here and in the store (pure).

A document's key is its path in the folder, with `/` between segments. The rules of every store
hold, and stricter ones, because each key becomes a file on several systems.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from calendar import monthrange
from collections.abc import Mapping
from datetime import date
from typing import Final

from memplane.errors import InvalidKey, InvalidRequest
from memplane.persona.document_kinds import DocumentKind, allows_file_name
from memplane.storage.keys import check_key, fold_key

MAX_SEGMENTS: Final = 4
"""The file counts as one of them."""
DOCUMENT_SUFFIX: Final = ".md"

_MAX_STEM_CHARS: Final = 201
_MAX_SLUG_CHARS: Final = 150
_STEM: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_MAX_STEM_CHARS - 1}}}")
_NOT_IN_SLUG: Final = re.compile(r"[^a-z0-9]+")
_INSTRUCTIONS: Final = frozenset(
    {"claude.md", "claude.local.md", "agents.md", "agents.override.md", "gemini.md"}
)
"""Files that some agent obeys by itself: what comes from elsewhere must not become one."""


def explain_invalid_name(key: str) -> str | None:
    """Say why a document cannot be called so; None when it can."""
    try:
        check_key(key)
    except InvalidKey as error:
        return str(error).removeprefix(f"{error.key!r}: ")
    *folders, file = key.split("/")
    if len(folders) >= MAX_SEGMENTS:
        return f"a document lies at most {MAX_SEGMENTS - 1} folders deep"
    return next(filter(None, map(_objection_to_folder, folders)), None) or _objection_to_file(file)


def _objection_to_folder(name: str) -> str | None:
    if name.casefold().endswith(DOCUMENT_SUFFIX):
        return f"the folder {name!r} is called like a document"
    return None if _STEM.fullmatch(name) else _characters(name)


def _objection_to_file(name: str) -> str | None:
    if name.casefold() in _INSTRUCTIONS:
        return f"{name!r} is a file of instructions, which agents obey, and no document"
    if not name.endswith(DOCUMENT_SUFFIX):
        return f"a document's name ends in {DOCUMENT_SUFFIX!r}"
    return None if _STEM.fullmatch(name.removesuffix(DOCUMENT_SUFFIX)) else _characters(name)


def _characters(name: str) -> str:
    return (
        f"{name!r} must begin with a letter or digit of ASCII, and hold at most "
        f"{_MAX_STEM_CHARS} of "
        "them and of '.', '_' and '-'"
    )


def with_hash_suffix(key: str, data: bytes) -> str:
    """Return another key for a document whose own is taken by one that differs only by case.

    Every machine finds the same one, and it differs for each key and each content.
    """
    mark = hashlib.sha256(key.encode() + b"\0" + data).hexdigest()[:6]
    folder, slash, file = key.rpartition("/")
    stem = file.removesuffix(DOCUMENT_SUFFIX)[: _MAX_STEM_CHARS - len(mark) - 1]
    return f"{folder}{slash}{stem}_{mark}{DOCUMENT_SUFFIX}"


def slugify(name: str) -> str:
    """Return a name as it stands in a file's name: lower case, `_` for all that is no letter."""
    composed = unicodedata.normalize("NFC", name)
    return _NOT_IN_SLUG.sub("_", composed.casefold())[:_MAX_SLUG_CHARS]


def format_period(kind: DocumentKind, day: date) -> str:
    """Return the day, ISO week, month or year of a digest, as it stands in its file's name."""
    if kind.name == "session_digest":
        return day.isoformat()
    if kind.name == "weekly_digest":
        return f"{day:%G-W%V}"
    return f"{day:%Y-%m}" if kind.name == "monthly_digest" else f"{day:%Y}"


def parse_period_days(kind: DocumentKind, key: str) -> tuple[date, date] | None:
    """Return the first and the last day of what a digest covers; None when its name has none."""
    period = key.rpartition("/")[2].removeprefix(f"{kind.name}_").removesuffix(DOCUMENT_SUFFIX)
    if not has_period(kind) or not allows_file_name(kind, key):
        return None
    try:
        return _days(kind, period)
    except ValueError:
        return None


def has_period(kind: DocumentKind) -> bool:
    """Say whether documents of the kind have a period in their name."""
    return "YYYY" in kind.file


def _days(kind: DocumentKind, period: str) -> tuple[date, date]:
    if kind.name == "session_digest":
        day = date.fromisoformat(period)
        return day, day
    year = int(period[:4])
    if kind.name == "weekly_digest":
        week = int(period[-2:])
        return date.fromisocalendar(year, week, 1), date.fromisocalendar(year, week, 7)
    if kind.name == "monthly_digest":
        month = int(period[-2:])
        return date(year, month, 1), date(year, month, monthrange(year, month)[1])
    return date(year, 1, 1), date(year, 12, 31)


def relationship_key(name: str, upn: str, people: Mapping[str, str]) -> str:
    """Return the key of the document about a person.

    `people` holds the UPN of each relationship document by its key: whoever has one keeps it,
    whatever it is called, because a person is their UPN. The second person of the same name gets
    a mark made from it, and so does one whose name has no letter that a slug can hold.

    Raises:
        InvalidRequest: The name, or a UPN that is needed to tell two people apart, is missing.
    """
    person = upn.strip().casefold()
    known = (key for key in sorted(people) if person and people[key].strip().casefold() == person)
    if existing := next(known, None):
        return existing
    if not name.strip():
        raise InvalidRequest("a relationship needs the name of a person")
    slug = slugify(name)
    plain = f"relationship_{slug}{DOCUMENT_SUFFIX}"
    if slug.strip("_") and fold_key(plain) not in set(map(fold_key, people)):
        return plain
    if not person:
        raise InvalidRequest(
            f"the name {name!r} is not enough to tell a person apart: give the UPN too"
        )
    mark = hashlib.sha256(person.encode()).hexdigest()[:6]
    return f"relationship_{slug.rstrip('_')}_{mark}{DOCUMENT_SUFFIX}"
