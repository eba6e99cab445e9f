"""One request to a bucket, and what its answer means when it is not the one hoped for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from xml.etree import ElementTree as ET

import aiohttp
import msgspec
from yarl import URL

from memplane.errors import (
    BackendUnavailable,
    ConcurrencyError,
    ContainerMissing,
    MemplaneError,
    PermissionDenied,
    RequestRefused,
    SignatureRefused,
    TokenExpiredError,
    TooLarge,
)
from memplane.kit.clock import system_clock
from memplane.storage.http_transport import describe_error_type, stream_body
from memplane.storage.s3_access import S3Bucket
from memplane.storage.s3_signature import UnsignedRequest, encode_path, encode_query, sign_request

NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})
NO_SUCH_KEY: Final = "NoSuchKey"
_WRONG_KEY_CODES: Final = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch"})
_EXPIRED_CODES: Final = frozenset({"ExpiredToken", "InvalidToken", "TokenRefreshRequired"})
_WRONG_REGION_CODES: Final = frozenset(
    {
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
        "PermanentRedirect",
        "TemporaryRedirect",
    }
)
_CLOCK_CODES: Final = frozenset({"RequestTimeTooSkewed"})
_ACCESS_CODES: Final = _WRONG_KEY_CODES | _EXPIRED_CODES | _WRONG_REGION_CODES | _CLOCK_CODES
_PERMANENT_CODES: Final = frozenset(
    {"InvalidArgument", "InvalidURI", "KeyTooLongError", "MetadataTooLarge", "MethodNotAllowed"}
)


class S3Request(msgspec.Struct, frozen=True):
    """What is asked of an object; of the bucket itself, when there is no name."""

    method: str
    name: str = ""
    query: Mapping[str, str] = NO_FIELDS
    headers: Mapping[str, str] = NO_FIELDS
    body: bytes | None = None


class S3Response(msgspec.Struct, frozen=True):
    """What was answered, and the code of an error that came with it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    code: str = ""


async def send_request(bucket: S3Bucket, request: S3Request, key: str = "") -> S3Response:
    """Send a signed request once; `key` names the object in errors.

    Raises:
        BackendUnavailable: There was no usable answer.
    """
    address, access = bucket.address, bucket.access
    unsigned = UnsignedRequest(
        request.method,
        address.host,
        f"{address.path}/{encode_path(request.name)}" if request.name else address.path or "/",
        encode_query(request.query),
        request.headers,
        request.body,
    )
    headers = sign_request(unsigned, access.key, access.region, system_clock())
    headers["Accept-Encoding"] = "identity"
    query = f"?{unsigned.query}" if unsigned.query else ""
    url = URL(f"{address.base}{unsigned.path}{query}", encoded=True)
    try:
        async with bucket.session.request(
            request.method,
            url,
            headers=headers,
            data=stream_body(request.body),
            allow_redirects=False,
        ) as reply:
            body = await reply.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        reason = f"no usable answer ({describe_error_type(error)})"
        raise BackendUnavailable(reason, key=key) from None
    is_error = reply.status >= 300  # noqa: PLR2004 - redirects are not followed
    code = _error_code(body) if is_error else ""
    return S3Response(reply.status, reply.headers, body, code)


def parse_xml(body: bytes) -> ET.Element | None:
    """Parse a document of the service's without its namespace; None for anything else."""
    try:
        text = body.decode("utf-8-sig")
        if "<!DOCTYPE" in text:  # it could define entities, and the service's have none
            return None
        root = ET.fromstring(text)  # noqa: S314 - see above
    except (ET.ParseError, ValueError):
        return None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _error_code(body: bytes) -> str:
    root = parse_xml(body)
    return root.findtext("Code", "") if root is not None and root.tag == "Error" else ""


def to_error(response: S3Response, bucket: S3Bucket, key: str) -> MemplaneError:
    """Say what an answer means that is not a success."""
    status, code = response.status, response.code
    if status in {401, 403} or code in _ACCESS_CODES:
        return _refusal(response, bucket, key)
    match status:
        case 404 if code == "NoSuchBucket":
            return ContainerMissing(
                f"the bucket {bucket.access.bucket!r} does not exist. Check MEMPLANE_S3_BUCKET "
                "and MEMPLANE_S3_ENDPOINT, or create it"
            )
        case 412:
            return ConcurrencyError("was changed by someone else", key=key)
        case 400 | 413 if status == 413 or code == "EntityTooLarge":  # noqa: PLR2004
            return TooLarge("is larger than the S3 service takes", key=key)
        case 400 | 405 if code in _PERMANENT_CODES:
            return RequestRefused(_describe_refusal(response), key=key)
        case _:
            return _unavailable(response, key)


def _describe_refusal(response: S3Response) -> str:
    return f"the S3 service refused ({f'{response.status} {response.code}'.rstrip()})"


def _unavailable(response: S3Response, key: str) -> BackendUnavailable:
    reason = f"the S3 service answered {response.status} {response.code}"
    if response.status == 501:  # noqa: PLR2004
        reason += (
            ": it does not offer something that memplane needs, such as conditional writes. "
            "`memplane doctor` tries them"
        )
    elif not response.code:
        reason = (
            f"the answer (status {response.status}) does not look like S3; "
            "a proxy or a network's log-in page may be in between"
        )
    wait = response.headers.get("Retry-After", "")
    return BackendUnavailable(
        reason, key=key, retry_after=float(wait) if wait.isdecimal() else None
    )


def _refusal(response: S3Response, bucket: S3Bucket, key: str) -> MemplaneError:
    """Name the access key that was refused, and say what to do; the secret is not shown."""
    refused, code, access = _describe_refusal(response), response.code, bucket.access
    if code in _WRONG_REGION_CODES:
        return SignatureRefused(
            f"{refused}: the bucket is in another region, or at another address. Set "
            "MEMPLANE_S3_REGION and MEMPLANE_S3_ENDPOINT"
        )
    if code in _EXPIRED_CODES:
        return TokenExpiredError(
            f"{refused}: the session token of temporary keys has expired. Get new ones, or use "
            "an access key that stays valid"
        )
    if code in _WRONG_KEY_CODES:
        return SignatureRefused(
            f"{refused}: the access key {access.key.id!r} is not known there, or "
            "MEMPLANE_S3_SECRET_KEY does not belong to it, or another region signs for it "
            f"(MEMPLANE_S3_REGION is {access.region!r})"
        )
    if code in _CLOCK_CODES:
        return SignatureRefused(f"{refused}: the clock of this machine is wrong")
    return PermissionDenied(
        f"{refused}: the access key {access.key.id!r} may not do this. It needs s3:GetObject, "
        f"s3:PutObject, s3:DeleteObject and s3:ListBucket on {access.bucket!r}",
        key=key,
    )
