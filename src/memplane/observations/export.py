"""Exports of memories, a page at a time, so that few are in memory at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import msgspec

from memplane.observations.api_types import MemoryView
from memplane.observations.export_format import format_csv, format_jsonl, format_markdown
from memplane.observations.model import ObservationState
from memplane.observations.requests import ExportQuery, MemoryQuery, Sort

if TYPE_CHECKING:
    from memplane.observations.service import ObservationService

_PAGE_SIZE: Final = 500


async def _pages(
    memories: ObservationService, agent: str | None, query: MemoryQuery
) -> AsyncIterator[tuple[MemoryView, ...]]:
    """Yield every page, without purged memories, of which nothing is left to show."""
    cursor: str | None = ""
    while cursor is not None:
        page = await memories.page(
            agent, msgspec.structs.replace(query, limit=_PAGE_SIZE, cursor=cursor)
        )
        yield tuple(
            memory for memory in page.memories if memory.state is not ObservationState.PURGED
        )
        cursor = page.next_cursor


async def stream_export(
    memories: ObservationService, agent: str | None, query: ExportQuery
) -> AsyncIterator[str]:
    """Yield the text of an export; the order is by number, or by service for Markdown.

    Raises:
        InvalidRequest: There is no such state; before the first piece.
    """
    filters = msgspec.structs.asdict(query)
    form = filters.pop("format")
    sort: Sort = "service" if form == "md" else "id"
    is_first, below = True, ""
    async for page in _pages(memories, agent, MemoryQuery(**filters, sort=sort, order="asc")):
        match form:
            case "jsonl":
                yield format_jsonl(page)
            case "csv":
                yield format_csv(page, head=is_first)
            case _:
                text, below = format_markdown(page, below=below)
                yield text
        is_first = False
