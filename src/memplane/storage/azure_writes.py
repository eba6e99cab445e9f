"""Writing and deleting blobs, and creating their container."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import md5
from typing import Final

from memplane.storage.azure_access import AzureContainer
from memplane.storage.azure_requests import (
    METADATA_PREFIX,
    AzureRequest,
    read_version_header,
    send_request,
)
from memplane.storage.http_transport import condition_headers, content_type_of
from memplane.storage.store import Expect, Version

_CREATED: Final = 201
_ACCEPTED: Final = 202


async def put_blob(
    container: AzureContainer,
    key: str,
    data: bytes,
    *,
    expect: Expect,
    metadata: Mapping[str, str],
) -> Version:
    """Write one blob; the service compares what arrives with its checksum.

    Raises:
        ConcurrencyError: It is not the expected one.
    """
    checksum = b64encode(md5(data, usedforsecurity=False).digest()).decode()
    headers = {
        **{f"{METADATA_PREFIX}{name}": value for name, value in metadata.items()},
        **condition_headers(expect),
        "x-ms-blob-type": "BlockBlob",
        "x-ms-blob-content-type": content_type_of(key),
        "x-ms-blob-content-md5": checksum,
        "Content-MD5": checksum,
        "Content-Type": "application/octet-stream",
    }
    request = AzureRequest("PUT", key, headers=headers, body=data)
    return read_version_header(
        await send_request(container, request, expected_status=_CREATED), key
    )


async def delete_blob(container: AzureContainer, key: str, expect: Expect) -> None:
    """Delete one blob.

    Raises:
        NotThere: It does not exist.
        ConcurrencyError: It is not the expected one, or does not exist.
    """
    await send_request(
        container,
        AzureRequest("DELETE", key, headers=condition_headers(expect)),
        expected_status=_ACCEPTED,
    )


async def create_container(container: AzureContainer) -> None:
    """Create the container itself.

    Raises:
        ConcurrencyError: It exists already.
    """
    request = AzureRequest("PUT", query={"restype": "container"}, creating=True)
    await send_request(container, request, expected_status=_CREATED)
