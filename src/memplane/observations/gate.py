"""The gate before operational memory: what may be remembered, and what only after a look (pure).

Every assertion passes here, whoever made it. A secret outweighs all else, since nothing of it may
be kept; then a reason to reject outweighs one to hold back.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import msgspec

from memplane.exchange.sanitizer import sanitize_text
from memplane.observations.agent_guide import is_example
from memplane.observations.assertion_parser import (
    NO_ALIASES,
    MalformedAssertion,
    ParsedAssertion,
    normalize_names,
)
from memplane.observations.model import (
    MAX_SHOWN_CHARS,
    MAX_TEXT_CHARS,
    Assertion,
    Category,
    SourceClass,
)
from memplane.observations.prompt_injection import is_imperative, is_instruction
from memplane.observations.reject_reasons import RejectReason, ReviewFlag
from memplane.observations.status_noise import is_status_noise
from memplane.redaction.redactor import RedactionResult

RedactText: TypeAlias = Callable[[str], RedactionResult[str]]

MAX_SESSION_ASSERTIONS: Final = 20
"""The assertions that a session may make, unless it is said otherwise."""

REDACTION_OPENING: Final = "[redacted:"
"""What stands where a secret was taken out before, on the way here."""
_MIN_TEXT_CHARS: Final = 3
_MAX_NAME_CHARS: Final = 160
_MIN_KNOWN_SERVICES: Final = 5
_UNSEEN: Final = (
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
"""What is not seen although it may stand in ordinary text; an observation needs none of it."""
_WORD: Final = r"[^\W_]+(?:[.:/_-][^\W_]+)*"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """What the gate goes by.

    Args:
        services: The services that are known.
        has_registry: Whether somebody wrote them down; otherwise a few must have been seen before
            one more is worth a word.
        strict: Whether an unknown service has to be looked at first.
        cap: How many assertions a session may make.
        aliases: Other names of categories.
    """

    services: frozenset[str] = frozenset()
    has_registry: bool = False
    strict: bool = False
    cap: int = MAX_SESSION_ASSERTIONS
    aliases: Mapping[str, str] = field(default_factory=lambda: NO_ALIASES)

    def is_new(self, service: str) -> bool:
        """Say whether a service is not one of those that are known."""
        knows = self.has_registry or len(self.services) >= _MIN_KNOWN_SERVICES
        return bool(service) and knows and service not in self.services


class AcceptedAssertion(msgspec.Struct, frozen=True, kw_only=True):
    """May be remembered. A service of `None` is none in particular."""

    text: str
    category: Category
    service: str | None
    flags: frozenset[ReviewFlag] = frozenset()


class QuarantinedAssertion(msgspec.Struct, frozen=True, kw_only=True):
    """Is kept, but shown to no agent until somebody has looked at it.

    If category and service were swapped, they are as they should be here; `said` has them as
    they were written.
    """

    reason: RejectReason
    said: Assertion
    text: str
    category: Category
    service: str | None
    flags: frozenset[ReviewFlag] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedAssertion:
    """Is not remembered.

    Args:
        reason: Why not.
        said: What was said, fit to be kept: without secrets, and not all of what is too long.
        hint: What would have been right, if there is something to say.
        corrected: What was probably meant, when that can be told.
    """

    reason: RejectReason
    said: Assertion
    hint: str = ""
    corrected: Assertion | None = None


GateVerdict: TypeAlias = AcceptedAssertion | QuarantinedAssertion | RejectedAssertion

_DEFAULT_RULES: Final = GateRules()


def judge_assertion(
    said: ParsedAssertion,
    *,
    redact: RedactText,
    rules: GateRules = _DEFAULT_RULES,
    asserted: int = 0,
    tool_results: Sequence[str] = (),
) -> GateVerdict:
    """Say what becomes of an assertion, or of what should have been one.

    Args:
        said: What was read.
        redact: Takes secrets out of a text.
        rules: What this installation goes by.
        asserted: How many assertions the session has made before this one.
        tool_results: What tools have told the session before.
    """
    as_written = said.said if isinstance(said, MalformedAssertion) else said
    record, had_secrets = _record(as_written, redact)
    if had_secrets:
        return RejectedAssertion(reason=RejectReason.SECRET, said=record)
    read = said if isinstance(said, MalformedAssertion) else normalize_names(said, rules.aliases)
    meant = _require_assertion(read, record.text)
    if isinstance(meant, RejectedAssertion):
        return replace(meant, said=_shortened(record))
    signs = frozenset(_iterate_flags(meant, rules, asserted, tool_results))
    if (refusal := _find_refusal(meant, signs)) is not None:
        return RejectedAssertion(reason=refusal, said=_shortened(record))
    category, service = Category(meant.category), meant.service or None
    flags = signs if meant.source is SourceClass.OPERATOR else signs & _FLAGS
    if (doubt := _find_doubt(read, meant, rules, signs)) is None:
        return AcceptedAssertion(text=meant.text, category=category, service=service, flags=flags)
    return QuarantinedAssertion(
        reason=doubt, said=record, text=meant.text, category=category, service=service, flags=flags
    )


_FLAGS: Final = frozenset({ReviewFlag.NEW_SERVICE, ReviewFlag.TOOL_DERIVED})
"""What is told of anybody's assertions."""


def clean_text(text: str) -> str:
    """Return a text as one line of what can be seen of it."""
    line = " ".join(text.splitlines())
    seen = line if line.isascii() and line.isprintable() else re.sub(_UNSEEN, "", line)
    return unicodedata.normalize("NFC", " ".join(sanitize_text(seen).split()))


# What is kept of it.


def _record(said: Assertion, redact: RedactText) -> tuple[Assertion, bool]:
    """Return what was said, clean and without secrets, and whether there were any."""
    category, service, text = (
        _without_secrets(part, redact) for part in (said.category, said.service, said.text)
    )
    record = replace(
        said,
        category=category.value[:_MAX_NAME_CHARS],
        service=service.value[:_MAX_NAME_CHARS],
        text=text.value,
    )
    if redact(f"{category.value}={service.value}").counts:  # of a bracket around a password
        return replace(_shortened(record), service=""), True
    found = (
        bool(category.counts or service.counts or text.counts) or REDACTION_OPENING in said.text
    )
    return (_shortened(record) if found else record), found


def _without_secrets(text: str, redact: RedactText) -> RedactionResult[str]:
    """Redact a text before it is cleaned and after: either may bring a secret to light."""
    before = redact(text)
    after = redact(clean_text(before.value))
    return RedactionResult(after.value, {**before.counts, **after.counts})


def _shortened(record: Assertion) -> Assertion:
    """Cut what is too long; what stands at its end may be half a secret that nobody recognises."""
    if len(record.text) <= MAX_TEXT_CHARS:
        return record
    return replace(record, text=f"{record.text[:MAX_SHOWN_CHARS]}\u2026")


# What is found in it.


def _require_assertion(read: ParsedAssertion, text: str) -> Assertion | RejectedAssertion:
    """Return the assertion to be judged, if there is one."""
    if not isinstance(read, MalformedAssertion):
        return replace(read, text=text)
    if read.reason is RejectReason.SWAPPED and read.corrected is not None:
        return replace(read.corrected, text=text)
    corrected = replace(read.corrected, text=text) if read.corrected else None
    return RejectedAssertion(
        reason=read.reason, said=read.said, hint=read.hint, corrected=corrected
    )


def _iterate_flags(
    said: Assertion, rules: GateRules, asserted: int, tool_results: Sequence[str]
) -> Iterator[ReviewFlag]:
    """Yield what is remarkable about an assertion."""
    if rules.is_new(said.service):
        yield ReviewFlag.NEW_SERVICE
    if asserted >= rules.cap:
        yield ReviewFlag.SESSION_CAP
    if len(said.text) > MAX_TEXT_CHARS:
        return  # it will not be kept, so nobody needs to read it
    copied = is_tool_derived(said.text, tool_results)
    if copied:
        yield ReviewFlag.TOOL_DERIVED
    if is_status_noise(said.text):
        yield ReviewFlag.STATUS_NOISE
    if is_instruction(said.text) or (copied and is_imperative(said.text)):
        yield ReviewFlag.IMPERATIVE


def _find_refusal(said: Assertion, signs: frozenset[ReviewFlag]) -> RejectReason | None:
    visible = sum(map(_is_visible, said.text[: MAX_TEXT_CHARS + 1]))
    if visible < _MIN_TEXT_CHARS:
        return RejectReason.TOO_SHORT if visible else RejectReason.EMPTY
    if len(said.text) > MAX_TEXT_CHARS:
        return RejectReason.TOO_LONG
    if is_example(said.service, said.text):
        return RejectReason.EXAMPLE
    if said.source is SourceClass.OPERATOR:
        return None
    if ReviewFlag.STATUS_NOISE in signs:
        return RejectReason.STATUS_NOISE
    return RejectReason.SESSION_CAP if ReviewFlag.SESSION_CAP in signs else None


def _find_doubt(
    read: ParsedAssertion, meant: Assertion, rules: GateRules, signs: frozenset[ReviewFlag]
) -> RejectReason | None:
    if isinstance(read, MalformedAssertion):
        return read.reason
    if rules.strict and ReviewFlag.NEW_SERVICE in signs:
        return RejectReason.NEW_SERVICE
    if ReviewFlag.IMPERATIVE in signs and meant.source is not SourceClass.OPERATOR:
        return RejectReason.IMPERATIVE
    return None


def _is_visible(character: str) -> bool:
    """Say whether a character takes a place of its own on paper."""
    return unicodedata.category(character)[0] not in "CZM"


def is_tool_derived(text: str, tool_results: Sequence[str]) -> bool:
    """Say whether at least 80 % of a text's words stand in one result of a tool."""
    words = re.findall(_WORD, text.casefold())
    return bool(words) and any(_is_copied(words, result) for result in tool_results)


def _is_copied(words: Sequence[str], result: str) -> bool:
    folded = result.casefold()
    # Results are long: most are told apart without cutting them up.
    if not _are_most(sum(word in folded for word in words), words):
        return False
    there = {found.group() for found in re.finditer(_WORD, folded)}
    return _are_most(sum(word in there for word in words), words)


def _are_most(number: int, words: Sequence[str]) -> bool:
    return number * 5 >= len(words) * 4
