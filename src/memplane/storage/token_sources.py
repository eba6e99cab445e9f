"""Sources of bearer tokens for the storage service."""

from __future__ import annotations

import asyncio
from hmac import compare_digest
from typing import Final

from memplane.errors import AuthError, BackendMisconfigured
from memplane.kit.clock import Clock
from memplane.secret import Secret
from memplane.storage.identity.agent_user import Resource
from memplane.storage.identity.token_chain import AgentUserTokens

_STORAGE_SCOPE: Final = "https://storage.azure.com/.default"
_EXPIRY_MARGIN_S: Final = 300


class FixedTokenSource:
    """A token that was given; for emulators and tests."""

    max_refreshes = 1

    def __init__(self, given: Secret) -> None:
        self._given = given

    async def token(self) -> str:
        return self._given.reveal()

    def refused(self, token: str) -> None:
        """Nothing can be done: there is no other token."""


class AgentUserTokenSource:
    """The agent's own tokens for the storage service."""

    max_refreshes = 2
    """The last hop is replaced first, then the earlier ones."""

    def __init__(self, tokens: AgentUserTokens) -> None:
        self._tokens = tokens
        self._refreshing = asyncio.Lock()

    async def token(self) -> str:
        async with self._refreshing:  # or all who wait would occupy a thread each
            known = self._tokens.known(Resource.STORAGE)
            if known is not None:
                return known
            return await asyncio.to_thread(self._tokens.token, Resource.STORAGE)

    def refused(self, token: str) -> None:
        self._tokens.refused(Resource.STORAGE, token)


class AmbientTokenSource:
    """Whatever this machine is logged in as: environment, managed identity, `az login`."""

    max_refreshes = 1

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._known: str | None = None
        self._expires = 0.0
        self._asking = asyncio.Lock()

    async def token(self) -> str:
        async with self._asking:  # one question at a time, whoever asks
            if self._known is None or self._expires - _EXPIRY_MARGIN_S < self._clock().timestamp():
                self._known, self._expires = await _ask_azure_identity()
            return self._known

    def refused(self, token: str) -> None:
        if self._known is not None and compare_digest(token, self._known):
            self._known = None


async def _ask_azure_identity() -> tuple[str, float]:
    # Importing the identity package takes a third of a second; a token is asked for once an hour.
    try:
        from azure.core.exceptions import ClientAuthenticationError  # noqa: PLC0415
        from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415
    except ImportError as error:
        raise BackendMisconfigured(
            "the container is to be opened with this machine's Azure identity, but the library "
            "for that is not installed. Install it: pip install 'memplane[azure]'"
        ) from error

    async with DefaultAzureCredential() as credential:
        try:
            answer = await credential.get_token(_STORAGE_SCOPE)
        except ClientAuthenticationError as error:
            raise AuthError(
                "this machine has no Azure identity that could be used. Log in with `az login`, "
                "or set MEMPLANE_BLOB_CONNECTION_STRING or MEMPLANE_BLOB_SAS_URL"
            ) from error
    return answer.token, float(answer.expires_on)
