"""moto, a stand-in for S3, served from a thread of the tests on a free port."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from memplane.secret import Secret
from memplane.settings import S3Settings

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

ACCESS_KEY = "memplane-test"
SECRET_KEY = "not a secret: moto takes any"


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where moto listens."""

    endpoint: str

    def create(self, bucket: str) -> None:
        """Create a bucket, as whoever owns the account does."""
        connection = HTTPConnection(urlsplit(self.endpoint).netloc)
        connection.request("PUT", f"/{bucket}")
        assert connection.getresponse().status == 200
        connection.close()

    def settings(self, bucket: str, **more: Any) -> S3Settings:
        return S3Settings(
            bucket=bucket,
            endpoint=self.endpoint,
            access_key=ACCESS_KEY,
            secret_key=Secret(SECRET_KEY),
            **more,
        )

    def variables(self, bucket: str) -> dict[str, str]:
        """Return the same settings as an environment has them."""
        return {
            "MEMPLANE_S3_ENDPOINT": self.endpoint,
            "MEMPLANE_S3_BUCKET": bucket,
            "MEMPLANE_S3_ACCESS_KEY": ACCESS_KEY,
            "MEMPLANE_S3_SECRET_KEY": SECRET_KEY,
        }


class _OneAtATime:
    """moto checks a condition and writes in two steps; S3 does both in one."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._turn = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with self._turn:
            return list(self._app(environ, start_response))


@contextmanager
def running_s3_server() -> Iterator[S3Server]:
    # Half a second to import, and few tests need it.
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import WSGIRequestHandler, make_server

    class QuietHandler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, *_args: object) -> None:
            """Print nothing for each request."""

    app = _OneAtATime(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield S3Server(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
