"""Secrets that show by the name they are given: `password = …`, `"api_key": "…"` (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from memplane.redaction import checks
from memplane.redaction.hit import Hit, masked
from memplane.redaction.pattern import pattern

KEYWORDS: Final = (
    *("passw", "passp", "passc", "_pass", "-pass", "pwd", "secret", "token", "credential"),
    *("authorization", "cookie", "connectionstring", "connection_string", "connection-string"),
    *("_key", "-key", "apikey", "accesskey", "secretkey", "privatekey", "accountkey", "authkey"),
    *("signingkey", "encryptionkey", "masterkey", "adminkey", "storagekey"),
)

_NAME: Final = (
    r"(?:pass(?:word|wd|phrase|code)|[_-]pass|pwd|secret|token|authorization|credentials?"
    r"|(?:api|access|secret|private|account|auth|signing|encryption|master|admin|storage)"
    r"[_-]?key|x-api-key|(?-i:_KEY))"
    r"(?:[_-]?(?:base|value|salt|prod|dev|test|old|new|[0-9]{1,2}))?"
)
_TYPE: Final = (
    r":\s{0,3}(?:str|bytes|string|String|&str|SecretStr|Optional\[str\]|str \| None)\s{0,3}="
)
_BETWEEN: Final = r"""[\\]*["'\x60\])]*\s{0,4}(?:TYPE|=>|:=|[:=])\s{0,4}""".replace("TYPE", _TYPE)
_FLAG: Final = r"--?(?:[a-z-]{0,24}-)?(?:password|passwd|token|api-?key|secret)[ \t]+"
_OPENING: Final = (
    f"(?i)(?:{_NAME}{_BETWEEN}|{_FLAG})" + r"""(?:(?:[fbru]|SecretStr\()?\\{0,3}["'])?"""
)
# Apart from the opening: to tell where a value of a megabyte starts would cost 90 ns a byte.
_VALUES: Final = {
    b'"': r"""(?:[^"\\\r\n\x00]|\\[^"nr\r\n\x00])+""",
    b"'": r"""(?:[^'\\\r\n\x00]|\\[^'nr\r\n\x00])+""",
}
_BARE: Final = r"""(?:[^\s"'\x60,;&<>\\\x00]|\\[^\s"'\\nrt\x00])+"""
# JSON is looked at with its escapes, so that blanks may be escaped here.
_ANY: Final = (
    rf"(?i)(?:(?:{_NAME}|cookie|connection[_-]?string){_BETWEEN}|{_FLAG})[^\s\x00{{]".replace(
        r"\s{0,", r"(?:\s|\\[nrt]){0,"
    ).replace(r"[ \t]+", r"(?:[ \t]|\\t)+")
)

# Under these names a JSON string is a secret whatever it looks like; written without - and _.
_ALWAYS: Final = frozenset(
    b"""
    password passwd pwd passphrase secret clientsecret apikey xapikey accesstoken refreshtoken
    authorization proxyauthorization idtoken authtoken bearertoken sessiontoken privatekey
    secretkey secretaccesskey signingkey
    """.split()
)
_BY_FORM: Final = (
    *(b"password", b"passwd", b"passphrase", b"secret", b"token", b"apikey", b"accesskey"),
    *(b"secretkey", b"privatekey", b"accountkey", b"authkey", b"credential", b"credentials"),
    b"connectionstring",
)
_HARMLESS: Final = (
    *(b"pagetoken", b"nexttoken", b"continuationtoken", b"synctoken", b"cursortoken"),
    *(b"eostoken", b"bostoken", b"padtoken", b"unktoken", b"masktoken", b"septoken"),
    *(b"publickey", b"stoptoken", b"cancellationtoken"),
)
_SCHEME: Final = r"(?i)(?:bearer|basic|token|digest|bot|key|apikey|negotiate)[ \t]+([^\s].*)"

_LONGEST_NAME: Final = 64
_LONG: Final = 256
_SHORTEST: Final = 6
_SHORTEST_TOKEN: Final = 8
_LONG_TOKEN: Final = 20
_FLOOR: Final = 2.3
_WORD: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_IDENTIFIER: Final = r"[A-Za-z_$][A-Za-z_.$-]*[0-9]?[?]?"
_JUMBLED: Final = r"(?:[a-z][A-Z].*){3}"


def assigns(data: bytes) -> bool:
    """Say whether anything is assigned to a telling name, in text or in JSON."""
    return pattern(_ANY).is_in(data)


def assignments(data: bytes) -> Iterator[Hit]:
    """Yield the secrets that free text assigns to a telling name."""
    position = 0
    while found := pattern(_OPENING).search(data, position):
        begun, _, start = found
        quote = data[start - 1 : start]
        end = pattern(_VALUES.get(quote, _BARE)).end_at(data, start)
        hit = _judged(data, begun, start, end)
        if hit is not None:
            yield hit
            end = hit.end
        elif end - start < _LONG:
            end = start  # another name may stand in the value
        position = end


def keyed(name: bytes, value: bytes) -> Hit | None:
    """Return what is secret of a JSON string, because of the name it stands under."""
    short = name[-_LONGEST_NAME:].lower().replace(b"_", b"").replace(b"-", b"")
    if short not in _ALWAYS and not _looks_secret(short, value):
        return None
    found = pattern(_SCHEME).search(value)
    start = found[1] if found and found[0] == 0 else 0
    secret = value[start:]
    if not masked(secret).strip(b" \x00") or checks.is_nothing(secret):
        return None
    kind = "bearer" if value[:start].lower().startswith(b"bearer") else _kind(short)
    return Hit(start, len(value), kind, secret)


def _looks_secret(short: bytes, value: bytes) -> bool:
    if short.endswith(b"cookie"):
        return b"=" in value
    telling = short.endswith(_BY_FORM) and not short.endswith(_HARMLESS)
    return telling and _is_secret(short, value, quoted=True)


def _judged(data: bytes, begun: int, start: int, end: int) -> Hit | None:
    """Return the hit when a value, under the name before it, is a secret."""
    quoted = data[start - 1 : start] in _VALUES
    value = data[start:end] if quoted else _trimmed(data[start:end])
    if len(value) < _SHORTEST:
        return None
    name = _whole_name(data, begun, start)
    plain = name.lower().replace(b"_", b"").replace(b"-", b"")
    shell = not quoted and name.isupper() and data[start - 1 : start] == b"="
    if plain.endswith(_HARMLESS) or not (
        _is_secret(plain, value, quoted=quoted) or (shell and _may_be_weak(plain, value))
    ):
        return None
    return Hit(start, start + len(value), _kind(plain), value)


def _whole_name(data: bytes, begun: int, value: int) -> bytes:
    start = begun
    while start > 0 and begun - start < _LONGEST_NAME and data[start - 1] in _WORD:
        start -= 1
    end = begun
    while end < value and data[end] in _WORD:
        end += 1
    return data[start:end].lstrip(b"-.")


def _trimmed(value: bytes) -> bytes:
    """Leave out the punctuation of the sentence or the code around a bare value."""
    for opening, closing in ((b"(", b")"), (b"[", b"]"), (b"{", b"}")):
        if opening not in value:
            value = value.rstrip(closing + b".:")
    return value.rstrip(b".:")


def _is_secret(name: bytes, value: bytes, *, quoted: bool) -> bool:
    if len(value) < _SHORTEST or not checks.may_be_secret(value):
        return False
    if not quoted and pattern(_IDENTIFIER).is_all_of(value):
        jumbled = pattern(_JUMBLED).is_in(value)
        return checks.has_digit(value) and (jumbled or _is_password(name))
    if b" " in value.strip():
        return False
    return _is_strong(value) if not _is_password(name) else _may_be_password(value, quoted=quoted)


def _is_strong(value: bytes) -> bool:
    """Say whether a value is too irregular for a word or a name."""
    if len(value) < _SHORTEST_TOKEN or checks.entropy(value) < _FLOOR:
        return False
    if checks.has_digit(value) and checks.has_letter(value):
        return True
    return len(value) >= _LONG_TOKEN and checks.has_inner_capital(value)


def _may_be_password(value: bytes, *, quoted: bool) -> bool:
    irregular = pattern(r"[0-9]|[^A-Za-z0-9_.\s-]|[^A-Z][A-Z]").is_in(value)
    return irregular or (quoted and pattern("[A-Za-z]+").is_all_of(value))


def _may_be_weak(name: bytes, value: bytes) -> bool:
    """Say whether a bare word in the shell is a password; nobody names variables like that."""
    return _is_password(name) and checks.may_be_secret(value)


def _is_password(name: bytes) -> bool:
    return any(word in name for word in (b"pass", b"pwd"))


def _kind(name: bytes) -> str:
    for word, kind in (
        (b"pass", "password"),
        (b"pwd", "password"),
        (b"authorization", "authorization"),
        (b"privatekey", "private-key"),
        (b"apikey", "api-key"),
        (b"token", "token"),
        (b"cookie", "cookie"),
    ):
        if word in name:
            return kind
    return "secret"
