"""This machine's certificate, and the assertions that are signed with it."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import datetime, timedelta
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from memplane.secret import Secret

_KEY_BITS: Final = 2048
_CERTIFICATE_LIFETIME: Final = timedelta(days=365)
_ASSERTION_LIFETIME_S: Final = 600
_CERTIFICATE_HEADER: Final = b"-----BEGIN CERTIFICATE-----"


class AgentCertificate(msgspec.Struct, frozen=True):
    """A private key in PEM, the thumbprint of its certificate, and the certificate when known."""

    private_key: Secret
    thumbprint: str
    der: bytes = b""


class UnusableCertificate(ValueError):
    """What the key store holds is no certificate that could sign; the text has no key in it."""


def make_certificate(subject: str, now: datetime) -> Secret:
    """Make a key and its self-signed certificate, both in one PEM text."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject[:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _CERTIFICATE_LIFETIME)
        .sign(key, hashes.SHA256())
    )
    encoded_key = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Secret((encoded_key + certificate.public_bytes(serialization.Encoding.PEM)).decode())


def read_certificate(pem: Secret, thumbprint: str = "") -> AgentCertificate:
    """Read what a key store holds: a key with its certificate, or a key and a known thumbprint.

    Raises:
        UnusableCertificate: It is neither, or the thumbprint is another certificate's.
    """
    body = pem.reveal().encode()
    if _CERTIFICATE_HEADER not in body:
        if not thumbprint:
            raise UnusableCertificate(
                "the key store has a private key without its certificate. Set "
                "MEMPLANE_BLUEPRINT_CERT_THUMBPRINT"
            )
        return AgentCertificate(pem, thumbprint)
    try:
        loaded = x509.load_pem_x509_certificate(body[body.index(_CERTIFICATE_HEADER) :])
    except ValueError:
        raise UnusableCertificate("the certificate in the key store cannot be read") from None
    der = loaded.public_bytes(serialization.Encoding.DER)
    own = encode_base64url(hashlib.sha256(der).digest())
    if thumbprint and thumbprint != own:
        raise UnusableCertificate(
            f"the certificate in the key store has the thumbprint {own}, but "
            f"MEMPLANE_BLUEPRINT_CERT_THUMBPRINT is {thumbprint}. Correct the setting or remove it"
        )
    return AgentCertificate(pem, own, der)


def describe_validity(certificate: AgentCertificate) -> tuple[datetime, datetime] | None:
    """Say from when to when a certificate is valid; None when only its key is known."""
    if not certificate.der:
        return None
    loaded = x509.load_der_x509_certificate(certificate.der)
    return loaded.not_valid_before_utc, loaded.not_valid_after_utc


def sign_assertion(
    certificate: AgentCertificate,
    *,
    audience: str,
    client_id: str,
    assertion_id: str,
    now: datetime,
    algorithm: str = "PS256",
) -> str:
    """Sign the statement that the first hop is asked with.

    Raises:
        UnusableCertificate: The key cannot sign.
    """
    issued = int(now.timestamp())
    header = {"alg": algorithm, "typ": "JWT", "x5t#S256": certificate.thumbprint}
    claims = {
        "aud": audience,
        "iss": client_id,
        "sub": client_id,
        "jti": assertion_id,
        "nbf": issued,
        "iat": issued,
        "exp": issued + _ASSERTION_LIFETIME_S,
    }
    parts = [encode_base64url(json.dumps(part).encode()) for part in (header, claims)]
    signed = ".".join(parts)
    signature = _load_key(certificate.private_key).sign(
        signed.encode(), _padding(algorithm), hashes.SHA256()
    )
    return f"{signed}.{encode_base64url(signature)}"


def _load_key(pem: Secret) -> rsa.RSAPrivateKey:
    try:
        key = serialization.load_pem_private_key(pem.reveal().encode(), password=None)
    except (ValueError, TypeError):
        # Not as the cause: its message may repeat a part of the key.
        raise UnusableCertificate("the private key in the key store cannot be read") from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise UnusableCertificate("the private key in the key store is no RSA key")
    return key


def _padding(algorithm: str) -> padding.PSS | padding.PKCS1v15:
    if algorithm == "RS256":
        return padding.PKCS1v15()
    return padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)


def encode_base64url(body: bytes) -> str:
    """Encode bytes as tokens do: base64url without padding."""
    return base64.urlsafe_b64encode(body).decode().rstrip("=")
