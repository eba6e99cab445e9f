"""A stand-in for Microsoft Entra's token endpoint that checks every parameter it is sent.

It runs over TLS in a thread of its own, so that processes and blocking clients can ask it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import ssl
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.azurite import Certificate

EXCHANGE = "api://AzureADTokenExchange/.default"
STORAGE, GRAPH = "https://storage.azure.com", "https://graph.microsoft.com"
JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_OIDC_SCOPES = {"openid", "profile", "offline_access"}
_OF_THE_LIBRARY = {"claims", "client_info"}
"""What MSAL adds to every form."""

DOCUMENTED = {
    "AADSTS65001": ("invalid_grant", "The user or administrator has not consented"),
    "AADSTS700211": ("invalid_client", "No matching federated identity record found"),
    "AADSTS700027": ("invalid_client", "The certificate is not registered on application"),
    "AADSTS700024": ("invalid_client", "Client assertion is not within its valid time range"),
    "AADSTS700016": ("unauthorized_client", "Application was not found in the directory"),
    "AADSTS50034": ("invalid_grant", "The user account does not exist in the directory"),
    "AADSTS90014": ("invalid_request", "A required field is missing or wrong"),
}


class Refused(Exception):
    """An error as the token endpoint answers it."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        error, description = DOCUMENTED[code]
        self.body = {
            "error": error,
            "error_description": f"{code}: {description}. {detail}\r\nTrace ID: 0\r\n",
            "error_codes": [int(code.removeprefix("AADSTS"))],
        }


@dataclass(slots=True)
class Minted:
    hop: int
    expires: float
    fmi_path: str = ""


@dataclass(slots=True)
class Entra:
    """One tenant with one Blueprint, one Agent Identity and one Agent User."""

    tenant: str = field(default_factory=lambda: str(uuid.uuid4()))
    blueprint: str = field(default_factory=lambda: str(uuid.uuid4()))
    agent: str = field(default_factory=lambda: str(uuid.uuid4()))
    user: str = field(default_factory=lambda: str(uuid.uuid4()))
    upn: str = "analyst@example.com"
    authority: str = ""
    lifetime: int = 3600
    key_credentials: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    consents: set[str] = field(default_factory=lambda: {STORAGE, GRAPH})
    asked: list[tuple[int, dict[str, str]]] = field(
        default_factory=list[tuple[int, dict[str, str]]]
    )
    answers: dict[int, list[web.Response]] = field(default_factory=dict[int, list[web.Response]])
    """Answers to give next instead, by hop."""
    minted: dict[str, Minted] = field(default_factory=dict[str, Minted])
    signed_in: dict[str, str] = field(default_factory=dict[str, str])
    """Tokens of operators, with what they are for."""
    used_assertions: set[str] = field(default_factory=set[str])
    sign_ins: int = 0
    ahead: timedelta = timedelta()
    """How far its clock is ahead of this machine's."""

    def now(self) -> float:
        return time.time() + self.ahead.total_seconds()

    def register(self, certificate_der: bytes) -> None:
        """Put a certificate on the Blueprint."""
        thumbprint = hashlib.sha256(certificate_der).digest()
        self.key_credentials.append(
            {
                "type": "AsymmetricX509Cert",
                "usage": "Verify",
                "keyId": str(uuid.uuid4()),
                "customKeyIdentifier": base64.b64encode(thumbprint).decode(),
                "key": base64.b64encode(certificate_der).decode(),
                "displayName": "machine",
            }
        )

    def refuse(self, hop: int, code: str, *, times: int = 1) -> None:
        """Answer a hop with a documented error."""
        body = Refused(code).body
        replies = [web.json_response(body, status=400) for _ in range(times)]
        self.answers.setdefault(hop, []).extend(replies)

    @property
    def hops(self) -> list[int]:
        return [hop for hop, _ in self.asked]

    @property
    def secrets(self) -> list[str]:
        """Everything that no log may hold."""
        sent = [
            form[name]
            for _, form in self.asked
            for name in ("client_assertion", "user_federated_identity_credential")
            if name in form
        ]
        return [*self.minted, *self.signed_in, *sent]

    # The routes

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/{tenant}/v2.0/.well-known/openid-configuration", self._discover),
            web.post("/{tenant}/oauth2/v2.0/token", self._token),
            web.post("/{tenant}/oauth2/v2.0/devicecode", self._device_code),
        ]

    async def _discover(self, request: web.Request) -> web.Response:
        base = f"{self.authority}/{request.match_info['tenant']}"
        return web.json_response(
            {
                "issuer": f"{base}/v2.0",
                "token_endpoint": f"{base}/oauth2/v2.0/token",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
            }
        )

    async def _device_code(self, request: web.Request) -> web.Response:
        form = await request.post()
        self.sign_ins += 1
        scope = str(form["scope"])
        return web.json_response(
            {
                "device_code": f"device {self.sign_ins} {scope}",
                "user_code": "ABCD-EFGH",
                "verification_uri": "https://microsoft.com/devicelogin",
                "message": "To sign in, open https://microsoft.com/devicelogin: ABCD-EFGH",
                "expires_in": 900,
                "interval": 0,
            }
        )

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        if form.get("grant_type", "").endswith("device_code"):
            return web.json_response(self._sign_in(form))
        hop = self._hop_of(form)
        self.asked.append((hop, form))
        if self.answers.get(hop):
            return self.answers[hop].pop(0)
        if request.match_info["tenant"] != self.tenant:
            return web.json_response(Refused("AADSTS90014", "tenant").body, status=400)
        try:
            check = {1: self._check_hop1, 2: self._check_hop2, 3: self._check_hop3}[hop]
            return web.json_response(self._mint(hop, form, check(form)))
        except Refused as refused:
            return web.json_response(refused.body, status=400)

    def _hop_of(self, form: dict[str, str]) -> int:
        if form.get("grant_type") == "user_fic":
            return 3
        return 1 if form.get("client_id") == self.blueprint else 2

    def _sign_in(self, form: dict[str, str]) -> dict[str, Any]:
        scope = form["device_code"].split(" ", 2)[2]
        wanted = set(scope.split()) - _OIDC_SCOPES
        token = f"operator-{uuid.uuid4()}"
        self.signed_in[token] = next(iter(wanted)).rpartition("/")[0]
        return {"access_token": token, "expires_in": 3600, "token_type": "Bearer"}

    # The checks

    def _check_hop1(self, form: dict[str, str]) -> str:
        _expect_fields(
            form, "client_id grant_type scope client_assertion client_assertion_type fmi_path"
        )
        _expect(form, client_id=self.blueprint, grant_type="client_credentials", scope=EXCHANGE)
        _expect(form, client_assertion_type=JWT_BEARER)
        self._check_assertion(form["client_assertion"])
        return form.get("fmi_path", "")

    def _check_assertion(self, assertion: str) -> None:
        head, body, signature = assertion.split(".")
        header, claims = _decoded(head), _decoded(body)
        if (
            header["alg"] != "PS256"
            or header["typ"] != "JWT"
            or set(header) != {*("alg", "typ", "x5t#S256")}
        ):
            raise Refused("AADSTS90014", "header")
        assert len(header["x5t#S256"]) == 43
        key = self._key_of(header["x5t#S256"])
        try:
            key.verify(
                _bytes_of(signature),
                f"{head}.{body}".encode(),
                padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH),
                hashes.SHA256(),
            )
        except InvalidSignature:
            raise Refused("AADSTS700027", "signature") from None
        endpoint = f"{self.authority}/{self.tenant}/oauth2/v2.0/token"
        if claims["aud"] != endpoint or not claims["iss"] == claims["sub"] == self.blueprint:
            raise Refused("AADSTS90014", "claims")
        if claims["nbf"] != claims["iat"] or claims["exp"] - claims["iat"] != 600:
            raise Refused("AADSTS90014", "times")
        if not claims["nbf"] - 300 <= self.now() <= claims["exp"]:
            raise Refused("AADSTS700024")
        uuid.UUID(claims["jti"])
        if claims["jti"] in self.used_assertions:
            raise Refused("AADSTS90014", "replayed")
        self.used_assertions.add(claims["jti"])

    def _key_of(self, thumbprint: str) -> rsa.RSAPublicKey:
        for credential in self.key_credentials:
            der = base64.b64decode(credential["key"])
            if _bytes_of(thumbprint) == hashlib.sha256(der).digest():
                key = x509.load_der_x509_certificate(der).public_key()
                assert isinstance(key, rsa.RSAPublicKey)
                return key
        raise Refused("AADSTS700027", "not registered")

    def _check_hop2(self, form: dict[str, str]) -> str:
        _expect_fields(form, "client_id grant_type scope client_assertion client_assertion_type")
        _expect(form, client_id=self.agent, grant_type="client_credentials", scope=EXCHANGE)
        self._check_blueprint_token(form)
        return ""

    def _check_hop3(self, form: dict[str, str]) -> str:
        _expect_fields(
            form,
            "client_id grant_type scope client_assertion client_assertion_type "
            "user_federated_identity_credential requested_token_use user_id username",
        )
        _expect(form, client_id=self.agent, grant_type="user_fic")
        _expect(form, requested_token_use="on_behalf_of")
        self._check_blueprint_token(form)
        identity = self.minted.get(form["user_federated_identity_credential"])
        if identity is None or identity.hop != 2 or identity.expires < self.now():
            raise Refused("AADSTS700211", "the second token")
        if form.get("user_id") != self.user and form.get("username") != self.upn:
            raise Refused("AADSTS50034")
        resource = _resource_of(form)
        if resource not in self.consents:
            raise Refused("AADSTS65001")
        return ""

    def _check_blueprint_token(self, form: dict[str, str]) -> None:
        _expect(form, client_assertion_type=JWT_BEARER)
        blueprint = self.minted.get(form["client_assertion"])
        if (
            blueprint is None
            or blueprint.hop != 1
            or blueprint.fmi_path != self.agent
            or blueprint.expires < self.now()
        ):
            raise Refused("AADSTS700211", "the first token")

    def _mint(self, hop: int, form: dict[str, str], fmi_path: str) -> dict[str, Any]:
        audience = _resource_of(form) if hop == 3 else "api://AzureADTokenExchange"
        token = jwt_for(audience, tenant=self.tenant, lifetime=self.lifetime)
        self.minted[token] = Minted(hop, self.now() + self.lifetime, fmi_path)
        return {"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"}


def jwt_for(audience: str, *, tenant: str, lifetime: int) -> str:
    """Make a token that the storage emulator accepts, since it checks no signature."""
    now = int(time.time())
    claims = {
        "aud": audience,
        "iss": f"https://sts.windows.net/{tenant}/",
        "iat": now - 10,
        "nbf": now - 10,
        "exp": now + lifetime,
        "jti": str(uuid.uuid4()),
    }
    parts = ({"alg": "RS256", "typ": "JWT"}, claims, "signature")
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    )


def _resource_of(form: dict[str, str]) -> str:
    wanted = set(form["scope"].split()) - _OIDC_SCOPES
    if len(wanted) != 1 or not next(iter(wanted)).endswith("/.default"):
        raise Refused("AADSTS90014", "scope")
    return wanted.pop().removesuffix("/.default")


def _expect_fields(form: dict[str, str], names: str) -> None:
    unknown = set(form) - set(names.split()) - _OF_THE_LIBRARY
    if unknown:
        raise Refused("AADSTS90014", f"unexpected {sorted(unknown)}")


def _expect(form: dict[str, str], **wanted: str) -> None:
    for name, value in wanted.items():
        if form.get(name) != value:
            raise Refused("AADSTS90014", name)


def _decoded(part: str) -> dict[str, Any]:
    body = json.loads(_bytes_of(part))
    assert isinstance(body, dict)
    return body


def _bytes_of(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@contextmanager
def running_app(routes: list[web.RouteDef], certificate: Certificate) -> Iterator[str]:
    """Serve routes over TLS on a free loopback port, in a thread; yields the address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> tuple[web.AppRunner, int]:
        app = web.Application()
        app.add_routes(routes)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate.chain, certificate.key)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        return runner, runner.addresses[0][1]

    runner, port = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    try:
        yield f"https://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


@contextmanager
def running_entra(certificate: Certificate) -> Iterator[Entra]:
    """Run a tenant of its own."""
    entra = Entra()
    with running_app(entra.routes(), certificate) as address:
        entra.authority = address
        yield entra
