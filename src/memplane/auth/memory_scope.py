"""Whose memory: an agent's, or of one end user or one view of that agent (pure).

Every store, index, cache and page below the interfaces takes one of these, so that no statement
can forget whose rows it may touch. Rows of a scope without a user and without a view are shared
by all users and views of the agent.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final, TypeAlias

from memplane.errors import InvalidRequest

MAX_USER_CHARS: Final = 256

SHARED: Final = ""
"""The user and the view of memories that every user and every view of an agent may see."""


def check_user(user: str) -> str:
    """Return a user's or a view's id as it is stored.

    Raises:
        InvalidRequest: It is empty, too long, or has control characters.
    """
    normal = unicodedata.normalize("NFC", user).strip()
    if not normal:
        raise InvalidRequest("a user is a name of at least one character")
    if len(normal) > MAX_USER_CHARS:
        raise InvalidRequest(
            f"a user is a name of at most {MAX_USER_CHARS} characters, not of {len(normal)}"
        )
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in normal):
        raise InvalidRequest("a user is a name without control characters")
    return normal


def is_valid_user(user: object) -> bool:
    """Whether something that a client sent can be a user's id."""
    try:
        return isinstance(user, str) and bool(check_user(user))
    except InvalidRequest:
        return False


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Where a memory is written: an agent's shared memories, or those of a user or a view."""

    agent: str
    user: str = SHARED
    view: str = SHARED

    @property
    def is_shared(self) -> bool:
        """Whether every user and every view of the agent sees what is written here."""
        return not self.user and not self.view

    def can_see(self, other: MemoryScope) -> bool:
        """Whether a recall in this scope may return what was written in the other one."""
        return (
            other.agent == self.agent
            and other.user in {SHARED, self.user}
            and other.view in {SHARED, self.view}
        )


def make_scope(agent: str, user: str | None = None, view: str | None = None) -> MemoryScope:
    """Return the scope that a caller names; who names no user and no view means what is shared.

    Raises:
        InvalidRequest: The user or the view cannot be one.
    """
    return MemoryScope(agent, _check("user", user), _check("view", view))


def _check(member: str, name: str | None) -> str:
    if name is None:
        return SHARED
    try:
        return check_user(name)
    except InvalidRequest as error:
        raise InvalidRequest(f"{member}: {error}") from error


@dataclass(frozen=True, slots=True)
class WholeAgent:
    """Everything of one agent, whoever its users are: for operators, rebuilds and counters."""

    agent: str

    def can_see(self, other: MemoryScope) -> bool:
        """Whether the other scope is one of this agent's."""
        return other.agent == self.agent


ReadScope: TypeAlias = MemoryScope | WholeAgent
"""What a read may return: what a user may see, or everything of an agent."""
