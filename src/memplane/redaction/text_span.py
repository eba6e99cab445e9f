"""Pieces of a document that are searched together, and the way back to their bytes (pure)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import msgspec

from memplane.redaction.secret_hit import SecretHit

FindHits: TypeAlias = Callable[[bytes], list[SecretHit]]

SPAN_SEPARATOR: Final = b"\x00"
"""Between pieces that have nothing to do with each other; no pattern crosses it."""

_SIMPLE_ESCAPES: Final = {
    ord('"'): b'"',
    ord("\\"): b"\\",
    ord("/"): b"/",
    ord("b"): b"\b",
    ord("f"): b"\f",
    ord("n"): b"\n",
    ord("r"): b"\r",
    ord("t"): b"\t",
}
_HEX_DIGITS: Final = frozenset(b"0123456789abcdefABCDEF")


class TextSpan(msgspec.Struct, frozen=True):
    """Text, and where it stands in the document.

    Args:
        text: The text with its escapes decoded.
        start: Where its first byte stands.
        inner: Where runs begin in the text: plain ones and escapes in turn; empty without escapes.
        outer: Where the same runs begin in the document, and where the last one ends.
    """

    text: bytes
    start: int
    inner: Sequence[int] = ()
    outer: Sequence[int] = ()

    @property
    def end(self) -> int:
        """Where its last byte ends in the document."""
        return self.outer[-1] if self.outer else self.start + len(self.text)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Translate a part of the text into its place in the document."""
        if not self.inner:
            return self.start + start, self.start + end
        return self._outer_position(start)[0], self._outer_position(end - 1)[1]

    def _outer_position(self, position: int) -> tuple[int, int]:
        run = bisect_right(self.inner, position) - 1
        if run % 2:
            return self.outer[run], self.outer[run + 1]
        position_in_outer = self.outer[run] + position - self.inner[run]
        return position_in_outer, position_in_outer + 1

    def shift(self, by: int) -> TextSpan:
        """Return the same piece of a document that stands inside another."""
        return TextSpan(
            self.text, self.start + by, self.inner, [position + by for position in self.outer]
        )


def decode_json_string(raw: bytes, start: int, end: int) -> TextSpan:
    """Decode the inside of a JSON string; an escape that is none stays as it is."""
    escape = raw.find(b"\\", start, end)
    if escape < 0:
        return TextSpan(raw[start:end], start)
    parts: list[bytes] = []
    inner, outer = [0], [start]
    position, length = start, 0
    while escape >= 0:
        decoded, after = _decode_escape(raw, escape, end)
        plain = raw[position:escape]
        parts += (plain, decoded)
        inner += (length + len(plain), length + len(plain) + len(decoded))
        outer += (escape, after)
        length, position = inner[-1], after
        escape = raw.find(b"\\", position, end)
    parts.append(raw[position:end])
    return TextSpan(b"".join(parts), start, inner, [*outer, end])


def _decode_escape(raw: bytes, at: int, end: int) -> tuple[bytes, int]:
    next_byte = raw[at + 1] if at + 1 < end else 0
    if simple := _SIMPLE_ESCAPES.get(next_byte):
        return simple, at + 2
    unit = _decode_code_unit(raw, at, end)
    if unit is None:
        return raw[at : at + 1], at + 1
    low = _decode_code_unit(raw, at + 6, end)
    if low is not None and 0xD800 <= unit < 0xDC00 <= low < 0xE000:  # noqa: PLR2004 - UTF-16
        return chr(0x10000 + (unit - 0xD800 << 10) + low - 0xDC00).encode(), at + 12
    return chr(unit).encode("utf-8", "surrogatepass"), at + 6


def _decode_code_unit(raw: bytes, at: int, end: int) -> int | None:
    digits = raw[at + 2 : at + 6]
    if raw[at : at + 2] != b"\\u" or at + 6 > end or not _HEX_DIGITS.issuperset(digits):
        return None
    return int(digits, 16)


def find_hits(
    spans: Sequence[TextSpan], find: FindHits, *, separator: bytes = b""
) -> Iterator[SecretHit]:
    """Search pieces joined, and yield the hits where they stand in the document.

    Of a secret that goes over several pieces the first part is the hit, and the others are its
    rest, which has no kind.
    """
    hits = find(separator.join([span.text for span in spans]))
    if not hits:
        return
    lengths = (len(span.text) + len(separator) for span in spans)
    starts = [0, *accumulate(lengths)]
    for hit in hits:
        index = bisect_right(starts, hit.start) - 1
        kind, secret = hit.kind, hit.secret
        while index < len(spans) and starts[index] < hit.end:
            span, offset = spans[index], starts[index]
            start, end = max(hit.start - offset, 0), min(hit.end - offset, len(span.text))
            if start < end:
                yield SecretHit(*span.span(start, end), kind, secret)
                kind, secret = "", b""
            index += 1
