"""A home: its services, where this process owns it, and a client of it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from memplane.auth.token_store import TokenStore
from memplane.episodes.api_types import RetainRequest
from memplane.errors import HomeError, OwnerUnavailable
from memplane.home import Claim, Home
from memplane.kit.clock import system_clock
from memplane.secret import Secret
from memplane.service.composition.files import open_home_files
from memplane.service.composition.ledger import open_ledger_service
from memplane.service.composition.storage import (
    BlobStorage,
    Choice,
    LocalStorage,
    S3Storage,
    announce_choice,
    choose_storage,
    place_of,
)
from memplane.service.lazy_memory import LazyMemory
from memplane.service.ledger_service import LedgerService
from memplane.service.operations import memory
from memplane.service.operations.home import get_status
from memplane.service.services import Services, StorageSummary
from memplane.service.transport import LocalTransport, Transport
from memplane.settings import Settings, load_settings_from_environment
from memplane.telemetry import Telemetry

if TYPE_CHECKING:
    from memplane.service.lazy_memory import OpenedMemory

_OWNER_PATIENCE: Final = 100
_OWNER_PAUSE: Final = 0.05

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_services(
    settings: Settings,
    *,
    admins: Mapping[str, Secret] = MappingProxyType({}),
    serving: bool = False,
) -> AsyncGenerator[Services]:
    """Open the services of the process that owns the home; `admins` may call it over HTTP.

    One that is `serving` answers while its memory still takes in what the ledgers have; a
    command waits for that.
    """
    choice = choose_storage(settings)
    announce_choice(choice)
    home = Home(settings.home)
    tokens = TokenStore(
        home.tokens_file, clock=system_clock, admins=admins, service=settings.service_token
    )
    async with open_ledger_service(settings) as recording:
        remembering = LazyMemory(lambda: _open_remembered(settings, recording, serving=serving))
        try:
            files = open_home_files(settings)
            yield Services(home, _summary(choice), tokens, recording, remembering, files)
        finally:
            await remembering.close()


def _summary(choice: Choice) -> StorageSummary:
    storage = choice.storage
    cache = None if isinstance(storage, LocalStorage) else storage.cache
    kind = {LocalStorage: "local", BlobStorage: "azure", S3Storage: "s3"}[type(storage)]
    return StorageSummary(kind, place_of(storage), choice.reason, choice.complaint, cache)


def _open_remembered(
    settings: Settings, recording: LedgerService, *, serving: bool
) -> AbstractAsyncContextManager[OpenedMemory]:
    # A tenth of a second to import, and most commands remember nothing.
    from memplane.service.composition.memory import open_remembered  # noqa: PLC0415

    return open_remembered(settings, recording, serving=serving)


@asynccontextmanager
async def filling(settings: Settings, services: Services) -> AsyncGenerator[None]:
    """Fill memory from another recorder's history meanwhile, where the settings name one."""
    wanted = settings.fill
    if not (wanted.url and wanted.agents):
        yield
        return
    from memplane.integrations.clawdapus.memory_service.history_import import (  # noqa: PLC0415
        HistorySource,
        import_history,
    )

    async def retain(agent: str, entry: Mapping[str, Any]) -> None:
        body = RetainRequest(agent=agent, entry=msgspec.Raw(msgspec.json.encode(entry)))
        await LocalTransport(services).send(memory.retain, {"body": body})

    async def fill_and_tell() -> None:
        history = HistorySource(wanted.url, wanted.token, wanted.agents)
        for report in await import_history(
            history, retain, checkpoints=settings.state_dir / "fill"
        ):
            if report.problem:
                state = "is filled, but" if report.complete else "is not filled:"
                _log.warning("memory of %s %s %s", report.agent, state, report.problem)
            _log.info("memory of %s has %d more entries", report.agent, report.entries)

    task = asyncio.create_task(fill_and_tell(), name="fill")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def open_telemetry(settings: Settings) -> Telemetry:
    """Open where memory operations tell about themselves."""
    file = Home(settings.home).telemetry_file
    return Telemetry(file, stream=sys.stdout.buffer if settings.telemetry.stdout else None)


def open_command_telemetry(home: Path) -> Telemetry:
    """Open where a command tells about what it did to memory; a pod's state is a home, too.

    It is a file of its own: what serves a home prints its events as well, and an audit of a pod
    reads what was printed.
    """
    return Telemetry(Home(home).commands_file)


@asynccontextmanager
async def own_home(home: Home) -> AsyncGenerator[Claim]:
    """Own the home while the block runs; a command that has it for a moment is waited for.

    Raises:
        HomeError: Another process owns it.
    """
    home.create()
    for _ in range(_OWNER_PATIENCE):
        with home.claim() as claim:
            if claim is not None:
                yield claim
                return
        owner = home.owner()
        if owner and owner.address:
            raise HomeError(
                f"memplane is already up at {owner.address}, with {home.path} as its home"
            )
        await asyncio.sleep(_OWNER_PAUSE)
    raise _stuck(home)


def _stuck(home: Home) -> HomeError:
    owner = home.owner()
    who = f"process {owner.pid}" if owner else "another process"
    return HomeError(f"{who} owns {home.path} and does not answer. End it, or try again later")


@asynccontextmanager
async def open_transport(
    settings: Settings | None = None, *, url: str = "", token: str = "", operator: str = ""
) -> AsyncGenerator[Transport]:
    """Open what carries a client's calls: to a URL, to this process, or to the home's owner.

    Raises:
        HomeError: The home cannot be used, or its owner neither answers nor leaves.
    """
    if url:
        from memplane.service.http_transport import open_remote_transport  # noqa: PLC0415

        async with open_remote_transport(url, Secret(token), operator) as remote:
            yield remote
        return
    settings = settings or load_settings_from_environment()
    home = Home(settings.home)
    home.create()
    for _ in range(_OWNER_PATIENCE):
        with home.claim() as claim:
            if claim is not None:
                async with open_services(settings) as services:
                    yield LocalTransport(services, operator)
                return
        async with _open_owner_transport(home, operator) as owner:
            if owner is not None:
                yield owner
                return
        # The owner is starting, or another command is about to let go.
        await asyncio.sleep(_OWNER_PAUSE)
    raise _stuck(home)


@asynccontextmanager
async def _open_owner_transport(home: Home, operator: str) -> AsyncGenerator[Transport | None]:
    # It needs an HTTP client, which takes a while to import.
    from memplane.service.http_transport import open_owner_transport  # noqa: PLC0415

    async with open_owner_transport(home, operator) as transport:
        yield transport if await transport.is_answered() else None


async def dashboard_address(settings: Settings) -> str:
    """Ask the home's owner for an address that lets one browser into the dashboard, once.

    Raises:
        OwnerUnavailable: Nothing serves this home.
    """
    # It needs an HTTP client, which takes a while to import.
    from memplane.service.http_transport import open_owner_transport  # noqa: PLC0415

    home = Home(settings.home)
    async with open_owner_transport(home) as transport:
        if not await transport.is_answered():
            raise OwnerUnavailable(
                f"nothing serves {home.path}. Start it in another terminal: memplane up"
            )
        # The code stands behind a #, so that no server and no log ever sees it in an address.
        status = await transport.send(get_status, {})
        return f"{status.address}/login#{await transport.dashboard_code()}"
