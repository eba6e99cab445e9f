"""What can go wrong with a provider, in words that hold nothing of the request."""

from __future__ import annotations

from typing import Final

import aiohttp

# The first that fits counts. The library's own words are not used: they may hold the address with
# its query, and a key in that.
_WORDS: Final = (
    (aiohttp.ClientConnectorCertificateError, "its certificate is not trusted"),
    (aiohttp.ServerTimeoutError, "there was no connection in time"),
    (aiohttp.ServerDisconnectedError, "it closed the connection"),
    (aiohttp.ClientPayloadError, "its answer ended early"),
    (aiohttp.ClientResponseError, "its answer is not HTTP"),
)


def why_of(error: BaseException) -> str:
    """Say what happened."""
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    said = ""
    if isinstance(cause, OSError):
        # One that the resolver's guard raised has words only.
        said = cause.strerror or str(cause)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"its name cannot be resolved: {said}"
    return said or type(error).__name__
