"""One request to a container, and what its answer means when it is not the one hoped for.

Plain requests on one pool of connections. Azure's own library takes a quarter of a second to
import and a millisecond for each request, and takes answers of others for Azure's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, urlencode
from uuid import uuid4

import aiohttp
import msgspec
from yarl import URL

from memplane.errors import BackendUnavailable
from memplane.storage.azure_access import AzureContainer
from memplane.storage.azure_errors import (
    is_token_refused,
    to_error,
    unexpected_server_error,
)
from memplane.storage.azure_sas import API_VERSION
from memplane.storage.http_transport import describe_error_type, stream_body, version_of_etag
from memplane.storage.store import Version

METADATA_PREFIX: Final = "x-ms-meta-"
NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})


class AzureRequest(msgspec.Struct, frozen=True):
    """What is asked of a blob; of the container itself, when there is no key."""

    method: str
    key: str = ""
    query: Mapping[str, str] = NO_FIELDS
    headers: Mapping[str, str] = NO_FIELDS
    body: bytes | None = None
    creating: bool = False
    """Whether the container itself is to be created, which takes another signature."""


class AzureResponse(msgspec.Struct, frozen=True):
    """What Azure answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def send_request(
    container: AzureContainer, request: AzureRequest, *, expected_status: int
) -> AzureResponse:
    """Send a request, and again with a fresh token when a token was refused.

    Raises:
        MemplaneError: The answer has another status than the one hoped for, and this says why.
    """
    tokens = container.tokens
    token = await tokens.token() if tokens else None
    try:
        response = await _send_authorised(container, request, token)
        for _ in range(tokens.max_refreshes if tokens else 0):
            if not (tokens and token and is_token_refused(response.status, response.headers)):
                break
            tokens.refused(token)
            token = await tokens.token()
            response = await _send_authorised(container, request, token)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        # Not the error itself, nor as the cause: its text may hold the signed address.
        reason = f"no usable answer ({describe_error_type(error)})"
        raise BackendUnavailable(reason, key=request.key) from None
    if "x-ms-request-id" not in response.headers:
        raise unexpected_server_error(response.status, request.key)
    if response.status != expected_status:
        signer = container.address if tokens is None else None
        raise to_error(response.status, response.headers, request.key, signer)
    return response


async def _send_authorised(
    container: AzureContainer, request: AzureRequest, token: str | None
) -> AzureResponse:
    headers = {
        **request.headers,
        "x-ms-version": API_VERSION,
        "x-ms-client-request-id": str(uuid4()),
        "Accept-Encoding": "identity",
    }
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    address = container.address
    signature = address.signature(creating=request.creating)
    query = "&".join(filter(None, (urlencode(request.query, quote_via=quote), signature)))
    path = f"/{quote(request.key)}" if request.key else ""
    url = URL(f"{address.place}{path}" + (f"?{query}" if query else ""), encoded=True)
    async with container.session.request(
        request.method, url, headers=headers, data=stream_body(request.body), allow_redirects=False
    ) as reply:
        return AzureResponse(reply.status, reply.headers, await reply.read())


def read_version_header(response: AzureResponse, key: str) -> Version:
    """Return the version that an answer is about."""
    etag = response.headers.get("ETag")
    if not etag:
        raise BackendUnavailable("the answer has no ETag, so it is not from Azure", key=key)
    return version_of_etag(etag)
