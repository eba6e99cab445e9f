"""The three requests, made by MSAL, which has a flow for each of them."""

from __future__ import annotations

from collections.abc import Callable
from json import JSONDecodeError
from typing import Protocol, cast
from uuid import uuid4

import msal  # pyright: ignore[reportMissingTypeStubs] - it has no types; see _MsalClient
import requests

from memplane.errors import BackendUnavailable, HopError
from memplane.kit.clock import Clock
from memplane.secret import Secret
from memplane.storage.identity.agent_user import (
    EXCHANGE_SCOPE,
    AgentUser,
    Hop,
    HopToken,
    Resource,
)
from memplane.storage.identity.certificate import (
    AgentCertificate,
    UnusableCertificate,
    sign_assertion,
)
from memplane.storage.identity.hop_errors import to_certificate_error, to_hop_error
from memplane.storage.identity.msal_http import MsalHttpClient, is_on_loopback


class _MsalClient(Protocol):
    """What is used of MSAL, which has no types."""

    def acquire_token_for_client(
        self, scopes: list[str], *, fmi_path: str | None = None
    ) -> dict[str, object]: ...

    def acquire_token_by_user_federated_identity_credential(
        self,
        scopes: list[str],
        assertion: str,
        *,
        username: str | None,
        user_object_id: str | None,
        data: dict[str, str],
    ) -> dict[str, object]: ...


class MsalExchange:
    """Asks Microsoft Entra. The certificate is read anew each time: another process may rotate."""

    def __init__(
        self, user: AgentUser, read_certificate: Callable[[], AgentCertificate], *, clock: Clock
    ) -> None:
        self._user = user
        self._read_certificate = read_certificate
        self._clock = clock
        self._http = MsalHttpClient(user.ca_file)

    def blueprint_token(self) -> HopToken:
        try:
            assertion = self._sign()
        except UnusableCertificate as error:
            raise to_certificate_error(error) from None
        return self._ask(
            Hop.BLUEPRINT,
            lambda: self._application(
                self._user.blueprint_app_id, assertion
            ).acquire_token_for_client([EXCHANGE_SCOPE], fmi_path=self._user.agent_id),
        )

    def identity_token(self, blueprint: HopToken) -> HopToken:
        return self._ask(
            Hop.AGENT_IDENTITY,
            lambda: self._application(
                self._user.agent_id, blueprint.value.reveal()
            ).acquire_token_for_client([EXCHANGE_SCOPE]),
        )

    def user_token(self, blueprint: HopToken, identity: HopToken, resource: Resource) -> HopToken:
        return self._ask(
            Hop.AGENT_USER,
            lambda: self._application(
                self._user.agent_id, blueprint.value.reveal()
            ).acquire_token_by_user_federated_identity_credential(
                [resource.scope],
                identity.value.reveal(),
                username=None if self._user.user_id else self._user.user_upn,
                user_object_id=self._user.user_id or None,
                data={"requested_token_use": "on_behalf_of"},
            ),
        )

    def _sign(self) -> str:
        return sign_assertion(
            self._read_certificate(),
            audience=self._user.token_endpoint,
            client_id=self._user.blueprint_app_id,
            assertion_id=str(uuid4()),
            now=self._clock(),
            algorithm=self._user.algorithm,
        )

    def _application(self, client_id: str, assertion: str) -> _MsalClient:
        """Make an application that has nothing cached: neither tokens nor refusals."""
        application = msal.ConfidentialClientApplication(
            client_id,
            client_credential={"client_assertion": lambda: assertion},
            authority=f"{self._user.authority}/{self._user.tenant_id}",
            # What stands in for Microsoft's service in tests is not in Microsoft's list.
            instance_discovery=not is_on_loopback(self._user.authority),
            http_client=self._http,
        )
        return cast("_MsalClient", application)

    def _ask(self, hop: Hop, ask: Callable[[], dict[str, object]]) -> HopToken:
        try:
            reply = ask()
        except (JSONDecodeError, requests.exceptions.JSONDecodeError):
            raise HopError(
                hop, "non_json_response", "something between here and Entra answered instead"
            ) from None
        except (requests.RequestException, ValueError) as error:
            # Not the error itself: its text may hold what was sent.
            raise BackendUnavailable(
                f"{hop}: no usable answer from {self._user.authority} ({type(error).__name__})"
            ) from None
        token, lifetime = reply.get("access_token"), str(reply.get("expires_in"))
        if "error" in reply or not isinstance(token, str):
            raise to_hop_error(hop, reply)
        seconds = int(lifetime) if lifetime.isdecimal() else 0
        return HopToken(Secret(token), self._clock().timestamp() + seconds)
