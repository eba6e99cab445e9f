"""Takes secrets out of text, JSON documents and streams of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from memplane.redaction.hit import Hit, replaced
from memplane.redaction.json_text import beside_strings, document_hits
from memplane.redaction.scan import Scanner
from memplane.redaction.stream import stream_hits, stream_suspects
from memplane.secret import Secret

T = TypeVar("T")

# A marker is an edge that the secret was not, so a second look can find what stood beside it.
_MOST_ROUNDS: Final = 8
# Between texts: line breaks, which are an edge to every rule, and a NUL, which no pattern crosses.
_APART: Final = "\n\x00\n"


@dataclass(frozen=True, slots=True)
class Redacted(Generic[T]):
    """A text without its secrets, and how many of each kind there were."""

    value: T
    counts: Mapping[str, int]


class Redactor:
    """Takes secrets out of text; the same secret always leaves the same marker.

    A marker is `[redacted:<kind>:<8 hex>]`, its digits an HMAC of the secret under `key`, so that
    equal secrets can be told from different ones, and nothing else. A text without secrets is
    returned as it is, the same object. Nothing is too long, and nothing raises.

    Args:
        key: Stays the same for an installation and is kept like a secret.
        known: Secrets that are found wherever they stand, in any of their usual encodings.
    """

    def __init__(self, *, key: bytes, known: Iterable[Secret] = ()) -> None:
        self._key = key
        self._scanner = Scanner(known)

    def text(self, text: str) -> Redacted[str]:
        """Redact free text."""
        raw = text.encode("utf-8", "surrogatepass")
        done = self._redacted(raw, self._scanner.hits)
        if not done.counts:
            return Redacted(text, done.counts)
        return Redacted(done.value.decode("utf-8", "surrogatepass"), done.counts)

    def texts(self, texts: Sequence[str]) -> list[Redacted[str]]:
        """Redact several texts, each by itself.

        Most have no secret at all, and one look at all of them together finds that out.
        """
        whole = _APART.join(texts).encode("utf-8", "surrogatepass")
        if len(texts) > 1 and not self._scanner.hits(whole):
            return [Redacted(text, {}) for text in texts]
        return [self.text(text) for text in texts]

    def json(self, raw: bytes) -> Redacted[bytes]:
        """Redact a JSON document.

        Only the bytes of secrets change, so it stays the document that it was. What is not JSON
        is redacted as text.
        """
        return self._redacted(raw, self._json_hits)

    def stream(self, raw: bytes) -> Redacted[bytes]:
        """Redact a body of server-sent events, also where a secret goes over several events.

        Its marker stands where the secret began; the rest is taken out of the events after it.
        """
        return self._redacted(raw, self._stream_hits)

    def _stream_hits(self, raw: bytes) -> list[Hit]:
        scanner = self._scanner
        if not stream_suspects(raw, scanner.hits, scanner.suspects):
            return []
        return stream_hits(raw, scanner.hits)

    def _json_hits(self, raw: bytes) -> list[Hit]:
        if beside_strings(raw) is None and not self._scanner.suspects(raw):
            return []
        return document_hits(raw, self._scanner.hits)

    def _redacted(self, raw: bytes, find: Callable[[bytes], list[Hit]]) -> Redacted[bytes]:
        counts: Counter[str] = Counter()
        for _ in range(_MOST_ROUNDS):
            hits = find(raw)
            if not hits:
                break
            counts.update(hit.kind for hit in hits if hit.kind)
            raw = replaced(raw, hits, self._key)
        return Redacted(raw, dict(counts))
