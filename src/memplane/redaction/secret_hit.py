"""Where a secret stands, what takes its place, and how hits are put in order (pure)."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from memplane.redaction.pattern import compile_pattern

_MARKER_PATTERN: Final = r"\[redacted:[a-z][a-z0-9-]*:[0-9a-f]{8}\]"
MARKER_PREFIX: Final = b"[redacted:"


class SecretHit(msgspec.Struct, frozen=True):
    """A secret in some bytes.

    `secret` is what its marker is made of: for a known secret in another form, the secret itself.
    Without a kind it is the rest of a secret that began elsewhere, and leaves no marker.
    """

    start: int
    end: int
    kind: str
    secret: bytes


def make_marker(hit: SecretHit, key: bytes) -> bytes:
    """Return what stands in a secret's place; equal secrets have equal markers."""
    digest = hmac.digest(key, hit.secret, "sha256").hex()
    return f"[redacted:{hit.kind}:{digest[:8]}]".encode()


def mask_markers(data: bytes) -> bytes:
    """Blank out markers that are there already, with NULs, which no pattern crosses."""
    if MARKER_PREFIX not in data:
        return data
    blank = bytearray(data)
    for start, end in compile_pattern(_MARKER_PATTERN).spans(data):
        blank[start:end] = bytes(end - start)
    return bytes(blank)


def merge_hits(data: bytes, hits: Iterable[SecretHit]) -> list[SecretHit]:
    """Sort hits and join those that overlap; the longest gives the kind, the first of equals."""
    joined: list[SecretHit] = []
    for hit in sorted(hits, key=lambda other: other.start):
        if joined and hit.start < joined[-1].end:
            joined[-1] = _union(data, joined[-1], hit)
        else:
            joined.append(hit)
    return joined


def _union(data: bytes, first: SecretHit, second: SecretHit) -> SecretHit:
    longest = max((first, second), key=lambda hit: (bool(hit.kind), hit.end - hit.start))
    end = max(first.end, second.end)
    if (longest.start, longest.end) == (first.start, end):
        return longest
    return SecretHit(first.start, end, longest.kind, data[first.start : end])


def replace_hits(data: bytes, hits: Sequence[SecretHit], key: bytes) -> bytes:
    """Put markers in the place of hits that are in order; the rest of a secret is left out."""
    parts: list[bytes] = []
    position = 0
    for hit in hits:
        parts.append(data[position : hit.start])
        if hit.kind:
            parts.append(make_marker(hit, key))
        position = hit.end
    parts.append(data[position:])
    return b"".join(parts)
