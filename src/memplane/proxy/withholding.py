"""What a governed agent showed to us goes no further, wherever else it wrote it (pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import unquote_plus

from memplane.errors import InvalidRequest
from memplane.proxy.body import LONGEST
from memplane.proxy.encodings import undone
from memplane.proxy.headers import value_of
from memplane.proxy.routing import Target
from memplane.secret import Secret

_REDACTED: Final = b"[redacted]"
_ENCODING: Final = b"content-encoding"
_SHORTEST: Final = 16
"""A secret is looked for without the name before it where it is too long to mean anything else."""


def withheld(target: Target, body: bytes, token: Secret) -> tuple[Target, bytes]:
    """Leave a token out of a request: out of its headers, of its query, and of its body.

    A body that is encoded and holds it goes on without its encoding. One whose encoding cannot be
    undone stays as it is, and nobody passes it on.
    """
    target = _without(target, token)
    encoding = value_of(target.headers, _ENCODING)
    if not encoding:
        return target, _redacted(body, token)
    try:
        plain = undone(body, encoding, most=LONGEST)
    except InvalidRequest:
        return target, body
    clean = _redacted(plain, token)
    if clean == plain:
        return target, body
    headers = [one for one in target.headers if one[0].lower() != _ENCODING]
    return replace(target, headers=headers), clean


def _without(target: Target, token: Secret) -> Target:
    hidden = _forms(token)
    headers = [
        (name, value)
        for name, value in target.headers
        if not any(one.encode("latin-1", "replace") in value for one in hidden)
    ]
    parts = target.query.split("&")
    kept = [part for part in parts if not any(one in unquote_plus(part) for one in hidden)]
    return replace(target, query="&".join(kept), headers=headers)


def _redacted(body: bytes, token: Secret) -> bytes:
    for one in _forms(token):
        body = body.replace(one.encode("latin-1", "replace"), _REDACTED)
    return body


def _forms(token: Secret) -> tuple[str, ...]:
    """Return a token as it was shown, and its secret alone; the longer one first."""
    shown = token.reveal()
    secret = shown.partition(":")[2]
    return (shown, secret) if len(secret) >= _SHORTEST else (shown,)
