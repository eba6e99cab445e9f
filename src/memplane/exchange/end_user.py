"""The person behind an agent's request, as clients name one (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from memplane.auth.memory_scope import SHARED, check_user, is_valid_user
from memplane.kit.json_values import as_object, decode_json_or_none

USER_HEADER: Final = "x-memplane-user"
USER_MEMBERS: Final = frozenset({"safety_identifier", "user", "metadata"})
"""The members of a request that may name its user."""

_ACCOUNT_MARK: Final = "_account_"
_SESSION_MARK: Final = "_session_"
_MAX_CLIENT_ID_CHARS: Final = 4096


class UserSource(StrEnum):
    """Where a request names its user."""

    HEADER = "header"
    SAFETY_IDENTIFIER = "safety_identifier"
    USER = "user"
    USER_ID = "metadata.user_id"
    CLAUDE_ACCOUNT = "claude_account"


class EndUser(msgspec.Struct, frozen=True, omit_defaults=True):
    """An end user, and where the request named them.

    Args:
        id: The user; empty when the request names none that can be used.
        source: Where it was named; None when it was not.
        is_invalid: What was named cannot be a user's id: it is empty, too long, or has control
            characters.
    """

    id: str = ""
    source: UserSource | None = None
    is_invalid: bool = False


NO_USER: Final = EndUser()


def find_end_user(members: Mapping[str, object], header: str | None = None) -> EndUser:
    """Return the user that a request names: its header first, then its body.

    Args:
        members: The decoded members `user`, `safety_identifier` and `metadata` of the body.
        header: The value of `x-memplane-user`, where there is one.
    """
    if header is not None:
        return _user(header, UserSource.HEADER)
    metadata = as_object(members.get("metadata"))
    named = (
        (members.get("safety_identifier"), UserSource.SAFETY_IDENTIFIER),
        (members.get("user"), UserSource.USER),
        (metadata.get("user_id"), UserSource.USER_ID),
    )
    for value, source in named:
        if value is not None:
            return _user(value, source)
    return NO_USER


def find_entry_user(entry: Mapping[str, object]) -> EndUser:
    """Return the user that a recorded turn's own request names."""
    return find_end_user(as_object(entry.get("request_original")))


def _user(value: object, source: UserSource) -> EndUser:
    if source is UserSource.USER_ID and isinstance(value, str):
        account = find_claude_account(value)
        if account is not None:
            return _user(account, UserSource.CLAUDE_ACCOUNT) if account else NO_USER
    if not isinstance(value, str) or not is_valid_user(value):
        return EndUser(source=source, is_invalid=True)
    return EndUser(check_user(value), source)


def find_claude_account(user_id: str) -> str | None:
    """Return the account in Claude Code's `metadata.user_id`, which also names a device.

    It is a JSON object with `account_uuid`, or `user_…_account_…_session_…` of older versions.
    None when the text is of neither form; empty when nobody is signed in.
    """
    if len(user_id) > _MAX_CLIENT_ID_CHARS:
        return None
    if user_id.startswith("{"):
        members = as_object(decode_json_or_none(user_id))
        if "device_id" not in members:
            return None
        account = members.get("account_uuid")
        return account if isinstance(account, str) else ""
    head, account_mark, rest = user_id.partition(_ACCOUNT_MARK)
    account, session_mark, _ = rest.partition(_SESSION_MARK)
    if head.startswith("user_") and account_mark and session_mark:
        return account
    return None


EVERY_AGENT: Final = "*"
"""Among the agents of a setting: all of them."""


class TurnOwner(msgspec.Struct, frozen=True):
    """Whose memory a turn is.

    Args:
        user: The scope of it; empty is shared.
        account: Whom the client named, where that is no scope.
    """

    user: str = SHARED
    account: str = ""


class UserPolicy(msgspec.Struct, frozen=True):
    """Which users that requests name are scopes of memory.

    Args:
        ignored: Agents for which nobody is: all of their memory is shared.
        claude_accounts: Agents for which the account of a Claude Code client is one although they
            hold no token.
    """

    ignored: Collection[str] = ()
    claude_accounts: Collection[str] = ()

    def ignores(self, agent: str) -> bool:
        """Whether all memory of an agent is shared."""
        return _includes(self.ignored, agent)

    def find_owner(self, agent: str, named: EndUser, *, holds_token: bool) -> TurnOwner:
        """Decide whose memory a turn is, by the user that its request names.

        The account of a Claude Code client is no scope by itself: its hooks and commands name no
        account, and must see what the proxy recorded.
        """
        if not named.id:
            return TurnOwner()
        is_account = named.source is UserSource.CLAUDE_ACCOUNT
        is_trusted = holds_token or _includes(self.claude_accounts, agent)
        if self.ignores(agent) or (is_account and not is_trusted):
            return TurnOwner(account=named.id)
        return TurnOwner(user=named.id)


def _includes(agents: Collection[str], agent: str) -> bool:
    return EVERY_AGENT in agents or agent in agents
