"""Secrets that are known, in every form they are written in."""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import ahocorasick_rs

from memplane.redaction.secret_hit import SecretHit
from memplane.redaction.value_checks import is_placeholder
from memplane.secret import Secret

KNOWN_KIND: Final = "known"
_MIN_SECRET_CHARS: Final = 6
_MAX_JSON_DEPTH: Final = 5
_MIN_FORM_BYTES: Final = 7
_BASE64_BYTES: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_="
)
_SECRET_NAME_PARTS: Final = (
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CONNECTION_STRING",
    "CONNECTIONSTRING",
    "_PASS",
    "_PWD",
    "_SAS",
    "_DSN",
    "DATABASE_URL",
    "AUTHORIZATION",
    "COOKIE",
)
_HARMLESS_SUFFIXES: Final = ("_PATH", "_FILE", "_DIR", "_ID", "_NAME", "_URL", "_TYPE", "KEYMAP")


class KnownSecrets:
    """Finds secrets by themselves, and in base64, hex, URL and JSON forms.

    Those shorter than six characters are left out, and so are words like `true` or `password`:
    they would blank ordinary text.
    """

    __slots__ = ("_automaton", "_secrets")

    def __init__(self, known: Iterable[Secret]) -> None:
        forms: dict[bytes, tuple[bytes, bool]] = {}
        for secret in dict.fromkeys(known):
            value = secret.reveal().encode("utf-8", "surrogatepass")
            if len(value) >= _MIN_SECRET_CHARS and not is_placeholder(value):
                forms.update(dict.fromkeys(_base64_forms(value), (value, True)))
                forms.update(dict.fromkeys(_plain_forms(value), (value, False)))
        self._secrets = list(forms.values())
        self._automaton = _automaton(list(forms)) if forms else None

    def hits(self, data: bytes) -> list[SecretHit]:
        """Return where known secrets stand; the longest form wins."""
        if self._automaton is None:
            return []
        matches = self._automaton.find_matches_as_indexes(data)
        return [self._hit(data, *match) for match in matches]

    def _hit(self, data: bytes, form: int, start: int, end: int) -> SecretHit:
        secret, in_base64 = self._secrets[form]
        if in_base64:
            # The characters beside hold some of its bits.
            start -= start > 0 and data[start - 1] in _BASE64_BYTES
            end += end < len(data) and data[end] in _BASE64_BYTES
        return SecretHit(start, end, KNOWN_KIND, secret)


def collect_environment_secrets(environ: Mapping[str, str]) -> list[Secret]:
    """Pick the values of variables whose names say that they are secret."""
    return [Secret(value) for name, value in environ.items() if _is_secret(name.upper(), value)]


def _is_secret(name: str, value: str) -> bool:
    return (
        len(value) >= _MIN_SECRET_CHARS
        and not value.isdecimal()
        and any(part in name for part in _SECRET_NAME_PARTS)
        and not (name.endswith(_HARMLESS_SUFFIXES) and name != "DATABASE_URL")
        and not is_placeholder(value.encode("utf-8", "surrogatepass"))
    )


def _plain_forms(value: bytes) -> Iterator[bytes]:
    text = value.decode("utf-8", "surrogatepass")
    yield value
    for ascii_only in (True, False):
        json_form = _in_json(text, ascii_only=ascii_only)
        yield json_form.replace(b"/", b"\\/")
        for _ in range(_MAX_JSON_DEPTH):
            yield json_form
            json_form = _in_json(json_form.decode("utf-8", "surrogatepass"), ascii_only=False)
    for quoted in (urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value)):
        yield quoted.encode()
        yield _lower_escapes(quoted).encode()
    yield urllib.parse.quote(value).encode()
    yield value.hex().encode()
    yield value.hex().upper().encode()


def _in_json(text: str, *, ascii_only: bool) -> bytes:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")


def _lower_escapes(quoted: str) -> str:
    head, *escapes = quoted.split("%")
    return "%".join((head, *(escape[:2].lower() + escape[2:] for escape in escapes)))


def _base64_forms(value: bytes) -> Iterator[bytes]:
    """Yield the characters that depend on the secret alone, for each place it may begin at."""
    for before in range(3):
        padded = bytes(before) + value
        first = -(-before * 8 // 6)
        last = len(padded) * 8 // 6
        for encoded in (base64.b64encode(padded), base64.urlsafe_b64encode(padded)):
            form = encoded[first:last]
            if len(form) >= _MIN_FORM_BYTES:
                yield form


def _automaton(forms: list[bytes]) -> ahocorasick_rs.BytesAhoCorasick:
    return ahocorasick_rs.BytesAhoCorasick(forms, ahocorasick_rs.MatchKind.LeftmostLongest)
