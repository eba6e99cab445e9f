"""A statement about a service, brought to the form in which two of them are compared (pure).

Capitals, quotes, blanks, units and the forms of a word make no difference afterwards; what
denies, limits or orders is kept. Paths and options keep their capitals: they matter there.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache, lru_cache
from typing import Final

import msgspec

from memplane.observations import vocabulary
from memplane.observations.quantities import Quantity, Word, quantities_at
from memplane.observations.units import pieces
from memplane.search.tokenizer import count_terms

_REMEMBERED: Final = 4096
_QUOTES: Final = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201b\u02bc\u00b4", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-")
)
_OPENING: Final = "\"'`([{*_,;:!?|"
_CLOSING: Final = "\"'`)]}*_.,;:!?|"
_ENDING: Final = ".,;:!?)"
_NAME_MARKS: Final = frozenset('!"#$%&()*+,./:;<=>?@[\\]^_`{|}~0123456789')
_ORDINALS: Final = {"1st": "first", "2nd": "second", "3rd": "third"}
_SUFFIXES: Final = ("'s", "'re", "'ve", "'ll", "'d")
_CANNOT: Final = frozenset({"can't", "cannot", "won't", "ain't"})
_OPPOSITES: Final = {"work": "fail", "fail": "work", "enabl": "disabl", "disabl": "enabl"}
_CODES: Final = range(100, 600)
_CODE_DIGITS: Final = 3


class Sort(Enum):
    """What a token is for the comparison."""

    CONTENT = auto()
    NAME = auto()
    QUANTITY = auto()
    PLAIN = auto()


@dataclass(frozen=True, slots=True)
class WordToken:
    """One word, name or quantity of a statement.

    Args:
        sort: What it is.
        text: What it is compared by.
        written: The same before words of like meaning were made one.
        clause: The number of the clause it stands in.
        named: Whether it looks like the name of something.
        quantity: What was read, if it is a quantity.
    """

    sort: Sort
    text: str
    written: str
    clause: int
    named: bool = False
    quantity: Quantity | None = None


class Statement(msgspec.Struct, frozen=True):
    """A statement as it is compared.

    Args:
        tokens: All that counts, in order; a denied word that has an opposite is this.
        spoken: The same with each denial where it was said.
        digest: The same for two texts that differ in form only.
        flat: The normalised text as one line.
    """

    tokens: tuple[WordToken, ...]
    spoken: tuple[WordToken, ...]
    digest: str
    flat: str


def norm_hash(text: str) -> str:
    """Return the hash that texts share when they differ in form only."""
    return statement(text).digest


def statement(text: str) -> Statement:
    """Bring a text to the form in which it is compared."""
    return _statement(text)


@lru_cache(_REMEMBERED)
def _statement(text: str) -> Statement:
    clean = _cleaned(text)
    tokens = tuple(_tokens(_words(clean)))
    flat = " ".join(token.written for token in tokens) or clean.casefold()
    marked = "\x1f".join(f"{token.sort.name}\x1e{token.written}" for token in tokens) or flat
    digest = hashlib.sha256(marked.encode("utf-8", "surrogatepass")).hexdigest()
    return Statement(tuple(_turned(tokens)), tokens, digest, flat)


def stem(word: str) -> str:
    """Return the stem of a word; a word that is never searched for is its own."""
    return next(iter(count_terms(word)), word)


# Text to words.


def _cleaned(text: str) -> str:
    """Return the text in form NFKC, with plain quotes, single blanks and nothing unseen."""
    whole = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    seen = (
        character if character.isprintable() else "" if _is_format(character) else " "
        for character in whole
    )
    return " ".join("".join(seen).split())


def _is_format(character: str) -> bool:
    return unicodedata.category(character) == "Cf"


def _words(text: str) -> list[Word]:
    """Cut a text into words; a mark at the end of one begins another clause."""
    found: list[Word] = []
    clause, ticks = 0, 0
    for chunk in text.replace("\u2014", " \u2014 ").split():
        bare = chunk.lstrip(_OPENING).rstrip(_CLOSING)
        code = ticks % 2 == 1 or chunk.startswith("`")
        ticks += chunk.count("`")
        if bare and not _is_dash(bare):
            found.extend(Word(part, clause, code) for part in _parts(bare) if part)
        elif chunk.startswith(("-", "\u2014", ";")):
            clause += 1
        if chunk[-1] in _ENDING:
            clause += 1
    return found


def _is_dash(bare: str) -> bool:
    return not bare.strip("-\u2014\u2022")


def _parts(bare: str) -> Iterator[str]:
    """Take a chunk apart where it holds several words: doesn't, health-check, 60s."""
    folded = bare.casefold()
    if folded.endswith(_SUFFIXES):
        bare = bare[: bare.rindex("'")]
        folded = bare.casefold()
    if folded in _ORDINALS:
        yield _ORDINALS[folded]
    elif folded in _CANNOT:
        yield "not"
    elif folded.endswith("n't"):
        yield from (bare[:-3], "not")
    elif "-" in bare and _is_compound(bare):
        yield from _joined(bare.split("-"))
    else:
        yield from pieces(bare)


def _is_compound(bare: str) -> bool:
    return all(part.isalpha() for part in bare.split("-"))


def _joined(parts: Sequence[str]) -> Iterator[str]:
    """Yield the parts of a compound; re-index is reindex."""
    if parts[0].casefold() == "re":
        yield "re" + "".join(parts[1:])
        return
    yield from parts


# Words to tokens.


def _tokens(words: Sequence[Word]) -> Iterator[WordToken]:
    at = 0
    while at < len(words):
        made, at = _token_at(words, at)
        yield from made


def _token_at(words: Sequence[Word], at: int) -> tuple[tuple[WordToken, ...], int]:
    """Read what begins at a place, and tell the place behind it."""
    word = words[at]
    coded = _coded(words, at)
    if coded:
        return coded
    read = quantities_at(words, at)
    if read:
        made = tuple(
            WordToken(Sort.QUANTITY, str(one), str(one), word.clause, quantity=one)
            for one in read[0]
        )
        return made, read[1]
    pair = (word.folded, words[at + 1].folded) if at + 1 < len(words) else ("", "")
    if pair in vocabulary.PRODUCTS_OF_TWO:
        return (_named(vocabulary.PRODUCTS_OF_TWO[pair], word.clause),), at + 2
    joined = vocabulary.JOINED.get((stem(pair[0]), pair[1]))
    if joined:
        return (WordToken(Sort.CONTENT, joined, joined, word.clause),), at + 2
    if word.folded in vocabulary.FILLERS:
        return (), at + 1
    return _word(words, at), at + 1


def _coded(words: Sequence[Word], at: int) -> tuple[tuple[WordToken, ...], int] | None:
    """Read a number that is a name: HTTP 502, port 9090, node 3, PostgreSQL 16."""
    word = words[at]
    following = words[at + 1].folded if at + 1 < len(words) else ""
    before = words[at - 1].folded if at else ""
    if word.folded == "http" and _is_code(following):
        return (_named(f"http:{following}", word.clause),), at + 2
    if not word.written.isdecimal():
        return None
    if _is_code(word.folded) and (
        before in vocabulary.ANSWERING or following in vocabulary.ANSWERS
    ):
        return (_named(f"http:{word.folded}", word.clause),), at + 1
    read = quantities_at(words, at)
    if read and read[1] > at + 1:
        return None
    if before in vocabulary.NAMED_BY:
        return (_named(f"{before.removesuffix('s')}:{word.folded}", word.clause),), at + 1
    if before in vocabulary.PRODUCTS:
        return (_named(f"version:{word.folded}", word.clause),), at + 1
    return None


def _is_code(word: str) -> bool:
    return word.isdecimal() and len(word) == _CODE_DIGITS and int(word) in _CODES


def _named(text: str, clause: int) -> WordToken:
    return WordToken(Sort.NAME, text, text, clause, named=True)


def _word(words: Sequence[Word], at: int) -> tuple[WordToken, ...]:
    word = words[at]
    folded = word.folded
    if folded in vocabulary.PRODUCTS:
        return (_named(vocabulary.PRODUCTS[folded], word.clause),)
    if _is_shaped_as_name(word.written):
        kept = word.written if word.written.startswith(("/", "-", "~", ".")) else folded
        return (_named(kept, word.clause),)
    plain = _plain(words, at)
    if plain:
        return (plain,)
    if not folded.isascii():
        return tuple(_foreign(folded, word.clause))
    written = stem(folded)
    text = vocabulary.ALIKE.get(written, written)
    light = text in vocabulary.LIGHT_VERBS or text in vocabulary.WEIGHTLESS
    sort = Sort.PLAIN if light else Sort.CONTENT
    return (WordToken(sort, text, written, word.clause, _names(words, at)),)


def _names(words: Sequence[Word], at: int) -> bool:
    """Say whether a word is code, or has a capital that it does not owe to its place."""
    word = words[at]
    begins = at == 0 or word.clause != words[at - 1].clause
    return word.code or (not begins and word.written != word.folded)


def _plain(words: Sequence[Word], at: int) -> WordToken | None:
    """Read a word that denies, limits, relates or only joins."""
    folded, clause = words[at].folded, words[at].clause
    if folded in {"on", "off"} and _ends_clause(words, at):
        state = "enabl" if folded == "on" else "disabl"
        return WordToken(Sort.CONTENT, state, state, clause)
    if _is_bygone(words, at):
        return WordToken(Sort.PLAIN, "formerly", "formerly", clause)
    if folded in vocabulary.MODALS:
        return WordToken(Sort.PLAIN, vocabulary.MODALS[folded], folded, clause)
    return WordToken(Sort.PLAIN, folded, folded, clause) if folded in _plain_words() else None


@cache
def _plain_words() -> frozenset[str]:
    return vocabulary.STOP_WORDS.union(
        vocabulary.NEGATIONS, vocabulary.CONDITIONS, vocabulary.RELATIONS
    )


def _is_bygone(words: Sequence[Word], at: int) -> bool:
    """Say whether a word is the `used` of `it used to fail`, and not of `it is used to test`."""
    if words[at].folded != "used" or at + 1 >= len(words) or words[at + 1].folded != "to":
        return False
    return at == 0 or words[at - 1].folded not in {"is", "are", "was", "were", "be", "been"}


def _foreign(folded: str, clause: int) -> Iterator[WordToken]:
    """Yield what a word in another alphabet is searched by; a sign stands for itself.

    What these words deny or limit is not known here, so one more or less counts as a name does.
    """
    for term in count_terms(folded) or (folded,):
        yield WordToken(Sort.CONTENT, term, term, clause, named=True)


def _ends_clause(words: Sequence[Word], at: int) -> bool:
    return at + 1 == len(words) or words[at + 1].clause != words[at].clause


def _is_shaped_as_name(written: str) -> bool:
    """Say whether a word is a path, host, option or other name by its looks."""
    return written.startswith("-") or not _NAME_MARKS.isdisjoint(written)


def _turned(tokens: Sequence[WordToken]) -> Iterator[WordToken]:
    """Make one word of a denied one that has an opposite: not working is failing."""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        after = tokens[at + 1] if at + 1 < len(tokens) else None
        if token.text in {"not", "never"} and after and after.text in _OPPOSITES:
            if token.text == "never":
                yield replace(token, text="always")
            yield replace(after, text=_OPPOSITES[after.text])
            at += 2
        else:
            yield token
            at += 1
