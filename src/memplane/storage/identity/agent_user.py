"""Who the agent is in Azure, and the three hops from this machine's certificate to its tokens."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from memplane.secret import Secret

EXCHANGE_SCOPE: Final = "api://AzureADTokenExchange/.default"
"""What the first two hops ask for: a token that is good for nothing but the next hop."""


class Hop(StrEnum):
    """One step of the chain, as errors name it."""

    BLUEPRINT = "hop1:blueprint"
    AGENT_IDENTITY = "hop2:agent_identity"
    AGENT_USER = "hop3:agent_user"


class Resource(StrEnum):
    """What the last hop asks a token for."""

    STORAGE = "https://storage.azure.com"
    GRAPH = "https://graph.microsoft.com"

    @property
    def scope(self) -> str:
        """Everything that was consented to."""
        return f"{self}/.default"


class AgentUser(msgspec.Struct, frozen=True):
    """An Agent User and what leads to it: Blueprint, Agent Identity, Agent User.

    `key_folder` is where the key of this machine is when there is no key store.
    """

    tenant_id: str
    blueprint_app_id: str
    agent_id: str
    user_id: str
    user_upn: str
    authority: str
    key_folder: Path
    thumbprint: str = ""
    algorithm: str = "PS256"
    ca_file: Path | None = None

    @property
    def token_endpoint(self) -> str:
        """Where every hop asks, and the audience of the assertion."""
        return f"{self.authority}/{self.tenant_id}/oauth2/v2.0/token"


class HopToken(msgspec.Struct, frozen=True):
    """A token, and when it ends, in seconds since 1970."""

    value: Secret
    expires_at: float
