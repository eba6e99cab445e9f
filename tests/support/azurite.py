"""Azurite, the storage emulator, started for a test session on a free port."""

from __future__ import annotations

import base64
import json
import math
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from memplane.secret import Secret
from memplane.settings import BlobSettings

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
ACCOUNT = "devstoreaccount1"
# The emulator's public default key, the same on every machine.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate for 127.0.0.1: its chain, its key, and the authority to trust."""

    chain: Path
    key: Path
    authority: Path


@dataclass(frozen=True, slots=True)
class Azurite:
    port: int
    scheme: str
    ca_file: Path | None = None

    @property
    def endpoint(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/{ACCOUNT}"

    @property
    def connection_string(self) -> str:
        return (
            f"DefaultEndpointsProtocol={self.scheme};AccountName={ACCOUNT};AccountKey={KEY};"
            f"BlobEndpoint={self.endpoint};"
        )

    def by_key(self, container: str) -> BlobSettings:
        return BlobSettings(
            connection_string=Secret(self.connection_string),
            container=container,
            ca_file=self.ca_file,
        )

    def by_token(self, container: str) -> BlobSettings:
        return BlobSettings(
            endpoint=self.endpoint,
            container=container,
            token=Secret(storage_token()),
            ca_file=self.ca_file,
        )


def storage_token(*, lifetime: int = 3600) -> str:
    """Make a token the emulator accepts: it checks the claims and not the signature."""
    now = int(time.time())
    claims = {
        "aud": "https://storage.azure.com",
        "iss": "https://sts.windows.net/00000000-0000-0000-0000-000000000000/",
        "iat": now - 10,
        "nbf": now - 10,
        "exp": now + lifetime,
    }
    parts = ({"alg": "RS256", "typ": "JWT"}, claims, "signature")
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    )


@contextmanager
def running_azurite(folder: Path, certificate: Certificate | None) -> Iterator[Azurite]:
    if not PROGRAM.exists():
        raise RuntimeError(f"{PROGRAM} is missing; run `make test`, which installs it")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    if certificate:
        options += ["--oauth", "basic"]
        options += ["--cert", str(certificate.chain), "--key", str(certificate.key)]
    log = (folder / "azurite.log").open("wb")
    process = subprocess.Popen(
        ["node", str(PROGRAM), "--blobHost", "127.0.0.1", "--blobPort", str(port), *options],
        cwd=folder,
        stdout=log,
        stderr=log,
    )
    try:
        scheme = "https" if certificate else "http"
        _wait_for(port, process, folder / "azurite.log")
        yield Azurite(port, scheme, certificate.authority if certificate else None)
    finally:
        # It keeps nothing, and now and then it does not end when it is asked to.
        process.kill()
        process.wait()
        log.close()


class FreshAzurite:
    """Azurite for a long session: replaced by a new one before it is ten minutes old.

    At that age it looks through all it ever stored and answers nobody meanwhile, for minutes.
    """

    _OLD = 420.0

    def __init__(self, new_folder: Callable[[], Path], certificate: Certificate | None) -> None:
        self._new_folder = new_folder
        self._certificate = certificate
        self._running = ExitStack()
        self._since = -math.inf
        self._azurite: Azurite | None = None

    def azurite(self) -> Azurite:
        """Return one that is young enough for a test."""
        if self._azurite is None or time.monotonic() - self._since > self._OLD:
            self._running.close()
            starting = running_azurite(self._new_folder(), self._certificate)
            self._azurite = self._running.enter_context(starting)
            self._since = time.monotonic()
        return self._azurite

    def close(self) -> None:
        self._running.close()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"Azurite did not start: {log.read_text()}")
