"""What a governed agent showed to us goes no further, wherever else it wrote it (pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import unquote_plus

from memplane.errors import InvalidRequest
from memplane.exchange.content_encoding import decode_content
from memplane.exchange.request_body import MAX_BODY_BYTES
from memplane.proxy.headers import header_value
from memplane.proxy.route_selection import RequestTarget
from memplane.secret import Secret

_REPLACEMENT: Final = b"[redacted]"
_CONTENT_ENCODING: Final = b"content-encoding"
_MIN_SECRET_CHARS: Final = 16
"""A secret is looked for without the name before it where it is too long to mean anything else."""


def strip_agent_token(
    target: RequestTarget, body: bytes, token: Secret
) -> tuple[RequestTarget, bytes]:
    """Leave a token out of a request: out of its headers, of its query, and of its body.

    A body that is encoded and holds it goes on without its encoding. One whose encoding cannot be
    undone stays as it is, and nobody passes it on.
    """
    target = _strip_from_target(target, token)
    encoding = header_value(target.headers, _CONTENT_ENCODING)
    if not encoding:
        return target, _strip_from_body(body, token)
    try:
        plain = decode_content(body, encoding, max_bytes=MAX_BODY_BYTES)
    except InvalidRequest:
        return target, body
    clean = _strip_from_body(plain, token)
    if clean == plain:
        return target, body
    headers = [one for one in target.headers if one[0].lower() != _CONTENT_ENCODING]
    return replace(target, headers=headers), clean


def _strip_from_target(target: RequestTarget, token: Secret) -> RequestTarget:
    hidden = _token_forms(token)
    headers = [
        (name, value)
        for name, value in target.headers
        if not any(one.encode("latin-1", "replace") in value for one in hidden)
    ]
    parts = target.query.split("&")
    kept = [part for part in parts if not any(one in unquote_plus(part) for one in hidden)]
    return replace(target, query="&".join(kept), headers=headers)


def _strip_from_body(body: bytes, token: Secret) -> bytes:
    for one in _token_forms(token):
        body = body.replace(one.encode("latin-1", "replace"), _REPLACEMENT)
    return body


def _token_forms(token: Secret) -> tuple[str, ...]:
    """Return a token as it was shown, and its secret alone; the longer one first."""
    shown = token.reveal()
    secret = shown.partition(":")[2]
    return (shown, secret) if len(secret) >= _MIN_SECRET_CHARS else (shown,)
