"""Names turned into addresses, of which only those are used that may be."""

from __future__ import annotations

import socket
from collections.abc import Collection

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from memplane.proxy.addresses import may_reach


class GuardedResolver(AbstractResolver):
    """Leaves out the addresses that a name may not lead to.

    A connection is made to an address that was checked here, so that the name cannot mean
    something else in between.
    """

    def __init__(
        self, allowed: Collection[str] = (), resolver: AbstractResolver | None = None
    ) -> None:
        self._allowed = frozenset(allowed)
        self._resolver = resolver or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve a name.

        Raises:
            OSError: There is no such name, or it leads nowhere that may be asked.
        """
        found = await self._resolver.resolve(host, port, family)
        usable = [one for one in found if may_reach(host, one["host"], self._allowed)]
        if found and not usable:
            raise OSError(
                "the name leads to a private address, and proxy.allowed_private does not list it"
            )
        return usable

    async def close(self) -> None:
        await self._resolver.close()
