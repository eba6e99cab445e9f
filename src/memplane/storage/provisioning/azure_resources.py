"""Azure Resource Manager: groups, accounts, containers, roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import urlsplit

from memplane.errors import ProvisioningError
from memplane.storage.provisioning.azure_api import AzureApi
from memplane.storage.provisioning.login import Subscription
from memplane.storage.provisioning.plan import (
    BLOB_CONTRIBUTOR_ROLE,
    SOFT_DELETE_DAYS,
    AccountState,
    ProvisionRequest,
    name_role_assignment,
)

_RESOURCES: Final = "api-version=2021-04-01"
_STORAGE: Final = "api-version=2023-05-01"
_ROLES: Final = "api-version=2022-04-01"
_SUBSCRIPTIONS: Final = "api-version=2022-12-01"
_MAX_ACCOUNT_POLLS: Final = 60
_POLL_S: Final = 2.0
_PRIVATE: Final = {
    "minimumTlsVersion": "TLS1_2",
    "allowBlobPublicAccess": False,
    "allowSharedKeyAccess": False,
    "supportsHttpsTrafficOnly": True,
}
_RETENTION: Final = {"enabled": True, "days": SOFT_DELETE_DAYS}
_UNDO: Final = {
    "isVersioningEnabled": True,
    "deleteRetentionPolicy": _RETENTION,
    "containerDeleteRetentionPolicy": _RETENTION,
}


async def list_subscriptions(api: AzureApi) -> list[Subscription]:
    """List the subscriptions that the operator can use."""
    found = await _list(api, f"/subscriptions?{_SUBSCRIPTIONS}")
    return [
        Subscription(
            str(item["subscriptionId"]), str(item["tenantId"]), str(item.get("displayName", ""))
        )
        for item in found
        if item.get("state", "Enabled") == "Enabled"
    ]


async def has_group(api: AzureApi, request: ProvisionRequest) -> bool:
    """Say whether the resource group exists."""
    reply = await api.get(api.management, f"{_group_path(request)}?{_RESOURCES}")
    return not reply.is_absent


async def find_account(api: AzureApi, request: ProvisionRequest) -> AccountState | None:
    """Look for the account in the whole subscription."""
    path = (
        f"/subscriptions/{request.subscription_id}/providers/Microsoft.Storage"
        f"/storageAccounts?{_STORAGE}"
    )
    for item in await _list(api, path):
        if item["name"] == request.account:
            return await _describe_account(api, item)
    return None


async def _describe_account(api: AzureApi, item: Mapping[str, Any]) -> AccountState:
    account_id = str(item["id"])
    services = await api.get(api.management, f"{account_id}/blobServices/default?{_STORAGE}")
    properties, undo = item["properties"], services.body.get("properties", {})
    return AccountState(
        id=account_id,
        group=account_id.split("/")[4],
        endpoint=str(properties["primaryEndpoints"]["blob"]).rstrip("/"),
        is_private=all(properties.get(name) == value for name, value in _PRIVATE.items()),
        has_undo=bool(undo.get("isVersioningEnabled"))
        and all(_is_kept(undo.get(name)) for name in _UNDO if name.endswith("Policy")),
    )


def _is_kept(policy: Mapping[str, Any] | None) -> bool:
    """Say whether what is deleted is kept for as long as it should be; longer is fine."""
    return bool(policy and policy.get("enabled")) and (
        int((policy or {}).get("days", 0)) >= SOFT_DELETE_DAYS
    )


async def has_container(api: AzureApi, account: AccountState, container: str) -> bool:
    """Say whether the container exists."""
    reply = await api.get(api.management, f"{_container_path(account, container)}?{_STORAGE}")
    return not reply.is_absent


async def has_role(api: AzureApi, account: AccountState, request: ProvisionRequest) -> bool:
    """Say whether the Agent User has its role on the container."""
    reply = await api.get(api.management, _role_path(account, request))
    return not reply.is_absent


async def list_containers(api: AzureApi, account: AccountState) -> list[str]:
    """List the containers of an account."""
    path = f"{account.id}/blobServices/default/containers?{_STORAGE}"
    return [str(item["name"]) for item in await _list(api, path)]


async def list_group_resources(api: AzureApi, request: ProvisionRequest, group: str) -> list[str]:
    """List the ids of what a resource group has."""
    path = f"/subscriptions/{request.subscription_id}/resourceGroups/{group}/resources"
    return [str(item["id"]) for item in await _list(api, f"{path}?{_RESOURCES}")]


async def create_group(api: AzureApi, request: ProvisionRequest) -> None:
    """Create the resource group."""
    body = {"location": request.location}
    await api.put(api.management, f"{_group_path(request)}?{_RESOURCES}", body)


async def create_account(api: AzureApi, request: ProvisionRequest) -> AccountState:
    """Create the account, and wait until it can be used."""
    path = (
        f"{_group_path(request)}/providers/Microsoft.Storage/storageAccounts/{request.account}"
        f"?{_STORAGE}"
    )
    body = {
        "location": request.location,
        "kind": "StorageV2",
        "sku": {"name": "Standard_LRS"},
        "properties": _PRIVATE,
    }
    await api.put(api.management, path, body)
    for _ in range(_MAX_ACCOUNT_POLLS):
        reply = await api.get(api.management, path)
        if reply.body.get("properties", {}).get("provisioningState") == "Succeeded":
            return await _describe_account(api, reply.body)
        await api.pause(_POLL_S)
    raise ProvisioningError(
        f"the storage account {request.account} is still being created. Try again in a minute"
    )


async def secure_account(api: AzureApi, account: AccountState) -> None:
    """Close the account to public access and shared keys."""
    path = f"{account.id}?{_STORAGE}"
    await api.call_when_known("PATCH", api.management, path, {"properties": _PRIVATE})


async def enable_undo(api: AzureApi, account: AccountState) -> None:
    """Keep versions, and what was deleted."""
    path = f"{account.id}/blobServices/default?{_STORAGE}"
    await api.put(api.management, path, {"properties": _UNDO})


async def create_container(api: AzureApi, account: AccountState, container: str) -> None:
    """Create the container."""
    path = f"{_container_path(account, container)}?{_STORAGE}"
    await api.put(api.management, path, {"properties": {"publicAccess": "None"}})


async def assign_role(api: AzureApi, account: AccountState, request: ProvisionRequest) -> None:
    """Give the Agent User its role on the container, and on nothing else."""
    role = (
        f"/subscriptions/{request.subscription_id}/providers/Microsoft.Authorization"
        f"/roleDefinitions/{BLOB_CONTRIBUTOR_ROLE}"
    )
    properties = {
        "roleDefinitionId": role,
        "principalId": request.agent_user_id,
        "principalType": "User",
    }
    try:
        await api.put(api.management, _role_path(account, request), {"properties": properties})
    except ProvisioningError as error:
        if error.code != "RoleAssignmentExists":  # by another name
            raise


async def remove_role(api: AzureApi, account: AccountState, request: ProvisionRequest) -> None:
    """Take the role away again."""
    await api.delete(api.management, _role_path(account, request))


async def delete_container(api: AzureApi, account: AccountState, container: str) -> None:
    """Delete the container and all in it."""
    await api.delete(api.management, f"{_container_path(account, container)}?{_STORAGE}")


async def delete_account(api: AzureApi, account: AccountState) -> None:
    """Delete the account and all in it."""
    await api.delete(api.management, f"{account.id}?{_STORAGE}")


async def delete_group(api: AzureApi, request: ProvisionRequest, group: str) -> None:
    """Delete a resource group and all in it."""
    path = f"/subscriptions/{request.subscription_id}/resourcegroups/{group}?{_RESOURCES}"
    await api.delete(api.management, path)


def _group_path(request: ProvisionRequest) -> str:
    return f"/subscriptions/{request.subscription_id}/resourcegroups/{request.group}"


def _container_path(account: AccountState, container: str) -> str:
    return f"{account.id}/blobServices/default/containers/{container}"


def _role_path(account: AccountState, request: ProvisionRequest) -> str:
    scope = _container_path(account, request.container)
    name = name_role_assignment(scope, request.agent_user_id)
    return f"{scope}/providers/Microsoft.Authorization/roleAssignments/{name}?{_ROLES}"


async def _list(api: AzureApi, path: str) -> Sequence[Mapping[str, Any]]:
    """Read every page of a list."""
    items: list[Mapping[str, Any]] = []
    while path:
        reply = await api.get(api.management, path)
        if reply.is_absent:
            raise ProvisioningError(f"there is no {path.partition('?')[0]}", code="NotFound")
        items += cast("list[Mapping[str, Any]]", reply.body.get("value", []))
        # The next page is of the same service; its address is not followed elsewhere.
        following = urlsplit(str(reply.body.get("nextLink") or ""))
        path = f"{following.path}?{following.query}" if following.path else ""
    return items
