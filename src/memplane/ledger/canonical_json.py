"""JSON bytes exactly as the ledger's format wants them, so that ids agree everywhere (pure).

The format was first written by a Go program. Its encoder escapes five characters that are
harmless elsewhere, sorts keys, and sends every number through a float.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, Final, NoReturn, cast

import msgspec

_BLANKS_OR_STRING_PATTERN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[ \t\r\n]+', re.DOTALL)
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_MANY_ZEROS: Final = b"0" * 16
_MINUS_ZERO_PATTERN: Final = re.compile(rb"-0(?:[^.\deE]|$)")
_SURROGATE_PATTERN: Final = re.compile("[\ud800-\udfff]")
_ESCAPES: Final = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
)
_LINE_SEPARATOR_LEAD_BYTE: Final = b"\xe2"
"""How U+2028 and U+2029 begin in UTF-8; most text has no such byte, and one look is enough."""
_MIN_PLAIN_NUMBER: Final = 1e-6
_EXPONENT_FROM_NUMBER: Final = 1e21


def compact_json(raw: bytes) -> bytes:
    """Keep the bytes of a JSON value, without the blanks between its tokens.

    Key order, the spelling of numbers, escapes and duplicate keys stay as they came.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return msgspec.json.format(raw, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        _parse(raw)  # what it refuses may still be JSON: half a surrogate pair, deep nesting
    return _BLANKS_OR_STRING_PATTERN.sub(_keep_string, raw)


def reencode_json(raw: bytes) -> bytes:
    """Decode a JSON value and write it anew: keys sorted, numbers in their shortest form.

    Raises:
        ValueError: It is not JSON, or holds a number that no float can.
    """
    value = _decode_fast(raw)
    try:
        return msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(value), order="sorted")


def quote_text(raw: bytes) -> bytes:
    """Write text as a JSON string; a byte that is not UTF-8 becomes an escaped U+FFFD."""
    parts: list[bytes] = []
    remaining = raw
    while True:
        try:
            parts.append(msgspec.json.encode(remaining.decode("utf-8"))[1:-1])
            break
        except UnicodeDecodeError as error:
            parts.append(msgspec.json.encode(remaining[: error.start].decode("utf-8"))[1:-1])
            parts.append(b"\\ufffd" * (error.end - error.start))
            remaining = remaining[error.end :]
    return b'"' + b"".join(parts) + b'"'


def escape_characters(encoded: bytes) -> bytes:
    """Escape the five characters that other encoders leave alone; once, over a whole entry."""
    # Outside strings none of the five can occur, so the whole can be searched.
    for character, escape in _ESCAPES:
        encoded = encoded.replace(character, escape)
    if _LINE_SEPARATOR_LEAD_BYTE in encoded:
        encoded = encoded.replace(b"\xe2\x80\xa8", b"\\u2028")
        encoded = encoded.replace(b"\xe2\x80\xa9", b"\\u2029")
    return encoded


@lru_cache(1024)
def format_shortest_number(literal: str) -> bytes:
    """Write a number as the shortest digits that give the same float.

    Raises:
        ValueError: It is beyond every float.
    """
    number = float(literal)
    if number in {float("inf"), float("-inf")}:
        raise ValueError(f"{literal[:40]} is beyond every float")
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 - it is finite
    text = "".join(map(str, digits))
    if number == 0:
        return b"-0" if sign else b"0"
    if _MIN_PLAIN_NUMBER <= abs(number) < _EXPONENT_FROM_NUMBER:
        return ("-" if sign else "").encode() + _plain(text, exponent)
    power = exponent + len(text) - 1
    fraction = f".{text[1:]}" if text[1:] else ""
    return f"{'-' if sign else ''}{text[0]}{fraction}e{power:+d}".encode()


def _plain(digits: str, exponent: int) -> bytes:
    if exponent >= 0:
        return (digits + "0" * exponent).encode()
    if -exponent < len(digits):
        return f"{digits[:exponent]}.{digits[exponent:]}".encode()
    return ("0." + "0" * (-exponent - len(digits)) + digits).encode()


def _parse(raw: bytes) -> Any:  # noqa: ANN401 - whatever JSON holds
    try:
        return json.loads(
            _decode_string(raw),
            parse_int=_number,
            parse_float=_number,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _decode_fast(raw: bytes) -> Any:  # noqa: ANN401 - whatever JSON holds
    if not _may_be_rounded(raw):
        try:
            return _decoder().decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # what it refuses may still be JSON
    return _parse(raw)


def _may_be_rounded(raw: bytes) -> bool:
    """Say whether there may be a whole number that a float would change; no shorter one is."""
    return _MANY_ZEROS in raw.translate(_DIGITS_TO_ZERO) or (
        b"-" in raw and b"-0" in raw and _MINUS_ZERO_PATTERN.search(raw) is not None
    )


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(float_hook=_number)


def _decode_string(raw: bytes) -> str:
    """Decode UTF-8; each byte that is none becomes U+FFFD."""
    parts: list[str] = []
    while True:
        try:
            return "".join((*parts, raw.decode("utf-8")))
        except UnicodeDecodeError as error:
            parts.append(raw[: error.start].decode("utf-8"))
            parts.append("\ufffd" * (error.end - error.start))
            raw = raw[error.end :]


def _number(literal: str) -> msgspec.Raw:
    return msgspec.Raw(format_shortest_number(literal))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _without_surrogates(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    match value:
        case str():
            return _SURROGATE_PATTERN.sub("\ufffd", value)
        case list():
            return [_without_surrogates(item) for item in cast("list[object]", value)]
        case dict():
            members = cast("dict[str, object]", value)
            return {
                _SURROGATE_PATTERN.sub("\ufffd", name): _without_surrogates(item)
                for name, item in members.items()
            }
        case _:
            return value


def _keep_string(match: re.Match[bytes]) -> bytes:
    token = match[0]
    return token if token.startswith(b'"') else b""
