"""Signatures are those that Azure's own library makes; connection strings are read as it does."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from urllib.parse import parse_qs

import pytest
from azure.storage.blob import (
    AccountSasPermissions,
    ContainerSasPermissions,
    ResourceTypes,
    Services,
)
from azure.storage.blob._shared.base_client import parse_connection_str
from azure.storage.blob._shared.shared_access_signature import SharedAccessSignature
from azure.storage.blob._shared_access_signature import BlobSharedAccessSignature

from memplane.errors import BackendMisconfigured
from memplane.secret import Secret
from memplane.storage.azure_access import WithConnectionString, WithSas, parse_address
from memplane.storage.azure_sas import (
    API_VERSION,
    StorageAccount,
    parse_account,
    sign_container_access,
    sign_container_creation,
)
from tests.support.azurite import ACCOUNT, KEY

EXPIRY = datetime(2026, 3, 1, 9, 30, 15, 999, tzinfo=UTC)


@pytest.mark.parametrize("container", ["box", "$root", "a-b-3"])
def test_the_signature_of_a_container_is_the_one_that_azure_makes(container: str) -> None:
    theirs = BlobSharedAccessSignature(ACCOUNT, KEY)
    theirs.x_ms_version = API_VERSION
    everything = ContainerSasPermissions(
        read=True, create=True, write=True, delete=True, list=True
    )
    made = theirs.generate_container(container, permission=everything, expiry=EXPIRY)
    ours = sign_container_access(parse_account(ACCOUNT, KEY), container, EXPIRY)
    assert parse_qs(ours) == parse_qs(made)


def test_the_signature_that_creates_containers_is_the_one_that_azure_makes() -> None:
    theirs = SharedAccessSignature(  # type: ignore[no-untyped-call]
        ACCOUNT, KEY, x_ms_version=API_VERSION
    )
    made = theirs.generate_account(
        Services(blob=True),
        ResourceTypes(container=True),
        AccountSasPermissions(create=True),
        EXPIRY,
    )
    ours = sign_container_creation(parse_account(ACCOUNT, KEY), EXPIRY)
    assert parse_qs(ours) == parse_qs(made)


def test_an_account_does_not_show_its_key() -> None:
    account = parse_account(ACCOUNT, KEY)
    assert repr(account) == f"Account({ACCOUNT!r})"
    assert str(account) == repr(account)


STRINGS = [
    f"DefaultEndpointsProtocol=https;AccountName=ada;AccountKey={KEY};EndpointSuffix=example.net",
    f"AccountName=ada;AccountKey={KEY}",
    f"DefaultEndpointsProtocol=http;AccountName=ada;AccountKey={KEY}",
    f"accountname=ada;ACCOUNTKEY={KEY};EndpointSuffix=core.chinacloudapi.cn;",
    f"AccountName=ada;AccountKey={KEY};BlobEndpoint=https://files.example.org/;",
    "BlobEndpoint=https://ada.blob.core.windows.net/;SharedAccessSignature=sv=1&sig=a%2Fb",
    "AccountName=ada;SharedAccessSignature=?sv=1&sig=a%2Fb",
    "UseDevelopmentStorage=true",
]


@pytest.mark.parametrize("text", STRINGS)
def test_a_connection_string_is_read_as_azure_reads_it(text: str) -> None:
    endpoint, _, credential = parse_connection_str(text, None, "blob")
    address = parse_address(WithConnectionString(Secret(text), "box"))
    assert address.place == f"{endpoint.rstrip('/')}/box"
    if isinstance(credential, dict):
        assert address.account == parse_account("ada", KEY)
    elif "Shared" in text:
        assert address.signature() == "sv=1&sig=a%2Fb"
    else:
        assert address.account == parse_account(ACCOUNT, KEY)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rubbish",
        f"AccountKey={KEY}",
        "AccountName=ada;AccountKey=not base 64",
        f"AccountName=ada;AccountKey={KEY};BlobEndpoint=https://",
        f"AccountName=ada;AccountKey={KEY};BlobEndpoint=https://[x",
    ],
)
def test_what_is_no_connection_string_is_refused(text: str) -> None:
    with pytest.raises(BackendMisconfigured, match=r"(?i)connection.?string"):
        parse_address(WithConnectionString(Secret(text), "box"))


def test_a_container_without_a_name_is_refused() -> None:
    with pytest.raises(BackendMisconfigured):
        parse_address(WithConnectionString(Secret(STRINGS[1]), ""))


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://ada.blob.core.windows.net/box?sig=x", "https://ada.blob.core.windows.net/box"),
        ("ada.blob.core.windows.net/box/?sig=x", "https://ada.blob.core.windows.net/box"),
        ("http://127.0.0.1:10000/ada/box?sig=x", "http://127.0.0.1:10000/ada/box"),
        ("https://host/%24root?sig=x", "https://host/%24root"),
    ],
)
def test_a_signed_address_keeps_its_signature_apart(url: str, place: str) -> None:
    address = parse_address(WithSas(Secret(url)))
    assert (address.place, address.signature()) == (place, "sig=x")
    assert "sig=x" not in repr(address)


def test_another_key_makes_another_signature() -> None:
    one, other = (StorageAccount(ACCOUNT, key) for key in (b"one", b"two"))
    assert sign_container_access(one, "box", EXPIRY) != sign_container_access(other, "box", EXPIRY)


def test_a_container_is_reached_without_the_library_that_is_slow_to_import() -> None:
    program = "import sys, memplane.storage.azure; print('azure' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"
