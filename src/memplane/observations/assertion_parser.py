"""Assertions out of what an agent wrote, in markers or as structured output (pure).

What cannot be read is a value too, with a hint at what was meant: nothing is lost silently.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Final, TypeAlias, TypeGuard, cast

from memplane.exchange.marker_parser import MarkerAttempt, format_bracket, parse_attempts
from memplane.observations.model import MAX_SERVICE_CHARS, Assertion, Category, SourceClass
from memplane.observations.reject_reasons import RejectReason

NO_ALIASES: Final[Mapping[str, str]] = MappingProxyType({})

_MAX_ITEMS: Final = 100
_SERVICE: Final = rf"[a-zA-Z0-9_-]{{1,{MAX_SERVICE_CHARS}}}"
_NOT_IN_A_SERVICE: Final = r"[^a-zA-Z0-9_-]+"
_CATEGORIES: Final = ", ".join(Category)

_MARKER_FORM_HINT: Final = (
    f"[MEMORY:<category>:<service>], where the category is one of {_CATEGORIES}"
)
_ITEM_HINT: Final = "an item is an object with the texts category, service (optional), observation"
_CATEGORY_HINT: Final = f"the categories are {_CATEGORIES}"
_SERVICE_HINT: Final = f"a service has at most {MAX_SERVICE_CHARS} letters, digits, - and _"


@dataclass(frozen=True, slots=True)
class MalformedAssertion:
    """Something that was meant to be remembered, but is not written so that it can be.

    Args:
        said: What was written.
        reason: What is wrong with it.
        hint: What would be right.
        corrected: What was probably meant, when that can be told.
    """

    said: Assertion
    reason: RejectReason
    hint: str
    corrected: Assertion | None = None


ParsedAssertion: TypeAlias = Assertion | MalformedAssertion


def parse_assertions(
    text: str,
    *,
    source: SourceClass,
    aliases: Mapping[str, str] = NO_ALIASES,
    aborted: bool = False,
) -> tuple[ParsedAssertion, ...]:
    """Return what the markers of one block of text assert, in order.

    The same may be said twice; `key_of` tells.

    Args:
        text: The block, as the agent wrote it.
        source: Who wrote it.
        aliases: Other names of categories.
        aborted: Whether the agent was stopped while it wrote this.
    """
    return tuple(
        _parse_attempt(one, source, aliases) for one in parse_attempts(text, aborted=aborted)
    )


def parse_structured(
    document: object,
    *,
    source: SourceClass = SourceClass.AGENT,
    aliases: Mapping[str, str] = NO_ALIASES,
) -> tuple[ParsedAssertion, ...]:
    """Return what the `memories` of structured output assert, in order; at most a hundred.

    Without a document, or without the list in it, nothing is asserted.

    Args:
        document: What the agent returned, as parsed JSON; the list alone will do.
        source: Who returned it.
        aliases: Other names of categories.
    """
    items = document.get("memories") if _is_object(document) else document
    if items is None:
        return ()
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        return (_unreadable(items, source),)
    listed = cast("Sequence[object]", items)
    return tuple(_parse_item(item, source, aliases) for item in islice(listed, _MAX_ITEMS))


def normalize_names(said: Assertion, aliases: Mapping[str, str] = NO_ALIASES) -> ParsedAssertion:
    """Return an assertion with the name of a category and a service, if it has them."""
    category = find_category(said.category, aliases)
    if category is None and (other := find_category(said.service, aliases)):
        return _swapped(said, other)
    if category is None:
        return MalformedAssertion(
            said, RejectReason.UNKNOWN_CATEGORY, _hint_at_category(said.category, aliases)
        )
    if said.service and not is_service_name(said.service):
        return _misnamed(said, category)
    return replace(said, category=category.value)


def find_category(word: str, aliases: Mapping[str, str] = NO_ALIASES) -> Category | None:
    """Return the category that a word names, by itself or as an alias of one."""
    known = {one.value: one for one in Category}
    return known.get(word) or known.get(aliases.get(word, ""))


def is_service_name(word: str) -> bool:
    """Say whether a word may be the name of a service."""
    return re.fullmatch(_SERVICE, word) is not None


def assertion_key(said: Assertion) -> tuple[str, str, str]:
    """Return what is equal for two assertions that say the same in the same words."""
    text = unicodedata.normalize("NFKC", said.text).casefold()
    return said.category, said.service, " ".join(text.split()).rstrip(" .!")


# Markers.


def _parse_attempt(
    attempt: MarkerAttempt, source: SourceClass, aliases: Mapping[str, str]
) -> ParsedAssertion:
    said = Assertion(
        category=attempt.category, service=attempt.service, text=attempt.text, source=source
    )
    read_as = normalize_names(said, aliases)
    if not attempt.is_well_formed or _is_unknown(read_as):
        return _explain_misspelling(attempt, said, aliases)
    if isinstance(read_as, Assertion) and not said.text:
        return MalformedAssertion(
            read_as, RejectReason.EMPTY, "the observation follows the bracket"
        )
    return read_as


def _explain_misspelling(
    attempt: MarkerAttempt, said: Assertion, aliases: Mapping[str, str]
) -> MalformedAssertion:
    """Tell what somebody meant who did not get the letters, the blanks or the colons right."""
    read_as = normalize_names(_in_small_letters(said, aliases), aliases)
    is_bracket = attempt.bracket.startswith("[MEMORY:") and attempt.bracket.endswith("]")
    if (
        isinstance(read_as, MalformedAssertion)
        and _is_unknown(read_as)
        and is_bracket
        and said.category
    ):
        return replace(read_as, said=said)
    meant = read_as.corrected if isinstance(read_as, MalformedAssertion) else read_as
    hint = format_bracket(meant.category, meant.service) if meant else _MARKER_FORM_HINT
    return MalformedAssertion(said, RejectReason.MALFORMED, hint, meant)


def _in_small_letters(said: Assertion, aliases: Mapping[str, str]) -> Assertion:
    """Write what is a category in small letters so; the case of a service's name matters."""
    category, service = said.category.lower(), said.service.lower()
    if find_category(category, aliases):
        return replace(said, category=category)
    return replace(said, service=service) if find_category(service, aliases) else said


def _is_unknown(said: ParsedAssertion) -> bool:
    return isinstance(said, MalformedAssertion) and said.reason is RejectReason.UNKNOWN_CATEGORY


# Structured output.


def _parse_item(item: object, source: SourceClass, aliases: Mapping[str, str]) -> ParsedAssertion:
    said = _item(item, source, aliases)
    return (
        _unreadable(item, source) if said is None else _not_empty(normalize_names(said, aliases))
    )


def _not_empty(said: ParsedAssertion) -> ParsedAssertion:
    if isinstance(said, Assertion) and not said.text.strip():
        return MalformedAssertion(said, RejectReason.EMPTY, "the observation is empty")
    return said


def _item(item: object, source: SourceClass, aliases: Mapping[str, str]) -> Assertion | None:
    """Return what an item asserts in one of its two forms, if it has one of them."""
    if not _is_object(item):
        return None
    if "key" in item and "category" not in item:
        key, text = item["key"], item.get("value")
        if not isinstance(key, str) or not isinstance(text, str):
            return None
        category, service = _split(key, aliases)
        return Assertion(category=category, service=service, text=text, source=source)
    said, of, text = item.get("category"), item.get("service") or "", item.get("observation")
    if not isinstance(said, str) or not isinstance(of, str) or not isinstance(text, str):
        return None
    return Assertion(category=said, service=of, text=text, source=source)


def _split(key: str, aliases: Mapping[str, str]) -> tuple[str, str]:
    """Return the category and the service of a key, which is written the other way around."""
    first, colon, second = key.partition(":")
    if not colon:
        return first, ""
    only_first = find_category(first, aliases) and not find_category(second, aliases)
    return (first, second) if only_first else (second, first)


def _unreadable(item: object, source: SourceClass) -> MalformedAssertion:
    found = item.get("observation", item.get("value")) if _is_object(item) else item
    text = found if isinstance(found, str) else ""
    said = Assertion(category="", service="", text=text, source=source)
    return MalformedAssertion(said, RejectReason.MALFORMED, _ITEM_HINT)


def _is_object(document: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(document, Mapping)


# Names.


def _swapped(said: Assertion, category: Category) -> MalformedAssertion:
    """Turn category and service around, or say what is wrong with the service even so."""
    turned = replace(said, category=category.value, service=said.category)
    if said.category and not is_service_name(said.category):
        return replace(_misnamed(turned, category), said=said)
    hint = f"category {turned.category}, service {turned.service or 'none'}"
    return MalformedAssertion(said, RejectReason.SWAPPED, hint, turned)


def _misnamed(said: Assertion, category: Category) -> MalformedAssertion:
    name = re.sub(_NOT_IN_A_SERVICE, "-", said.service)[:MAX_SERVICE_CHARS].strip("-")
    if not name:
        return MalformedAssertion(said, RejectReason.BAD_SERVICE, _SERVICE_HINT)
    corrected = replace(said, category=category.value, service=name)
    return MalformedAssertion(
        said, RejectReason.BAD_SERVICE, f"{_SERVICE_HINT}, such as {name}", corrected
    )


def _hint_at_category(word: str, aliases: Mapping[str, str]) -> str:
    meant = find_category(word.strip().lower(), aliases)
    return f"write {meant.value}" if meant else _CATEGORY_HINT
