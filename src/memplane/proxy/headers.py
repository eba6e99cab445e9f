"""Which headers go on, to the provider and back to the client (pure).

Names and values stay the bytes that they were, in their order, also where a name comes twice.

`Origin` and `Referer` go to the provider: who asks directly sends them too, and the door has
already refused the origins that it does not know. Of an answer, what speaks of the provider's own
address stays behind: cookies and transport policies would be taken for those of this machine's
address, where other programs listen too, and a permission for web pages is not the provider's to
give here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeAlias

from memplane.proxy.provider import AuthScheme, UpstreamCandidate
from memplane.secret import Secret

Header: TypeAlias = tuple[bytes, bytes]
Headers: TypeAlias = Sequence[Header]

_HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
# Written anew for the provider, or answered by whoever received them.
_REPLACED_HEADERS: Final = frozenset(
    {b"host", b"content-length", b"accept-encoding", b"expect", b"cookie"}
)
_INTERNAL_PREFIXES: Final = (b"proxy-", b"x-claw-", b"x-memplane-")
_CREDENTIAL_HEADERS: Final = frozenset(
    {
        b"authorization",
        b"x-api-key",
        b"api-key",
        b"x-goog-api-key",
        # On whose account a request is: with the operator's key, that is the operator's to say.
        b"openai-organization",
        b"openai-project",
    }
)
_PROVIDER_ONLY_HEADERS: Final = frozenset(
    {
        b"date",
        b"set-cookie",
        b"set-cookie2",
        b"alt-svc",
        b"strict-transport-security",
        b"clear-site-data",
    }
)
_CORS_PREFIX: Final = b"access-control-"
# A header that has one is no header; a server that was to send it would break off.
_CONTROL_CHARS: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_UNCOMPRESSED: Final = (b"accept-encoding", b"identity")
_CONTENT_TYPE: Final = b"content-type"
_JSON: Final = b"application/json"


def passthrough_headers(given: Headers, *, decoded: bool = False) -> list[Header]:
    """Return the headers for a provider whose key the client brings.

    Args:
        given: What the client sent.
        decoded: Whether the body goes on without the encoding in which it came.
    """
    return [*_select_request_headers(given, decoded=decoded), _UNCOMPRESSED]


def managed_key_headers(
    given: Headers,
    candidate: UpstreamCandidate,
    *,
    secrets: Collection[Secret] = (),
    content_type: bytes | None = _JSON,
    decoded: bool = False,
) -> list[Header]:
    """Return the headers for a provider whose key is ours: nothing of the agent's own is left.

    Args:
        given: What the agent sent.
        candidate: Who is asked, with the key.
        secrets: Of the agent; a header that holds one stays here, whatever its name is.
        content_type: What the body is, whatever the agent calls it; None leaves it as it came.
        decoded: Whether the body goes on without the encoding in which it came.
    """
    hidden = [one.reveal().encode("utf-8", "surrogatepass") for one in secrets if one]
    kept = [
        (name, value)
        for name, value in _select_request_headers(given, decoded=decoded)
        if (lower := name.lower()) not in _CREDENTIAL_HEADERS
        and (content_type is None or lower != _CONTENT_TYPE)
        and not any(one in value for one in hidden)
    ]
    if content_type is not None:
        kept.append((_CONTENT_TYPE, content_type))
    return [*kept, _UNCOMPRESSED, *_authorization(candidate)]


def response_headers(given: Headers, *, unchanged: bool = True) -> list[Header]:
    """Return the headers for the client.

    Args:
        given: What the provider sent.
        unchanged: Whether the body passes as it is, so that its length still holds.
    """
    # Of a body that came in chunks a length says nothing that could be relied on.
    framed = any(name.lower() == b"transfer-encoding" for name, _ in given)
    keeps_length = unchanged and not framed
    return [
        (name, value)
        for name, value in _drop_hop_by_hop(given)
        if (lower := name.lower()) not in _PROVIDER_ONLY_HEADERS
        and not lower.startswith(_CORS_PREFIX)
        and (keeps_length or lower != b"content-length")
        and _CONTROL_CHARS.search(value) is None
    ]


def _select_request_headers(given: Headers, *, decoded: bool) -> Iterator[Header]:
    for name, value in _drop_hop_by_hop(given):
        lower = name.lower()
        if lower in _REPLACED_HEADERS or lower.startswith(_INTERNAL_PREFIXES):
            continue
        if decoded and lower == b"content-encoding":
            continue
        yield name, value


def _drop_hop_by_hop(given: Headers) -> Iterator[Header]:
    """Leave out what is said between two neighbours only."""
    named = {
        one.strip().lower()
        for name, value in given
        if name.lower() == b"connection"
        for one in value.split(b",")
    }
    left = _HOP_BY_HOP | named if named else _HOP_BY_HOP
    return ((name, value) for name, value in given if name.lower() not in left)


def _authorization(candidate: UpstreamCandidate) -> list[Header]:
    if candidate.key is None:
        return []
    key = candidate.key.reveal().encode()
    match candidate.auth:
        case AuthScheme.BEARER:
            return [(b"authorization", b"Bearer " + key)]
        case AuthScheme.X_API_KEY:
            return [(b"x-api-key", key)]
        case AuthScheme.NONE:
            return []


def header_value(headers: Headers, name: bytes) -> str:
    """Return the first value of a header; empty when there is none."""
    for key, value in headers:  # asked a dozen times for each turn
        if key.lower() == name:
            return value.decode("latin-1").strip()
    return ""
