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

from memplane.memory.markers import Attempt, attempts_of, spelled
from memplane.observations.model import LONGEST_SERVICE, Assertion, Category, Source
from memplane.observations.reasons import Reason

NO_ALIASES: Final[Mapping[str, str]] = MappingProxyType({})

_MOST: Final = 100
_SERVICE: Final = rf"[a-zA-Z0-9_-]{{1,{LONGEST_SERVICE}}}"
_NOT_IN_A_SERVICE: Final = r"[^a-zA-Z0-9_-]+"
_CATEGORIES: Final = ", ".join(Category)

_RIGHT_FORM: Final = f"[MEMORY:<category>:<service>], where the category is one of {_CATEGORIES}"
_RIGHT_ITEM: Final = (
    "an item is an object with the texts category, service (optional), observation"
)
_RIGHT_CATEGORY: Final = f"the categories are {_CATEGORIES}"
_RIGHT_SERVICE: Final = f"a service has at most {LONGEST_SERVICE} letters, digits, - and _"


@dataclass(frozen=True, slots=True)
class Misread:
    """Something that was meant to be remembered, but is not written so that it can be.

    Args:
        said: What was written.
        reason: What is wrong with it.
        hint: What would be right.
        corrected: What was probably meant, when that can be told.
    """

    said: Assertion
    reason: Reason
    hint: str
    corrected: Assertion | None = None


Said: TypeAlias = Assertion | Misread


def read(
    text: str, *, source: Source, aliases: Mapping[str, str] = NO_ALIASES, aborted: bool = False
) -> tuple[Said, ...]:
    """Return what the markers of one block of text assert, in order.

    The same may be said twice; `key_of` tells.

    Args:
        text: The block, as the agent wrote it.
        source: Who wrote it.
        aliases: Other names of categories.
        aborted: Whether the agent was stopped while it wrote this.
    """
    return tuple(_marked(one, source, aliases) for one in attempts_of(text, aborted=aborted))


def structured(
    document: object, *, source: Source = Source.AGENT, aliases: Mapping[str, str] = NO_ALIASES
) -> tuple[Said, ...]:
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
    return tuple(_listed(item, source, aliases) for item in islice(listed, _MOST))


def named(said: Assertion, aliases: Mapping[str, str] = NO_ALIASES) -> Said:
    """Return an assertion with the name of a category and a service, if it has them."""
    category = category_of(said.category, aliases)
    if category is None and (other := category_of(said.service, aliases)):
        return _swapped(said, other)
    if category is None:
        return Misread(said, Reason.UNKNOWN_CATEGORY, _hint_at_category(said.category, aliases))
    if said.service and not is_service(said.service):
        return _misnamed(said, category)
    return replace(said, category=category.value)


def category_of(word: str, aliases: Mapping[str, str] = NO_ALIASES) -> Category | None:
    """Return the category that a word names, by itself or as an alias of one."""
    known = {one.value: one for one in Category}
    return known.get(word) or known.get(aliases.get(word, ""))


def is_service(word: str) -> bool:
    """Say whether a word may be the name of a service."""
    return re.fullmatch(_SERVICE, word) is not None


def key_of(said: Assertion) -> tuple[str, str, str]:
    """Return what is equal for two assertions that say the same in the same words."""
    text = unicodedata.normalize("NFKC", said.text).casefold()
    return said.category, said.service, " ".join(text.split()).rstrip(" .!")


# Markers.


def _marked(attempt: Attempt, source: Source, aliases: Mapping[str, str]) -> Said:
    said = Assertion(
        category=attempt.category, service=attempt.service, text=attempt.text, source=source
    )
    read_as = named(said, aliases)
    if not attempt.is_well_formed or _is_unknown(read_as):
        return _misspelt(attempt, said, aliases)
    if isinstance(read_as, Assertion) and not said.text:
        return Misread(read_as, Reason.EMPTY, "the observation follows the bracket")
    return read_as


def _misspelt(attempt: Attempt, said: Assertion, aliases: Mapping[str, str]) -> Misread:
    """Tell what somebody meant who did not get the letters, the blanks or the colons right."""
    read_as = named(_in_small_letters(said, aliases), aliases)
    is_bracket = attempt.bracket.startswith("[MEMORY:") and attempt.bracket.endswith("]")
    if isinstance(read_as, Misread) and _is_unknown(read_as) and is_bracket and said.category:
        return replace(read_as, said=said)
    meant = read_as.corrected if isinstance(read_as, Misread) else read_as
    hint = spelled(meant.category, meant.service) if meant else _RIGHT_FORM
    return Misread(said, Reason.MALFORMED, hint, meant)


def _in_small_letters(said: Assertion, aliases: Mapping[str, str]) -> Assertion:
    """Write what is a category in small letters so; the case of a service's name matters."""
    category, service = said.category.lower(), said.service.lower()
    if category_of(category, aliases):
        return replace(said, category=category)
    return replace(said, service=service) if category_of(service, aliases) else said


def _is_unknown(said: Said) -> bool:
    return isinstance(said, Misread) and said.reason is Reason.UNKNOWN_CATEGORY


# Structured output.


def _listed(item: object, source: Source, aliases: Mapping[str, str]) -> Said:
    said = _item(item, source, aliases)
    return _unreadable(item, source) if said is None else _not_empty(named(said, aliases))


def _not_empty(said: Said) -> Said:
    if isinstance(said, Assertion) and not said.text.strip():
        return Misread(said, Reason.EMPTY, "the observation is empty")
    return said


def _item(item: object, source: Source, aliases: Mapping[str, str]) -> Assertion | None:
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
    only_first = category_of(first, aliases) and not category_of(second, aliases)
    return (first, second) if only_first else (second, first)


def _unreadable(item: object, source: Source) -> Misread:
    found = item.get("observation", item.get("value")) if _is_object(item) else item
    text = found if isinstance(found, str) else ""
    said = Assertion(category="", service="", text=text, source=source)
    return Misread(said, Reason.MALFORMED, _RIGHT_ITEM)


def _is_object(document: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(document, Mapping)


# Names.


def _swapped(said: Assertion, category: Category) -> Misread:
    """Turn category and service around, or say what is wrong with the service even so."""
    turned = replace(said, category=category.value, service=said.category)
    if said.category and not is_service(said.category):
        return replace(_misnamed(turned, category), said=said)
    hint = f"category {turned.category}, service {turned.service or 'none'}"
    return Misread(said, Reason.SWAPPED, hint, turned)


def _misnamed(said: Assertion, category: Category) -> Misread:
    name = re.sub(_NOT_IN_A_SERVICE, "-", said.service)[:LONGEST_SERVICE].strip("-")
    if not name:
        return Misread(said, Reason.BAD_SERVICE, _RIGHT_SERVICE)
    corrected = replace(said, category=category.value, service=name)
    return Misread(said, Reason.BAD_SERVICE, f"{_RIGHT_SERVICE}, such as {name}", corrected)


def _hint_at_category(word: str, aliases: Mapping[str, str]) -> str:
    meant = category_of(word.strip().lower(), aliases)
    return f"write {meant.value}" if meant else _RIGHT_CATEGORY
