"""Who asks: the token in a request, and what it grants.

`memplane.server.authentication` looks the token up once, before routing; handlers ask here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final, cast
from urllib.parse import unquote_plus

from starlette.requests import Request
from starlette.types import Scope as Asgi

from memplane.auth.grants import Grant
from memplane.server.errors import not_found_error, unauthorised_error

_GRANT_KEY: Final = "memplane.grant"
_TOKEN_LIKE: Final = re.compile(r"[A-Za-z0-9._:-]{20,}", re.ASCII)
"""Whatever is as long as a token, and has no other characters."""


def header_values(scope: Asgi, name: bytes) -> list[str]:
    """Return every value of a header."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def read_token(scope: Asgi) -> str:
    """Return the bearer token, or `x-api-key` when there is no `Authorization`; else nothing.

    Two of a kind count as none, and so does a token in the address.
    """
    given = header_values(scope, b"authorization")
    if len(given) == 1 and given[0].strip():
        scheme, _, token = given[0].strip().partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""
    keys = header_values(scope, b"x-api-key")
    return keys[0].strip() if len(given) <= 1 and len(keys) == 1 else ""


def find_possible_tokens(scope: Asgi) -> Iterator[str]:
    """Yield what could be a token, wherever it stands in the head of a request."""
    texts = [value.decode("latin-1") for _, value in scope["headers"]]
    texts += (_basic(text) for text in header_values(scope, b"authorization"))
    texts += (scope["path"], unquote_plus(scope["query_string"].decode("latin-1")))
    for text in texts:
        for word in _TOKEN_LIKE.findall(text):
            *named, last = word.split(":")
            yield word
            if named:  # what stands before a token and a colon may be a name for it
                yield f"{named[-1]}:{last}"
                yield last


def _basic(header: str) -> str:
    """Return what a client made of a name and a password in an address."""
    scheme, _, encoded = header.strip().partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(encoded).decode("latin-1")
    except ValueError:
        return ""


def store_grant(scope: Asgi, grant: Grant | None) -> None:
    """Keep what the token grants with the request."""
    scope[_GRANT_KEY] = grant


def find_grant(request: Request) -> Grant | None:
    """Return what memplane's own tokens grant to whoever asks; None when nothing."""
    return cast("Grant | None", request.scope.get(_GRANT_KEY))


def require_grant(request: Request) -> Grant:
    """Return what the token grants; where there is none the request ends with 401."""
    grant = find_grant(request)
    if grant is None:
        raise unauthorised_error()
    return grant


def require_agent(request: Request, agent: str) -> None:
    """End the request with 404 unless that agent's things exist for whoever asks."""
    if not require_grant(request).reaches(agent):
        raise not_found_error()
