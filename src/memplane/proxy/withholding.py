"""What a governed agent showed to us goes no further, wherever else it wrote it (pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import unquote_plus

from memplane.proxy.routes import Target
from memplane.secret import Secret

_REDACTED: Final = b"[redacted]"
_SHORTEST: Final = 16
"""A secret is looked for without the name before it where it is too long to mean anything else."""


def without_token(target: Target, token: Secret) -> Target:
    """Leave out the headers and the parts of the query that hold a token."""
    hidden = _forms(token)
    headers = [
        (name, value)
        for name, value in target.headers
        if not any(one.encode("latin-1", "replace") in value for one in hidden)
    ]
    parts = target.query.split("&")
    kept = [part for part in parts if not any(one in unquote_plus(part) for one in hidden)]
    return replace(target, query="&".join(kept), headers=headers)


def redacted(body: bytes, token: Secret) -> bytes:
    """Take a token out of a body; one that is compressed is left as it is."""
    for one in _forms(token):
        body = body.replace(one.encode("latin-1", "replace"), _REDACTED)
    return body


def _forms(token: Secret) -> tuple[str, ...]:
    """Return a token as it was shown, and its secret alone; the longer one first."""
    shown = token.reveal()
    secret = shown.partition(":")[2]
    return (shown, secret) if len(secret) >= _SHORTEST else (shown,)
