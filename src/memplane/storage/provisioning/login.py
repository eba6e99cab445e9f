"""Who sets things up in Azure: the operator, through `az` or a sign-in with a code."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, cast

import msgspec

from memplane.errors import AuthError, BackendMisconfigured
from memplane.secret import Secret

_log = logging.getLogger(__name__)
_AZ_TIMEOUT_S: Final = 60
_AZ_CLIENT: Final = "04b07795-8ddb-461a-bbee-02f9e1bf7b46"
"""The public client of the Azure CLI, which Resource Manager knows."""
_GRAPH_CLIENT: Final = "14d82eec-204b-4c2f-b7e8-296a70dab67e"
"""The public client of Microsoft Graph's command line tools, which may ask for what follows."""
_GRAPH_PERMISSIONS: Final[tuple[str, ...]] = (
    "Application.ReadWrite.All",
    "DelegatedPermissionGrant.ReadWrite.All",
    "User.Read.All",
)


class Subscription(msgspec.Struct, frozen=True):
    """A subscription of the operator's."""

    id: str
    tenant_id: str
    name: str


class AzureLogin(Protocol):
    """Hands out the operator's tokens."""

    async def token(self, resource: str) -> Secret:
        """Return a token for a resource such as `https://management.azure.com`.

        Raises:
            AuthError: The operator is not logged in, or did not sign in.
        """
        ...


class AzCliLogin:
    """The login of the `az` program."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._tokens: dict[str, Secret] = {}

    async def subscription(self) -> Subscription | None:
        """Return the subscription that `az` works with; None when nobody is logged in."""
        found = await self._ask("account", "show", "--output", "json")
        if found is None:
            return None
        return Subscription(str(found["id"]), str(found["tenantId"]), str(found.get("name", "")))

    async def token(self, resource: str) -> Secret:
        if resource not in self._tokens:
            found = await self._ask(
                "account", "get-access-token", "--resource", resource, "--output", "json"
            )
            if found is None:
                raise AuthError("`az` has no token to give. Run `az login`, and try again")
            self._tokens[resource] = Secret(str(found["accessToken"]))
        return self._tokens[resource]

    async def _ask(self, *words: str) -> dict[str, Any] | None:
        process = await asyncio.create_subprocess_exec(
            self._program,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_AZ_TIMEOUT_S):
                answer, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AuthError(f"`az` did not answer within {_AZ_TIMEOUT_S} seconds") from None
        if process.returncode != 0:
            _log.debug("az %s ended with %s", " ".join(words[:2]), process.returncode)
            return None
        try:
            return cast("dict[str, Any]", json.loads(answer))
        except ValueError:
            # Not as the cause: what it printed may be a token.
            raise AuthError("`az` printed no JSON. Is it the Azure CLI?") from None


class DeviceCodeLogin:
    """A sign-in in any browser, with a code that is shown here."""

    def __init__(
        self,
        authority: str,
        *,
        graph: str,
        show: Callable[[str], None],
        ca_file: Path | None = None,
    ) -> None:
        self._authority = authority
        self._graph = graph
        self._show = show
        self._ca_file = ca_file
        self._tokens: dict[str, Secret] = {}

    async def token(self, resource: str) -> Secret:
        if resource not in self._tokens:
            self._tokens[resource] = await asyncio.to_thread(self._sign_in, resource)
        return self._tokens[resource]

    def _sign_in(self, resource: str) -> Secret:
        try:
            from memplane.storage.identity.device_sign_in import (  # noqa: PLC0415 - of an extra
                sign_in,
            )
        except ImportError as error:
            raise BackendMisconfigured(
                "signing in needs libraries that are not installed. Install them: "
                "pip install 'memplane[azure]'. Or log in with `az login`"
            ) from error
        client: str = _AZ_CLIENT
        permissions: tuple[str, ...] = (".default",)
        if resource == self._graph:
            client, permissions = _GRAPH_CLIENT, _GRAPH_PERMISSIONS
        scopes = [f"{resource}/{permission}" for permission in permissions]
        return sign_in(self._authority, client, scopes, show=self._show, ca_file=self._ca_file)
