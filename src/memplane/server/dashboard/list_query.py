"""The list of memories as an address says it: filters, order, groups, links (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast, get_args
from urllib.parse import urlencode

import msgspec

from memplane.errors import InvalidRequest
from memplane.observations.model import Category
from memplane.observations.requests import ExportQuery, Format, MemoryQuery, Sort

PAGE_ROWS: Final = 50
_PARAM_NAMES: Final = (
    *("q", "agent", "service", "category", "state", "tier", "origin"),
    *("contested", "pinned", "stale", "sort", "dir", "group", "user"),
)
_GROUPS: Final = frozenset({"", "service", "category"})
_DESCENDING_SORTS: Final = frozenset({"confidence", "updated", "created"})
"""What is sorted from the highest to the lowest unless somebody wants it otherwise."""


class ListQuery(msgspec.Struct, frozen=True):
    """What the address of a list says; what is not said is left out."""

    said: Mapping[str, str]
    cursor: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> ListQuery:
        """Read an address; names that mean nothing are passed over."""
        said = {name: query[name] for name in _PARAM_NAMES if query.get(name)}
        return cls(said, query.get("cursor", ""))

    @property
    def agent(self) -> str | None:
        """Whose memories; None is everybody's."""
        return self.said.get("agent")

    @property
    def sort(self) -> str:
        """What it is sorted by."""
        return self.said.get("sort", "confidence")

    @property
    def descending(self) -> bool:
        """Whether the highest comes first."""
        return self.said.get("dir", "desc" if self.sort in _DESCENDING_SORTS else "asc") == "desc"

    @property
    def group(self) -> str:
        """What rows stand together by."""
        group = self.said.get("group", "")
        return group if group in _GROUPS else ""

    @property
    def is_narrowed(self) -> bool:
        """Whether anything is filtered out."""
        return bool(self.said.keys() - {"sort", "dir", "group"})

    def query(self) -> MemoryQuery:
        """Return the query for a page of it.

        Raises:
            InvalidRequest: The address asks for something that there is not.
        """
        if self.sort not in get_args(Sort):
            raise InvalidRequest(f"memories cannot be sorted by {self.sort!r}")
        return MemoryQuery(
            **self._filters(),
            sort=cast("Sort", self.sort),
            order="desc" if self.descending else "asc",
            limit=PAGE_ROWS,
            cursor=self.cursor,
        )

    def export_query(self, form: Format) -> ExportQuery:
        """Return the query for a file of the whole list.

        Raises:
            InvalidRequest: The address asks for something that there is not.
        """
        return ExportQuery(**self._filters(), format=form)

    def _filters(self) -> dict[str, Any]:
        said = self.said
        return {
            "service": said.get("service", ""),
            "category": _parse_category(said.get("category")),
            "state": said.get("state"),
            "tier": _parse_tier(said.get("tier")),
            "origin": said.get("origin"),
            "contested": True if said.get("contested") else None,
            "pinned": True if said.get("pinned") else None,
            "stale": True if said.get("stale") else None,
            "q": said.get("q", ""),
            "user": said.get("user"),
        }

    def link(self, **changes: str | None) -> str:
        """Return the address of the same list with something else said; None leaves it out."""
        said = {**self.said, **{name: value or "" for name, value in changes.items()}}
        words = urlencode({name: value for name, value in said.items() if value})
        return f"/memories?{words}" if words else "/memories"

    def toggled(self, name: str, value: str) -> str:
        """Return the address with a filter set, or without it where it is set already."""
        return self.link(**{name: None if self.said.get(name) == value else value})

    def sorted_by(self, sort: str) -> str:
        """Return the address sorted by something, or the other way around."""
        down = sort in _DESCENDING_SORTS
        if sort == self.sort:
            down = not self.descending
        return self.link(sort=sort, dir="desc" if down else "asc")

    def aria_sort(self, sort: str) -> str:
        """Say how a column is sorted, for those who do not see it."""
        if sort != self.sort:
            return "none"
        return "descending" if self.descending else "ascending"

    def export(self, name: str) -> str:
        """Return the address of the whole list as a file."""
        return f"/memories/export?{urlencode({**self.said, 'format': name})}"

    def more(self, cursor: str) -> str:
        """Return the address of the next page."""
        return self.link(cursor=cursor)


def _parse_category(name: str | None) -> Category | None:
    if name is None:
        return None
    if name not in {one.value for one in Category}:
        raise InvalidRequest(f"there is no category {name!r}")
    return Category(name)


def _parse_tier(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise InvalidRequest(f"{text!r} is no tier")
    return int(text)
