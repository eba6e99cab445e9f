"""Who may answer a turn: a provider, and one place to ask it (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from memplane.secret import Secret


class AuthScheme(StrEnum):
    """How a provider wants its key."""

    BEARER = "bearer"
    X_API_KEY = "x-api-key"
    NONE = "none"


class Provider(msgspec.Struct, frozen=True):
    """A service that runs models, as the operator configured it.

    `base_url` ends without a slash. Only a provider whose `auth` is none may lack a key and still
    be asked.
    """

    name: str
    base_url: str
    key: Secret | None = None
    auth: AuthScheme = AuthScheme.BEARER
    format: str = "openai"

    @property
    def usable(self) -> bool:
        """Whether it has what it takes to be asked."""
        return self.auth is AuthScheme.NONE or bool(self.key)


@dataclass(frozen=True, slots=True)
class UpstreamCandidate:
    """One place to ask: the provider, its own name for the model, and the whole address.

    `model` is empty where the body is passed on as it came. Without a provider's own key the
    client's credentials are its own business, and `key` is None.
    """

    provider: str
    model: str
    url: str = field(repr=False)  # its query may hold what the client keeps secret
    key: Secret | None = None
    auth: AuthScheme = AuthScheme.NONE
