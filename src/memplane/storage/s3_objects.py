"""Reading, writing and listing objects. What is not a listing must never pass for an empty one."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Final
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

from memplane.errors import BackendUnavailable, ConcurrencyError, RequestRefused
from memplane.storage.http_transport import condition_headers, content_type_of, version_of_etag
from memplane.storage.s3_access import S3Bucket
from memplane.storage.s3_requests import (
    NO_FIELDS,
    NO_SUCH_KEY,
    S3Request,
    S3Response,
    parse_xml,
    send_request,
    to_error,
)
from memplane.storage.store import Expect, Matches, ObjectInfo, StoredObject, Version

_OK: Final = 200
_DELETED: Final = 204
_NOT_FOUND: Final = 404
_CONDITION_FAILED: Final = 412
_NOT_IMPLEMENTED: Final = 501
_IMPOSSIBLE_VERSION: Final = Version('"00000000000000000000000000000000"')
_PAGE_SIZE: Final = 1000
_METADATA_PREFIX: Final = "x-amz-meta-"
_CHECKSUM: Final = f"{_METADATA_PREFIX}sha256"
_MAX_METADATA_BYTES: Final = 2048
"""What Amazon takes, names and values together."""


async def read_object(bucket: S3Bucket, key: str) -> StoredObject | None:
    """Read an object, and compare it with the checksum that was written with it."""
    response = await send_request(bucket, S3Request("GET", _name_of(bucket, key)), key)
    if _is_absent(response):
        return None
    if response.status != _OK:
        raise to_error(response, bucket, key)
    info = _read_info(response, key)
    checksum = response.headers.get(_CHECKSUM)
    if checksum is not None and checksum != _checksum_of(response.body):
        raise BackendUnavailable("the content does not have the checksum it came with", key=key)
    return StoredObject(response.body, info.version, info.modified, info.metadata)


async def stat_object(bucket: S3Bucket, key: str) -> ObjectInfo | None:
    """Ask for all of an object but its content."""
    name = _name_of(bucket, key)
    response = await send_request(bucket, S3Request("HEAD", name), key)
    if response.status != _OK:
        # An answer to HEAD has no body, and so does not say what is missing or refused.
        response = await send_request(bucket, S3Request("GET", name), key)
    if _is_absent(response):
        return None
    if response.status != _OK:
        raise to_error(response, bucket, key)
    return _read_info(response, key)


async def put_object(
    bucket: S3Bucket, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str]
) -> Version:
    """Write an object; the service compares what arrives with the hash in the signature.

    Raises:
        ConcurrencyError: It is not the expected one.
    """
    headers = {
        **{f"{_METADATA_PREFIX}{_to_wire(name)}": value for name, value in metadata.items()},
        _CHECKSUM: _checksum_of(data),
    }
    size = sum(len(name) - len(_METADATA_PREFIX) + len(value) for name, value in headers.items())
    if size > _MAX_METADATA_BYTES:
        raise RequestRefused(f"{size} bytes of metadata, and S3 takes 2,048", key=key)
    headers |= {**condition_headers(expect), "Content-Type": content_type_of(key)}
    request = S3Request("PUT", _name_of(bucket, key), headers=headers, body=data)
    response = await send_request(bucket, request, key)
    if isinstance(expect, Matches) and _is_absent(response):
        raise ConcurrencyError("is gone", key=key)
    if response.status != _OK:
        raise to_error(response, bucket, key)
    return _read_version(response, key)


async def delete_object(bucket: S3Bucket, key: str, expect: Matches | None = None) -> None:
    """Delete an object that is there; one that is gone meanwhile is as good.

    Raises:
        ConcurrencyError: It is not the expected one.
    """
    headers = NO_FIELDS if expect is None else condition_headers(expect)
    request = S3Request("DELETE", _name_of(bucket, key), headers=headers)
    response = await send_request(bucket, request, key)
    if response.status != _DELETED and not _is_absent(response):
        raise to_error(response, bucket, key)


async def is_put_conditional(bucket: S3Bucket, key: str) -> bool:
    """Try to replace an object that is not there; whether that was refused."""
    headers = condition_headers(Matches(_IMPOSSIBLE_VERSION))
    request = S3Request("PUT", _name_of(bucket, key), headers=headers, body=b"probe\n")
    response = await send_request(bucket, request, key)
    if response.status == _CONDITION_FAILED or _is_absent(response):
        return True
    if response.status == _OK:
        await delete_object(bucket, key)
    elif response.status != _NOT_IMPLEMENTED:
        raise to_error(response, bucket, key)
    return False


async def is_delete_conditional(bucket: S3Bucket, key: str) -> bool:
    """Try to delete an object on a condition that does not hold; whether it was kept for that."""
    headers = condition_headers(Matches(_IMPOSSIBLE_VERSION))
    request = S3Request("DELETE", _name_of(bucket, key), headers=headers)
    response = await send_request(bucket, request, key)
    if response.status == _CONDITION_FAILED:
        return True
    if response.status in {_DELETED, _NOT_IMPLEMENTED}:
        return False
    raise to_error(response, bucket, key)


async def list_objects(bucket: S3Bucket, prefix: str) -> list[ObjectInfo]:
    """List every object whose key starts with the prefix, over all pages; without metadata."""
    name = _name_of(bucket, prefix)
    query = {"list-type": "2", "max-keys": str(_PAGE_SIZE), "encoding-type": "url", "prefix": name}
    objects: list[ObjectInfo] = []
    while True:
        response = await send_request(bucket, S3Request("GET", query=query))
        if response.status != _OK:
            raise to_error(response, bucket, "")
        page, next_page = _parse_page(response.body, name)
        start = len(name) - len(prefix)
        objects += [ObjectInfo(each.key[start:], *_rest_of(each)) for each in page]
        if not next_page:
            return objects
        if query.get("continuation-token") == next_page:
            raise BackendUnavailable("the listing repeats a page, so nothing is known")
        query["continuation-token"] = next_page


def _rest_of(info: ObjectInfo) -> tuple[Version, int, datetime]:
    return info.version, info.size, info.modified


def _name_of(bucket: S3Bucket, key: str) -> str:
    prefix = bucket.access.prefix.strip("/")
    return f"{prefix}/{key}" if prefix else key


def _is_absent(response: S3Response) -> bool:
    return response.status == _NOT_FOUND and response.code == NO_SUCH_KEY


def _checksum_of(data: bytes) -> str:
    return b64encode(sha256(data).digest()).decode()


def _to_wire(name: str) -> str:
    # Many proxies drop headers with an underscore.
    return name.replace("_", "-")


def _read_info(response: S3Response, key: str) -> ObjectInfo:
    """Read what the headers of an answer say about an object."""
    version, modified = _read_version(response, key), response.headers.get("Last-Modified")
    if not modified:
        raise BackendUnavailable("the answer has no date, so it is not from S3", key=key)
    size = int(response.headers.get("Content-Length", len(response.body)))
    metadata = {
        name[len(_METADATA_PREFIX) :].lower().replace("-", "_"): value
        for name, value in response.headers.items()
        if name.lower().startswith(_METADATA_PREFIX) and name.lower() != _CHECKSUM
    }
    return ObjectInfo(key, version, size, parsedate_to_datetime(modified), metadata)


def _read_version(response: S3Response, key: str) -> Version:
    etag = response.headers.get("ETag")
    if not etag:
        raise BackendUnavailable("the answer has no ETag, so it is not from S3", key=key)
    return version_of_etag(etag)


def _parse_page(body: bytes, prefix: str) -> tuple[list[ObjectInfo], str]:
    """Read one page: its objects with their whole names, and the token of the next page."""
    root = parse_xml(body)
    if root is None or root.tag != "ListBucketResult":
        raise BackendUnavailable("the listing was cut, or is none, so nothing is known")
    is_encoded = root.findtext("EncodingType") == "url"
    try:
        objects = [_parse_entry(entry, is_encoded) for entry in root.iterfind("Contents")]
        is_truncated = {"true": True, "false": False}[root.findtext("IsTruncated", "")]
    except (ValueError, KeyError, TypeError) as error:
        raise BackendUnavailable("the listing is damaged, so nothing is known") from error
    next_page = root.findtext("NextContinuationToken", "") if is_truncated else ""
    if is_truncated and not next_page:
        raise BackendUnavailable("the listing is cut off without a next page")
    if not all(each.key.startswith(prefix) for each in objects):
        raise BackendUnavailable("the listing has names that were not asked for")
    return objects, next_page


def _parse_entry(entry: ET.Element, is_encoded: bool) -> ObjectInfo:  # noqa: FBT001
    fields = {element.tag: element.text or "" for element in entry}
    if not fields["Key"] or not fields["ETag"]:
        raise ValueError("an object without a name or an ETag")
    modified = datetime.fromisoformat(fields["LastModified"])
    return ObjectInfo(
        unquote_plus(fields["Key"]) if is_encoded else fields["Key"],
        version_of_etag(fields["ETag"]),
        int(fields["Size"]),
        modified if modified.tzinfo else modified.replace(tzinfo=UTC),
    )
