"""What is to be created, or removed, given what there is. Nothing here does I/O."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final
from uuid import UUID, uuid5

import msgspec

from memplane.errors import InvalidRequest

DEFAULT_GROUP: Final = "memplane-rg"
DEFAULT_LOCATION: Final = "eastus"
SOFT_DELETE_DAYS: Final = 7
CONSENT_SCOPE: Final = "user_impersonation"
STORAGE_APP_ID: Final = "e406a681-f3d4-42a8-90b6-c2b029497af1"
"""Azure Storage itself, in every tenant."""
BLOB_CONTRIBUTOR_ROLE: Final = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
MONTHLY_COST: Final = (
    "about $0.05 to $0.50 a month for each Agent User (locally redundant, below 1 GB and 10,000 "
    "transactions a day)"
)
_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER: Final = re.compile(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*")
_ROLE_NAMESPACE: Final = UUID("6f1c7f0a-6a86-4a3c-9d6e-0d1f6f3f1a52")


class ProvisionRequest(msgspec.Struct, frozen=True):
    """What an agent is to have, and where."""

    tenant_id: str
    subscription_id: str
    agent_id: str
    agent_user_id: str
    account: str
    container: str
    group: str = DEFAULT_GROUP
    location: str = DEFAULT_LOCATION


class AccountState(msgspec.Struct, frozen=True):
    """A storage account as it is."""

    id: str
    group: str
    endpoint: str
    is_private: bool
    """TLS 1.2 at least, no public access, no shared key."""
    has_undo: bool
    """Versions, and soft delete of blobs and containers."""


class ConsentGrant(msgspec.Struct, frozen=True):
    """What the Agent User consented to for the Agent Identity."""

    id: str
    scopes: frozenset[str]


class CloudState(msgspec.Struct, frozen=True):
    """What there is of it."""

    has_group: bool
    account: AccountState | None
    has_container: bool
    has_role: bool
    storage_principal: str
    """Object id of Azure Storage in this tenant; empty when the tenant has none yet."""
    agent_principal: str
    """Object id of the Agent Identity."""
    grant: ConsentGrant | None


class StepKind(StrEnum):
    """The kinds of steps, in the order in which they are done."""

    CREATE_GROUP = "create group"
    CREATE_ACCOUNT = "create account"
    SECURE_ACCOUNT = "secure account"
    ENABLE_UNDO = "enable undo"
    CREATE_CONTAINER = "create container"
    ASSIGN_ROLE = "assign role"
    ADD_STORAGE_PRINCIPAL = "add storage principal"
    GRANT_CONSENT = "grant consent"
    REMOVE_ROLE = "remove role"
    DELETE_CONTAINER = "delete container"
    DELETE_ACCOUNT = "delete account"
    DELETE_GROUP = "delete group"


class Step(msgspec.Struct, frozen=True):
    """One thing to do, and what to call it."""

    kind: StepKind
    about: str


def plan_provisioning(request: ProvisionRequest, state: CloudState) -> list[Step]:
    """List what is missing, in the order in which it can be created."""
    account, container = request.account, request.container
    needed = [
        (
            state.account is None and not state.has_group,
            Step(
                StepKind.CREATE_GROUP,
                f"create the resource group {request.group} in {request.location}",
            ),
        ),
        (
            state.account is None,
            Step(
                StepKind.CREATE_ACCOUNT,
                f"create the storage account {account} (TLS 1.2, no public access, no shared key)",
            ),
        ),
        (
            state.account is not None and not state.account.is_private,
            Step(
                StepKind.SECURE_ACCOUNT,
                f"close {account} to public access and shared keys, and require TLS 1.2",
            ),
        ),
        (
            state.account is None or not state.account.has_undo,
            Step(
                StepKind.ENABLE_UNDO,
                f"keep versions and what was deleted for {SOFT_DELETE_DAYS} days in {account}",
            ),
        ),
        (
            not state.has_container,
            Step(StepKind.CREATE_CONTAINER, f"create the container {container}"),
        ),
        (
            not state.has_role,
            Step(
                StepKind.ASSIGN_ROLE,
                f"let the Agent User read and write in {container}, and nowhere else",
            ),
        ),
        (
            not state.storage_principal,
            Step(StepKind.ADD_STORAGE_PRINCIPAL, "add Azure Storage to this tenant"),
        ),
        (
            state.grant is None or CONSENT_SCOPE not in state.grant.scopes,
            Step(
                StepKind.GRANT_CONSENT,
                "let the Agent Identity use Azure Storage for the Agent User",
            ),
        ),
    ]
    return [step for is_needed, step in needed if is_needed]


def plan_deprovisioning(
    request: ProvisionRequest,
    state: CloudState,
    *,
    delete_account: bool,
    delete_group: bool,
    other_containers: Sequence[str],
    other_resources: Sequence[str],
) -> list[Step]:
    """List what is to be removed. What belongs to others stops it.

    Raises:
        InvalidRequest: The account has other agents' containers, or the group other resources.
    """
    if state.account is None:
        return []
    if (delete_account or delete_group) and other_containers:
        raise InvalidRequest(
            f"the account {request.account} has other containers: {', '.join(other_containers)}. "
            "Remove them first, or leave the account"
        )
    if delete_group and other_resources:
        raise InvalidRequest(
            f"the resource group {state.account.group} has more than this account: "
            f"{', '.join(other_resources)}. Remove that first, or leave the group"
        )
    steps: list[Step] = []
    if state.has_role:
        steps.append(
            Step(StepKind.REMOVE_ROLE, f"remove the Agent User's role in {request.container}")
        )
    if state.has_container:
        steps.append(
            Step(
                StepKind.DELETE_CONTAINER,
                f"delete the container {request.container} and all in it",
            )
        )
    if delete_account or delete_group:
        steps.append(
            Step(StepKind.DELETE_ACCOUNT, f"delete the storage account {request.account}")
        )
    if delete_group:
        steps.append(
            Step(StepKind.DELETE_GROUP, f"delete the resource group {state.account.group}")
        )
    return steps


def name_account(tenant_id: str) -> str:
    """Name the one account of a tenant; always the same."""
    return "memplane" + hashlib.sha256(tenant_id.lower().encode()).hexdigest()[:16]


def name_new_account(tenant_id: str, random_hex: str) -> str:
    """Name an account beside the usual one."""
    return f"memplane{hashlib.sha256(tenant_id.lower().encode()).hexdigest()[:8]}{random_hex[:8]}"


def name_container(agent_user_id: str) -> str:
    """Name the container of an Agent User."""
    return f"agent-{agent_user_id.lower()}"


def name_role_assignment(scope: str, agent_user_id: str) -> str:
    """Name the assignment of the role: always the same, so that it is made once."""
    return str(uuid5(_ROLE_NAMESPACE, f"{scope}/{agent_user_id}".lower()))


def check_account_name(name: str) -> str:
    """Return an account's name, if Azure takes it.

    Raises:
        InvalidRequest: It does not.
    """
    if not _ACCOUNT.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} cannot name a storage account: 3 to 24 small letters and digits"
        )
    return name


def check_container_name(name: str) -> str:
    """Return a container's name, if Azure takes it.

    Raises:
        InvalidRequest: It does not.
    """
    if not _CONTAINER.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} cannot name a container: 3 to 63 small letters, digits and single dashes "
            "between them"
        )
    return name
