"""`memplane cloud setup`: from a login to a container that works, or to local memory."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from memplane.cli.cloud_provision import CloudSite
    from memplane.settings import Settings


async def set_up(arguments: argparse.Namespace, settings: Settings) -> int:
    """Set up what was asked for; when that fails, memory stays local, and this says so."""
    from memplane.cli import EXIT_OK, EXIT_USAGE
    from memplane.cli.cloud_console import ask, tell
    from memplane.errors import InvalidRequest, MemplaneError

    if arguments.keep_memory_local:
        return _keep_local(settings)
    if not arguments.use_cloud_memory and not arguments.dry_run:
        if not sys.stdin.isatty():
            tell("memory stays as it is; --use-cloud-memory sets up the cloud")
            return EXIT_OK
        if not await ask("Set up cloud memory in Azure? [y/N]"):
            return _keep_local(settings)
    if not (arguments.yes or arguments.dry_run or sys.stdin.isatty()):
        raise InvalidRequest("there is nobody to ask before the upload, and --yes is missing")
    try:
        return await _set_up_cloud(arguments, settings)
    except (MemplaneError, OSError) as error:
        if arguments.dry_run:
            raise
        _report_failure(settings, error)
        return EXIT_USAGE


async def _set_up_cloud(arguments: argparse.Namespace, settings: Settings) -> int:
    """Create, write down, try, upload. Until all of it is done, memory is local."""
    from memplane.cli import EXIT_OK
    from memplane.cli.cloud_console import tell, tell_to_restart
    from memplane.cli.cloud_provision import print_place
    from memplane.service.composition.cloud import verify_access

    chosen = await _create(arguments, settings)
    if chosen is None:
        return EXIT_OK
    path = _write_down(settings, chosen)
    tell("try the container as the agent")
    await verify_access(chosen, tell=tell)
    code = await _upload(arguments, chosen)
    if code is None:
        tell(f"nothing was uploaded, and memory stays local; {path} says so")
        return EXIT_OK
    _use_cloud(settings, chosen.blob.endpoint, chosen.blob.container)
    tell(
        f"memory is in {chosen.blob.endpoint}/{chosen.blob.container} from now on; {path} says so"
    )
    tell_to_restart(settings)
    print_place(chosen.blob.endpoint, chosen.blob.container)
    return code


async def _create(arguments: argparse.Namespace, settings: Settings) -> Settings | None:
    """Show what is missing and create it; return the settings that name it. None: only shown."""
    from memplane.cli.cloud_console import tell
    from memplane.cli.cloud_provision import open_site, show_plan
    from memplane.home import Home
    from memplane.service.composition.cloud import ensure_own_certificate
    from memplane.storage.provisioning.plan import MONTHLY_COST, plan_provisioning

    async with open_site(arguments, settings) as site:
        steps = plan_provisioning(site.request, site.state)
        tell(f"to create in the subscription {site.request.subscription_id}:")
        show_plan(steps)
        tell(f"it costs {MONTHLY_COST}")
        if arguments.dry_run:
            return None
        Home(settings.home).create()
        tell("register the certificate of this machine")
        tell(f"its key is in {await ensure_own_certificate(site.identity, site.api)}")
        state = await site.provisioner.carry_out(site.state, steps, tell)
        endpoint = state.account.endpoint if state.account is not None else ""
        return _choose(settings, site, endpoint)


def _write_down(settings: Settings, chosen: Settings) -> Path:
    """Write the container down; a home that does not use it yet stays local for now."""
    from memplane.home import Home
    from memplane.service.composition.cloud import KEEP_LOCAL, write_variables

    azure, blob = chosen.azure, chosen.blob
    variables = {
        "MEMPLANE_TENANT_ID": azure.tenant_id,
        "MEMPLANE_BLUEPRINT_APP_ID": azure.blueprint_app_id,
        "MEMPLANE_AGENT_ID": azure.agent_id,
        "MEMPLANE_AGENT_USER_ID": azure.agent_user_id,
        "MEMPLANE_BLOB_ENDPOINT": blob.endpoint,
        "MEMPLANE_BLOB_CONTAINER": blob.container,
    }
    if not _is_in_use(settings, blob.endpoint, blob.container):
        variables |= KEEP_LOCAL
    return write_variables(Home(settings.home), variables)


async def _upload(arguments: argparse.Namespace, chosen: Settings) -> int | None:
    """Ask, and copy what the container does not have; None when the answer was no.

    Raises:
        StorageError: Something could not be uploaded.
    """
    from memplane.cli.cloud_migration import confirm_upload, print_report, run_migration
    from memplane.errors import StorageError

    migration = argparse.Namespace(
        folders=None, source=None, join="", allow_secrets=None, yes=arguments.yes, json=False
    )
    if not arguments.yes and not await confirm_upload(migration, chosen):
        return None
    report = await run_migration(migration, chosen)
    code = print_report(report, file=sys.stderr)
    if report.errors:
        raise StorageError(
            f"{len(report.errors)} files could not be uploaded; they are named above"
        )
    return code


def _choose(settings: Settings, site: CloudSite, endpoint: str) -> Settings:
    """Return the settings as they will be when all is done."""
    from memplane.service.composition.cloud import with_azure, with_container

    identity = site.identity
    chosen = with_azure(settings, tenant_id=identity.tenant_id, agent_user_id=identity.user_id)
    return with_container(chosen, endpoint, site.request.container)


def _is_in_use(settings: Settings, endpoint: str, container: str) -> bool:
    """Say whether this home keeps its memory in that container already."""
    from memplane.service.composition.storage import BlobStorage, choose_storage

    blob = settings.blob
    is_cloud = isinstance(choose_storage(settings).storage, BlobStorage)
    return is_cloud and (blob.endpoint, blob.container) == (endpoint, container)


def _use_cloud(settings: Settings, endpoint: str, container: str) -> None:
    """Let the container count, and see that it does.

    Raises:
        BackendMisconfigured: Another setting goes before it.
    """
    from memplane.home import Home
    from memplane.service.composition.cloud import expect_container, write_variables
    from memplane.settings import load_settings_from_environment

    write_variables(Home(settings.home), {"MEMPLANE_KEEP_MEMORY_LOCAL": None})
    expect_container(
        load_settings_from_environment({"home": str(settings.home)}), endpoint, container
    )


def _keep_local(settings: Settings) -> int:
    """Write down that memory is local, whatever else is set."""
    from memplane.cli import EXIT_OK
    from memplane.cli.cloud_console import tell
    from memplane.home import Home
    from memplane.service.composition.cloud import KEEP_LOCAL, write_variables
    from memplane.service.composition.storage import LocalStorage, choose_storage, place_of

    before = choose_storage(settings).storage
    path = write_variables(Home(settings.home), KEEP_LOCAL)
    tell(f"memory is local: {path} says so (MEMPLANE_KEEP_MEMORY_LOCAL=true)")
    if not isinstance(before, LocalStorage):
        tell(
            f"{place_of(before)} is left as it is. What was written there since it was set up "
            f"is not in {settings.data_dir}"
        )
    return EXIT_OK


def _report_failure(settings: Settings, error: Exception) -> None:
    """Say loudly that it did not work; a home without a container stays local, in writing."""
    from memplane.cli.cloud_console import tell
    from memplane.cli.output import colour_text
    from memplane.home import Home
    from memplane.service.composition.cloud import KEEP_LOCAL, write_variables
    from memplane.service.composition.storage import LocalStorage, choose_storage

    tell(colour_text(f"Setup INCOMPLETE: {error}", "red", sys.stderr))
    if not isinstance(choose_storage(settings).storage, LocalStorage):
        tell("this home keeps its memory in the cloud as before")
        return
    path = write_variables(Home(settings.home), KEEP_LOCAL)
    tell(
        f"memory stays on this machine: {path} says so. What was created in Azure stays; run "
        "this again to go on"
    )
