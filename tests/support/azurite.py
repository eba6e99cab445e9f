"""Azurite, the storage emulator, started for a test session on a free port."""

from __future__ import annotations

import base64
import json
import math
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from memplane.secret import Secret
from memplane.settings import BlobSettings

ROOT = Path(__file__).parents[2]
_PORTS_TRIED = 5
PROGRAM = ROOT / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
_AZURITE = ("node", str(PROGRAM), "--blobHost", "127.0.0.1")
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
    options = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    if certificate:
        options += ["--oauth", "basic"]
        options += ["--cert", str(certificate.chain), "--key", str(certificate.key)]
    process, port = _started(folder, options)
    try:
        scheme = "https" if certificate else "http"
        yield Azurite(port, scheme, certificate.authority if certificate else None)
    finally:
        # It keeps nothing, and now and then it does not end when it is asked to.
        process.kill()
        process.wait()


def _started(folder: Path, options: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start it on a free port, and on another one where somebody else was faster."""
    log = folder / "azurite.log"
    for _ in range(_PORTS_TRIED):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with log.open("wb") as written:
            process = subprocess.Popen(
                [
                    "node",
                    str(PROGRAM),
                    "--blobHost",
                    "127.0.0.1",
                    "--blobPort",
                    str(port),
                    *options,
                ],
                cwd=folder,
                stdout=written,
                stderr=written,
            )
        if _is_up(process, log):
            return process, port
        process.kill()
        process.wait()
        if "EADDRINUSE" not in log.read_text():
            break
    raise RuntimeError(f"Azurite did not start: {log.read_text()}")


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


def _is_up(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait until it says that it listens, since somebody else may answer on its port."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if "successfully listen" in log.read_text():
            return True
        time.sleep(0.05)
    return False
