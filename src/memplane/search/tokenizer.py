"""Text to the terms that it is searched by, with how often each occurs (pure).

A question and what it looks for go through the same function, so what counts is that both come
out alike. English is stemmed; other languages keep their words as they are, and those that are
written without blanks become pairs of characters.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import chain, islice
from typing import Final, Protocol, cast

import Stemmer  # type: ignore[import-not-found]  # it has no types

MAX_TERM_CHARS: Final = 64
MAX_TERMS: Final = 4096

# What may join the parts of a name: search-service, deploy_v2, node3.example, PR#123, it's.
_JOINTS: Final = "-_.'#@/:&"
_MAX_NAME_PARTS: Final = 16
_MAX_CACHED_TOKENS: Final = 32_768
_NORMALIZE_CHUNK_CHARS: Final = 256
_NOTHING: Final = ""

_SUFFIXES: Final = frozenset({"s", "re", "ve", "ll", "d", "m"})
_STOP_WORDS: Final = frozenset(
    """
    a an the this that these those such
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself
    they them their theirs themselves one
    am is are was were be been being do does did doing done
    have has had having will would shall should can could may might must ought
    about above across after against along among around as at before behind below beneath beside
    between beyond by down during for from in inside into near of off on onto out outside over
    past since through throughout to toward towards under until up upon with within without
    and but or nor so yet if then else than because while although though unless whether
    who whom whose which what when where why how
    here there again ever never always just only very too also quite rather really still even
    no not yes any some all both each every either neither few more most much many other another
    own same
    """.split()  # noqa: SIM905 - a list of two hundred lines reads worse
)
# Scripts without blanks between words: Thai, Lao, Burmese, Khmer, kana, bopomofo, Han, Hangul.
_UNSPACED: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecf\u0edc-\u0edf\u1000-\u103f\u1050-\u109f"
    "\u1780-\u17d3\u17d7\u17dc\u17dd\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# The blocks in which there are marks that belong to the letter before them.
_MARKED: Final = ((0x300, 0x3000), (0xA600, 0xAC00), (0xFB00, 0xFE30), (0x10A00, 0x12000))
_INVISIBLE: Final = "\u00ad\u200c\u200d\u2060\ufe0e\ufe0f\ufeff"

_stemmers = threading.local()


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 - the library's name


class _StemmerLibrary(Protocol):
    def Stemmer(self, language: str, cache_size: int) -> _Stemmer: ...  # noqa: N802


def count_terms(text: str) -> dict[str, int]:
    """Count the terms of a text: at most 4,096, those that come first, each without blanks."""
    tokens = _tokens(text)
    # Most are one term or none, and were seen before: these are looked up all at once.
    cached = list(map(_recent_tokens.get, tokens))
    if None in cached:
        return _merge_term_counts(
            _cached_terms(token) if term is None else (term,)
            for token, term in zip(tokens, cached, strict=True)
        )
    return _drop_empty_term(Counter(cast("list[str]", cached)))


def count_query_terms(text: str) -> dict[str, int]:
    """Count the terms of a question; where all are stop words, these are its terms."""
    nothing: frozenset[str] = frozenset()
    return count_terms(text) or _merge_term_counts(
        _terms(token, nothing) for token in _tokens(text)
    )


def _merge_term_counts(terms: Iterable[Iterable[str]]) -> dict[str, int]:
    return _drop_empty_term(Counter(chain.from_iterable(terms)))


def _drop_empty_term(counts: Counter[str]) -> dict[str, int]:
    counts.pop(_NOTHING, None)
    return dict(counts if len(counts) <= MAX_TERMS else islice(counts.items(), MAX_TERMS))


def _tokens(text: str) -> list[str]:
    """Cut a text at blanks and at marks that are never inside a name, in lower case."""
    if not text.isascii():
        text = _normalise(text).casefold().replace("\u2019", "'").replace("\u2010", "-")
        for char in _INVISIBLE:
            text = text.replace(char, "")
    # Bytes, because a pattern takes ten times as long for each character.
    return text.encode("utf-8", "replace").translate(_folding()).decode().split()


def _normalise(text: str) -> str:
    """Return the text in Unicode's form NFKC."""
    words = text.split()
    step = _NORMALIZE_CHUNK_CHARS
    if max(map(len, words), default=0) <= step:
        return unicodedata.normalize("NFKC", text)
    # A letter under half a million accents would take minutes, because they are put in order.
    return " ".join(
        "".join(
            unicodedata.normalize("NFKC", word[at : at + step]) for at in range(0, len(word), step)
        )
        for word in words
    )


@cache
def _folding() -> bytes:
    """Return the table that folds ASCII letters and makes blanks of what is in no word."""
    folded = (
        chr(code).lower() if chr(code).isalnum() or chr(code) in _JOINTS else " "
        for code in range(128)
    )
    return "".join(folded).encode() + bytes(range(128, 256))


def _terms(token: str, stop_words: Collection[str] = _STOP_WORDS) -> tuple[str, ...]:
    bare = token.strip(_JOINTS)
    if bare.isascii() and bare.isalnum():
        return tuple(_word_terms(bare, stop_words))
    segments = _segment_pattern().findall(bare)
    return tuple(chain.from_iterable(_segment_terms(segment, stop_words) for segment in segments))


_recent_tokens: dict[str, str] = {}
"""The term of each token that is one, and nothing for one that is none, as lately seen."""
_older_tokens: dict[str, str] = {}
"""Those that were seen before these."""


def _cached_terms(token: str) -> tuple[str, ...]:
    """Return a token's terms; they are kept where there is one or none, as nearly always.

    What was not seen among as many others as are kept is let go.
    """
    known = _older_tokens.get(token)
    if known is None:
        terms = _terms(token)
        if len(terms) > 1 or len(token) > MAX_TERM_CHARS:
            return terms
        known = terms[0] if terms else _NOTHING
    if len(_recent_tokens) >= _MAX_CACHED_TOKENS:
        _older_tokens.clear()
        _older_tokens.update(_recent_tokens)
        _recent_tokens.clear()
    _recent_tokens[token] = known
    return (known,)


def _segment_terms(segment: str, stop_words: Collection[str]) -> Iterator[str]:
    """Yield the terms of a word, of a name, or of a run of characters without blanks."""
    if _unspaced().match(segment):
        yield from (segment[at : at + 2] for at in range(max(1, len(segment) - 1)))
        return
    if "'" in segment:
        segment = _without_suffix(segment, stop_words)
    parts = _joints().split(segment)
    if len(parts) > 1 and "'" not in segment:
        yield segment[:MAX_TERM_CHARS]
    for part in parts:
        yield from _word_terms(part, stop_words)


def _without_suffix(segment: str, stop_words: Collection[str]) -> str:
    """Take off what an apostrophe joined, as in kestrel's; don't is made of stop words only."""
    if segment.endswith("n't"):
        return "" if stop_words else segment
    head, _, tail = segment.rpartition("'")
    return head if tail in _SUFFIXES else segment


def _word_terms(word: str, stop_words: Collection[str]) -> Iterator[str]:
    if word and word not in stop_words:
        cut = word[:MAX_TERM_CHARS]
        yield _stemmer().stemWord(cut) if cut.isalpha() else cut


def _stemmer() -> _Stemmer:
    """Return this thread's stemmer: none may be used by two threads at a time."""
    stemmer: _Stemmer | None = getattr(_stemmers, "english", None)
    if stemmer is None:
        # Without a memory of its own, which would hold the words that are remembered here.
        stemmer = _stemmers.english = cast("_StemmerLibrary", Stemmer).Stemmer("english", 0)
    return stemmer


@cache
def _segment_pattern() -> re.Pattern[str]:
    """Return what finds words, names, and runs of characters without blanks in a token."""
    marks = "".join(
        chr(code)
        for first, end in _MARKED
        for code in range(first, end)
        if unicodedata.category(chr(code)) in {"Mn", "Mc"} and not _unspaced().match(chr(code))
    )
    letter = rf"[^\W_{_UNSPACED}]"
    word = rf"{letter}+(?:[{marks}]+{letter}*)*"
    return re.compile(rf"[{_UNSPACED}]+|{word}(?:[{_JOINTS}]{word}){{0,{_MAX_NAME_PARTS - 1}}}")


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]")


@cache
def _joints() -> re.Pattern[str]:
    return re.compile(f"[{_JOINTS}]")
