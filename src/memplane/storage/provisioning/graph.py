"""Microsoft Graph: the agent's principals, its consent, and the Blueprint's certificates."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import quote

from memplane.errors import ProvisioningError
from memplane.kit.clock import Clock
from memplane.storage.provisioning.azure_api import AzureApi
from memplane.storage.provisioning.plan import CONSENT_SCOPE, STORAGE_APP_ID, ConsentGrant

_MAX_REGISTRATIONS: Final = 3
KeyCredential = Mapping[str, Any]


async def find_user(api: AzureApi, name: str) -> str:
    """Return the object id of a user, by its id or its principal name."""
    reply = await api.get(api.graph, f"/v1.0/users/{quote(name, safe='@')}?$select=id")
    if reply.is_absent:
        raise ProvisioningError(
            f"there is no user {name} in this tenant. Check MEMPLANE_AGENT_USER_ID or "
            "MEMPLANE_AGENT_USER_UPN",
            code="NotFound",
        )
    return str(reply.body["id"])


async def find_principal(api: AzureApi, app_id: str) -> str:
    """Return the object id of an application's principal; empty when there is none."""
    reply = await api.get(
        api.graph, f"/v1.0/servicePrincipals(appId='{quote(app_id)}')?$select=id"
    )
    return "" if reply.is_absent else str(reply.body["id"])


async def add_storage_principal(api: AzureApi) -> str:
    """Add Azure Storage to the tenant."""
    reply = await api.call_when_known(
        "POST", api.graph, "/v1.0/servicePrincipals", {"appId": STORAGE_APP_ID}
    )
    return str(reply.body["id"])


async def find_grant(
    api: AzureApi, *, agent_principal: str, agent_user_id: str, storage_principal: str
) -> ConsentGrant | None:
    """Return the consent for Azure Storage, whatever it allows."""
    wanted = f"clientId eq '{agent_principal}' and principalId eq '{agent_user_id}'"
    reply = await api.get(
        api.graph, f"/v1.0/oauth2PermissionGrants?$filter={quote(wanted, safe='')}"
    )
    for item in cast("list[Mapping[str, Any]]", reply.body.get("value", [])):
        if item["resourceId"] == storage_principal and item["consentType"] == "Principal":
            return ConsentGrant(str(item["id"]), frozenset(str(item["scope"]).split()))
    return None


async def grant_consent(
    api: AzureApi,
    grant: ConsentGrant | None,
    *,
    agent_principal: str,
    agent_user_id: str,
    storage_principal: str,
    clock: Clock,
) -> None:
    """Consent to storage for the Agent User, beside what was consented to before."""
    if grant is not None:
        scopes = " ".join(sorted(grant.scopes | {CONSENT_SCOPE}))
        path = f"/v1.0/oauth2PermissionGrants/{quote(grant.id, safe='')}"
        await api.call_when_known("PATCH", api.graph, path, {"scope": scopes})
        return
    body = {
        "clientId": agent_principal,
        "consentType": "Principal",
        "principalId": agent_user_id,
        "resourceId": storage_principal,
        "scope": CONSENT_SCOPE,
        "startTime": clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    await api.call_when_known("POST", api.graph, "/v1.0/oauth2PermissionGrants", body)


class BlueprintKeys:
    """The certificates on a Blueprint: one for each machine."""

    def __init__(self, api: AzureApi, blueprint_app_id: str) -> None:
        self._api = api
        self._app_id = blueprint_app_id

    async def add(self, certificate_der: bytes, name: str) -> bool:
        """Add a certificate beside those of other machines; say whether it was missing.

        The service replaces the whole list, so it is read again afterwards, in case another
        machine wrote in between.

        Raises:
            ProvisioningError: The list cannot be changed without harm to another machine.
        """
        seen: dict[bytes, KeyCredential] = {}
        added = False
        for _ in range(_MAX_REGISTRATIONS):
            object_id, credentials = await self._read()
            seen |= {_der_of(credential): credential for credential in credentials}
            missing = [der for der in (*seen, certificate_der) if not _has(credentials, der)]
            if not missing:
                return added
            added = True
            restored = [seen[der] for der in missing if der in seen]
            own = [] if certificate_der in seen else [_describe(certificate_der, name)]
            await self._write(object_id, [*credentials, *restored, *own])
        raise ProvisioningError(
            "other machines change the Blueprint's certificates at the same time. Try again"
        )

    async def remove(self, thumbprint: bytes) -> bool:
        """Remove the certificate with this SHA-256, and no other; say whether it was there."""
        object_id, credentials = await self._read()
        kept = [
            credential
            for credential in credentials
            if hashlib.sha256(_der_of(credential)).digest() != thumbprint
        ]
        if len(kept) == len(credentials):
            return False
        await self._write(object_id, kept)
        return True

    async def _read(self) -> tuple[str, list[KeyCredential]]:
        # Without $select the keys themselves are left out, and writing that back would lose them.
        path = f"/v1.0/applications(appId='{quote(self._app_id)}')?$select=id,keyCredentials"
        reply = await self._api.get(self._api.graph, path)
        if reply.is_absent:
            raise ProvisioningError(
                f"there is no Blueprint {self._app_id} in this tenant. Check "
                "MEMPLANE_BLUEPRINT_APP_ID",
                code="NotFound",
            )
        credentials = cast("list[KeyCredential]", reply.body.get("keyCredentials", []))
        for credential in credentials:
            if not credential.get("key"):
                raise ProvisioningError(
                    "Graph does not tell the certificates of other machines, so writing the list "
                    "would lock them out. Sign in as an owner of the Blueprint"
                )
        return str(reply.body["id"]), credentials

    async def _write(self, object_id: str, credentials: Sequence[KeyCredential]) -> None:
        path, body = f"/v1.0/applications/{object_id}", {"keyCredentials": list(credentials)}
        await self._api.call_when_known("PATCH", self._api.graph, path, body)


def _describe(certificate_der: bytes, name: str) -> KeyCredential:
    return {
        "type": "AsymmetricX509Cert",
        "usage": "Verify",
        "key": base64.b64encode(certificate_der).decode(),
        "displayName": name,
    }


def _has(credentials: Sequence[KeyCredential], certificate_der: bytes) -> bool:
    return any(_der_of(credential) == certificate_der for credential in credentials)


def _der_of(credential: KeyCredential) -> bytes:
    return base64.b64decode(str(credential["key"]))
