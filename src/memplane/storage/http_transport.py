"""What requests to every container share: one pool of connections, TLS, and plain helpers."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from memplane.errors import BackendMisconfigured
from memplane.storage.store import Absent, Expect, Matches, Version

_CONNECT_TIMEOUT_S: Final = 5
_READ_TIMEOUT_S: Final = 15
_MAX_CONNECTIONS: Final = 64
_STREAM_FROM_BYTES: Final = 1 << 20
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_CONTENT_TYPES: Final = {
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "html": "text/html; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
}


@asynccontextmanager
async def open_session(ca_file: Path | None) -> AsyncGenerator[aiohttp.ClientSession]:
    """Open one pool of connections. No cookies, and nothing is decompressed."""
    trusted: ssl.SSLContext | bool = True
    if ca_file:
        trusted = ssl.create_default_context(cafile=str(ca_file))
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=_MAX_CONNECTIONS, ssl=trusted),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(sock_connect=_CONNECT_TIMEOUT_S, sock_read=_READ_TIMEOUT_S),
    ) as session:
        yield session


def require_encryption(address: str) -> None:
    """Check that what is sent to an address cannot be read on the way; loopback is no way.

    Raises:
        BackendMisconfigured: It can.
    """
    parts = urlsplit(address)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise BackendMisconfigured(
            f"{parts.scheme}://{parts.netloc} would send memories unencrypted. Use https"
        )


def stream_body(body: bytes | None) -> bytes | BytesIO | None:
    """Let a long body be sent piece by piece, so that the loop goes on meanwhile."""
    return BytesIO(body) if body is not None and len(body) > _STREAM_FROM_BYTES else body


def content_type_of(key: str) -> str:
    """Return the content type that the ending of a key stands for."""
    return _CONTENT_TYPES.get(key.rpartition(".")[2].lower(), "application/octet-stream")


def condition_headers(expect: Expect) -> Mapping[str, str]:
    """Return the headers that let a request succeed only if the key is as expected."""
    match expect:
        case Absent():
            return {"If-None-Match": "*"}
        case Matches(version):
            return {"If-Match": version}
        case _:
            return {}


def version_of_etag(etag: str) -> Version:
    """Return the version an ETag stands for; listings write it without the quotes of headers."""
    return Version(f'"{etag.strip(chr(34))}"')


def describe_error_type(error: Exception) -> str:
    """Name an error without its text, which may hold a signed address."""
    reason = getattr(error, "strerror", None)
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__
