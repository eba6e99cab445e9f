"""A request as it came, and as it goes on to a provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from memplane.auth.proxy_access import ProxyCaller
from memplane.proxy.headers import header_value, managed_key_headers, passthrough_headers
from memplane.proxy.provider import UpstreamCandidate
from memplane.proxy.route_selection import RequestTarget
from memplane.proxy.upstream import UpstreamAttempt
from memplane.secret import Secret


class BodyStream(Protocol):
    """A request's body that is still coming."""

    def pieces(self) -> AsyncIterator[bytes]:
        """Yield it piece by piece."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRequest:
    """A request: whose it is, and as it was sent. Its body is there, or still coming."""

    caller: ProxyCaller
    method: str
    target: RequestTarget
    raw: bytes = field(default=b"", repr=False)
    upload: BodyStream | None = None
    token: Secret | None = None
    """What a governed agent showed; nobody else may see it."""

    def header(self, name: str) -> str:
        """Return the first value of a header; empty when there is none."""
        return header_value(self.target.headers, name.encode())


def make_attempt(
    asked: ProxyRequest,
    candidate: UpstreamCandidate,
    body: bytes | None,
    *,
    decoded: bool = False,
    content_type: bytes | None = b"application/json",
) -> UpstreamAttempt:
    """Say what to send to a candidate; without a body the request's own is passed on.

    Args:
        asked: The request.
        candidate: Whom to ask.
        body: What to send instead of what came.
        decoded: Whether it goes on without the encoding in which it came.
        content_type: What it is, where the provider's key is ours; None leaves it as it came.
    """
    headers = asked.target.headers
    if asked.caller.governed:
        sent = managed_key_headers(
            headers,
            candidate,
            secrets=[asked.token] if asked.token else [],
            content_type=content_type,
            decoded=decoded,
        )
    else:
        sent = passthrough_headers(headers, decoded=decoded)
    if body is None and asked.upload is not None:
        length = asked.header("content-length")
        whole = int(length) if length.isdecimal() else None
        return UpstreamAttempt(candidate, asked.method, sent, asked.upload.pieces(), whole)
    return UpstreamAttempt(candidate, asked.method, sent, body or asked.raw)
