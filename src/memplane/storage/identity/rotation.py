"""This machine's certificate: made and registered once, and replaced without a gap."""

from __future__ import annotations

import base64
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from memplane.errors import BackendMisconfigured, MemplaneError
from memplane.kit.clock import Clock
from memplane.secret import Secret
from memplane.storage.identity.certificate import (
    AgentCertificate,
    UnusableCertificate,
    make_certificate,
    read_certificate,
)
from memplane.storage.identity.key_store import KEY_ACCOUNT, NEXT_KEY_ACCOUNT, KeyStore

_log = logging.getLogger(__name__)


class CertificateRegistry(Protocol):
    """Where the certificates of all machines are registered."""

    async def add(self, certificate_der: bytes, name: str) -> bool:
        """Add a certificate beside the others; say whether it was missing."""
        ...

    async def remove(self, thumbprint: bytes) -> bool:
        """Remove one certificate, by its SHA-256; say whether it was there."""
        ...


async def ensure_certificate(
    keys: KeyStore, registry: CertificateRegistry, *, clock: Clock
) -> AgentCertificate:
    """Return this machine's certificate, registered; it is made when there is none.

    Raises:
        BackendMisconfigured: The key store does not keep what it is given.
        MemplaneError: It could not be registered.
    """
    pem = keys.read(KEY_ACCOUNT)
    if pem is None:
        pem = make_certificate(_name_machine(), clock())
        _keep(keys, KEY_ACCOUNT, pem)
    try:
        certificate = read_certificate(pem)
    except UnusableCertificate as error:
        raise BackendMisconfigured(f"{error}. `memplane cloud rotate` makes a new one") from None
    await registry.add(certificate.der, _name_machine())
    return certificate


async def rotate_certificate(
    keys: KeyStore,
    registry: CertificateRegistry,
    prove: Callable[[AgentCertificate], Awaitable[None]],
    *,
    clock: Clock,
) -> AgentCertificate:
    """Replace this machine's certificate. The old one stays until the new one is proven.

    `prove` gets tokens with the new one. When that fails, the new one is taken back, and the old
    one goes on as before.

    Raises:
        MemplaneError: The new one could not be registered or proven; the old one is in use.
    """
    old = keys.read(KEY_ACCOUNT)
    pem = make_certificate(_name_machine(), clock())
    new = read_certificate(pem)
    _keep(keys, NEXT_KEY_ACCOUNT, pem)
    try:
        await registry.add(new.der, _name_machine())
        await prove(new)
        _keep(keys, KEY_ACCOUNT, pem)
    except BaseException:
        await _take_back(keys, registry, new, old)
        raise
    await _retire(registry, old)
    keys.delete(NEXT_KEY_ACCOUNT)
    return new


async def _retire(registry: CertificateRegistry, old: Secret | None) -> None:
    """Remove the certificate of before; when it has to stay, that is logged."""
    if old is None:
        return
    try:
        await registry.remove(_digest(read_certificate(old)))
    except (MemplaneError, UnusableCertificate) as error:
        _log.warning("the old certificate stays registered, and nobody has its key: %s", error)


async def _take_back(
    keys: KeyStore, registry: CertificateRegistry, new: AgentCertificate, old: Secret | None
) -> None:
    """Put everything back as it was; what cannot be is logged."""
    if old is not None:
        keys.write(KEY_ACCOUNT, old)
    try:
        await registry.remove(_digest(new))
    except MemplaneError as error:
        _log.warning("the new certificate stays registered, and nobody has its key: %s", error)
    keys.delete(NEXT_KEY_ACCOUNT)


def _keep(keys: KeyStore, account: str, pem: Secret) -> None:
    keys.write(account, pem)
    if keys.read(account) != pem:
        raise BackendMisconfigured(f"{keys.where} does not keep what it is given")


def _digest(certificate: AgentCertificate) -> bytes:
    return base64.urlsafe_b64decode(certificate.thumbprint + "=")


def _name_machine() -> str:
    return f"memplane {socket.gethostname()}"
