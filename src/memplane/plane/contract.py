"""The contract of a plane; `memplane.testing.plane_conformance` checks it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec

from memplane.access.grants import Scope, TokenWanted
from memplane.memory.contract import (
    Ask,
    ForgetAsked,
    ForgetReceipt,
    MemoryStatus,
    Rebuilt,
    Recalled,
    RetainReceipt,
)
from memplane.observations.contract import OperationalMemory
from memplane.secret import Secret


class StorageStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where state lives, and what has not got there yet."""

    kind: str
    where: str
    reason: str
    complaint: str | None = None
    waiting: int = 0
    rejected: int = 0
    conflicts: int = 0


class LedgerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where turns are recorded, and how that goes.

    `failing` is why the last turns were not recorded, `degraded` what an operator should know.
    `redacted` counts secrets taken out since the owner started, by kind.
    """

    where: str
    agents: int
    verbatim: bool = False
    recorded: int = 0
    failed: int = 0
    refused: int = 0
    failing: str = ""
    degraded: str = ""
    redacted: dict[str, int] = {}


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What a plane says about itself."""

    version: str
    home: str
    pid: int
    address: str
    storage: StorageStatus
    ledger: LedgerStatus
    memory: MemoryStatus | None = None
    jobs: int = 0


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token that was issued; without an agent it is an admin's."""

    id: str
    name: str
    agent: str | None
    scopes: tuple[Scope, ...]
    created: datetime
    expires: datetime | None = None


class IssuedToken(msgspec.Struct, frozen=True):
    """A new token, the only time that it can be seen."""

    about: Token
    token: Secret


class TokenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A new token on its way to whoever asked for it."""

    about: Token
    token: str


class Plane(Protocol):
    """What agents and operators ask of memplane; every door calls these.

    Every method may raise OwnerUnavailable where the plane lives in another process.
    """

    async def retain(self, agent: str, entry: bytes) -> RetainReceipt:
        """Keep an entry that was recorded; it is durable and searchable when this returns.

        Raises:
            InvalidRequest: It is no entry, or has no id.
            UnknownAgent: That is no agent's name.
            NotRecorded: It could not be written.
        """
        ...

    async def recall(self, ask: Ask) -> Recalled:
        """Answer a question with what an agent remembers.

        Raises:
            UnknownAgent: That is no agent's name.
        """
        ...

    async def forget(self, asked: ForgetAsked) -> ForgetReceipt:
        """Forget entries for good, also those that have not come yet.

        Raises:
            InvalidRequest: No entry is named, or one that had to be known is not.
            UnknownAgent: That is no agent's name.
        """
        ...

    async def rebuild(self) -> Rebuilt:
        """Derive all memory again from the ledgers; what differs from it is replaced."""
        ...

    async def memories(self) -> OperationalMemory:
        """Return what was learned, for those who ask about it and put it right."""
        ...

    async def status(self) -> Status:
        """Say what is configured, where state lives and what is pending."""
        ...

    async def tokens(self) -> tuple[Token, ...]:
        """Return what is known of every token that was issued and not revoked."""
        ...

    async def issue_token(self, wanted: TokenWanted) -> IssuedToken:
        """Make a token; it is durable and works when this returns.

        Raises:
            InvalidRequest: There may be no such token.
        """
        ...

    async def revoke_token(self, token_id: str) -> None:
        """Let a token be good for nothing, at once.

        Raises:
            UnknownToken: There is none with that id.
        """
        ...

    async def rotate_token(self, token_id: str) -> IssuedToken:
        """Put a new token in the place of the old one, which is good for nothing at once.

        Raises:
            UnknownToken: There is none with that id.
        """
        ...
