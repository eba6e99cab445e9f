"""Which digests may go, because a larger one holds what they said (pure).

Nothing is removed that was not replaced first: a document of the next kind must cover it, and
must say something. Everything that is not a digest stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Final

import msgspec

from memplane.errors import PersonaError
from memplane.persona.document import Document, parse
from memplane.persona.document_kinds import DocumentKind, detect_kind, find_kind
from memplane.persona.document_names import format_period, parse_period_days

_DAY: Final = timedelta(days=1)


class RetentionVerdict(msgspec.Struct, frozen=True):
    """Whether a document may be removed, and why, or why not."""

    key: str
    is_removable: bool
    reason: str


def judge_retention(
    kind: DocumentKind,
    documents: Mapping[str, bytes],
    *,
    older_than: timedelta,
    today: date,
    seen: date | None = None,
) -> list[RetentionVerdict]:
    """Judge every document of a kind, in order of their keys.

    `documents` is the whole folder, because what replaces a document is in it too. The age counts
    from the last day of a digest's period, and is never less than what the kind asks for. `seen`
    is the newest day that the store has for any of them.

    Raises:
        PersonaError: The clock is behind the documents, so that no age can be trusted.
    """
    read = {key: parse(data) for key, data in documents.items()}
    _refuse_wrong_clock(read, today, (seen, "the store") if seen else None)
    ours = sorted(key for key, document in read.items() if detect_kind(key, document.type) is kind)
    larger = find_kind(kind.rolls_into)
    if larger is None:
        return [_kept(key, f"never removed: {kind.retention}") for key in ours]
    covers = {
        key: document
        for key, document in sorted(read.items())
        if detect_kind(key, document.type) is larger
    }
    judge = _RetentionJudge(
        kind, larger, covers, max(older_than, timedelta(days=kind.days)), today
    )
    return [judge.verdict(key) for key in ours]


class _RetentionJudge(msgspec.Struct, frozen=True):
    kind: DocumentKind
    larger: DocumentKind
    covers: Mapping[str, Document]
    older_than: timedelta
    today: date

    def verdict(self, key: str) -> RetentionVerdict:
        days = parse_period_days(self.kind, key)
        if days is None:
            return _kept(key, f"skipped: its name is not {self.kind.file}")
        first, last = days
        if self.today - last <= self.older_than:
            return _kept(key, f"it is not older than {self.older_than.days} days")
        # A week belongs to the month, and to the year, that its Thursday is in.
        period = format_period(self.larger, first + (last - first) // 2)
        for cover, document in self.covers.items():
            if _covers(document, key, period):
                return RetentionVerdict(key, is_removable=True, reason=f"{cover} covers it")
        return _kept(key, f"no {self.larger.name} of {period} covers it")


def _kept(key: str, reason: str) -> RetentionVerdict:
    return RetentionVerdict(key, is_removable=False, reason=reason)


def _covers(document: Document, key: str, period: str) -> bool:
    """Say whether a digest was made from a document: it names it, or names nothing but its time.

    One that lists its sources without this one was made before it came, from another machine.
    """
    if not _says_something(document.body):
        return False
    sources = document.value("sources")
    if sources and isinstance(sources, tuple):
        stem = key.removesuffix(".md")
        return any(
            isinstance(source, str) and source.removesuffix(".md") == stem for source in sources
        )
    return not sources and document.text_of("period") == period


def _says_something(body: str) -> bool:
    """Say whether there is more than headings and comments: a template replaces nothing."""
    lines = (line.strip() for line in body.split("\n"))
    return any(line and not line.startswith(("#", "<!--")) for line in lines)


def _refuse_wrong_clock(
    read: Mapping[str, Document], today: date, seen: tuple[date, str] | None
) -> None:
    known = [*_dates(read), *([seen] if seen else [])]
    newest, key = max(known, default=(today, ""))
    if newest - today > _DAY:
        raise PersonaError(
            f"the clock says {today}, but {key} is of {newest}: nothing is removed until one of "
            "the two is put right"
        )


def _dates(read: Mapping[str, Document]) -> Iterator[tuple[date, str]]:
    """Yield the day on which each document was certainly there."""
    for key, document in read.items():
        days = parse_period_days(detect_kind(key, document.type), key)
        if days is not None:
            yield days[0], key
        if modified_on := _day_in(document.modified or ""):
            yield modified_on, key


def _day_in(stamp: str) -> date | None:
    try:
        return date.fromisoformat(stamp[:10])
    except ValueError:
        return None
