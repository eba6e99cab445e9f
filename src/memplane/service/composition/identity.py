"""The agent's own identity in Azure, as the settings name it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from memplane.errors import BackendMisconfigured
from memplane.kit.clock import system_clock
from memplane.settings import Settings
from memplane.storage.identity.agent_user import AgentUser

if TYPE_CHECKING:
    from memplane.storage.identity.certificate import AgentCertificate
    from memplane.storage.identity.key_store import KeyStore
    from memplane.storage.identity.token_chain import AgentUserTokens
    from memplane.storage.identity.token_exchange import MsalExchange


def find_identity(settings: Settings) -> AgentUser | None:
    """Return the identity that the settings name; None when they name none.

    Raises:
        BackendMisconfigured: They name a part of it.
    """
    azure = settings.azure
    if not (
        azure.blueprint_app_id or azure.agent_id or azure.agent_user_id or azure.agent_user_upn
    ):
        return None
    needed = {
        "MEMPLANE_TENANT_ID": azure.tenant_id,
        "MEMPLANE_BLUEPRINT_APP_ID": azure.blueprint_app_id,
        "MEMPLANE_AGENT_ID": azure.agent_id,
        "MEMPLANE_AGENT_USER_ID": azure.agent_user_id or azure.agent_user_upn,
    }
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise BackendMisconfigured(
            f"the agent's identity is half configured: {', '.join(missing)} not set "
            "(`memplane cloud setup` sets them all)"
        )
    return AgentUser(
        tenant_id=azure.tenant_id,
        blueprint_app_id=azure.blueprint_app_id,
        agent_id=azure.agent_id,
        user_id=azure.agent_user_id,
        user_upn=azure.agent_user_upn,
        authority=azure.authority,
        thumbprint=azure.blueprint_cert_thumbprint,
        algorithm=azure.assertion_algorithm,
        ca_file=settings.blob.ca_file,
        key_folder=settings.home / "keys",
    )


def open_keys(identity: AgentUser) -> KeyStore:
    """Open the store of this machine's private key.

    Raises:
        BackendMisconfigured: The libraries of the extra are not installed.
    """
    from memplane.storage.identity.key_store import open_key_store  # noqa: PLC0415 - of an extra

    return open_key_store(identity.key_folder)


@cache
def open_tokens(identity: AgentUser) -> AgentUserTokens:
    """Return the tokens of an identity: one cache for the whole process.

    Raises:
        BackendMisconfigured: The libraries of the extra are not installed.
    """
    from memplane.storage.identity.token_chain import AgentUserTokens  # noqa: PLC0415 - of an extra

    return AgentUserTokens(open_exchange(identity), clock=system_clock)


def open_exchange(identity: AgentUser) -> MsalExchange:
    """Return what makes the three requests.

    Raises:
        BackendMisconfigured: The libraries of the extra are not installed.
    """
    try:
        from memplane.storage.identity.token_exchange import MsalExchange  # noqa: PLC0415 - of an extra
    except ImportError as error:
        raise BackendMisconfigured(
            "the agent's identity needs libraries that are not installed. Install them: "
            "pip install 'memplane[azure]'"
        ) from error
    return MsalExchange(identity, lambda: read_own_certificate(identity), clock=system_clock)


def read_own_certificate(identity: AgentUser) -> AgentCertificate:
    """Return the certificate that this machine signs with.

    Raises:
        UnusableCertificate: There is none, or it is not the one of the settings.
    """
    from memplane.storage.identity.certificate import (  # noqa: PLC0415 - of an extra
        UnusableCertificate,
        read_certificate,
    )
    from memplane.storage.identity.key_store import KEY_ACCOUNT  # noqa: PLC0415 - of an extra

    pem = open_keys(identity).read(KEY_ACCOUNT)
    if pem is None:
        raise UnusableCertificate(
            "this machine has no certificate yet. `memplane cloud setup` makes one"
        )
    return read_certificate(pem, identity.thumbprint)
