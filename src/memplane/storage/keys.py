"""The rules for keys. One place, for every store, for keys from us and from the remote (pure)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from memplane.errors import InvalidKey
from memplane.kit.ids import RESERVED_PREFIX

MAX_KEY_BYTES: Final = 1024
MAX_KEY_SEGMENTS: Final = 254

_UNWRITABLE_CHARS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_DEVICE_NAMES: Final = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in "123456789¹²³"}
)


def check_key(key: str) -> str:
    """Return the key when every store can hold it.

    Raises:
        InvalidKey: It cannot be a key; the message says which rule it breaks.
    """
    if reason := _objection(key):
        raise InvalidKey(reason, key=key or "(empty)")
    return key


def is_valid(key: str) -> bool:
    """Say whether `check_key` would accept the key."""
    return _objection(key) is None


def fold_key(key: str) -> str:
    """Return what two keys have in common that a careless file system cannot tell apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", key).casefold())


def refuse_collision(key: str, rival: str | None) -> None:
    """Refuse a new key that differs from an existing one only by case or by accents' encoding.

    Raises:
        InvalidKey: There is such a rival.
    """
    if rival is not None and rival != key:
        raise InvalidKey(
            f"differs only by case from {rival!r}, which exists; "
            "on some machines the two would be one file",
            key=key,
        )


def find_collisions(keys: Iterable[str]) -> list[tuple[str, ...]]:
    """Group the keys that some file systems cannot tell apart."""
    groups: dict[str, list[str]] = {}
    for key in keys:
        groups.setdefault(fold_key(key), []).append(key)
    return sorted(tuple(sorted(group)) for group in groups.values() if len(group) > 1)


def _objection(key: str) -> str | None:
    if not key:
        return "a key cannot be empty"
    if reason := _character_objection(key):
        return reason
    if len(key.encode()) > MAX_KEY_BYTES:
        return f"a key has at most {MAX_KEY_BYTES} bytes"
    if key.startswith("/"):
        return "a key is relative: it cannot begin with '/'"
    segments = key.split("/")
    if len(segments) > MAX_KEY_SEGMENTS:
        return f"a key has at most {MAX_KEY_SEGMENTS} segments"
    if key[1:2] == ":":
        return "a key cannot begin with a drive letter"
    return next(filter(None, map(_segment_objection, segments)), None)


def _character_objection(key: str) -> str | None:
    if _UNWRITABLE_CHARS.search(key):
        return "a key cannot hold control characters or half of a surrogate pair"
    if "\\" in key:
        return "a key is separated by '/', not by a backslash"
    if unicodedata.normalize("NFC", key) != key:
        return "a key must be in Unicode's composed form (NFC)"
    return None


def _segment_objection(segment: str) -> str | None:
    if not segment:
        return "a segment of a key cannot be empty"
    if segment in {".", ".."}:
        return f"a key cannot hold the segment {segment!r}"
    if segment[-1] in ". ":
        return "a segment cannot end in a dot or a space: Windows would drop it"
    if segment.partition(".")[0].partition(":")[0].rstrip(" ").lower() in _DEVICE_NAMES:
        return f"{segment!r} is the name of a device on Windows"
    if segment.lower().startswith(RESERVED_PREFIX):
        return f"segments that begin with {RESERVED_PREFIX!r} are memplane's own"
    return None
