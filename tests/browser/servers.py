"""Small servers of the tests' own: a provider with a script, and other sites on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server:
    """Answers what it is asked, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, body: bytes) -> tuple[str, bytes]:
        """Return a media type and what is sent."""
        return "text/plain", b""


class Canary(Server):
    """A site that must never be asked for anything."""


class Site(Server):
    """Another site on this machine, with pages of its own."""

    def __init__(self, pages: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.pages = dict(pages or {})

    def answer(self, path: str, body: bytes) -> tuple[str, bytes]:
        return "text/html; charset=utf-8", self.pages.get(path, "").encode()


class Provider(Server):
    """A provider of models that says what a test told it to say to a question."""

    def __init__(self) -> None:
        super().__init__()
        self.says: dict[str, str] = {}

    def answer(self, path: str, body: bytes) -> tuple[str, bytes]:
        request: dict[str, Any] = json.loads(body)
        said = json.dumps(request["messages"][-1])
        # What was asked stands before what is remembered, which may tell of other questions.
        known = sorted((said.index(asked), asked) for asked in self.says if asked in said)
        text = self.says[known[0][1]] if known else "Noted."
        reply = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
            ],
            "usage": {
                "prompt_tokens": len(body) // 4,
                "completion_tokens": len(text) // 4,
                "total_tokens": (len(body) + len(text)) // 4,
            },
        }
        return "application/json", json.dumps(reply).encode()


@contextmanager
def running_server(server: Server) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            kind, content = server.answer(self.path, body)
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server.port = listening.server_address[1]
        thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown()
            thread.join()
