"""`memplane cloud`: an agent's own container, from setting it up to removing it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from memplane.cli.cloud_migration import add_migration_arguments

    actions = parser.add_subparsers(dest="action", required=True)
    _configure_setup(actions.add_parser("setup", help="set up cloud memory, or keep it local"))
    provision = actions.add_parser(
        "provision", help="create what is missing in Azure: account, container, role, consent"
    )
    _add_azure_arguments(provision)
    _configure_deprovision(
        actions.add_parser("deprovision", help="delete the agent's container and its role")
    )
    rotate = actions.add_parser(
        "rotate",
        help="replace this machine's certificate",
        description="Replace this machine's certificate. The old one stays until the new one is "
        "proven; other machines keep theirs. Exit code: 0 replaced; any other, the old one is in "
        "use as before.",
    )
    _add_identity_arguments(rotate)
    rotate.add_argument("--device-code", action="store_true", help=_DEVICE_CODE_HELP)
    migrate = actions.add_parser(
        "migrate",
        help="copy local state into the container; what is there already is skipped",
        description="Copy local state into the container. What is there already is skipped. What "
        "seems to hold a secret, and a persona document that sync would not publish, is held back "
        "and stays on this machine. On a terminal it asks first. Exit code: 0 all copied, 1 "
        "something was held back, 2 something could not be copied.",
    )
    add_migration_arguments(migrate)


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do one of these."""
    match arguments.action:
        case "migrate":
            from memplane.cli.cloud_migration import migrate

            return await migrate(arguments, settings)
        case "setup":
            from memplane.cli.cloud_setup import set_up

            return await set_up(arguments, settings)
        case "provision":
            from memplane.cli.cloud_provision import provision

            return await provision(arguments, settings)
        case "deprovision":
            from memplane.cli.cloud_provision import deprovision

            return await deprovision(arguments, settings)
        case _:
            from memplane.cli.cloud_provision import rotate

            return await rotate(arguments, settings)


_DEVICE_CODE_HELP = "sign in with a code in a browser, also where `az` is logged in"


def _configure_setup(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Set up cloud memory: find a login, create what is missing, register this machine's "
        "certificate, upload local memory, and verify. When something fails, memory stays local. "
        "Exit code: 0 done, 2 memory stays local although the cloud was asked for."
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--use-cloud-memory", action="store_true", help="without asking whether")
    mode.add_argument(
        "--keep-memory-local", action="store_true", help="keep memory on this machine"
    )
    parser.add_argument("--yes", action="store_true", help="upload without asking")
    _add_azure_arguments(parser)


def _configure_deprovision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--delete-account", action="store_true", help="the storage account, too")
    parser.add_argument(
        "--delete-resource-group", action="store_true", help="the account and its group, too"
    )
    parser.add_argument("--yes", action="store_true", help="without typing the container's name")
    _add_azure_arguments(parser)


def _add_azure_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what says where, and for whom."""
    from memplane.storage.provisioning.plan import DEFAULT_GROUP, DEFAULT_LOCATION

    _add_identity_arguments(parser)
    parser.add_argument("--subscription", default="", help="its id or name")
    parser.add_argument("--resource-group", default=DEFAULT_GROUP, help="of a new account")
    parser.add_argument("--location", default=DEFAULT_LOCATION, help="of a new account")
    account = parser.add_mutually_exclusive_group()
    account.add_argument(
        "--with-storage-account", default="", metavar="NAME", help="instead of the tenant's"
    )
    account.add_argument(
        "--create-new-storage", action="store_true", help="a new account beside the tenant's"
    )
    parser.add_argument("--device-code", action="store_true", help=_DEVICE_CODE_HELP)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--json", action="store_true", help="for machines")


def _add_identity_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the settings that name the agent."""
    parser.add_argument("--tenant", dest="azure.tenant_id", metavar="ID", help="its tenant")
    parser.add_argument(
        "--blueprint", dest="azure.blueprint_app_id", metavar="ID", help="the Blueprint's app id"
    )
    parser.add_argument(
        "--agent-identity", dest="azure.agent_id", metavar="ID", help="the Agent Identity's app id"
    )
    parser.add_argument(
        "--agent-user", dest="azure.agent_user_id", metavar="ID", help="its object id"
    )
