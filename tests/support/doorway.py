"""A port that leads to another one, and can be shut: a network that comes and goes."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Doorway:
    """Passes connections on to a port of this machine while it is open."""

    target: int
    port: int = 0
    _listening: socket.socket | None = None
    _passing: list[socket.socket] = field(default_factory=list[socket.socket])

    def open(self) -> None:
        listening = socket.create_server(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        self._listening = listening
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def shut(self) -> None:
        """Refuse connections, and cut those that there are."""
        if self._listening is not None:
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
            self._listening = None
        for one in self._passing:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._passing.clear()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            self._passing += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(source: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
