"""Reading and listing blobs. What is not a listing must never pass for an empty one."""

from __future__ import annotations

from base64 import b64encode
from email.utils import parsedate_to_datetime
from hashlib import md5
from typing import Final
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from memplane.errors import BackendUnavailable
from memplane.storage.azure_access import AzureContainer
from memplane.storage.azure_requests import (
    METADATA_PREFIX,
    AzureRequest,
    AzureResponse,
    read_version_header,
    send_request,
)
from memplane.storage.http_transport import version_of_etag
from memplane.storage.store import ObjectInfo, StoredObject

_OK: Final = 200
_PAGE_SIZE: Final = 5000


async def read_blob(container: AzureContainer, key: str) -> StoredObject:
    """Read one blob.

    Raises:
        NotThere: It does not exist.
    """
    response = await send_request(container, AzureRequest("GET", key), expected_status=_OK)
    info = _read_info(response, key)
    checksum = b64encode(md5(response.body, usedforsecurity=False).digest()).decode()
    if response.headers.get("Content-MD5", checksum) != checksum:
        raise BackendUnavailable("the content does not have the checksum it came with", key=key)
    return StoredObject(response.body, info.version, info.modified, info.metadata)


async def stat_blob(container: AzureContainer, key: str) -> ObjectInfo:
    """Ask for all of a blob but its content.

    Raises:
        NotThere: It does not exist.
    """
    return _read_info(
        await send_request(container, AzureRequest("HEAD", key), expected_status=_OK), key
    )


async def list_blobs(container: AzureContainer, prefix: str) -> list[ObjectInfo]:
    """List every blob whose name starts with the prefix, over all pages."""
    query = {"restype": "container", "comp": "list", "include": "metadata"}
    query["maxresults"] = str(_PAGE_SIZE)
    if prefix:
        query["prefix"] = prefix
    blobs: list[ObjectInfo] = []
    while True:
        response = await send_request(
            container, AzureRequest("GET", query=query), expected_status=_OK
        )
        page, marker = _parse_page(response.body)
        blobs += page
        if not marker:
            return blobs
        query["marker"] = marker


def _read_info(response: AzureResponse, key: str) -> ObjectInfo:
    """Read what the headers of an answer say about a blob."""
    version, modified = read_version_header(response, key), response.headers.get("Last-Modified")
    if not modified:
        raise BackendUnavailable("the answer has no date, so it is not from Azure", key=key)
    size = int(response.headers.get("Content-Length", len(response.body)))
    metadata = {
        name[len(METADATA_PREFIX) :].lower(): value
        for name, value in response.headers.items()
        if name.lower().startswith(METADATA_PREFIX)
    }
    return ObjectInfo(key, version, size, parsedate_to_datetime(modified), metadata)


def _parse_page(body: bytes) -> tuple[list[ObjectInfo], str]:
    """Read one page: its blobs, and the marker of the next page."""
    try:
        # A document type could define entities, and a listing has none.
        text = body.decode("utf-8-sig")
        root = ET.fromstring(text) if "<!DOCTYPE" not in text else None  # noqa: S314 - see above
        if root is None or root.tag != "EnumerationResults" or root.find("Blobs") is None:
            raise BackendUnavailable("the answer is not a listing, so nothing is known")
        return [_info(element) for element in root.iterfind("Blobs/Blob")], root.findtext(
            "NextMarker", ""
        )
    except (ET.ParseError, ValueError, KeyError, TypeError) as error:
        raise BackendUnavailable("the listing was cut or damaged, so nothing is known") from error


def _info(blob: ET.Element) -> ObjectInfo:
    name = blob.find("Name")
    properties = {element.tag: element.text or "" for element in blob.iterfind("Properties/*")}
    if name is None or not name.text or not properties["Etag"]:
        raise ValueError("a blob without a name or an ETag")
    return ObjectInfo(
        unquote(name.text) if name.get("Encoded") == "true" else name.text,
        version_of_etag(properties["Etag"]),
        int(properties["Content-Length"]),
        parsedate_to_datetime(properties["Last-Modified"]),
        {element.tag.lower(): element.text or "" for element in blob.iterfind("Metadata/*")},
    )
