"""WordPiece tokens of a text, as uncased BERT models take them (pure)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

_CLASSIFIER: Final = "[CLS]"
_SEPARATOR: Final = "[SEP]"
_UNKNOWN: Final = "[UNK]"
_MAX_WORD_CHARS: Final = 100
_SPACES: Final = frozenset(" \t\n\r")
_REMOVED: Final = frozenset({"\x00", "\ufffd"})
_CJK_RANGES: Final = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
_ASCII_SYMBOLS: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class WordPieceTokenizer:
    """Splits texts into the ids of a vocabulary, in lower case and without accents.

    Args:
        vocabulary: The tokens, in the order of their ids.
        max_tokens: How many ids a text has at most, the first and the last one included.
    """

    def __init__(self, vocabulary: Iterable[str], *, max_tokens: int) -> None:
        self._ids: Mapping[str, int] = {token: at for at, token in enumerate(vocabulary)}
        self._max_tokens = max_tokens
        self._first, self._last = self._ids[_CLASSIFIER], self._ids[_SEPARATOR]
        self._unknown = (self._ids[_UNKNOWN],)
        self._pieces = lru_cache(maxsize=8192)(self._split_word)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; of a long one the beginning."""
        ids = [self._first]
        for word in _split_words(text):
            ids += self._pieces(word)
            if len(ids) >= self._max_tokens:
                break
        return [*ids[: self._max_tokens - 1], self._last]

    def _split_word(self, word: str) -> tuple[int, ...]:
        if len(word) > _MAX_WORD_CHARS:
            return self._unknown
        ids: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                piece_id = self._ids.get(prefix + word[start:end])
                if piece_id is not None:
                    break
            else:
                return self._unknown
            ids.append(piece_id)
            start = end
        return tuple(ids)


def _split_words(text: str) -> Iterator[str]:
    """Yield words, and each punctuation mark and Chinese character by itself."""
    for part in _normalize(text).split():
        word = ""
        for character in part:
            if not _is_punctuation(character):
                word += character
                continue
            if word:
                yield word
            yield character
            word = ""
        if word:
            yield word


def _normalize(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text.lower()
    cleaned = "".join(_clean(text))
    decomposed = unicodedata.normalize("NFD", cleaned)
    return "".join(char for char in decomposed if unicodedata.category(char) != "Mn").lower()


def _clean(text: str) -> Iterator[str]:
    for character in text:
        if character in _SPACES:
            yield " "
        elif character in _REMOVED or unicodedata.category(character).startswith("C"):
            continue
        elif unicodedata.category(character) == "Zs":
            yield " "
        elif _is_cjk(ord(character)):
            yield f" {character} "
        else:
            yield character


def _is_cjk(code: int) -> bool:
    return any(first <= code <= last for first, last in _CJK_RANGES)


def _is_punctuation(character: str) -> bool:
    if character.isalnum():
        return False
    return character in _ASCII_SYMBOLS or unicodedata.category(character).startswith("P")
