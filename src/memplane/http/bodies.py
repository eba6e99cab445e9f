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

from memplane.http.errors import Refused
from memplane.proxy.splicing import member_spans

DEFAULT_LIMIT: Final = 32 * 1024 * 1024
DEEPEST: Final = 64
LINES: Final = "application/x-ndjson"

_LONGEST_NUMBER: Final = 1000
_OF_BODIES: Final = frozenset(
    {b"content-length", b"content-encoding", b"content-type", b"transfer-encoding"}
)
_PIECE: Final = 64 * 1024
_LONG: Final = 256 * 1024
_SIGNS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[{]}"))
_PLACE: Final = re.compile(r" - at `\$\.?(?P<place>.*)`$", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")

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
        if name in _OF_BODIES:
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
    if json and not (_is_json(kind) or (lines and is_lines(kind))):
        also = f" or {LINES}" if lines else ""
        raise HTTPException(415, f"send the body as application/json{also}")


def _is_json(content_type: str) -> bool:
    kind, in_utf8 = _kind(content_type)
    named = kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )
    return named and in_utf8


def is_lines(content_type: str) -> bool:
    """Say whether a body is JSON, one document a line."""
    return _kind(content_type) in {(LINES, True), ("application/jsonl", True)}


@lru_cache(128)
def _kind(content_type: str) -> tuple[str, bool]:
    """Split a Content-Type into its kind and whether it can be UTF-8."""
    kind, *rest = (part.strip().lower() for part in content_type.split(";"))
    charsets = (part.partition("=")[2].strip('"') for part in rest if part.startswith("charset"))
    return kind, all(charset == "utf-8" for charset in charsets)


def counted(receive: Receive, limit: int) -> Receive:
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


async def whole_body(request: Request) -> bytes:
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


async def read_json(request: Request, kind: type[_T]) -> _T:
    """Read the body as JSON of that type; fields it does not have are ignored.

    What is not JSON ends the request with 400, and what is of another type with 422.
    """
    return as_kind(await read_value(request), kind)


async def read_value(request: Request) -> object:
    """Read the body as JSON; what is not JSON ends the request with 400."""
    body = await request.body()
    if len(body) > _LONG:
        return await asyncio.to_thread(parse_json, body)
    return parse_json(body)


async def read_whole(request: Request) -> object:
    """Read the body as JSON; half a character, which nothing can keep, is replaced."""
    value = await read_value(request)
    if b"\\ud" not in (await request.body()).lower():
        return value
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))


def as_kind(value: object, kind: type[_T]) -> _T:
    """Take a value as one of that type; what is of another ends the request with 422."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        fields = wrong_fields(error)
        raise Refused(422, f"the body is of another type: {error}", fields) from error
    except (UnicodeEncodeError, OverflowError) as error:
        message = "the body has half a character or a number too large where none may be"
        raise Refused(422, message) from error


def wrong_fields(error: msgspec.ValidationError) -> dict[str, str]:
    """Say which field is wrong, and what is wrong with it."""
    said = str(error)
    found = _PLACE.search(said)
    place, what = (found["place"], said[: found.start()]) if found else ("", said)
    if missing := _MISSING.fullmatch(what):
        place, what = f"{place}.{missing[1]}".lstrip("."), "is missing"
    return {place: what} if place else {}


def parse_json(body: bytes) -> object:
    """Read JSON from anybody."""
    if is_deeper_than(DEEPEST, body):
        raise HTTPException(400, f"the body is nested more than {DEEPEST} deep")
    try:
        return json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_without_repeats,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_short,
        )
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from error


def has_key_twice(body: bytes) -> bool:
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
        member_spans(body, 0, members)
    except ValueError:
        return True
    return False


def is_deeper_than(most: int, body: bytes) -> bool:
    """Say whether brackets outside strings nest deeper; in one pass, whatever the bytes are."""
    if body.count(b"[") + body.count(b"{") <= most:
        return False  # most bodies have fewer than that
    depth, inside, held = 0, 0, b""
    for start in range(0, len(body), _PIECE):
        piece = held + body[start : start + _PIECE]
        held = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        piece = piece[:-1] if held else piece
        # Without escapes, what lies between two quotes is a string.
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        signs = b"".join(parts[inside::2]).translate(_SIGNS, _NO_BRACKETS)
        inside ^= (len(parts) - 1) % 2
        if max(accumulate(memoryview(signs).cast("b"), initial=depth)) > most:
            return True
        depth += 2 * signs.count(b"\x01") - len(signs)
    return False


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _short(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("a number is too long")
    return int(text)
