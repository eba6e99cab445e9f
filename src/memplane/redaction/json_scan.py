"""Where the secrets of a JSON document stand: in its strings, behind their escapes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from memplane.redaction.assignments import keyed
from memplane.redaction.json_strings import JsonString, scan_json_strings
from memplane.redaction.secret_hit import MARKER_PREFIX, SecretHit, merge_hits
from memplane.redaction.text_span import SPAN_SEPARATOR, FindHits, TextSpan, find_hits

_MAX_DEPTH: Final = 4
_JSON_OPENINGS: Final = (b"{", b"[")
_LABELS: Final = (b"name", b"key")
_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"


def find_document_hits(raw: bytes, find: FindHits, depth: int = 0) -> list[SecretHit]:
    """Return the secrets of a JSON document; what is not JSON is searched as text as well."""
    blanked = blank_strings(raw)
    hits = [] if blanked is None else find(blanked)
    if blanked is None or looks_like_json(raw):
        hits += find_string_hits(scan_json_strings(raw), find, depth)
    return merge_hits(raw, hits)


def find_string_hits(
    strings: Iterable[JsonString], find: FindHits, depth: int = 0
) -> Iterator[SecretHit]:
    """Yield the secrets of strings, each by itself and by the name it stands under."""
    spans: list[TextSpan] = []
    label, labelled = b"", None
    for token in strings:
        span = token.span
        name = token.name
        if name in _LABELS:
            label, labelled = span.text, token.frame
        elif name == b"value" and token.frame is labelled:
            name = label  # {"name": "DB_PASSWORD", "value": …}
        if name and (hit := keyed(name, span.text)):
            yield SecretHit(*span.span(hit.start, hit.end), hit.kind, hit.secret)
        if depth < _MAX_DEPTH and looks_like_json(span.text):
            yield from find_hits([span], lambda text: find_document_hits(text, find, depth + 1))
        else:
            spans.append(span)
    yield from find_hits(spans, find, separator=SPAN_SEPARATOR)


def looks_like_json(text: bytes) -> bool:
    """Say whether a text begins like an object or a list, and not like a marker."""
    stripped = text.lstrip(_BLANKS)
    return stripped[:1] in _JSON_OPENINGS and not stripped.startswith(MARKER_PREFIX)


def unescape_json(raw: bytes) -> bytes:
    """Decode every escape of a JSON document at once.

    The result is no JSON. It only serves to see cheaply whether there is anything to find.
    """
    if b"\\" not in raw:
        return raw
    # Python's decoder does not know `\/`, which is none behind another backslash.
    plain = raw.replace(b"\\\\", b"\\u005c").replace(b"\\/", b"/")
    return plain.decode("unicode_escape").encode("utf-8", "surrogatepass")


def blank_strings(raw: bytes) -> bytes | None:
    """Return what has to be searched besides the strings, each byte in its place.

    That is nothing in JSON, and all of it in what is not. Where the nesting is too deep to know,
    it is all outside of the strings, so that JSON stays JSON.
    """
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except msgspec.DecodeError:
        return _blank_odd_strings(raw)
    except RecursionError:
        return _without_strings(raw)
    return None


def _blank_odd_strings(raw: bytes) -> bytes | None:
    # Half of a surrogate pair is JSON too, to all but the fast decoder. Numbers need no value.
    try:
        json.loads(raw.decode("latin-1"), parse_int=len, parse_float=len)
    except ValueError:
        return raw
    except RecursionError:
        return _without_strings(raw)
    return None


def _without_strings(raw: bytes) -> bytes:
    output = bytearray(raw)
    for token in scan_json_strings(raw):
        start, end = token.span.start, token.span.end
        output[start:end] = bytes(end - start)
    return bytes(output)
