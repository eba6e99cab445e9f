"""How to reach a container: an address, credentials, and one connection pool."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import aiohttp
import msgspec

from memplane.errors import BackendMisconfigured
from memplane.kit.clock import system_clock
from memplane.secret import Secret
from memplane.storage.azure_sas import (
    StorageAccount,
    parse_account,
    sign_container_access,
    sign_container_creation,
)
from memplane.storage.http_transport import open_session, require_encryption

_SIGNATURE_LIFETIME: Final = timedelta(hours=1)
_PUBLIC_HOST: Final = "blob.core.windows.net"
_EMULATOR_ACCOUNT: Final = {
    # Its key is public, and the same on every machine.
    "accountname": "devstoreaccount1",
    "accountkey": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"
    "K1SZFPTOtr/KBHBeksoGMGw==",
    "blobendpoint": "http://127.0.0.1:10000/devstoreaccount1",
}


class TokenSource(Protocol):
    """Hands out bearer tokens for the storage service.

    `max_refreshes` says how often a request is worth repeating with a fresh token.
    """

    max_refreshes: int

    async def token(self) -> str:
        """Return a token that should be accepted now.

        Raises:
            AuthError: There is none to be had.
        """
        ...

    def refused(self, token: str) -> None:
        """Learn that the service refused this token: the next one must be fresh."""
        ...


class WithConnectionString(msgspec.Struct, frozen=True):
    """An account's connection string; the container is created when it is absent."""

    connection_string: Secret
    container: str
    ca_file: Path | None = None


class WithSas(msgspec.Struct, frozen=True):
    """A container's address that carries its own signature."""

    url: Secret
    ca_file: Path | None = None


class WithTokens(msgspec.Struct, frozen=True):
    """An address, and tokens from somewhere else."""

    endpoint: str
    container: str
    tokens: TokenSource
    ca_file: Path | None = None


ContainerAccess: TypeAlias = WithConnectionString | WithSas | WithTokens


class ContainerAddress(msgspec.Struct, frozen=True):
    """Where a container is, without a signature, and what signs for it: a query, or a key."""

    place: str
    query: Secret | None = None
    account: StorageAccount | None = None

    def signature(self, *, creating: bool = False) -> str:
        """Return the query that lets one in, where no token does."""
        if self.account is None:
            return self.query.reveal() if self.query else ""
        expiry = system_clock() + _SIGNATURE_LIFETIME
        if creating:
            return sign_container_creation(self.account, expiry)
        return sign_container_access(self.account, unquote(self.place.rpartition("/")[2]), expiry)


class AzureContainer(msgspec.Struct, frozen=True):
    """An open container: what every request needs."""

    address: ContainerAddress
    session: aiohttp.ClientSession
    tokens: TokenSource | None


@asynccontextmanager
async def open_container(access: ContainerAccess) -> AsyncGenerator[AzureContainer]:
    """Open a container, with one pool of connections."""
    address = parse_address(access)
    tokens = access.tokens if isinstance(access, WithTokens) else None
    _require_privacy(address.place, tokens)
    async with open_session(access.ca_file) as session:
        yield AzureContainer(address, session, tokens)


def parse_address(access: ContainerAccess) -> ContainerAddress:
    """Read where a container is, and what signs for it.

    Raises:
        BackendMisconfigured: It does not have the form that Azure gives it.
    """
    try:
        match access:
            case WithConnectionString(connection_string, container):
                return _address_in(connection_string.reveal(), container)
            case WithSas(url):
                return _signed_address(url.reveal())
            case WithTokens(endpoint, container):
                return ContainerAddress(_place(endpoint, container))
    except ValueError:
        # Not as the cause: its message may repeat the secret.
        raise BackendMisconfigured(
            f"the blob {type(access).__name__.removeprefix('With')} cannot be used: "
            "it does not have the form Azure gives it"
        ) from None


def _address_in(connection_string: str, container: str) -> ContainerAddress:
    pairs = [pair.partition("=") for pair in connection_string.rstrip(";").split(";")]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("not a list of names and values")
    said = {name.strip().lower(): value for name, _, value in pairs}
    if said.get("usedevelopmentstorage") == "true":
        said = _EMULATOR_ACCOUNT
    name, key = said.get("accountname", ""), said.get("accountkey", "")
    endpoint = said.get("blobendpoint")
    if not endpoint:
        if not name:
            raise ValueError("neither an endpoint nor an account")
        suffix, scheme = said.get("endpointsuffix"), said.get("defaultendpointsprotocol", "https")
        # Azure's library, too, has it encrypted where the string does not name the whole place.
        endpoint = f"{scheme}://{name}.blob.{suffix}" if suffix else f"{name}.{_PUBLIC_HOST}"
    place = _place(endpoint, container)
    if name and key:
        return ContainerAddress(place, account=_account_in(name, key))
    return ContainerAddress(place, Secret(said.get("sharedaccesssignature", "").lstrip("?")))


def _account_in(name: str, key: str) -> StorageAccount:
    try:
        return parse_account(name, key)
    except ValueError:
        # Not as the cause: its message may repeat a part of the key.
        raise BackendMisconfigured(
            "wrong account key: the AccountKey in MEMPLANE_BLOB_CONNECTION_STRING for the "
            f"storage account {name!r} is not in base64. Copy the whole connection string again "
            "from the account's access keys"
        ) from None


def _signed_address(url: str) -> ContainerAddress:
    parts = urlsplit(_with_scheme(url))
    above, _, container = parts.path.rstrip("/").rpartition("/")
    place = _place(f"{parts.scheme}://{parts.netloc}{above}", unquote(container))
    return ContainerAddress(place, Secret(parts.query))


def _place(endpoint: str, container: str) -> str:
    parts = urlsplit(_with_scheme(endpoint))
    if not parts.hostname or not container:
        raise ValueError("no host, or no container")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/{quote(container)}"


def _with_scheme(url: str) -> str:
    return url if url.lower().startswith("http") else f"https://{url}"


def _require_privacy(place: str, tokens: TokenSource | None) -> None:
    if urlsplit(place).scheme != "https" and tokens is not None:
        raise BackendMisconfigured("a bearer token is only sent over https")
    require_encryption(place)
