"""Where the secrets of a JSON document stand: in its strings, behind their escapes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from memplane.redaction.assignments import keyed
from memplane.redaction.hit import OPENING, Hit, in_order
from memplane.redaction.json_tokens import Token, tokens
from memplane.redaction.piece import APART, Find, Piece, hits_in

_DEEPEST: Final = 4
_OPENINGS: Final = (b"{", b"[")
_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"


def document_hits(raw: bytes, find: Find, depth: int = 0) -> list[Hit]:
    """Return the secrets of a JSON document; what is not JSON is searched as text as well."""
    rest = beside_strings(raw)
    found = [] if rest is None else find(rest)
    if rest is None or looks_like_json(raw):
        found += string_hits(tokens(raw), find, depth)
    return in_order(raw, found)


def string_hits(strings: Iterable[Token], find: Find, depth: int = 0) -> Iterator[Hit]:
    """Yield the secrets of strings, each by itself and by the name it stands under."""
    pieces: list[Piece] = []
    for token in strings:
        piece = token.piece
        if token.name and (hit := keyed(token.name, piece.text)):
            yield Hit(*piece.span(hit.start, hit.end), hit.kind, hit.secret)
        if depth < _DEEPEST and looks_like_json(piece.text):
            yield from hits_in([piece], lambda text: document_hits(text, find, depth + 1))
        else:
            pieces.append(piece)
    yield from hits_in(pieces, find, between=APART)


def looks_like_json(text: bytes) -> bool:
    """Say whether a text begins like an object or a list, and not like a marker."""
    begun = text.lstrip(_BLANKS)
    return begun[:1] in _OPENINGS and not begun.startswith(OPENING)


def unescaped(raw: bytes) -> bytes:
    """Decode every escape of a JSON document at once.

    The result is no JSON. It only serves to see cheaply whether there is anything to find.
    """
    if b"\\" not in raw:
        return raw
    # Python's decoder does not know `\/`, which is none behind another backslash.
    plain = raw.replace(b"\\\\", b"\\u005c").replace(b"\\/", b"/")
    return plain.decode("unicode_escape").encode("utf-8", "surrogatepass")


def beside_strings(raw: bytes) -> bytes | None:
    """Return what has to be searched besides the strings, each byte in its place.

    That is nothing in JSON, and all of it in what is not. Where the nesting is too deep to know,
    it is all outside of the strings, so that JSON stays JSON.
    """
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except msgspec.DecodeError:
        return _beside_odd_strings(raw)
    except RecursionError:
        return _without_strings(raw)
    return None


def _beside_odd_strings(raw: bytes) -> bytes | None:
    # Half of a surrogate pair is JSON too, to all but the fast decoder. Numbers need no value.
    try:
        json.loads(raw.decode("latin-1"), parse_int=len, parse_float=len)
    except ValueError:
        return raw
    except RecursionError:
        return _without_strings(raw)
    return None


def _without_strings(raw: bytes) -> bytes:
    rest = bytearray(raw)
    for token in tokens(raw):
        start, end = token.piece.start, token.piece.end
        rest[start:end] = bytes(end - start)
    return bytes(rest)
