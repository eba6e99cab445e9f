"""What MSAL sends its requests with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import requests

_TIMEOUT_S: Final = 15
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_Fields: TypeAlias = Mapping[str, str] | None


def is_on_loopback(authority: str) -> bool:
    """Say whether an authority stands in for Microsoft's: it is in no list of Microsoft's."""
    return urlsplit(authority).hostname in _LOOPBACK


class MsalHttpClient:
    """What MSAL sends with: a deadline for each request, no redirects, nothing kept open."""

    def __init__(self, ca_file: Path | None) -> None:
        self._verify = str(ca_file) if ca_file else None

    def post(
        self, url: str, *, params: _Fields = None, data: _Fields = None, headers: _Fields = None
    ) -> requests.Response:
        """Send a form."""
        return requests.post(
            url,
            params=params,
            data=data,
            headers=headers,
            verify=self._verify,
            timeout=_TIMEOUT_S,
            allow_redirects=False,
        )

    def get(
        self, url: str, *, params: _Fields = None, headers: _Fields = None
    ) -> requests.Response:
        """Read a document."""
        return requests.get(
            url,
            params=params,
            headers=headers,
            verify=self._verify,
            timeout=_TIMEOUT_S,
            allow_redirects=False,
        )

    def close(self) -> None:
        """Nothing is open."""
