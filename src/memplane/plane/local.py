"""A plane in this process, which owns the home."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from memplane.access.grants import TokenWanted
from memplane.access.tokens import TokenRecord, TokenStore
from memplane.home import Home
from memplane.ledger.folder import agents_in
from memplane.memory.contract import (
    Ask,
    ForgetAsked,
    ForgetReceipt,
    MemoryStatus,
    Rebuilt,
    Recalled,
    RetainReceipt,
)
from memplane.objects.outbox import count_waiting
from memplane.observations.contract import OperationalMemory
from memplane.plane.contract import IssuedToken, LedgerStatus, Status, StorageStatus, Token
from memplane.plane.recording import Recording
from memplane.plane.remembering import Remembering
from memplane.secret import Secret
from memplane.spool import waiting_jobs
from memplane.version import VERSION


class StorageSummary(msgspec.Struct, frozen=True):
    """The storage that was chosen; `cache` is its folder on this machine, when it has one."""

    kind: str
    where: str
    reason: str
    complaint: str | None
    cache: Path | None


class LocalPlane(msgspec.Struct, frozen=True):
    """Keeps the Plane contract for the process that owns the home."""

    home: Home
    storage: StorageSummary
    issued: TokenStore
    recording: Recording
    remembering: Remembering

    async def retain(self, agent: str, entry: bytes) -> RetainReceipt:
        return await (await self.remembering.memory()).retain(agent, entry)

    async def recall(self, ask: Ask) -> Recalled:
        answer = await (await self.remembering.memory()).recall(ask)
        return await (await self.remembering.curator()).recalled(ask, answer)

    async def forget(self, asked: ForgetAsked) -> ForgetReceipt:
        receipt = await (await self.remembering.memory()).forget_as_asked(asked)
        curator = await self.remembering.curator()
        checked = await curator.forgotten(asked.agent, receipt.ids, purge=asked.purge)
        if not asked.verify:
            return receipt
        return msgspec.structs.replace(receipt, checked=(*receipt.checked, checked))

    async def memories(self) -> OperationalMemory:
        # Nobody is shown what rests on turns that were forgotten beside this process.
        await (await self.remembering.memory()).bury_all()
        return await self.remembering.curator()

    async def rebuild(self) -> Rebuilt:
        said = await (await self.remembering.memory()).rebuild()
        learned = await (await self.remembering.curator()).rebuild()
        return Rebuilt(tables=(*said.tables, learned.as_table()))

    async def tokens(self) -> tuple[Token, ...]:
        return tuple(map(_about, self.issued.records()))

    async def issue_token(self, wanted: TokenWanted) -> IssuedToken:
        return _issued(*await asyncio.to_thread(self.issued.issue, wanted))

    async def revoke_token(self, token_id: str) -> None:
        await asyncio.to_thread(self.issued.revoke, token_id)

    async def rotate_token(self, token_id: str) -> IssuedToken:
        return _issued(*await asyncio.to_thread(self.issued.rotate, token_id))

    async def status(self) -> Status:
        memory = self.remembering.if_opened
        remembered = await memory.status() if memory is not None else None
        return await asyncio.to_thread(self._status, remembered)

    def _status(self, memory: MemoryStatus | None) -> Status:
        owner = self.home.owner()
        return Status(
            version=VERSION,
            home=str(self.home.path),
            pid=os.getpid(),
            address=owner.address if owner else "",
            storage=self._storage_status(),
            ledger=self._ledger_status(),
            memory=memory,
            jobs=len(waiting_jobs(self.home.spool)),
        )

    def _ledger_status(self) -> LedgerStatus:
        recording = self.recording
        figures = recording.ledger.figures
        return LedgerStatus(
            where=str(recording.root),
            agents=len(agents_in(recording.root)),
            verbatim=recording.verbatim,
            recorded=figures.entries,
            failed=figures.failed,
            refused=figures.refused,
            failing=next(iter(figures.failing.values()), ""),
            degraded=figures.degraded,
            redacted=dict(recording.redacted),
        )

    def _storage_status(self) -> StorageStatus:
        chosen = self.storage
        cache = chosen.cache
        return StorageStatus(
            kind=chosen.kind,
            where=chosen.where,
            reason=chosen.reason,
            complaint=chosen.complaint,
            waiting=count_waiting(cache / "outbox") if cache else 0,
            rejected=_count_files(cache / "rejected") if cache else 0,
            conflicts=_count_files(cache / "conflicts") if cache else 0,
        )


def _count_files(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())


def _about(record: TokenRecord) -> Token:
    return Token(
        id=record.id,
        name=record.name,
        agent=record.agent,
        scopes=record.scopes,
        created=record.created,
        expires=record.expires,
    )


def _issued(record: TokenRecord, token: Secret) -> IssuedToken:
    return IssuedToken(_about(record), token)
