"""Reading and listing blobs. What is not a listing must never pass for an empty one."""

from __future__ import annotations

from base64 import b64encode
from email.utils import parsedate_to_datetime
from hashlib import md5
from typing import Final
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from memplane.errors import BackendUnavailable
from memplane.objects.azure_access import Container
from memplane.objects.azure_requests import METADATA, Answer, Request, ask, version_in, version_of
from memplane.objects.store import Object, ObjectInfo

_OK: Final = 200
_PAGE: Final = 5000


async def read_blob(container: Container, key: str) -> Object:
    """Read one blob.

    Raises:
        NotThere: It does not exist.
    """
    answer = await ask(container, Request("GET", key), hoped=_OK)
    about = _about(answer, key)
    checksum = b64encode(md5(answer.body, usedforsecurity=False).digest()).decode()
    if answer.headers.get("Content-MD5", checksum) != checksum:
        raise BackendUnavailable("the content does not have the checksum it came with", key=key)
    return Object(answer.body, about.version, about.modified, about.metadata)


async def stat_blob(container: Container, key: str) -> ObjectInfo:
    """Ask for all of a blob but its content.

    Raises:
        NotThere: It does not exist.
    """
    return _about(await ask(container, Request("HEAD", key), hoped=_OK), key)


async def list_blobs(container: Container, prefix: str) -> list[ObjectInfo]:
    """List every blob whose name starts with the prefix, over all pages."""
    query = {"restype": "container", "comp": "list", "include": "metadata"}
    query["maxresults"] = str(_PAGE)
    if prefix:
        query["prefix"] = prefix
    blobs: list[ObjectInfo] = []
    while True:
        answer = await ask(container, Request("GET", query=query), hoped=_OK)
        page, marker = _parsed(answer.body)
        blobs += page
        if not marker:
            return blobs
        query["marker"] = marker


def _about(answer: Answer, key: str) -> ObjectInfo:
    """Read what the headers of an answer say about a blob."""
    version, modified = version_in(answer, key), answer.headers.get("Last-Modified")
    if not modified:
        raise BackendUnavailable("the answer has no date, so it is not from Azure", key=key)
    size = int(answer.headers.get("Content-Length", len(answer.body)))
    metadata = {
        name[len(METADATA) :].lower(): value
        for name, value in answer.headers.items()
        if name.lower().startswith(METADATA)
    }
    return ObjectInfo(key, version, size, parsedate_to_datetime(modified), metadata)


def _parsed(body: bytes) -> tuple[list[ObjectInfo], str]:
    """Read one page: its blobs, and the marker of the next page."""
    try:
        # A document type could define entities, and a listing has none.
        text = body.decode("utf-8-sig")
        root = ET.fromstring(text) if "<!DOCTYPE" not in text else None  # noqa: S314 - see above
        if root is None or root.tag != "EnumerationResults" or root.find("Blobs") is None:
            raise BackendUnavailable("the answer is not a listing, so nothing is known")
        return [_info(one) for one in root.iterfind("Blobs/Blob")], root.findtext("NextMarker", "")
    except (ET.ParseError, ValueError, KeyError, TypeError) as error:
        raise BackendUnavailable("the listing was cut or damaged, so nothing is known") from error


def _info(blob: ET.Element) -> ObjectInfo:
    name = blob.find("Name")
    properties = {one.tag: one.text or "" for one in blob.iterfind("Properties/*")}
    if name is None or not name.text or not properties["Etag"]:
        raise ValueError("a blob without a name or an ETag")
    return ObjectInfo(
        unquote(name.text) if name.get("Encoded") == "true" else name.text,
        version_of(properties["Etag"]),
        int(properties["Content-Length"]),
        parsedate_to_datetime(properties["Last-Modified"]),
        {one.tag.lower(): one.text or "" for one in blob.iterfind("Metadata/*")},
    )
