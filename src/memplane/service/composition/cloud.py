"""Setting up the cloud: the operator's login, the agent's place, and what is written down."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import structs

from memplane.errors import (
    BackendMisconfigured,
    ConcurrencyError,
    ContainerMissing,
    HopError,
    InvalidRequest,
    PermissionDenied,
    SettingsError,
)
from memplane.home import Home
from memplane.kit.clock import system_clock
from memplane.kit.ids import new_id
from memplane.kit.private_files import replace_private_file
from memplane.kit.retry_clock import RetryClock
from memplane.service.composition.identity import find_identity, open_keys
from memplane.service.composition.storage import (
    BlobStorage,
    choose_storage,
    configured_container,
    open_store,
)
from memplane.settings import Settings, get_environment
from memplane.settings.dotenv_file import edit_dotenv
from memplane.storage.identity.agent_user import AgentUser, Resource
from memplane.storage.provisioning.azure_api import AzureApi, open_azure_api
from memplane.storage.provisioning.graph import BlueprintKeys
from memplane.storage.provisioning.login import (
    AzCliLogin,
    AzureLogin,
    DeviceCodeLogin,
    Subscription,
)
from memplane.storage.store import Absent, Anything

if TYPE_CHECKING:
    from memplane.storage.identity.certificate import AgentCertificate

_PROPAGATION_PAUSES_S: Final = (15.0, 30.0, 45.0, 60.0, 60.0, 60.0)
"""A consent takes up to two minutes to arrive, a role up to five."""
_NOT_ARRIVED_YET: Final = frozenset({"AADSTS65001", "AADSTS700027", "invalid_client"})
KEEP_LOCAL: Final = {"MEMPLANE_KEEP_MEMORY_LOCAL": "true"}


class OperatorLogin(msgspec.Struct, frozen=True):
    """Who sets things up, and the subscription that `az` works with, where there is `az`."""

    login: AzureLogin
    subscription: Subscription | None


async def find_login(
    settings: Settings, *, with_code: bool, show: Callable[[str], None]
) -> OperatorLogin:
    """Find the login of `az`; without one, or `with_code`, it is a sign-in with a code."""
    program = shutil.which("az", path=get_environment().get("PATH"))
    if program and not with_code:
        az = AzCliLogin(program)
        subscription = await az.subscription()
        if subscription is not None:
            return OperatorLogin(az, subscription)
    return OperatorLogin(sign_in_with_code(settings, show), None)


def sign_in_with_code(settings: Settings, show: Callable[[str], None]) -> DeviceCodeLogin:
    """Return a login that shows a code when a token is first needed."""
    azure = settings.azure
    return DeviceCodeLogin(
        f"{azure.authority}/{azure.tenant_id or 'organizations'}",
        graph=azure.graph,
        show=show,
        ca_file=settings.blob.ca_file,
    )


@asynccontextmanager
async def open_operator_api(
    settings: Settings, operator: OperatorLogin, show: Callable[[str], None]
) -> AsyncGenerator[AzureApi]:
    """Open Resource Manager and Graph for the operator."""
    is_az = isinstance(operator.login, AzCliLogin)
    if operator.subscription is not None:  # who signs in for Graph is to be of the same tenant
        settings = with_azure(settings, tenant_id=operator.subscription.tenant_id)
    async with open_azure_api(
        operator.login,
        graph=settings.azure.graph,
        management=settings.azure.management,
        pacing=RetryClock(),
        graph_login=(lambda: sign_in_with_code(settings, show)) if is_az else None,
        ca_file=settings.blob.ca_file,
    ) as api:
        yield api


def choose_subscription(known: Sequence[Subscription], wanted: str) -> Subscription:
    """Return the subscription that is meant, by id or name.

    Raises:
        InvalidRequest: There is none, or it is not clear which one.
    """
    matches = [item for item in known if not wanted or wanted in {item.id, item.name}]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(f"{item.name} ({item.id})" for item in known) or "none"
    raise InvalidRequest(f"name one subscription with --subscription. There are: {names}")


def require_identity(settings: Settings, tenant_id: str) -> AgentUser:
    """Return the Agent User that the settings name, in the tenant of the subscription.

    Raises:
        BackendMisconfigured: They name none, or only a part of it, or another tenant.
    """
    azure = settings.azure
    if azure.tenant_id and azure.tenant_id != tenant_id:
        raise BackendMisconfigured(
            f"the login is for the tenant {tenant_id}, but MEMPLANE_TENANT_ID is "
            f"{azure.tenant_id}. Log in to that one: az login --tenant {azure.tenant_id}"
        )
    identity = find_identity(with_azure(settings, tenant_id=tenant_id))
    if identity is None:
        raise BackendMisconfigured(
            "no agent is named. Give --blueprint, --agent-identity and --agent-user, or set "
            "MEMPLANE_BLUEPRINT_APP_ID, MEMPLANE_AGENT_ID and MEMPLANE_AGENT_USER_ID"
        )
    return identity


def with_azure(settings: Settings, **changes: str) -> Settings:
    """Return the settings with another identity."""
    return replace(settings, azure=replace(settings.azure, **changes))


def with_container(settings: Settings, endpoint: str, container: str) -> Settings:
    """Return the settings with a container, and nothing that goes before it."""
    blob = replace(settings.blob, endpoint=endpoint, container=container)
    return replace(settings, blob=blob, keep_memory_local=False)


def write_variables(home: Home, changes: Mapping[str, str | None]) -> Path:
    """Write variables into the home's `.env`, for this user alone; its other lines stay.

    Raises:
        HomeError: It cannot be written.
        SettingsError: It cannot be read.
    """
    home.create()
    path = home.path / ".env"
    try:
        before = path.read_text("utf-8")
    except FileNotFoundError:
        before = ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    replace_private_file(path.resolve(), edit_dotenv(before, changes).encode())
    return path


def find_running_owner(home: Home) -> int | None:
    """Return the process that owns the home, which goes on with the settings of its start."""
    if not home.path.is_dir():
        return None
    with home.claim() as claim:
        if claim is not None:
            return None
        owner = home.owner()
        return owner.pid if owner is not None else None


def expect_container(settings: Settings, endpoint: str, container: str) -> None:
    """See that what was written is what counts from now on.

    Raises:
        BackendMisconfigured: Another setting goes before it.
    """
    choice = choose_storage(settings)
    blob = settings.blob
    is_chosen = isinstance(choice.storage, BlobStorage) and choice.storage.identity is not None
    if not is_chosen or (blob.endpoint, blob.container) != (endpoint, container):
        raise BackendMisconfigured(
            f"the new configuration does not count, because {choice.reason}. Unset that, and "
            "run this again"
        )


async def verify_access(
    settings: Settings, *, tell: Callable[[str], None], pacing: RetryClock | None = None
) -> None:
    """Write, read and delete a test key as the Agent User, waiting for consent and role.

    Raises:
        MemplaneError: It cannot be done, and what is missing.
    """

    async def check() -> None:
        key = f"state/setup-{new_id()}.txt"
        async with open_store(configured_container(settings), cached=False) as store:
            await store.write(key, b"setup\n", expect=Absent())
            back = await store.read(key)
            await store.delete(key, expect=Anything())
        if back is None:
            raise ConcurrencyError("what was written is gone", key=key)

    await _when_arrived(check, tell, pacing or RetryClock())


async def prove_certificate(
    identity: AgentUser,
    certificate: AgentCertificate,
    *,
    tell: Callable[[str], None],
    pacing: RetryClock | None = None,
) -> None:
    """Get a token for storage with a certificate that is not in use yet.

    Raises:
        HopError: The certificate does not lead to one.
    """
    from memplane.storage.identity.token_chain import AgentUserTokens  # noqa: PLC0415 - of an extra
    from memplane.storage.identity.token_exchange import MsalExchange  # noqa: PLC0415 - of an extra

    exchange = MsalExchange(identity, lambda: certificate, clock=system_clock)
    tokens = AgentUserTokens(exchange, clock=system_clock)

    async def check() -> None:
        await asyncio.to_thread(tokens.token, Resource.STORAGE)

    await _when_arrived(check, tell, pacing or RetryClock())


async def _when_arrived(
    check: Callable[[], Awaitable[None]], tell: Callable[[str], None], pacing: RetryClock
) -> None:
    """Check, and again while what was just created has not arrived everywhere."""
    for pause in _PROPAGATION_PAUSES_S:
        try:
            await check()
        except HopError as error:
            if error.code not in _NOT_ARRIVED_YET:
                raise
            tell(f"{error.hop}: {error.code}: not known yet; trying again in {pause:.0f} s")
        except (PermissionDenied, ContainerMissing) as error:
            tell(f"{error}; trying again in {pause:.0f} s")
        else:
            return
        await pacing.sleep(pause)
    await check()


async def ensure_own_certificate(identity: AgentUser, api: AzureApi) -> str:
    """Register this machine's certificate, made when there is none; say where its key is.

    Raises:
        MemplaneError: It could not be made or registered.
    """
    from memplane.storage.identity.rotation import ensure_certificate  # noqa: PLC0415 - of an extra

    keys = open_keys(identity)
    await ensure_certificate(
        keys, BlueprintKeys(api, identity.blueprint_app_id), clock=system_clock
    )
    return open_keys(identity).where


async def rotate_own_certificate(
    identity: AgentUser, api: AzureApi, *, tell: Callable[[str], None]
) -> str:
    """Replace this machine's certificate, and say the thumbprint of the new one.

    Raises:
        MemplaneError: The new one does not work, and the old one is in use as before.
    """
    from memplane.storage.identity.rotation import rotate_certificate  # noqa: PLC0415 - of an extra

    new = await rotate_certificate(
        open_keys(identity),
        BlueprintKeys(api, identity.blueprint_app_id),
        lambda certificate: prove_certificate(
            structs.replace(identity, thumbprint=""), certificate, tell=tell
        ),
        clock=system_clock,
    )
    return new.thumbprint
