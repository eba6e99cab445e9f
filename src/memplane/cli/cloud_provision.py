"""`memplane cloud provision`, `deprovision` and `rotate`: what an agent has in Azure."""

from __future__ import annotations

import argparse
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from memplane.settings import Settings
    from memplane.storage.identity.agent_user import AgentUser
    from memplane.storage.provisioning.azure_api import AzureApi
    from memplane.storage.provisioning.login import Subscription
    from memplane.storage.provisioning.plan import AccountState, CloudState, ProvisionRequest, Step
    from memplane.storage.provisioning.provisioner import Provisioner


class CloudSite(NamedTuple):
    """An agent's place in Azure: what it is to have, and what there is."""

    api: AzureApi
    identity: AgentUser
    request: ProvisionRequest
    provisioner: Provisioner
    state: CloudState


@asynccontextmanager
async def open_site(
    arguments: argparse.Namespace, settings: Settings
) -> AsyncGenerator[CloudSite]:
    """Log in and look at what there is; nothing is changed.

    Raises:
        MemplaneError: Nobody is logged in, or it is not clear where, or for whom.
    """
    from msgspec.structs import replace

    from memplane.cli.cloud_console import tell
    from memplane.kit.clock import system_clock
    from memplane.service.composition.cloud import (
        find_login,
        open_operator_api,
        require_identity,
    )
    from memplane.storage.provisioning.graph import find_user
    from memplane.storage.provisioning.provisioner import Provisioner

    operator = await find_login(settings, with_code=arguments.device_code, show=tell)
    async with open_operator_api(settings, operator, tell) as api:
        subscription = await _find_subscription(api, operator.subscription, arguments.subscription)
        identity = require_identity(settings, subscription.tenant_id)
        user = identity.user_id or await find_user(api, identity.user_upn)
        request = _build_request(arguments, subscription, replace(identity, user_id=user))
        provisioner = Provisioner(api, request, clock=system_clock)
        yield CloudSite(
            api,
            replace(identity, user_id=user),
            request,
            provisioner,
            await provisioner.inspect(),
        )


async def _find_subscription(
    api: AzureApi, current: Subscription | None, wanted: str
) -> Subscription:
    from memplane.service.composition.cloud import choose_subscription
    from memplane.storage.provisioning.azure_resources import list_subscriptions

    if current is not None and (not wanted or wanted in {current.id, current.name}):
        return current
    return choose_subscription(await list_subscriptions(api), wanted)


def _build_request(
    arguments: argparse.Namespace, subscription: Subscription, identity: AgentUser
) -> ProvisionRequest:
    import secrets

    from memplane.storage.provisioning.plan import (
        ProvisionRequest,
        check_account_name,
        check_container_name,
        name_account,
        name_container,
        name_new_account,
    )

    account = arguments.with_storage_account or name_account(subscription.tenant_id)
    if arguments.create_new_storage:
        account = name_new_account(subscription.tenant_id, secrets.token_hex(4))
    return ProvisionRequest(
        tenant_id=subscription.tenant_id,
        subscription_id=subscription.id,
        agent_id=identity.agent_id,
        agent_user_id=identity.user_id,
        account=check_account_name(account),
        container=check_container_name(name_container(identity.user_id)),
        group=arguments.resource_group,
        location=arguments.location,
    )


def show_plan(steps: list[Step]) -> None:
    """Print what would be done."""
    from memplane.cli.cloud_console import tell

    for step in steps:
        tell(f"  {step.about}")
    if not steps:
        tell("  nothing: all of it is there")


async def provision(arguments: argparse.Namespace, settings: Settings) -> int:
    """Create what is missing, and print where it is."""
    from memplane.cli import EXIT_OK
    from memplane.cli.cloud_console import tell
    from memplane.storage.provisioning.plan import plan_provisioning

    async with open_site(arguments, settings) as site:
        steps = plan_provisioning(site.request, site.state)
        if arguments.dry_run:
            tell("would do:")
            show_plan(steps)
            _print_outcome(arguments, site.request, site.state.account, steps, is_done=False)
            return EXIT_OK
        state = await site.provisioner.carry_out(site.state, steps, tell)
    _print_outcome(arguments, site.request, state.account, steps, is_done=True)
    return EXIT_OK


def _print_outcome(
    arguments: argparse.Namespace,
    request: ProvisionRequest,
    account: AccountState | None,
    steps: list[Step],
    *,
    is_done: bool,
) -> None:
    from memplane.cli.output import print_json

    endpoint = account.endpoint if account is not None else ""
    if arguments.json:
        print_json(
            {
                "endpoint": endpoint,
                "container": request.container,
                "steps": [step.about for step in steps],
                "done": is_done,
            }
        )
    elif is_done:
        print_place(endpoint, request.container)


def print_place(endpoint: str, container: str) -> None:
    """Print where the container is, for programs."""
    print(f"BLOB_ENDPOINT={endpoint}")
    print(f"BLOB_CONTAINER={container}")


async def deprovision(arguments: argparse.Namespace, settings: Settings) -> int:
    """Delete what the agent has, once its container's name was typed."""
    from memplane.cli import EXIT_OK
    from memplane.cli.cloud_console import tell

    async with open_site(arguments, settings) as site:
        steps = await _plan_removal(arguments, site)
        tell("would do:" if arguments.dry_run else "to do:")
        show_plan(steps)
        if steps and not arguments.dry_run:
            await _confirm_removal(arguments, site.request.container)
            await site.provisioner.carry_out(site.state, steps, tell)
            _report_removal(settings, site, steps)
        done = bool(steps) and not arguments.dry_run
        if arguments.json:
            _print_outcome(arguments, site.request, site.state.account, steps, is_done=done)
    return EXIT_OK


async def _plan_removal(arguments: argparse.Namespace, site: CloudSite) -> list[Step]:
    from memplane.storage.provisioning import azure_resources
    from memplane.storage.provisioning.plan import plan_deprovisioning

    account, request = site.state.account, site.request
    containers: list[str] = []
    resources: list[str] = []
    if account is not None and (arguments.delete_account or arguments.delete_resource_group):
        containers = await azure_resources.list_containers(site.api, account)
    if account is not None and arguments.delete_resource_group:
        resources = await azure_resources.list_group_resources(site.api, request, account.group)
    return plan_deprovisioning(
        request,
        site.state,
        delete_account=arguments.delete_account,
        delete_group=arguments.delete_resource_group,
        other_containers=[name for name in containers if name != request.container],
        other_resources=[
            resource
            for resource in resources
            if account is None or resource.lower() != account.id.lower()
        ],
    )


async def _confirm_removal(arguments: argparse.Namespace, container: str) -> None:
    """See that somebody means it.

    Raises:
        InvalidRequest: Nobody does; nothing was deleted.
    """
    from memplane.cli.cloud_console import read_answer
    from memplane.errors import InvalidRequest

    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequest("nothing was deleted: there is nobody to ask, and --yes is missing")
    if await read_answer(f"Type {container} to delete it:") != container:
        raise InvalidRequest("nothing was deleted: that is another name")


def _report_removal(settings: Settings, site: CloudSite, steps: list[Step]) -> None:
    """Say what is left, and let a home that used the container keep its memory local."""
    from memplane.cli.cloud_console import tell
    from memplane.home import Home
    from memplane.service.composition.cloud import KEEP_LOCAL, write_variables
    from memplane.storage.provisioning.plan import SOFT_DELETE_DAYS, StepKind

    if not any(step.kind is StepKind.DELETE_ACCOUNT for step in steps):
        tell(f"deleted; the account keeps the container for {SOFT_DELETE_DAYS} days")
    tell("the consent and the certificates stay; without the role they open nothing")
    if settings.blob.container != site.request.container:
        return
    path = write_variables(Home(settings.home), KEEP_LOCAL)
    tell(f"memory of this home is local from now on: {path} says so")


async def rotate(arguments: argparse.Namespace, settings: Settings) -> int:
    """Replace this machine's certificate, and print the new one's thumbprint."""
    from memplane.cli import EXIT_OK
    from memplane.cli.cloud_console import tell
    from memplane.errors import BackendMisconfigured
    from memplane.home import Home
    from memplane.service.composition.cloud import (
        find_login,
        open_operator_api,
        rotate_own_certificate,
        write_variables,
    )
    from memplane.service.composition.identity import find_identity

    identity = find_identity(settings)
    if identity is None:
        raise BackendMisconfigured("no agent is configured. `memplane cloud setup` does that")
    operator = await find_login(settings, with_code=arguments.device_code, show=tell)
    async with open_operator_api(settings, operator, tell) as api:
        thumbprint = await rotate_own_certificate(identity, api, tell=tell)
    if settings.azure.blueprint_cert_thumbprint:
        write_variables(Home(settings.home), {"MEMPLANE_BLUEPRINT_CERT_THUMBPRINT": thumbprint})
    tell("this machine has a new certificate, which is proven; the old one is removed")
    print(thumbprint)
    return EXIT_OK
