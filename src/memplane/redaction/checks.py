"""Further conditions on what a pattern found (pure)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from memplane.redaction.pattern import pattern

Check: TypeAlias = Callable[[bytes], bool]

_SAMPLE: Final = 256
_LONG_SK: Final = 20
_LONG_WORD: Final = 16

# Words and names that follow "bearer" in prose; all others of 16 letters are taken for a token.
_NO_TOKENS: Final = frozenset(
    b"""
    access_token refresh_token id_token token_type auth_token bearer_token bearer_format
    bearerauth bearertoken bearerformat accesstoken refreshtoken
    responsibilities telecommunication telecommunications internationalization misunderstanding
    misunderstandings counterproductive disproportionate disproportionately environmentalist
    characterization characterizations authenticationscheme authenticationtoken
    authenticationfilter authorizationheader authorizationtoken
    """.split()
)

_NOTHING: Final = frozenset(b"null none nil true false undefined str string example".split())
_PLACEHOLDERS: Final = _NOTHING | frozenset(
    b"""
    void any unknown empty bytes text number int integer bool boolean object secretstr optional
    required placeholder changeme change-me change_me replaceme dummy sample test testing default
    redacted hidden masked removed secret password passwd token bearer basic apikey api_key
    api-key key value
    """.split()
)
_HOLE: Final = (
    r"(?i:"
    r"(?:[*._#-]|\xe2\x80\xa2)+|x{3,}[x-]*"  # stars, dots, crosses
    r"|<.*>|\[.*\]|\{.*\}|%[a-z_]+%|@[a-z_]+@|#\{.*"  # a hole in a template
    r"|\$(?:[{(].*|[a-z_]+|[a-z]+_[a-z0-9_]*)"
    r"|(?:your|insert|enter|put|replace)[-_ ].*"
    r"|.*[-_ ](?:here|placeholder)"
    r"|.*\*{3,}.*|.*\.{3}|.*\xe2\x80\xa6.*"  # cut short on purpose
    r")"
)
_CODE: Final = (
    r"(?:os|process|env|self|this|cls|config|settings|secrets|vars|var|local|data|args|ctx|req"
    r"|request|response|params|props|user|app|import|await|new|std|system|module)[.?\[(:].*"
    r"|[A-Za-z_][A-Za-z0-9_.]*(?:::[A-Za-z_]+)*[(\[].*"
)
_NUMBER: Final = r"[0-9.,_+%-]*(?:[0-9][a-zA-Z]{1,2})?"
_PATH: Final = r"(?:[a-z]+:/|~?/|\.{1,2}/|[A-Za-z]:\\).*"
_NO_SECRET: Final = f"(?:{_HOLE})|{_CODE}|{_NUMBER}|{_PATH}"


def is_placeholder(value: bytes) -> bool:
    """Say whether a value stands for a secret without being one: `None`, `<token>`, `****`."""
    return value[:_SAMPLE].strip().lower() in _PLACEHOLDERS or is_hole(value)


def is_nothing(value: bytes) -> bool:
    """Say whether a value is none even where every value is a secret: `null`, `<token>`."""
    return value[:_SAMPLE].strip().lower() in _NOTHING or is_hole(value)


def is_hole(value: bytes) -> bool:
    """Say whether a value is where a secret would go: `<token>`, `${X}`, `****`."""
    return pattern(_HOLE).is_all_of(value[:_SAMPLE].strip())


def may_be_secret(value: bytes) -> bool:
    """Say whether a value is no placeholder, number, path or code that yields the secret."""
    head = value[:_SAMPLE].strip()
    return head.lower() not in _PLACEHOLDERS and not pattern(_NO_SECRET).is_all_of(head)


def entropy(value: bytes) -> float:
    """Return the bits per character of a value's beginning."""
    head = value[:_SAMPLE]
    counts = Counter(head).values()
    return -sum(count / len(head) * math.log2(count / len(head)) for count in counts)


def has_digit(value: bytes) -> bool:
    """Say whether there is a digit."""
    return len(value.translate(None, b"0123456789")) < len(value)


def has_inner_capital(value: bytes) -> bool:
    """Say whether a capital follows another character."""
    return pattern("[^A-Z][A-Z]").is_in(value)


def has_letter(value: bytes) -> bool:
    """Say whether there is a letter."""
    return value.upper() != value.lower()


def _always(_: bytes) -> bool:
    return True


def _digit_or_long(value: bytes) -> bool:
    return has_digit(value) or len(value) - len(b"sk-") >= _LONG_SK


def _mixed(value: bytes) -> bool:
    return has_digit(value) or has_inner_capital(value)


def _bearer(value: bytes) -> bool:
    if value.lower() in _NO_TOKENS or is_placeholder(value):
        return False
    if pattern("[0-9._]|[^A-Z][A-Z]").is_in(value):
        return True
    return len(value) >= _LONG_WORD and not pattern("[a-z]+(?:[-/:][a-z]+)+").is_all_of(value)


def _no_hole(value: bytes) -> bool:
    return not is_hole(value)


CHECKS: Final[Mapping[str, Check]] = {
    "always": _always,
    "digit-or-long": _digit_or_long,
    "mixed": _mixed,
    "bearer": _bearer,
    "no-hole": _no_hole,
}
