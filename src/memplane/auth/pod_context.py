"""What a pod says about an agent, and whose token that is. Pure."""

from __future__ import annotations

import hmac
from typing import Final

import msgspec

HISTORY_SERVICE_NAME: Final = "cllama-history"


class ServiceToken(msgspec.Struct, frozen=True):
    """A token by which a service, and not the agent, asks."""

    service: str
    principal: str
    token: str


class PodContext(msgspec.Struct, frozen=True):
    """What a pod says about one agent; without a secret its metadata cannot be used."""

    agent: str
    secret: str | None
    services: tuple[ServiceToken, ...] = ()

    def has_secret(self, secret: str) -> bool:
        """Say whether this is the agent's own secret."""
        return self.secret is not None and _is_same_secret(secret, self.secret)

    def service_of(self, token: str) -> ServiceToken | None:
        """Return the service whose whole token this is."""
        match: ServiceToken | None = None
        for service in self.services:
            if _is_same_secret(token, service.token):
                match = service
        return match


def parse_agent_secret(stored: str, agent: str) -> str | None:
    """Take the secret from `agent:secret`, `Bearer agent:secret` or a bare secret.

    None when there is none, or when it belongs to another agent.
    """
    text = stored.strip()
    scheme, _, credential = text.partition(" ")
    if scheme.lower() == "bearer":
        text = credential.strip()
    owner, colon, secret = text.partition(":")
    if not colon:
        return text or None
    return (secret or None) if owner == agent else None


def _is_same_secret(presented: str, expected: str) -> bool:
    return hmac.compare_digest(
        presented.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass")
    )
