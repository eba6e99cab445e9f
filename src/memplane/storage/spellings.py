"""Which spelling of a key is in use in a container, so that no two differ only by case."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from memplane.storage.keys import fold_key, refuse_collision


class KeySpellings:
    """Learns the names of a container, by one listing at most, and refuses rivals of them."""

    def __init__(
        self,
        learn_all: Callable[[], Awaitable[object]],
        exists: Callable[[str], Awaitable[bool]],
    ) -> None:
        """`learn_all` lists the container and calls `learn` with what is there."""
        self._learn_all = learn_all
        self._exists = exists
        self._spellings: dict[str, str] = {}
        self._listed_prefixes: set[str] = set()
        self._creating: dict[str, str] = {}
        self._listing_names = asyncio.Lock()

    def learn(self, prefix: str, keys: Iterable[str]) -> None:
        """Take in a complete listing."""
        if not prefix:
            self._spellings.clear()
        self._spellings |= {fold_key(key): key for key in keys}
        self._listed_prefixes.add(prefix)

    def record(self, key: str) -> None:
        """Remember that a key is there."""
        self._spellings[fold_key(key)] = key

    def drop(self, key: str) -> None:
        """Forget a key that is gone."""
        self._spellings.pop(fold_key(key), None)

    @asynccontextmanager
    async def reserve(self, key: str) -> AsyncGenerator[None]:
        """Refuse rivals of a key while it is created, though the service does not know it yet.

        Raises:
            InvalidKey: It differs from another key only by case.
        """
        refuse_collision(key, await self._rival_of(key))
        self._creating[fold_key(key)] = key
        try:
            yield
        finally:
            self._creating.pop(fold_key(key), None)

    async def _rival_of(self, key: str) -> str | None:
        async with self._listing_names:
            if not key.startswith(tuple(self._listed_prefixes)):
                await self._learn_all()
        existing = self._spellings.get(fold_key(key))
        if existing is not None and existing != key and not await self._exists(existing):
            existing = None
        return self._creating.get(fold_key(key), existing)
