"""A request to the process that owns the home, for programs that must start fast.

It does with the standard library what `memplane.service.http_transport` does with aiohttp, whose
import alone takes longer than a hook may.
"""

from __future__ import annotations

import http.client
import socket
import time

from memplane.errors import OwnerUnavailable
from memplane.home import Home, shorten_socket_path


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over the home's socket."""

    def __init__(self, path: str, deadline: float) -> None:
        super().__init__("localhost")
        self._path = path
        self._deadline = deadline

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.limit()
        self.sock.connect(self._path)

    def limit(self) -> None:
        """Let the next step take no longer than what is left.

        Raises:
            TimeoutError: Nothing is left.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.sock.settimeout(left)


def ask_owner(home: Home, path: str, body: bytes, *, seconds: float) -> bytes:
    """Post a body to an operation, and return the body of the response.

    Raises:
        OwnerUnavailable: Nobody owns the home, or the owner did not answer in time, or refused.
        HomeError: The home has no token that can be used.
    """
    token = home.existing_token().reveal()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with shorten_socket_path(home.socket) as address:
        connection = _SocketConnection(address, time.monotonic() + seconds)
        try:
            connection.request("POST", path, body, headers)
            connection.limit()
            response = connection.getresponse()
            connection.limit()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise OwnerUnavailable(f"memplane does not answer: {type(error).__name__}") from error
        finally:
            connection.close()
    if response.status != http.HTTPStatus.OK:
        raise OwnerUnavailable(f"memplane answered {response.status}")
    return answer
