"""Bodies of requests: how long, of which kind, and what JSON is taken.

JSON comes from anybody, so it is stricter here than its parser: no deep nesting, no number that
is none, no key twice. A lone surrogate is taken, because models do write them.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from typing import Final, NoReturn, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from memplane.kit.json_edits import find_member_spans
from memplane.server.errors import InvalidFieldsError

DEFAULT_MAX_BODY_BYTES: Final = 32 * 1024 * 1024
MAX_JSON_DEPTH: Final = 64
NDJSON_TYPE: Final = "application/x-ndjson"

_MAX_NUMBER_CHARS: Final = 1000
_BODY_HEADERS: Final = frozenset(
    {b"content-length", b"content-encoding", b"content-type", b"transfer-encoding"}
)
_SCAN_CHUNK_BYTES: Final = 64 * 1024
_LONG_BODY_BYTES: Final = 256 * 1024
_BRACKET_DEPTHS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[{]}"))
_WRONG_FIELD: Final = re.compile(r" - at `\$\.?(?P<place>.*)`$", re.DOTALL)
_MISSING_FIELD: Final = re.compile(r"Object missing required field `(\w+)`")

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

_T = TypeVar("_T")


def check_head(
    raw: Iterable[tuple[bytes, bytes]],
    *,
    limit: int,
    json: bool,
    encoded: bool,
    lines: bool = False,
    optional: bool = False,
) -> None:
    """Refuse a body by what its headers say, before it is read.

    `lines` of JSON are taken beside one document, and an `optional` body may be left out.
    """
    # Of two the first counts, as everywhere.
    headers: dict[bytes, str] = {}
    for name, value in raw:
        if name in _BODY_HEADERS:
            headers.setdefault(name, value.decode("latin-1"))
    length = headers.get(b"content-length", "0")
    if not length.isdecimal() or not length.isascii():
        raise HTTPException(400, "the Content-Length is no number")
    if len(length) > len(str(limit)) or int(length) > limit:
        raise _too_long(limit)
    if not encoded and headers.get(b"content-encoding", "identity").strip().lower() != "identity":
        raise HTTPException(415, "send the body without a Content-Encoding")
    if optional and length.strip("0") == "" and b"transfer-encoding" not in headers:
        return
    kind = headers.get(b"content-type", "")
    if json and not (_is_json(kind) or (lines and is_ndjson(kind))):
        also = f" or {NDJSON_TYPE}" if lines else ""
        raise HTTPException(415, f"send the body as application/json{also}")


def _is_json(content_type: str) -> bool:
    kind, in_utf8 = _parse_content_type(content_type)
    named = kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )
    return named and in_utf8


def is_ndjson(content_type: str) -> bool:
    """Say whether a body is JSON, one document a line."""
    return _parse_content_type(content_type) in {(NDJSON_TYPE, True), ("application/jsonl", True)}


@lru_cache(128)
def _parse_content_type(content_type: str) -> tuple[str, bool]:
    """Split a Content-Type into its kind and whether it can be UTF-8."""
    kind, *rest = (part.strip().lower() for part in content_type.split(";"))
    charsets = (part.partition("=")[2].strip('"') for part in rest if part.startswith("charset"))
    return kind, all(charset == "utf-8" for charset in charsets)


def limit_body(receive: Receive, limit: int) -> Receive:
    """Count a body while it comes, and refuse it once it is too long."""
    seen = 0

    async def next_message() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise _too_long(limit)
        return message

    return next_message


async def read_body_bytes(request: Request) -> bytes:
    """Read a body to its end, in half the time that the library takes.

    Raises:
        ClientDisconnect: Whoever sent it left before.
    """
    parts: list[bytes] = []
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def _too_long(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is longer than {limit} bytes")


async def read_value(request: Request) -> object:
    """Read the body as JSON; what is not JSON ends the request with 400."""
    body = await request.body()
    if len(body) > _LONG_BODY_BYTES:
        return await asyncio.to_thread(parse_json, body)
    return parse_json(body)


async def read_json_replacing(request: Request) -> object:
    """Read the body as JSON; half a character, which nothing can keep, is replaced."""
    value = await read_value(request)
    if b"\\ud" not in (await request.body()).lower():
        return value
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))


async def read_opaque(request: Request, kind: type[_T]) -> _T:
    """Read a body of the wire format; whatever is wrong with it is answered with 400.

    An entry is opaque: a request that was recorded may have a key twice, and is kept as it is.
    """
    body = await read_body_bytes(request)
    if is_deeper_than(MAX_JSON_DEPTH, body):
        raise HTTPException(400, f"the body is nested more than {MAX_JSON_DEPTH} deep")
    try:
        read, twice = msgspec.json.decode(body, type=kind), has_duplicate_key(body)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"the body is of another type: {error}") from error
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # half a surrogate pair, which models do write, is taken the long way
    else:
        if twice:
            raise HTTPException(400, "the body has the same key twice")
        return read
    text = json.dumps(parse_json(body), ensure_ascii=False)
    value = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.DecodeError as error:
        raise HTTPException(400, f"the body is of another type: {error}") from error


def convert_json(value: object, kind: type[_T]) -> _T:
    """Take a value as one of that type; what is of another ends the request with 422."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        fields = find_wrong_fields(error)
        raise InvalidFieldsError(422, f"the body is of another type: {error}", fields) from error
    except (UnicodeEncodeError, OverflowError) as error:
        message = "the body has half a character or a number too large where none may be"
        raise InvalidFieldsError(422, message) from error


def find_wrong_fields(error: msgspec.ValidationError) -> dict[str, str]:
    """Say which field is wrong, and what is wrong with it."""
    said = str(error)
    found = _WRONG_FIELD.search(said)
    place, what = (found["place"], said[: found.start()]) if found else ("", said)
    if missing := _MISSING_FIELD.fullmatch(what):
        place, what = f"{place}.{missing[1]}".lstrip("."), "is missing"
    return {place: what} if place else {}


def parse_json(body: bytes) -> object:
    """Read JSON from anybody."""
    if is_deeper_than(MAX_JSON_DEPTH, body):
        raise HTTPException(400, f"the body is nested more than {MAX_JSON_DEPTH} deep")
    try:
        return json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_refuse_duplicate_keys,
            parse_constant=_refuse_constant,
            parse_float=_parse_finite,
            parse_int=_parse_short_int,
        )
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from error


def has_duplicate_key(body: bytes) -> bool:
    """Say whether the object that JSON is has a key twice; what is in its values is not looked at.

    Raises:
        msgspec.DecodeError: It is no JSON object.
    """
    members = _MEMBERS.decode(body)
    values = sum(map(len, members.values()))
    # As many bytes as keys, values, quotes, colons, commas and brackets have: there is no other.
    if len(body) == 1 + sum(map(len, members)) + values + 4 * len(members):
        return False
    try:
        find_member_spans(body, 0, members)
    except ValueError:
        return True
    return False


def is_deeper_than(most: int, body: bytes) -> bool:
    """Say whether brackets outside strings nest deeper; in one pass, whatever the bytes are."""
    if body.count(b"[") + body.count(b"{") <= most:
        return False  # most bodies have fewer than that
    depth, inside, held = 0, 0, b""
    for start in range(0, len(body), _SCAN_CHUNK_BYTES):
        piece = held + body[start : start + _SCAN_CHUNK_BYTES]
        held = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        piece = piece[:-1] if held else piece
        # Without escapes, what lies between two quotes is a string.
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        signs = b"".join(parts[inside::2]).translate(_BRACKET_DEPTHS, _NO_BRACKETS)
        inside ^= (len(parts) - 1) % 2
        if max(accumulate(memoryview(signs).cast("b"), initial=depth)) > most:
            return True
        depth += 2 * signs.count(b"\x01") - len(signs)
    return False


def _refuse_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _parse_short_int(text: str) -> int:
    if len(text) > _MAX_NUMBER_CHARS:
        raise ValueError("a number is too long")
    return int(text)
