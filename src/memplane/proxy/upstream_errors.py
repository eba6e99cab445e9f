"""What can go wrong with a provider, in words that hold nothing of the request."""

from __future__ import annotations

import os
import socket
from typing import Final

import aiohttp

# The first that fits counts. The library's own words are not used: they may hold the address with
# its query, and a key in that.
_DESCRIPTIONS: Final = (
    (aiohttp.ClientConnectorCertificateError, "its certificate is not trusted"),
    (aiohttp.ServerTimeoutError, "there was no connection in time"),
    (aiohttp.ServerDisconnectedError, "it closed the connection"),
    (aiohttp.ClientPayloadError, "its answer ended early"),
    (aiohttp.ClientResponseError, "its answer is not HTTP"),
)


def describe_error(error: BaseException) -> str:
    """Say what happened."""
    for kind, words in _DESCRIPTIONS:
        if isinstance(error, kind):
            return words
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"its name cannot be resolved: {_describe_os_error(cause)}"
    return _describe_os_error(cause) or type(error).__name__


def _describe_os_error(cause: BaseException) -> str:
    if not isinstance(cause, OSError):
        return ""
    if cause.errno and not isinstance(cause, socket.gaierror):
        # The loop's own words are about calls, with the address as a tuple.
        return os.strerror(cause.errno).lower()
    return cause.strerror or str(cause)  # the resolver's, or those of its guard
