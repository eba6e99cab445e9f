"""Further conditions on what a pattern found (pure)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final, TypeAlias

from memplane.redaction.pattern import compile_pattern

ValueCheck: TypeAlias = Callable[[bytes], bool]

_SAMPLE_BYTES: Final = 256
_MIN_SK_BYTES: Final = 20
_MIN_WORD_BYTES: Final = 16
_MIN_SCRAMBLED_BYTES: Final = 8
_MIN_SCRAMBLED_SHARE: Final = 0.4
_LONG_RANDOM: Final = 40
_RANDOM_FLOOR: Final = 2.9

# Words and names that follow "bearer" in prose; all others of 16 letters are taken for a token.
_HARMLESS_WORDS: Final = frozenset(
    b"""
    access_token refresh_token id_token token_type auth_token bearer_token bearer_format
    bearerauth bearertoken bearerformat accesstoken refreshtoken
    responsibilities telecommunication telecommunications internationalization misunderstanding
    misunderstandings counterproductive disproportionate disproportionately environmentalist
    characterization characterizations authenticationscheme authenticationtoken
    authenticationfilter authorizationheader authorizationtoken
    """.split()
)

_NULL_WORDS: Final = frozenset(b"null none nil true false undefined str string example".split())
_PLACEHOLDERS: Final = _NULL_WORDS | frozenset(
    b"""
    void any unknown empty bytes text number int integer bool boolean object secretstr optional
    required placeholder changeme change-me change_me replaceme dummy sample test testing default
    redacted hidden masked removed secret password passwd token bearer basic apikey api_key
    api-key key value
    """.split()
)
_HOLE_PATTERN: Final = (
    r"(?i:"
    r"(?:[*._#-]|\xe2\x80\xa2)+|x{3,}[x-]*"  # stars, dots, crosses
    r"|<.*>|\[.*\]|\{.*\}|%[a-z_]+%|@[a-z_]+@|#\{.*"  # a hole in a template
    r"|\$(?:[{(].*|[a-z_]+|[a-z]+_[a-z0-9_]*)"
    r"|(?:your|insert|enter|put|replace)[-_ ].*"
    r"|.*[-_ ](?:here|placeholder)"
    r"|.*\*{3,}.*|.*\.{3}|.*\xe2\x80\xa6.*"  # cut short on purpose
    r")"
)
_CODE_PATTERN: Final = (
    r"(?:os|process|env|self|this|cls|config|settings|secrets|vars|var|local|data|args|ctx|req"
    r"|request|response|params|props|user|app|import|await|new|std|system|module)[.?\[(:].*"
    r"|[A-Za-z_][A-Za-z0-9_.]*(?:::[A-Za-z_]+)*(?:[(\[].*[)\]].*|(?:[(\[][A-Za-z_$][A-Za-z0-9_.$]*)+"
    r"|(?:[(\[][A-Za-z_][A-Za-z0-9_.]*)*[(\[])"
    r"|\(?[A-Za-z_.]*[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z][A-Za-z0-9]*(?:Private|Public)Key.*"
)
_NUMBER_PATTERN: Final = r"[0-9.,_+%-]*(?:[0-9][a-zA-Z]{1,2})?"
_PATH_PATTERN: Final = r"(?:[a-z]+:/|~?/|\.{1,2}/|[A-Za-z]:\\).*"
# What stands in a sentence about passwords: versions, dates, sizes, names of standards and fields.
_NAMED: Final = (
    r"v?[0-9]+(?:[.:/-][0-9a-z]+)+|[0-9]+(?:[.,][0-9]+)?(?:[A-Za-z%]{0,2}|[A-Za-z]bps"
    r"|-?(?:bytes?|bits?|chars?|characters?|digits?|letters?|words?|days?|hours?|minutes?|mins?"
    r"|seconds?|secs?|weeks?|months?|years?|times?|factor|tokens?|min|sec|st|nd|rd|th)s?)"
    r"|[A-Z][A-Z0-9]*(?:[-_][A-Z0-9]+)+[A-Z]?|[A-Z]{2,8}[0-9]{1,3}"
    r"|(?i:oauth2?|bcrypt|argon2(?:id?)?|ed25519|base(?:32|58|64)(?:-encoded|url)?|sha-?[0-9]{1,3}"
    r"|md5|aes-?[0-9]{0,3}|utf-?8|1password|2fa|mfa|totp|x25519|hs256|rs256|es256|k8s|ipv[46]"
    r"|s3|ec2|i18n|pbkdf2|pkcs-?[0-9]{1,2}|scrypt|v[0-9]+|auth0|log4j|http2?|oauth-?2(?:\.0)?)"
    r"(?:[-/'][a-z]+)?"
    r"|[a-z]+(?:_[a-z]+)+_?[0-9]?|[A-Za-z.]+\(.*|[a-z_]+:[0-9a-z]+|[a-z]+[-/][a-z]+(?:[-/][a-z]+)*"
    r"|[A-Za-z]+'[a-z]{1,2}|[^@\s]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z]+://.*|#[0-9]+|[&*$@#_]{1,3}[A-Za-z_]+[*_]{0,3}"
    r"|%s.*|(?:[a-z]+_)*b(?:ase)?64(?:(?:en|de)code)?"
)
_HARMLESS_PATTERN: Final = f"(?:{_HOLE_PATTERN})|{_CODE_PATTERN}|{_NUMBER_PATTERN}|{_PATH_PATTERN}"


def is_placeholder(value: bytes) -> bool:
    """Say whether a value stands for a secret without being one: `None`, `<token>`, `****`."""
    return value[:_SAMPLE_BYTES].strip().lower() in _PLACEHOLDERS or is_template_hole(value)


def is_null_value(value: bytes) -> bool:
    """Say whether a value is none even where every value is a secret: `null`, `<token>`."""
    return value[:_SAMPLE_BYTES].strip().lower() in _NULL_WORDS or is_template_hole(value)


def is_template_hole(value: bytes) -> bool:
    """Say whether a value is where a secret would go: `<token>`, `${X}`, `****`."""
    return compile_pattern(_HOLE_PATTERN).is_all_of(value[:_SAMPLE_BYTES].strip())


def may_be_secret(value: bytes) -> bool:
    """Say whether a value is no placeholder, number, path or code that yields the secret."""
    head = value[:_SAMPLE_BYTES].strip()
    if head.lower() in _PLACEHOLDERS:
        return False
    return not compile_pattern(_HARMLESS_PATTERN).is_all_of(head) or _is_base64(head)


def _is_base64(value: bytes) -> bool:
    """Say whether what begins with a slash is base64 rather than a path."""
    mixed = has_digit(value) and compile_pattern("[a-z][A-Z].*[a-z][A-Z]").is_in(value)
    return mixed and compile_pattern("/[A-Za-z0-9+/]{25,}={0,2}").is_all_of(value)


def entropy(value: bytes) -> float:
    """Return the bits per character of a value's beginning."""
    head = value[:_SAMPLE_BYTES]
    counts = Counter(head).values()
    return -sum(count / len(head) * math.log2(count / len(head)) for count in counts)


def has_digit(value: bytes) -> bool:
    """Say whether there is a digit."""
    return len(value.translate(None, b"0123456789")) < len(value)


def has_inner_capital(value: bytes) -> bool:
    """Say whether a capital follows another character."""
    return compile_pattern("[^A-Z][A-Z]").is_in(value)


def is_scrambled(value: bytes) -> bool:
    """Say whether capitals stand too close together for the words of a name."""
    if len(value) < _MIN_SCRAMBLED_BYTES or not compile_pattern("[A-Za-z]+").is_all_of(value):
        return False
    letters = value[:_SAMPLE_BYTES].decode()
    changes = sum(first.isupper() != second.isupper() for first, second in pairwise(letters))
    return changes >= _MIN_SCRAMBLED_SHARE * len(letters)


def has_letter(value: bytes) -> bool:
    """Say whether there is a letter."""
    return value.upper() != value.lower()


def _accept_any(_: bytes) -> bool:
    return True


def _digit_or_long(value: bytes) -> bool:
    return has_digit(value) or len(value) - len(b"sk-") >= _MIN_SK_BYTES


def _has_mixed_case(value: bytes) -> bool:
    return has_digit(value) or has_inner_capital(value)


def _bearer(value: bytes) -> bool:
    if value.lower() in _HARMLESS_WORDS or is_placeholder(value):
        return False
    if compile_pattern("[0-9._]|[^A-Z][A-Z]").is_in(value):
        return True
    return len(value) >= _MIN_WORD_BYTES and not compile_pattern(
        "[a-z]+(?:[-/:][a-z]+)+"
    ).is_all_of(value)


def _random(value: bytes) -> bool:
    """Say whether letters and digits are mixed, as no name of a function mixes them."""
    return has_digit(value) and has_letter(value) and entropy(value) >= _RANDOM_FLOOR


def _long_random(value: bytes) -> bool:
    return len(value) >= _LONG_RANDOM and _random(value)


def _long_key(value: bytes) -> bool:
    return len(value) >= _MIN_SK_BYTES


def _argument(value: bytes) -> bool:
    """Say whether what a command line gives for a password can be one."""
    return may_be_secret(value) and not value.startswith((b"-", b"$", b"<", b"%", b"|"))


def _is_irregular_argument(value: bytes) -> bool:
    """Say whether a value in quotes, or alone, is irregular enough for a secret."""
    if not _argument(value) or b" " in value.strip():
        return False
    return compile_pattern(r"[0-9]|[^A-Za-z0-9_.-]|[a-z][A-Z]|^[a-z]+-[a-z]+-[a-z]").is_in(value)


def _is_disclosed_password(value: bytes) -> bool:
    """Say whether a word of a sentence is a password rather than a name or a number."""
    if not may_be_secret(value) or compile_pattern(_NAMED).is_all_of(value):
        return False
    if compile_pattern("[0-9]+").is_all_of(value):
        return False
    symbols = compile_pattern("[!@#$%^&*+=~]").is_in(value)
    if has_digit(value) or symbols:
        return has_letter(value)
    return is_scrambled(value)


def _is_stated_password(value: bytes) -> bool:
    """Say whether what a sentence says the password is, is one; it may be a number."""
    return _is_disclosed_password(value) or compile_pattern("[0-9]{4,12}").is_all_of(value)


def _no_hole(value: bytes) -> bool:
    return not is_template_hole(value)


CHECKS: Final[Mapping[str, ValueCheck]] = {
    "always": _accept_any,
    "digit-or-long": _digit_or_long,
    "mixed": _has_mixed_case,
    "bearer": _bearer,
    "no-hole": _no_hole,
    "random": _random,
    "long-random": _long_random,
    "long-key": _long_key,
    "argument": _argument,
    "given": _is_irregular_argument,
    "disclosed": _is_disclosed_password,
    "stated": _is_stated_password,
}
