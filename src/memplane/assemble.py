"""The one place that chooses implementations. Nothing below it reads settings."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from memplane.access.tokens import TokenStore
from memplane.clock import system_clock
from memplane.errors import BackendMisconfigured, HomeError, OwnerUnavailable, SettingsError
from memplane.home import Claim, Home
from memplane.ids import new_id
from memplane.ledger.entry import Turn
from memplane.ledger.redacting import redactions
from memplane.ledger.sealing import Modes
from memplane.ledger.tombstones import mirror_of
from memplane.ledger.writer import LedgerOptions, Syncing, open_ledger
from memplane.objects.cached import CachedStore
from memplane.objects.local import LocalStore
from memplane.objects.manifest import ManifestedStore
from memplane.objects.mirror import Mirror
from memplane.objects.outbox import Outbox
from memplane.objects.pacing import Pacing
from memplane.objects.retrying import RetryingStore
from memplane.objects.safekeeping import SafekeepingStore
from memplane.plane.contract import Plane
from memplane.plane.local import LocalPlane, StorageSummary
from memplane.plane.recording import Recording
from memplane.plane.remembering import Remembering
from memplane.redaction.known import known_secrets
from memplane.redaction.redactor import Redactor
from memplane.secret import Secret
from memplane.settings import BlobSettings, Settings, environment, settings_from_environment
from memplane.telemetry import Telemetry

if TYPE_CHECKING:
    from memplane.embedding.contract import Embedder
    from memplane.memory.blocks import Shares
    from memplane.memory.readers import Readers
    from memplane.objects.azure_access import Access
    from memplane.objects.store import ObjectStore
    from memplane.observations.curator import Curator
    from memplane.plane.remembering import Remembered
    from memplane.records.store import Database

_OWNER_PATIENCE: Final = 100
_OWNER_PAUSE: Final = 0.05
_TOLD_READERS: Final = ("PATH", "HOME", "LANG", "PYTHONPATH", "PYTHONHASHSEED", "VIRTUAL_ENV")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """Objects in a folder."""

    root: Path


@dataclass(frozen=True, slots=True)
class BlobStorage:
    """Objects in one container, with its cache on this machine."""

    blob: BlobSettings
    cache: Path


Storage: TypeAlias = LocalStorage | BlobStorage


@dataclass(frozen=True, slots=True)
class Choice:
    """The storage that settings ask for, why, and what is wrong with them."""

    storage: Storage
    reason: str
    complaint: str | None = None


def choose_storage(settings: Settings) -> Choice:
    """Choose where state lives.

    Raises:
        BackendMisconfigured: The cloud is half configured, and the settings are strict.
    """
    local = LocalStorage(settings.data_dir)
    blob = settings.blob
    if settings.keep_memory_local:
        return Choice(local, "MEMPLANE_KEEP_MEMORY_LOCAL is set")
    if blob.sas_url:
        return _cloud(settings, "MEMPLANE_BLOB_SAS_URL is set")
    reachable = blob.endpoint or blob.connection_string
    if reachable and blob.container:
        way = "CONNECTION_STRING" if blob.connection_string else "ENDPOINT"
        return _cloud(settings, f"MEMPLANE_BLOB_{way} and MEMPLANE_BLOB_CONTAINER are set")
    if not reachable and not blob.container:
        return Choice(local, "no container is configured")
    missing = "MEMPLANE_BLOB_CONTAINER" if reachable else "MEMPLANE_BLOB_ENDPOINT"
    complaint = f"the cloud is half configured: {missing} is not set"
    if settings.strict_cloud:
        raise BackendMisconfigured(f"{complaint}. Set it, or set MEMPLANE_KEEP_MEMORY_LOCAL=true")
    return Choice(local, f"{missing} is not set", f"{complaint}, so state stays on this machine")


def _cloud(settings: Settings, reason: str) -> Choice:
    name = fingerprint(settings.blob)
    return Choice(BlobStorage(settings.blob, settings.cache_dir / "blob" / name), reason)


def configured_container(settings: Settings) -> BlobStorage:
    """Return the container that the settings name.

    Raises:
        BackendMisconfigured: They name none.
    """
    choice = choose_storage(settings)
    if not isinstance(choice.storage, BlobStorage):
        raise BackendMisconfigured(
            f"no container to work with: {choice.reason}. Set MEMPLANE_BLOB_ENDPOINT and "
            "MEMPLANE_BLOB_CONTAINER, MEMPLANE_BLOB_SAS_URL, or "
            "MEMPLANE_BLOB_CONNECTION_STRING and MEMPLANE_BLOB_CONTAINER"
        )
    return choice.storage


def fingerprint(blob: BlobSettings) -> str:
    """Name a container so that two of them never share a cache."""
    return hashlib.sha256(container_address(blob).encode()).hexdigest()[:16]


def container_address(blob: BlobSettings) -> str:
    """Return the container's address without anything secret in it."""
    if blob.sas_url:
        parts = urlsplit(blob.sas_url.reveal())
        return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/").lower()
    endpoint = blob.endpoint
    if blob.connection_string:
        pairs = (pair.partition("=") for pair in blob.connection_string.reveal().split(";"))
        fields = {name.lower(): value for name, _, value in pairs}
        account = fields.get("accountname", "")
        suffix = fields.get("endpointsuffix", "core.windows.net")
        endpoint = fields.get("blobendpoint") or f"https://{account}.blob.{suffix}"
    place = urlsplit(endpoint)
    return f"{place.scheme}://{place.netloc}{place.path.rstrip('/')}/{blob.container}".lower()


@asynccontextmanager
async def open_store(storage: Storage, *, cached: bool = True) -> AsyncGenerator[ObjectStore]:
    """Open the store, and close it again; what waits is sent first."""
    match storage:
        case LocalStorage(root):
            yield LocalStore(root)
        case BlobStorage():
            async with AsyncExitStack() as stack:
                container = await stack.enter_async_context(open_container(storage))
                if not cached:
                    yield container
                    return
                cache = storage.cache
                store = CachedStore(
                    container,
                    Mirror(cache / "mirror"),
                    Outbox(cache / "outbox", new_id(), clock=system_clock),
                    clock=system_clock,
                    pacing=Pacing(),
                )
                stack.push_async_callback(store.close)
                await store.open()
                yield store


@asynccontextmanager
async def open_container(storage: BlobStorage) -> AsyncGenerator[ManifestedStore]:
    """Open the container itself: Azure, retried, with safe overwrites and a manifest."""
    # Only where a container is opened: it takes a while to import.
    from memplane.objects.azure import open_azure_store  # noqa: PLC0415

    access = _access(storage.blob)
    pacing = Pacing()
    async with AsyncExitStack() as stack:
        azure = await stack.enter_async_context(open_azure_store(access, pacing=pacing))
        retrying = RetryingStore(azure, pacing=pacing, new_write_id=new_id)
        conflicts = storage.cache / "conflicts"
        keeping = SafekeepingStore(retrying, conflicts, clock=system_clock, pacing=pacing)
        store = ManifestedStore(keeping, clock=system_clock, pacing=pacing)
        stack.push_async_callback(store.close)
        yield store


def _access(blob: BlobSettings) -> Access:
    """Choose the credentials: this is the seam through which every identity comes."""
    from memplane.identity.tokens import AmbientTokens, FixedToken  # noqa: PLC0415
    from memplane.objects.azure_access import (  # noqa: PLC0415
        WithConnectionString,
        WithSas,
        WithTokens,
    )

    if blob.sas_url:
        return WithSas(blob.sas_url, blob.ca_file)
    if blob.connection_string:
        return WithConnectionString(blob.connection_string, blob.container, blob.ca_file)
    tokens = FixedToken(blob.token) if blob.token else AmbientTokens(clock=system_clock)
    return WithTokens(blob.endpoint, blob.container, tokens, blob.ca_file)


def announce_choice(choice: Choice) -> None:
    """Log where state lives and why; half a configuration is never quiet."""
    _log.info("state lives in %s: %s", describe(choice).where, choice.reason)
    if choice.complaint:
        _warn_once(choice.complaint)


@cache
def _warn_once(complaint: str) -> None:
    _log.warning("%s", complaint)


def describe(choice: Choice) -> StorageSummary:
    """Put the choice in words."""
    match choice.storage:
        case LocalStorage(root):
            return StorageSummary("local", str(root), choice.reason, choice.complaint, None)
        case BlobStorage(blob, cache):
            where = container_address(blob)
            return StorageSummary("azure", where, choice.reason, choice.complaint, cache)


@asynccontextmanager
async def open_local_plane(
    settings: Settings,
    *,
    admins: Mapping[str, Secret] = MappingProxyType({}),
    serving: bool = False,
) -> AsyncGenerator[LocalPlane]:
    """Open the plane of the process that owns the home; `admins` may ask it over HTTP.

    One that is `serving` answers while its memory still takes in what the ledgers have; a
    command waits for that.
    """
    choice = choose_storage(settings)
    announce_choice(choice)
    home = Home(settings.home)
    tokens = TokenStore(
        home.tokens_file, clock=system_clock, admins=admins, service=settings.service_token
    )
    async with _open_recording(settings) as recording:
        remembering = Remembering(lambda: _open_memory(settings, recording, serving=serving))
        try:
            yield LocalPlane(home, describe(choice), tokens, recording, remembering)
        finally:
            await remembering.close()


@asynccontextmanager
async def _open_memory(
    settings: Settings, recording: Recording, *, serving: bool
) -> AsyncGenerator[Remembered]:
    # A tenth of a second to import, and most commands remember nothing.
    from memplane.memory.blocks import Shares  # noqa: PLC0415
    from memplane.memory.following import Places  # noqa: PLC0415
    from memplane.memory.memory import Memory, open_memory  # noqa: PLC0415
    from memplane.observations.turns import TurnLearner  # noqa: PLC0415
    from memplane.plane.remembering import Remembered  # noqa: PLC0415
    from memplane.records.sqlite import open_sqlite  # noqa: PLC0415

    home, shares = Home(settings.home), settings.memory
    chosen = Shares(
        timeline=shares.timeline_bytes,
        recent=shares.recent_bytes,
        salient=shares.salient_bytes,
        matches=shares.match_bytes,
    )
    places = Places(
        ledger=recording.root,
        received=home.received,
        tombstones=home.tombstones,
        beside=mirror_of(recording.root),
        scrub=recording.scrub_line if recording.verbatim else None,
    )
    async with (
        open_sqlite(home.database) as records,
        open_ledger(
            home.received,
            scrub=_verbatim,
            clock=system_clock,
            options=_ledger_options(settings),
        ) as received,
        open_memory(
            Memory(
                records,
                home.indexes,
                received,
                places,
                scrub=recording.scrub_line,
                clock=system_clock,
                modes=Modes(settings.ledger.mode),
                shares=chosen,
                embedder=_embedder(settings),
                readers=_readers(settings, home, chosen) if serving else None,
            )
        ) as memory,
    ):
        if not serving:
            await memory.follow()
        async with _open_curator(settings, recording, records) as curator:
            learner = TurnLearner(records, curator, recording.root)
            memory.tell(learner.wake)
            memory.tell_buried(curator.forgotten)
            if not serving:
                await learner.learn()
            learner.wake()
            learning = asyncio.create_task(learner.run(), name="learn-from-turns")
            try:
                yield Remembered(memory, curator)
            finally:
                learning.cancel()
                with suppress(asyncio.CancelledError):
                    await learning


@asynccontextmanager
async def _open_curator(
    settings: Settings, recording: Recording, records: Database
) -> AsyncGenerator[Curator]:
    from memplane.observations.confidence import Profile  # noqa: PLC0415
    from memplane.observations.curator import Curator, open_curator  # noqa: PLC0415
    from memplane.observations.gate import Rules  # noqa: PLC0415
    from memplane.observations.learning import Listening  # noqa: PLC0415
    from memplane.observations.prompt import Contested  # noqa: PLC0415
    from memplane.observations.sessions import Telling  # noqa: PLC0415
    from memplane.observations.writing import Writer  # noqa: PLC0415

    home, ops = Home(settings.home), settings.ops
    profile = Profile(
        initial=ops.initial,
        reinforce=ops.reinforce,
        contradict=ops.contradict,
        grace=timedelta(days=ops.grace_days),
        decay=ops.decay_rate,
        period=timedelta(days=ops.decay_days),
        threshold=ops.threshold,
    )
    rules = Rules(
        services=frozenset(ops.services),
        has_registry=bool(ops.services),
        strict=ops.strict_services,
        cap=ops.session_cap,
        aliases=_aliases(ops.category_aliases),
    )
    telling = Telling(
        budget=ops.memory_budget,
        contested=Contested(ops.contested),
        key=home.redaction_key(),
    )
    async with open_ledger(
        home.events, scrub=_verbatim, clock=system_clock, options=_ledger_options(settings)
    ) as events:
        writer = Writer(
            records=records,
            ledger=events,
            root=home.events,
            profile=profile,
            clock=system_clock,
            modes=Modes(settings.ledger.mode),
        )
        listening = Listening(
            redact=lambda text: recording.redactor().text(text), profile=profile, rules=rules
        )
        async with open_curator(Curator(records, writer, listening, telling)) as curator:
            yield curator


def _aliases(pairs: Iterable[str]) -> dict[str, str]:
    """Read other names of categories.

    Raises:
        SettingsError: One of them is not written as `name=category`.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, category = (part.strip() for part in pair.partition("="))
        if not (name and equals and category):
            raise SettingsError(f"ops.category_aliases has {pair!r}; write name=category")
        found[name] = category
    return found


def _readers(settings: Settings, home: Home, shares: Shares) -> Readers | None:
    """Choose how many processes answer questions; on one core they would only be in the way."""
    from memplane.memory.asking import Opening  # noqa: PLC0415
    from memplane.memory.readers import Readers  # noqa: PLC0415

    cores = _cores()
    if cores == 1 or not settings.memory.readers:
        return None
    opening = Opening(str(home.database), str(home.indexes), shares)
    command = [sys.executable, "-m", "memplane.reader", msgspec.json.encode(opening).decode()]
    # Nothing that this process was told in its environment is theirs to know, but where we are.
    around = environment()
    told = {name: around[name] for name in _TOLD_READERS if name in around}
    return Readers(command, told, min(settings.memory.readers, cores))


def _cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _embedder(settings: Settings) -> Embedder | None:
    """Choose what gives texts vectors; most installations have none.

    Raises:
        SettingsError: Something is missing for it.
    """
    chosen = settings.vectors
    match chosen.source:
        case "static":
            from memplane.embedding.static import StaticEmbedder  # noqa: PLC0415

            return StaticEmbedder()
        case "folder":
            from memplane.embedding.folder import FolderEmbedder  # noqa: PLC0415

            if chosen.folder is None:
                raise SettingsError("vectors.source is folder, and vectors.folder is not set")
            return FolderEmbedder(chosen.folder)
        case "endpoint":
            from memplane.embedding.endpoint import EndpointEmbedder  # noqa: PLC0415

            if not chosen.url or not chosen.model:
                raise SettingsError(
                    "vectors.source is endpoint, and vectors.url or vectors.model is not set"
                )
            return EndpointEmbedder(chosen.url, chosen.model, chosen.key or None)
        case _:
            return None


@asynccontextmanager
async def _open_recording(settings: Settings) -> AsyncGenerator[Recording]:
    chosen = settings.ledger
    redacted: Counter[str] = Counter()
    # Its rules are compiled when the first turn comes, and most commands record none.
    redactor = cache(partial(open_redactor, settings))
    async with open_ledger(
        chosen.dir,
        scrub=_verbatim if chosen.verbatim else redactions(redactor, redacted),
        clock=system_clock,
        options=_ledger_options(settings),
    ) as ledger:
        yield Recording(chosen.dir, ledger, redactor, redacted, chosen.verbatim)


@asynccontextmanager
async def filling(settings: Settings, plane: Plane) -> AsyncGenerator[None]:
    """Fill memory from another recorder's history meanwhile, where the settings name one."""
    wanted = settings.fill
    if not (wanted.url and wanted.agents):
        yield
        return
    from memplane.operate.filling import History, fill  # noqa: PLC0415 - needs an HTTP client

    async def retain(agent: str, entry: Mapping[str, Any]) -> None:
        await plane.retain(agent, msgspec.json.encode(entry))

    async def fill_and_tell() -> None:
        history = History(wanted.url, wanted.token, wanted.agents)
        for report in await fill(history, retain, checkpoints=settings.state_dir / "fill"):
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


def _ledger_options(settings: Settings) -> LedgerOptions:
    chosen = settings.ledger
    return LedgerOptions(
        syncing=Syncing(chosen.fsync),
        max_bytes=chosen.max_bytes,
        queue_bytes=chosen.queue_bytes,
        modes=Modes(chosen.mode),
    )


def _verbatim(turn: Turn) -> Turn:
    return turn


def open_redactor(settings: Settings) -> Redactor:
    """Make the redactor of an installation, which knows every secret this process knows."""
    home = Home(settings.home)
    home.create()
    return Redactor(key=home.redaction_key(), known=_known_secrets(settings))


def log_redactor(settings: Settings) -> Redactor:
    """Make the redactor for what is logged, without touching the home, which may be unusable."""
    return Redactor(key=secrets.token_bytes(), known=_known_secrets(settings))


def _known_secrets(settings: Settings) -> list[Secret]:
    home, blob = Home(settings.home), settings.blob
    known = [blob.connection_string, blob.sas_url, blob.token, settings.admin_token]
    known += [settings.service_token, settings.fill.token, settings.vectors.key]
    with suppress(HomeError):
        known.append(home.existing_token())
    return [one for one in (*known, *known_secrets(environment())) if one]


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
async def open_plane(settings: Settings | None = None) -> AsyncGenerator[Plane]:
    """Open the plane of a home: in this process, or in the one that owns it already.

    Raises:
        HomeError: The home cannot be used, or its owner neither answers nor leaves.
    """
    settings = settings or settings_from_environment()
    home = Home(settings.home)
    home.create()
    for _ in range(_OWNER_PATIENCE):
        with home.claim() as claim:
            if claim is not None:
                async with open_local_plane(settings) as plane:
                    yield plane
                return
        async with _open_remote(home) as remote:
            if remote is not None:
                yield remote
                return
        # The owner is starting, or another command is about to let go.
        await asyncio.sleep(_OWNER_PAUSE)
    raise _stuck(home)


@asynccontextmanager
async def _open_remote(home: Home) -> AsyncGenerator[Plane | None]:
    from memplane.plane.remote import open_remote_plane  # noqa: PLC0415 - needs an HTTP client

    async with open_remote_plane(home) as plane:
        yield plane if await plane.answers() else None


async def dashboard_address(settings: Settings) -> str:
    """Ask the home's owner for an address that lets one browser into the dashboard, once.

    Raises:
        OwnerUnavailable: Nothing serves this home.
    """
    from memplane.plane.remote import open_remote_plane  # noqa: PLC0415 - needs an HTTP client

    home = Home(settings.home)
    async with open_remote_plane(home) as plane:
        if not await plane.answers():
            raise OwnerUnavailable(
                f"nothing serves {home.path}. Start it in another terminal: memplane up"
            )
        # The code stands behind a #, so that no server and no log ever sees it in an address.
        return f"{(await plane.status()).address}/login#{await plane.dashboard_code()}"
