"""What of a statement is held against another one (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from memplane.observations import vocabulary
from memplane.observations.normalisation import Sort, WordToken, statement, stem
from memplane.observations.quantities import Quantity

_REMEMBERED: Final = 4096
_MARKS: Final = ".,;:!?()"
_ARTICLES: Final = frozenset({"a", "an", "the"})
_GRAM: Final = 3
_FAR: Final = 8


@dataclass(frozen=True, slots=True)
class Aspects:
    """What of a statement is compared.

    Args:
        words: Its content words and names.
        names: Those of them that look like names.
        quantities: Its numbers, durations and times, in order.
        denials: How often it denies.
        bound: What each denial and each `only` is said of.
        said: The words that may be opposed.
        conditions: What makes it narrower, wherever it stands.
        relations: The words that relate, each with what stands behind it.
        order: What counts, in order, each with the relation or condition before it.
        spelling: Its words in no order, but for articles.
        grams: The groups of three letters in it.
    """

    words: frozenset[str]
    names: frozenset[str]
    quantities: tuple[Quantity, ...]
    denials: int
    bound: frozenset[tuple[str, str]]
    said: frozenset[str]
    conditions: frozenset[str]
    relations: frozenset[tuple[str, str]]
    order: tuple[tuple[str, str], ...]
    spelling: tuple[str, ...]
    grams: frozenset[str] = field(repr=False)


@lru_cache(_REMEMBERED)
def aspects_of(text: str, service: str) -> Aspects:
    """Return what of a text is compared, without the name of the service it is about."""
    whole = statement(text)
    tokens = tuple(_without_service(whole.tokens, service))
    content = [token for token in tokens if token.sort in {Sort.CONTENT, Sort.NAME}]
    return Aspects(
        words=frozenset(token.text for token in content),
        names=frozenset(token.text for token in content if token.named),
        quantities=tuple(token.quantity for token in tokens if token.quantity),
        denials=_denials(tokens),
        bound=frozenset(_bound(tokens)),
        said=frozenset(_said(tokens)),
        conditions=frozenset(
            vocabulary.CONDITIONS[token.text]
            for token in tokens
            if token.text in vocabulary.CONDITIONS
        ),
        relations=frozenset(_relations(tokens)),
        order=tuple(_order(tokens)),
        spelling=_spelling(text),
        grams=_grams(whole.flat),
    )


def spoken_tokens(text: str, service: str) -> tuple[WordToken, ...]:
    """Return the tokens of a text, without the name of the service it is about."""
    return tuple(_without_service(statement(text).spoken, service))


def _without_service(tokens: Sequence[WordToken], service: str) -> Iterator[WordToken]:
    """Leave out the service's own name, unless the statement is made of nothing else."""
    own = {token.text for token in statement(service).tokens if token.sort is not Sort.PLAIN}
    if not own or own.issuperset(token.text for token in tokens if token.sort is not Sort.PLAIN):
        yield from tokens
        return
    yield from (token for token in tokens if token.text not in own)


def _denials(tokens: Sequence[WordToken]) -> int:
    """Count the denials; `not only` is none."""
    return sum(
        token.text in vocabulary.NEGATIONS and following not in vocabulary.NOT_DENIED
        for token, following in _followed(tokens)
    )


def _followed(tokens: Sequence[WordToken]) -> Iterator[tuple[WordToken, str]]:
    """Yield each token with the text of the next one."""
    for at, token in enumerate(tokens):
        yield token, tokens[at + 1].text if at + 1 < len(tokens) else ""


def _bound(tokens: Sequence[WordToken]) -> Iterator[tuple[str, str]]:
    """Yield what each denial and each `only` is said of."""
    for at, token in enumerate(tokens):
        if token.text in vocabulary.NEGATIONS:
            yield "not", _next_content(tokens, at)
        elif vocabulary.CONDITIONS.get(token.text) in vocabulary.BINDING:
            yield vocabulary.CONDITIONS[token.text], _next_content(tokens, at)


def _said(tokens: Sequence[WordToken]) -> Iterator[str]:
    """Yield the words that may be opposed; a `can` that tells a chance allows nothing."""
    for token, following in _followed(tokens):
        if token.text != "can" or following not in vocabulary.CHANCES:
            yield vocabulary.CONDITIONS.get(token.text, token.text)


def _relations(tokens: Sequence[WordToken]) -> Iterator[tuple[str, str]]:
    """Yield what stands behind each word that relates: after, depends on, in."""
    for at, token in enumerate(tokens):
        if token.text in vocabulary.RELATIONS:
            yield vocabulary.RELATIONS[token.text], _next_content(tokens, at)
        elif token.text in vocabulary.DIRECTIONS:
            # A verb takes what is right behind it: what takes a minute to start needs no start.
            thing = _next_content(tokens, at)
            if thing and tokens[at + 1].text in {thing, "on", "upon"}:
                yield token.text, thing


def _next_content(tokens: Sequence[WordToken], at: int) -> str:
    """Return the next word or name in the clause of a token; nothing if there is none."""
    for token in tokens[at + 1 : at + 1 + _FAR]:
        if token.clause != tokens[at].clause:
            break
        if token.sort in {Sort.CONTENT, Sort.NAME}:
            return token.text
    return ""


def _order(tokens: Sequence[WordToken]) -> Iterator[tuple[str, str]]:
    """Yield what counts, each the first time, with the relation or condition it stands behind.

    The only quantity of its measure may stand anywhere.
    """
    measures = Counter(token.quantity.measure for token in tokens if token.quantity)
    seen: set[str] = set()
    lead = ""
    for token in tokens:
        if token.sort is Sort.PLAIN:
            lead = _leading(token.text) or lead
        elif not token.quantity or measures[token.quantity.measure] > 1:
            if token.text not in seen:
                yield token.text, lead
            seen.add(token.text)
            lead = ""


def _leading(text: str) -> str:
    return vocabulary.RELATIONS.get(text, "") or vocabulary.CONDITIONS.get(text, "")


def _spelling(text: str) -> tuple[str, ...]:
    words = (word.strip(_MARKS) for word in text.casefold().split())
    return tuple(sorted(stem(word) for word in words if word not in _ARTICLES))


def _grams(flat: str) -> frozenset[str]:
    padded = f" {flat} "
    return frozenset(padded[at : at + _GRAM] for at in range(len(padded) - _GRAM + 1))
