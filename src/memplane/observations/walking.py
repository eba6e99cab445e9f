"""All memories that somebody asks for, a page at a time, so that there is never more in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from memplane.observations.contract import ListAsked, MemoryView, OperationalMemory, Sort
from memplane.observations.exporting import Format, as_csv, as_jsonl, as_markdown
from memplane.observations.model import State

_PAGE: Final = 500


async def pages(
    memories: OperationalMemory, agent: str | None, asked: ListAsked
) -> AsyncIterator[tuple[MemoryView, ...]]:
    """Yield every page, without what was purged, of which nothing is left to show."""
    cursor: str | None = ""
    while cursor is not None:
        page = await memories.page(
            agent, msgspec.structs.replace(asked, limit=_PAGE, offset=0, cursor=cursor)
        )
        yield tuple(one for one in page.memories if one.state is not State.PURGED)
        cursor = page.next_cursor


async def exported(
    memories: OperationalMemory, agent: str | None, asked: ListAsked, form: Format
) -> AsyncIterator[str]:
    """Write all of them, piece by piece; the order is by number, or by service for Markdown.

    Raises:
        InvalidRequest: There is no such state; before the first piece.
    """
    sort: Sort = "service" if form == "md" else "id"
    ordered = msgspec.structs.replace(asked, sort=sort, descending=False)
    first, below = True, ""
    async for page in pages(memories, agent, ordered):
        match form:
            case "jsonl":
                yield as_jsonl(page)
            case "csv":
                yield as_csv(page, head=first)
            case "md":
                text, below = as_markdown(page, below=below)
                yield text
        first = False
