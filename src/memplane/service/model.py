"""What operations about the home return: its status and its tokens (pure)."""

from __future__ import annotations

from datetime import datetime

import msgspec

from memplane.auth.grants import Scope
from memplane.episodes.api_types import MemoryStatus


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
    """What memplane says about itself."""

    version: str
    home: str
    pid: int
    address: str
    storage: StorageStatus
    ledger: LedgerStatus
    memory: MemoryStatus | None = None
    jobs: int = 0
    failing: str = ""
    """Why the last entries that were given to be retained were not kept."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token that was issued; without an agent it is an admin's."""

    id: str
    name: str
    agent: str | None
    scopes: tuple[Scope, ...]
    created: datetime
    expires: datetime | None = None


class IssuedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token. It is shown once, and not in its `repr`."""

    about: Token
    token: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(about={self.about!r})"


class PromptMemoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that wants its memories, but none that comes from the entries it is `without`."""

    agent: str
    prompt: str
    without: tuple[str, ...] = ()


class PromptMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The text to put beside a prompt, empty without a match, and the entries it comes from."""

    text: str = ""
    entry_ids: tuple[str, ...] = ()
