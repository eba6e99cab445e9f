"""Names turned into addresses, of which only those are used that may be."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

from memplane.proxy.address_policy import AddressReach, classify_address, is_allowed_address

_RESOLVER_THREADS: Final = 16
_NUMERIC_FLAGS: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class ThreadPoolResolver(AbstractResolver):
    """Asks the system, in threads of its own.

    A lookup can take for ever. In the event loop's threads those for memory services would keep
    providers' names waiting, and a turn with them.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVER_THREADS, thread_name_prefix="resolve")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve a name.

        Raises:
            OSError: There is no such name.
        """
        look_up = partial(
            socket.getaddrinfo,
            host,
            port,
            family=family,
            type=socket.SOCK_STREAM,
            flags=socket.AI_ADDRCONFIG,
        )
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=kind,
                proto=protocol,
                flags=_NUMERIC_FLAGS,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class GuardedResolver(AbstractResolver):
    """Leaves out the addresses that a name may not lead to.

    A connection is made to an address that was checked here, so that the name cannot mean
    something else in between.
    """

    def __init__(
        self, allowed: Collection[str] = (), resolver: AbstractResolver | None = None
    ) -> None:
        self._allowed = frozenset(allowed)
        self._resolver = resolver or ThreadPoolResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve a name.

        Raises:
            OSError: There is no such name, or it leads nowhere that may be asked.
        """
        found = await self._resolver.resolve(host, port, family)
        usable = [one for one in found if is_allowed_address(host, one["host"], self._allowed)]
        if found and not usable:
            raise OSError(_explain_refusal(one["host"] for one in found))
        return usable

    async def close(self) -> None:
        await self._resolver.close()


def _explain_refusal(addresses: Iterable[str]) -> str:
    if any(classify_address(one) is AddressReach.PRIVATE for one in addresses):
        return "the name leads to a private address, and proxy.allowed_private does not list it"
    return "the name leads to an address that is never asked, such as a metadata service's"
