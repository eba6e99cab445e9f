"""The memory of a plane: its records, its curator, its readers and its vectors."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from memplane.database.interface import Database
from memplane.database.sqlite import database_files, open_sqlite
from memplane.episodes.api_types import RecallBlocks
from memplane.episodes.ledger_follower import MemorySources
from memplane.episodes.provenance import TrustPolicy
from memplane.episodes.recall_worker_pool import RecallWorkerPool
from memplane.episodes.response_builder import ResponseBudget
from memplane.episodes.service import EpisodeService, open_episode_service
from memplane.episodes.worker_protocol import WorkerConfig
from memplane.errors import SettingsError
from memplane.exchange.end_user import UserPolicy
from memplane.home import Home
from memplane.kit.clock import system_clock
from memplane.ledger.segments import FileModes
from memplane.ledger.tombstones import get_mirror_root
from memplane.ledger.writer import open_ledger
from memplane.observations.confidence import Profile
from memplane.observations.event_writer import EventWriter
from memplane.observations.gate import GateRules
from memplane.observations.ingest import IngestPolicy
from memplane.observations.prompt_block import ContestedPolicy
from memplane.observations.service import ObservationService, open_observation_service
from memplane.observations.sessions import PromptPolicy
from memplane.observations.turn_ingest import TurnIngester
from memplane.service.composition.ledger import ledger_options, verbatim
from memplane.service.lazy_memory import OpenedMemory
from memplane.service.ledger_service import LedgerService
from memplane.settings import Settings, get_environment

if TYPE_CHECKING:
    from memplane.search.embeddings.embedder import Embedder

_TOLD_READERS: Final = ("PATH", "HOME", "LANG", "PYTHONPATH", "PYTHONHASHSEED", "VIRTUAL_ENV")


@asynccontextmanager
async def open_remembered(
    settings: Settings, recording: LedgerService, *, serving: bool
) -> AsyncGenerator[OpenedMemory]:
    """Open what a plane remembers: its memory, and the curator that learns from its turns."""
    async with (
        open_sqlite(Home(settings.home).database) as records,
        _open_memory(settings, recording, records, serving=serving) as memory,
        _open_curator(settings, recording, records) as curator,
    ):
        learner = TurnIngester(records, curator, recording.root)
        memory.tell(learner.wake)
        memory.on_forgotten(curator.forgotten)
        if not serving:
            await learner.learn()
        learner.wake()
        learning = asyncio.create_task(learner.run(), name="learn-from-turns")
        try:
            yield OpenedMemory(memory, curator)
        finally:
            learning.cancel()
            with suppress(asyncio.CancelledError):
                await learning


@asynccontextmanager
async def _open_memory(
    settings: Settings, recording: LedgerService, records: Database, *, serving: bool
) -> AsyncGenerator[EpisodeService]:
    home, chosen = Home(settings.home), settings.memory
    shares = ResponseBudget(
        timeline=chosen.timeline_bytes,
        recent=chosen.recent_bytes,
        salient=chosen.salient_bytes,
        matches=chosen.match_bytes,
    )
    places = MemorySources(
        ledger=recording.root,
        received=home.received,
        tombstones=home.tombstones,
        beside=get_mirror_root(recording.root),
        scrub=recording.scrub_line if recording.verbatim else None,
        home=home.path,
        apart=(home.events, home.indexes, *database_files(home.database)),
    )
    async with (
        open_ledger(
            home.received, scrub=verbatim, clock=system_clock, options=ledger_options(settings)
        ) as received,
        open_episode_service(
            EpisodeService(
                records,
                home.indexes,
                received,
                places,
                scrub=recording.scrub_line,
                clock=system_clock,
                modes=FileModes(settings.ledger.mode),
                shares=shares,
                blocks=_choose_blocks(settings),
                users=user_policy(settings),
                trust=TrustPolicy(chosen.trusted_sources),
                embedder=_embedder(settings),
                is_patient=not serving,
                readers=_readers(settings, home, shares) if serving else None,
            )
        ) as memory,
    ):
        if not serving:
            await memory.follow()
        yield memory


@asynccontextmanager
async def _open_curator(
    settings: Settings, recording: LedgerService, records: Database
) -> AsyncGenerator[ObservationService]:
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
    rules = GateRules(
        services=frozenset(ops.services),
        has_registry=bool(ops.services),
        strict=ops.strict_services,
        cap=ops.session_cap,
        aliases=_aliases(ops.category_aliases),
    )
    telling = PromptPolicy(
        budget=ops.memory_budget,
        contested=ContestedPolicy(ops.contested),
        key=home.redaction_key(),
    )
    async with open_ledger(
        home.events, scrub=verbatim, clock=system_clock, options=ledger_options(settings)
    ) as events:
        writer = EventWriter(
            records=records,
            ledger=events,
            root=home.events,
            profile=profile,
            clock=system_clock,
            modes=FileModes(settings.ledger.mode),
        )
        listening = IngestPolicy(
            redact=lambda text: recording.redactor().text(text), profile=profile, rules=rules
        )
        async with open_observation_service(
            ObservationService(records, writer, listening, telling)
        ) as curator:
            yield curator


def user_policy(settings: Settings) -> UserPolicy:
    """Say which users that requests name are scopes of memory."""
    chosen = settings.users
    return UserPolicy(frozenset(chosen.ignore), frozenset(chosen.claude_account))


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


def _choose_blocks(settings: Settings) -> RecallBlocks:
    """Choose what a recall answers: a pod's contract wants more than its answers."""
    if settings.recall.blocks:
        return RecallBlocks(settings.recall.blocks)
    return RecallBlocks.ALL if settings.fill.url else RecallBlocks.ANSWERS


def _readers(settings: Settings, home: Home, shares: ResponseBudget) -> RecallWorkerPool | None:
    """Choose how many processes answer questions; on one core they would only be in the way."""
    cores = _cores()
    if cores == 1 or not settings.memory.readers:
        return None
    trust = TrustPolicy(settings.memory.trusted_sources)
    opening = WorkerConfig(str(home.database), str(home.indexes), shares, trust)
    command = [
        sys.executable,
        "-m",
        "memplane.episodes.recall_worker",
        msgspec.json.encode(opening).decode(),
    ]
    # Nothing that this process was told in its environment is theirs to know, but where we are.
    around = get_environment()
    told = {name: around[name] for name in _TOLD_READERS if name in around}
    return RecallWorkerPool(command, told, min(settings.memory.readers, cores))


def _cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _embedder(settings: Settings) -> Embedder | None:
    """Choose what embeds texts. Without the libraries of an extra, recall works by words.

    Raises:
        SettingsError: Something is missing for it.
    """
    chosen = settings.vectors
    match chosen.source:
        case "builtin":
            from memplane.search.embeddings.minilm import MiniLmEmbedder, is_available  # noqa: PLC0415

            return MiniLmEmbedder() if is_available() else None
        case "folder":
            from memplane.search.embeddings.folder_embedder import FolderEmbedder  # noqa: PLC0415

            if chosen.folder is None:
                raise SettingsError("vectors.source is folder, and vectors.folder is not set")
            return FolderEmbedder(chosen.folder)
        case "endpoint":
            from memplane.search.embeddings.endpoint_embedder import EndpointEmbedder  # noqa: PLC0415

            if not chosen.url or not chosen.model:
                raise SettingsError(
                    "vectors.source is endpoint, and vectors.url or vectors.model is not set"
                )
            return EndpointEmbedder(chosen.url, chosen.model, chosen.key or None)
        case _:
            return None
