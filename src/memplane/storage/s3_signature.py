"""Signatures of version 4, which every S3-compatible service checks (pure).

The path is encoded once, as S3 alone among these services wants it. The tests compare the result
with what botocore makes of the same request.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from memplane.secret import Secret

_ALGORITHM: Final = "AWS4-HMAC-SHA256"


class AccessKey(msgspec.Struct, frozen=True):
    """Who asks, and what signs for it; temporary keys come with a session token."""

    id: str
    secret: Secret
    session_token: Secret = Secret("")


class UnsignedRequest(msgspec.Struct, frozen=True):
    """A request as it is sent: `path` and `query` are encoded already."""

    method: str
    host: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes | None = None


def encode_path(path: str) -> str:
    """Encode a path as a signature has it."""
    return quote(path)


def encode_query(fields: Mapping[str, str]) -> str:
    """Encode a query as a signature has it: sorted, with %20 for a space."""
    return urlencode(sorted(fields.items()), quote_via=quote, safe="")


def sign_request(
    request: UnsignedRequest, key: AccessKey, region: str, at: datetime
) -> dict[str, str]:
    """Return the request's headers with a signature over all of them, and over the body."""
    moment = at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    body_hash = sha256(request.body or b"").hexdigest()
    headers = {
        **request.headers,
        "Host": request.host,
        "x-amz-content-sha256": body_hash,
        "x-amz-date": moment,
    }
    if key.session_token:
        headers["x-amz-security-token"] = key.session_token.reveal()
    canonical = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    names = ";".join(sorted(canonical))
    lines = "".join(f"{name}:{canonical[name]}\n" for name in sorted(canonical))
    text = f"{request.method}\n{request.path}\n{request.query}\n{lines}\n{names}\n{body_hash}"
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    statement = "\n".join((_ALGORITHM, moment, scope, sha256(text.encode()).hexdigest()))
    signature = hmac.digest(_signing_key(key, scope), statement.encode(), "sha256").hex()
    headers["Authorization"] = (
        f"{_ALGORITHM} Credential={key.id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def _signing_key(key: AccessKey, scope: str) -> bytes:
    """Derive the key of one day, region and service."""
    derived = f"AWS4{key.secret.reveal()}".encode()
    for part in scope.split("/"):
        derived = hmac.digest(derived, part.encode(), "sha256")
    return derived
