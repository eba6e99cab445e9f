"""Secrets that show by the name they are given: `password = …`, `"api_key": "…"` (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from memplane.redaction import value_checks
from memplane.redaction.pattern import compile_pattern
from memplane.redaction.secret_hit import SecretHit, mask_markers

KEYWORDS: Final = (
    *("passw", "passp", "passc", "_pass", "-pass", "pwd", "secret", "token", "credential"),
    *("authorization", "cookie", "connectionstring", "connection_string", "connection-string"),
    *("_key", "-key", "apikey", "accesskey", "secretkey", "privatekey", "accountkey", "authkey"),
    *("signingkey", "encryptionkey", "masterkey", "adminkey", "storagekey", "presharedkey"),
    *("pass:", "pass=", 'pass"', "pass'", "pass =", "pass :", "pass\\", "pass ", ".pass"),
    *("_pw", "-pw", "pw:", "pw=", "pw =", "psk", "salt", "api key", "access key", "private key"),
    *("auth key", "signing key", "encryption key", "master key", "account key", ".key"),
)

_NAME: Final = (
    r"(?:pass(?:word|wd|phrase|code)|(?:[_.-]|\b)(?:pass|pw|psk)|(?-i:[a-z]P)ass|pwd|secret|token"
    r"|authorization|credentials?|(?-i:_SALT)"
    r"|(?:api|access|secret|private|account|auth|signing|encryption|master|admin|storage"
    r"|preshared|subscription)[_. -]?key|x-api-key|[_-]key|sshpass)"
    r"(?:[_-]?(?:base|value|salt|prod|dev|test|old|new|[0-9]{1,2}))?"
)
_TYPE: Final = (
    r":\s{0,3}(?:str|bytes|string|String|&str|SecretStr|Optional\[str\]|str \| None)\s{0,3}="
)
_SEPARATOR_PATTERN: Final = (
    r"""[\\]*["'\x60\])*_]*\s{0,4}(?:\([a-z@. -]{1,20}\)\s?)?"""
    r"""(?:TYPE|=>|->|:=|[:=!]==?|[:=]|\|)[*_]{0,3}\s{0,4}(?:[|>][+-]?\s{1,24})?"""
).replace("TYPE", _TYPE)
_FLAG: Final = (
    r"--?(?:[a-z-]{0,24}-)?(?:password|passwd|passphrase|pass|token|secret"
    r"|(?:api|account|access|secret|private|master)-?key)"
    r"""(?:[ \t]+|\\{0,3}["'],\s{0,4})"""
)
# What a function is called with, and what it is called: only with a quoted value behind it.
_CALL: Final = r"""["']\s{0,2},\s{0,3}|\(\s{0,2}"""
_ASSIGNMENT_PATTERN: Final = (
    f"(?i)(?:{_NAME}{_SEPARATOR_PATTERN}|{_FLAG})"
    r"""(?:(?:[fbru@]|SecretStr\()?\\{0,3}["'\x60])?"""
    rf"""|(?i){_NAME}(?:{_CALL})["']"""
)
# Apart from the opening: to tell where a value of a megabyte starts would cost 90 ns a byte.
_VALUES: Final = {
    b'"': r"""(?:[^"\\\r\n\x00]|\\[^"nr\r\n\x00])+""",
    b"'": r"""(?:[^'\\\r\n\x00]|\\[^'nr\r\n\x00])+""",
    b"\x60": r"""(?:[^\x60\\\r\n\x00]|\\[^\x60nr\r\n\x00])+""",
}
_BARE: Final = r"""(?:[^\s"'\x60,;&<>\\\x00]|\\[^\s"'\\nrt\x00])+"""
# An ampersand belongs to the value unless the next parameter of a query follows it.
_AMPERSAND: Final = r"""(?:&[^\s"'\x60,;&<>=\\\x00]+)+(?:[\s"'\x60,;<>\x00]|\z)"""
# JSON is looked at with its escapes, so that blanks may be escaped here.
_ANY: Final = (
    rf"(?i)(?:(?:{_NAME}|auth|client-?key-?data|cookie|connection[_-]?string){_SEPARATOR_PATTERN}|{_FLAG}"
    rf"""|{_NAME}["\\']{{1,4}}\s{{0,4}},\s{{0,24}}["\\]{{1,4}}value|{_NAME}\\{{0,3}}(?:{_CALL})["'\\])"""
    r"[^\s\x00{]".replace(r"\s{0,", r"(?:\s|\\[nrt]){0,").replace(r"[ \t]+", r"(?:[ \t]|\\t)+")
)

# Under these names a JSON string is a secret whatever it looks like; written without - and _.
_ALWAYS_SECRET_NAMES: Final = frozenset(
    b"""
    password passwd pwd passphrase secret clientsecret apikey xapikey accesstoken refreshtoken
    authorization proxyauthorization idtoken authtoken bearertoken sessiontoken privatekey
    secretkey secretaccesskey signingkey
    """.split()
)
_KEYS: Final = (
    *(b"apikey", b"accesskey", b"secretkey", b"privatekey", b"accountkey", b"authkey"),
    *(b"signingkey", b"encryptionkey", b"masterkey", b"adminkey", b"storagekey"),
    *(b"presharedkey", b"subscriptionkey", b"clientkeydata"),
)
_BY_FORM: Final = (
    *(b"password", b"passwd", b"passphrase", b"secret", b"token"),
    *(b"credential", b"credentials", b"connectionstring", b"pass", b"pw", b"psk", *_KEYS),
)
_HARMLESS: Final = (
    *(b"pagetoken", b"nexttoken", b"continuationtoken", b"synctoken", b"cursortoken"),
    *(b"eostoken", b"bostoken", b"padtoken", b"unktoken", b"masktoken", b"septoken"),
    *(b"publickey", b"stoptoken", b"cancellationtoken", b"bypass", b"compass"),
)
_SCHEME: Final = r"(?i)(?:bearer|basic|token|digest|bot|key|apikey|negotiate)[ \t]+([^\s].*)"

_MAX_NAME_BYTES: Final = 64
_LONG: Final = 256
_MIN_SECRET_BYTES: Final = 6
_MIN_TOKEN_BYTES: Final = 8
_LONG_TOKEN: Final = 20
_FLOOR: Final = 2.3
_NAME_BYTES: Final = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
)
_IDENTIFIER: Final = r"[A-Za-z_$][A-Za-z_.$-]*[0-9]?[?]?"
_MIXED_CASE_PATTERN: Final = r"(?:[a-z][A-Z].*){3}"
_PHRASE: Final = r"[a-z]{3,12}(?:-[a-z]{3,12}){2,6}"
_KEY_FORM: Final = r"[A-Za-z0-9+/_-]*[0-9][A-Za-z0-9+/_-]*={0,2}"
_REFERENCE: Final = "pass|pwd|secret|token|cred|auth|key|user|name|change|must|not|with|value"


def assigns(data: bytes) -> bool:
    """Say whether anything is assigned to a telling name, in text or in JSON."""
    return compile_pattern(_ANY).is_in(data)


def assignments(data: bytes) -> Iterator[SecretHit]:
    """Yield the secrets that free text assigns to a telling name."""
    position = 0
    while match := compile_pattern(_ASSIGNMENT_PATTERN).search(data, position):
        name_end, _, start = match
        quote = data[start - 1 : start]
        end = compile_pattern(_VALUES.get(quote, _BARE)).end_at(data, start)
        if data[end : end + 1] == b"&" and quote not in _VALUES:
            end = max(end, compile_pattern(_AMPERSAND).end_at(data, end) - 1)
        hit = _judge(data, name_end, start, end)
        if hit is not None:
            yield hit
            end = hit.end
        elif end - start < _LONG:
            end = start  # another name may stand in the value
        position = end


def keyed(name: bytes, value: bytes) -> SecretHit | None:
    """Return what is secret of a JSON string, because of the name it stands under."""
    short = name[-_MAX_NAME_BYTES:].lower().translate(None, b"_-. ")
    if short not in _ALWAYS_SECRET_NAMES and not _looks_secret(short, value):
        return None
    match = compile_pattern(_SCHEME).search(value)
    start = match[1] if match and match[0] == 0 else 0
    secret = value[start:]
    if not mask_markers(secret).strip(b" \x00") or value_checks.is_null_value(secret):
        return None
    kind = "bearer" if value[:start].lower().startswith(b"bearer") else _kind(short)
    return SecretHit(start, len(value), kind, secret)


def _looks_secret(short: bytes, value: bytes) -> bool:
    if short.endswith(b"cookie"):
        return b"=" in value
    is_suggestive = short.endswith(_BY_FORM) and not short.endswith(_HARMLESS)
    if short == b"auth":
        return compile_pattern(r"[A-Za-z0-9+/]{16,}={0,2}").is_all_of(value) and _is_strong(value)
    return is_suggestive and _is_secret(short, value, is_quoted=True)


def _judge(data: bytes, name_end: int, start: int, end: int) -> SecretHit | None:
    """Return the hit when a value, under the name before it, is a secret."""
    is_quoted = data[start - 1 : start] in _VALUES
    value = data[start:end] if is_quoted else _trim(data[start:end])
    if len(value) < _MIN_SECRET_BYTES:
        return None
    name = _full_name(data, name_end, start)
    if data[start - 2 : start - 1] in {b"(", b",", b" "} and not value_checks.has_digit(value):
        separator = data[name_end:start]
        if not compile_pattern("[:=|]").is_in(separator):
            return None
    plain = name.lower().translate(None, b"_-. ")
    if plain.endswith(b"key") and not (name.isupper() or plain.endswith(_KEYS)):
        return SecretHit(start, start + len(value), "secret", value) if _is_key(value) else None
    shell = not is_quoted and name.isupper() and data[start - 1 : start] == b"="
    if plain.endswith(_HARMLESS) or not (
        _is_secret(plain, value, is_quoted=is_quoted) or (shell and _may_be_weak(plain, value))
    ):
        return None
    return SecretHit(start, start + len(value), _kind(plain), value)


def _full_name(data: bytes, name_end: int, value: int) -> bytes:
    start = name_end
    while start > 0 and name_end - start < _MAX_NAME_BYTES and data[start - 1] in _NAME_BYTES:
        start -= 1
    end = name_end
    while end < value and data[end] in _NAME_BYTES:
        end += 1
    return data[start:end].lstrip(b"-.")


def _trim(value: bytes) -> bytes:
    """Leave out the punctuation of the sentence or the code around a bare value."""
    for opening, closing in ((b"(", b")"), (b"[", b"]"), (b"{", b"}")):
        if opening not in value:
            value = value.rstrip(closing + b".:")
    return value.rstrip(b".:")


def _is_secret(name: bytes, value: bytes, *, is_quoted: bool) -> bool:
    if len(value) < _MIN_SECRET_BYTES or not value_checks.may_be_secret(value):
        return False
    if not is_quoted and compile_pattern(_IDENTIFIER).is_all_of(value):
        if value_checks.has_digit(value):
            return _is_password(name) or compile_pattern(_MIXED_CASE_PATTERN).is_in(value)
        return value_checks.is_scrambled(value) or (_is_password(name) and _is_phrase(value))
    if b" " in value.strip():
        return False
    return (
        _is_strong(value)
        if not _is_password(name)
        else _may_be_password(value, is_quoted=is_quoted)
    )


def _is_strong(value: bytes) -> bool:
    """Say whether a value is too irregular for a word or a name."""
    if len(value) < _MIN_TOKEN_BYTES or value_checks.entropy(value) < _FLOOR:
        return False
    if (
        value_checks.has_digit(value) and value_checks.has_letter(value)
    ) or value_checks.is_scrambled(value):
        return True
    if value_checks.has_inner_capital(value) and compile_pattern("[!@#$%^&*]").is_in(value):
        return True
    return len(value) >= _LONG_TOKEN and value_checks.has_inner_capital(value)


def _is_key(value: bytes) -> bool:
    """Say whether a value is a key under any name that ends so: no word, no path, no hash."""
    mixed = compile_pattern("[a-z]").is_in(value) and compile_pattern("[A-Z]").is_in(value)
    return len(value) >= _LONG_TOKEN and mixed and compile_pattern(_KEY_FORM).is_all_of(value)


def _is_phrase(value: bytes) -> bool:
    """Say whether a value is a passphrase of words with hyphens between them."""
    return compile_pattern(_PHRASE).is_all_of(value) and not compile_pattern(_REFERENCE).is_in(
        value
    )


def _may_be_password(value: bytes, *, is_quoted: bool) -> bool:
    irregular = compile_pattern(r"[0-9]|[^A-Za-z0-9_.\s-]|[^A-Z][A-Z]").is_in(value)
    return (
        irregular
        or _is_phrase(value)
        or (is_quoted and compile_pattern("[A-Za-z]+").is_all_of(value))
    )


def _may_be_weak(name: bytes, value: bytes) -> bool:
    """Say whether a bare word in the shell is a password; nobody names variables like that."""
    return _is_password(name) and value_checks.may_be_secret(value)


def _is_password(name: bytes) -> bool:
    return any(part in name for part in (b"pass", b"pwd", b"psk")) or name.endswith(b"pw")


def _kind(name: bytes) -> str:
    for part, kind in (
        (b"pass", "password"),
        (b"pwd", "password"),
        (b"authorization", "authorization"),
        (b"privatekey", "private-key"),
        (b"apikey", "api-key"),
        (b"token", "token"),
        (b"cookie", "cookie"),
    ):
        if part in name:
            return kind
    return "secret"
