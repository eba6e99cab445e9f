"""How to reach a bucket: an address, an access key, and one connection pool."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

import aiohttp
import msgspec

from memplane.errors import BackendMisconfigured
from memplane.storage.http_transport import open_session, require_encryption
from memplane.storage.s3_signature import AccessKey, encode_path

_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


class S3Access(msgspec.Struct, frozen=True):
    """What the settings say of a bucket. Without an endpoint it is Amazon's."""

    bucket: str
    key: AccessKey
    endpoint: str = ""
    region: str = "us-east-1"
    prefix: str = ""
    path_style: bool = True
    ca_file: Path | None = None


class S3Address(msgspec.Struct, frozen=True):
    """Where requests go: `base` has no path, and `path` leads to the bucket, encoded."""

    base: str
    host: str
    path: str


class S3Bucket(msgspec.Struct, frozen=True):
    """An open bucket: what every request needs."""

    access: S3Access
    address: S3Address
    session: aiohttp.ClientSession


@asynccontextmanager
async def open_bucket(access: S3Access) -> AsyncGenerator[S3Bucket]:
    """Open a bucket, with one pool of connections."""
    address = parse_bucket_address(access)
    require_encryption(address.base)
    async with open_session(access.ca_file) as session:
        yield S3Bucket(access, address, session)


def parse_bucket_address(access: S3Access) -> S3Address:
    """Read where a bucket is.

    Raises:
        BackendMisconfigured: The endpoint is no address.
    """
    endpoint = access.endpoint or f"https://s3.{access.region}.amazonaws.com"
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        port = parts.port
    except ValueError:
        raise _not_an_address() from None
    if not _is_usable(parts):
        raise _not_an_address()
    host, above = parts.netloc.lower(), parts.path.rstrip("/")
    if port == _DEFAULT_PORTS[parts.scheme]:
        host = host.rpartition(":")[0]  # the client leaves it out, and it is signed
    if access.path_style:
        return S3Address(f"{parts.scheme}://{host}", host, encode_path(f"{above}/{access.bucket}"))
    host = f"{access.bucket}.{host}"
    return S3Address(f"{parts.scheme}://{host}", host, encode_path(above))


def _is_usable(parts: SplitResult) -> bool:
    is_plain = not (parts.query or parts.fragment or parts.username)
    return parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and is_plain


def _not_an_address() -> BackendMisconfigured:
    # What is set there is not repeated: somebody may have put a secret into it.
    return BackendMisconfigured(
        "MEMPLANE_S3_ENDPOINT is not an address such as https://s3.example.com"
    )
