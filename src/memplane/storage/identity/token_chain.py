"""Tokens of an Agent User: three hops, each cached until shortly before its own end."""

from __future__ import annotations

import threading
from hmac import compare_digest
from typing import Final, Protocol

from memplane.errors import HopError
from memplane.kit.clock import Clock
from memplane.storage.identity.agent_user import HopToken, Resource

_EXPIRY_MARGIN_S: Final = 300


class TokenExchange(Protocol):
    """Asks for the token of each hop; keeps nothing.

    Every method raises HopError when it is refused, and BackendUnavailable when nobody answers.
    """

    def blueprint_token(self) -> HopToken:
        """Trade the signed assertion for a token of the Blueprint, made out to the agent."""
        ...

    def identity_token(self, blueprint: HopToken) -> HopToken:
        """Trade that for a token of the Agent Identity."""
        ...

    def user_token(self, blueprint: HopToken, identity: HopToken, resource: Resource) -> HopToken:
        """Trade both for a token of the Agent User for a resource."""
        ...


class AgentUserTokens:
    """Hands out tokens for any number of threads; one request is in flight at a time."""

    def __init__(self, exchange: TokenExchange, *, clock: Clock) -> None:
        self._exchange = exchange
        self._clock = clock
        self._lock = threading.Lock()
        self._blueprint: HopToken | None = None
        self._identity: HopToken | None = None
        self._users: dict[Resource, HopToken] = {}
        self._replaced: set[Resource] = set()
        """Resources whose token took the place of one that was refused."""

    def known(self, resource: Resource) -> str | None:
        """Return the cached token, without asking anybody."""
        token = self._users.get(resource)
        return token.value.reveal() if token is not None and self._is_fresh(token) else None

    def token(self, resource: Resource) -> str:
        """Return a token that should be accepted now.

        Raises:
            HopError: One of the three hops was refused.
            BackendUnavailable: Nobody answered.
        """
        with self._lock:
            known = self.known(resource)
            if known is not None:
                return known
            if self._users.pop(resource, None) is not None:
                self._replaced.discard(resource)  # it served until its end
            try:
                user = self._exchange.user_token(
                    self._blueprint_token(), self._identity_token(), resource
                )
            except HopError:
                self._blueprint = self._identity = None
                raise
            self._users[resource] = user
            return user.value.reveal()

    def refused(self, resource: Resource, token: str) -> None:
        """Learn that the service refused a token.

        The last hop is dropped. When the token that took its place is refused too, the two hops
        before it are dropped as well.
        """
        with self._lock:
            current = self._users.get(resource)
            if current is None or not compare_digest(current.value.reveal(), token):
                return  # somebody else was told first
            del self._users[resource]
            if resource in self._replaced:
                self._blueprint = self._identity = None
                self._replaced.clear()
            else:
                self._replaced.add(resource)

    def _blueprint_token(self) -> HopToken:
        if self._blueprint is None or not self._is_fresh(self._blueprint):
            self._blueprint = self._exchange.blueprint_token()
        return self._blueprint

    def _identity_token(self) -> HopToken:
        if self._identity is None or not self._is_fresh(self._identity):
            self._identity = self._exchange.identity_token(self._blueprint_token())
        return self._identity

    def _is_fresh(self, token: HopToken) -> bool:
        return token.expires_at - _EXPIRY_MARGIN_S > self._clock().timestamp()
