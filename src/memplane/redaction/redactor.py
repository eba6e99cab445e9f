"""Takes secrets out of text, JSON documents and streams of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from memplane.redaction.held_secrets import HeldSecrets, ReadHeldSecrets
from memplane.redaction.json_scan import blank_strings, find_document_hits
from memplane.redaction.scan import Scanner
from memplane.redaction.secret_hit import SecretHit, replace_hits
from memplane.redaction.sse_scan import find_stream_hits, is_stream_suspect
from memplane.secret import Secret

T = TypeVar("T")

# A marker is an edge that the secret was not, so a second look can find what stood beside it.
_MAX_ROUNDS: Final = 8
# Between texts: line breaks, which are an edge to every rule, and a NUL, which no pattern crosses.
_TEXT_SEPARATOR: Final = "\n\x00\n"


@dataclass(frozen=True, slots=True)
class RedactionResult(Generic[T]):
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
        held: Returns further ones, and is asked each time; it returns the same object for as long
            as nothing changed.
    """

    def __init__(
        self, *, key: bytes, known: Iterable[Secret] = (), held: ReadHeldSecrets | None = None
    ) -> None:
        self._key = key
        self._known = tuple(known)
        self._read_held = held
        self._current = self._prepare(HeldSecrets() if held is None else held())

    def secrets_version(self) -> object:
        """Return a token for the secrets known at this moment: another object after a change."""
        return self._current_scanner()[0]

    @property
    def _scanner(self) -> Scanner:
        return self._current_scanner()[1]

    def _current_scanner(self) -> tuple[HeldSecrets, Scanner]:
        current = self._current
        if self._read_held is not None and (held := self._read_held()) is not current[0]:
            self._current = current = self._prepare(held)
        return current

    def _prepare(self, held: HeldSecrets) -> tuple[HeldSecrets, Scanner]:
        return held, Scanner((*self._known, *held.clear), held.issued)

    def text(self, text: str) -> RedactionResult[str]:
        """Redact free text."""
        raw = text.encode("utf-8", "surrogatepass")
        result = self._redact(raw, self._scanner.hits)
        if not result.counts:
            return RedactionResult(text, result.counts)
        return RedactionResult(result.value.decode("utf-8", "surrogatepass"), result.counts)

    def texts(self, texts: Sequence[str]) -> list[RedactionResult[str]]:
        """Redact several texts, each by itself.

        Most have no secret at all, and one look at all of them together finds that out.
        """
        joined = _TEXT_SEPARATOR.join(texts).encode("utf-8", "surrogatepass")
        if len(texts) > 1 and not self._scanner.hits(joined):
            return [RedactionResult(text, {}) for text in texts]
        return [self.text(text) for text in texts]

    def json(self, raw: bytes) -> RedactionResult[bytes]:
        """Redact a JSON document.

        Only the bytes of secrets change, so it stays the document that it was. What is not JSON
        is redacted as text.
        """
        return self._redact(raw, self._json_hits)

    def stream(self, raw: bytes) -> RedactionResult[bytes]:
        """Redact a body of server-sent events, also where a secret goes over several events.

        Its marker stands where the secret began; the rest is taken out of the events after it.
        """
        return self._redact(raw, self._stream_hits)

    def _stream_hits(self, raw: bytes) -> list[SecretHit]:
        scanner = self._scanner
        if not is_stream_suspect(raw, scanner.hits, scanner.suspects):
            return []
        return find_stream_hits(raw, scanner.hits)

    def _json_hits(self, raw: bytes) -> list[SecretHit]:
        if blank_strings(raw) is None and not self._scanner.suspects(raw):
            return []
        return find_document_hits(raw, self._scanner.hits)

    def _redact(
        self, raw: bytes, find: Callable[[bytes], list[SecretHit]]
    ) -> RedactionResult[bytes]:
        counts: Counter[str] = Counter()
        for _ in range(_MAX_ROUNDS):
            hits = find(raw)
            if not hits:
                break
            counts.update(hit.kind for hit in hits if hit.kind)
            raw = replace_hits(raw, hits, self._key)
        return RedactionResult(raw, dict(counts))
