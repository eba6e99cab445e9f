"""Provisioning: look at what there is, plan, and carry the plan out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from memplane.errors import ProvisioningError
from memplane.kit.clock import Clock
from memplane.storage.provisioning import azure_resources, graph
from memplane.storage.provisioning.azure_api import AzureApi
from memplane.storage.provisioning.plan import (
    STORAGE_APP_ID,
    AccountState,
    CloudState,
    ProvisionRequest,
    Step,
    StepKind,
)


class Provisioner:
    """Works on what one agent has in Azure."""

    def __init__(self, api: AzureApi, request: ProvisionRequest, *, clock: Clock) -> None:
        self._api = api
        self._request = request
        self._clock = clock

    async def inspect(self) -> CloudState:
        """Look at what there is of what is wanted; nothing is changed.

        Raises:
            ProvisioningError: The Agent Identity is not in this tenant.
        """
        api, request = self._api, self._request
        agent_principal = await graph.find_principal(api, request.agent_id)
        if not agent_principal:
            raise ProvisioningError(
                f"there is no Agent Identity {request.agent_id} in this tenant. Check "
                "MEMPLANE_AGENT_ID",
                code="NotFound",
            )
        storage_principal = await graph.find_principal(api, STORAGE_APP_ID)
        grant = None
        if storage_principal:
            grant = await graph.find_grant(
                api,
                agent_principal=agent_principal,
                agent_user_id=request.agent_user_id,
                storage_principal=storage_principal,
            )
        account = await azure_resources.find_account(api, request)
        has_container = account is not None and await azure_resources.has_container(
            api, account, request.container
        )
        return CloudState(
            has_group=await azure_resources.has_group(api, request),
            account=account,
            has_container=has_container,
            has_role=account is not None
            and has_container
            and await azure_resources.has_role(api, account, request),
            storage_principal=storage_principal,
            agent_principal=agent_principal,
            grant=grant,
        )

    async def carry_out(
        self, state: CloudState, steps: Sequence[Step], tell: Callable[[str], None]
    ) -> CloudState:
        """Do each step, and return what there is then.

        Raises:
            ProvisioningError: A step was refused; those before it stay done.
        """
        for number, step in enumerate(steps, 1):
            tell(f"[{number}/{len(steps)}] {step.about}")
            state = await self._do(step.kind, state)
        return state

    async def _do(self, kind: StepKind, state: CloudState) -> CloudState:
        match kind:
            case StepKind.CREATE_GROUP:
                await azure_resources.create_group(self._api, self._request)
            case StepKind.CREATE_ACCOUNT:
                account = await azure_resources.create_account(self._api, self._request)
                return structs.replace(state, account=account)
            case StepKind.ADD_STORAGE_PRINCIPAL:
                added = await graph.add_storage_principal(self._api)
                return structs.replace(state, storage_principal=added)
            case StepKind.GRANT_CONSENT:
                await self._grant_consent(state)
            case _:
                await self._do_in_account(kind, _account_of(state))
        return state

    async def _grant_consent(self, state: CloudState) -> None:
        await graph.grant_consent(
            self._api,
            state.grant,
            agent_principal=state.agent_principal,
            agent_user_id=self._request.agent_user_id,
            storage_principal=state.storage_principal,
            clock=self._clock,
        )

    async def _do_in_account(self, kind: StepKind, account: AccountState) -> None:
        api, request = self._api, self._request
        match kind:
            case StepKind.SECURE_ACCOUNT:
                await azure_resources.secure_account(api, account)
            case StepKind.ENABLE_UNDO:
                await azure_resources.enable_undo(api, account)
            case StepKind.CREATE_CONTAINER:
                await azure_resources.create_container(api, account, request.container)
            case StepKind.ASSIGN_ROLE:
                await azure_resources.assign_role(api, account, request)
            case _:
                await self._remove(kind, account)

    async def _remove(self, kind: StepKind, account: AccountState) -> None:
        api, request = self._api, self._request
        match kind:
            case StepKind.REMOVE_ROLE:
                await azure_resources.remove_role(api, account, request)
            case StepKind.DELETE_CONTAINER:
                await azure_resources.delete_container(api, account, request.container)
            case StepKind.DELETE_ACCOUNT:
                await azure_resources.delete_account(api, account)
            case StepKind.DELETE_GROUP:
                await azure_resources.delete_group(api, request, account.group)
            case _:
                raise AssertionError(kind)


def _account_of(state: CloudState) -> AccountState:
    if state.account is None:
        raise ProvisioningError("there is no storage account")
    return state.account
