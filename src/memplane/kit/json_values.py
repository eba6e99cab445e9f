"""JSON as clients and providers write it, read without relying on its shape (pure)."""

from __future__ import annotations

import json
from typing import cast

import msgspec


def decode_json(raw: bytes | str) -> object:
    """Read a JSON value; half a surrogate pair and a number beyond every float are taken too.

    Raises:
        ValueError: It is not JSON, or nested too deeply.
    """
    try:
        return cast("object", msgspec.json.decode(raw))
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass  # what it refuses may still be JSON
    try:
        return cast("object", json.loads(raw))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def decode_json_or_none(raw: bytes | str) -> object:
    """Read a JSON value; None when it is none."""
    try:
        return decode_json(raw)
    except ValueError:
        return None


def encode_json_string(text: str) -> bytes:
    """Write a text as a JSON string; half a surrogate pair becomes U+FFFD."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        valid_text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return msgspec.json.encode(valid_text)


def as_object(value: object) -> dict[str, object]:
    """Return an object's members; none when it is no object."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Return a list's items; none when it is no list."""
    return cast("list[object]", value) if isinstance(value, list) else []


def as_string(value: object) -> str:
    """Return a string; an empty one when it is none."""
    return value if isinstance(value, str) else ""
