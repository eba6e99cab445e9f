"""Requests to Azure Resource Manager and Microsoft Graph, as the operator."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from ssl import create_default_context
from typing import Any, Final

import aiohttp
import msgspec

from memplane.errors import BackendUnavailable, PermissionDenied, ProvisioningError
from memplane.kit.json_values import as_object, decode_json_or_none
from memplane.kit.retry_clock import RetryClock
from memplane.storage.provisioning.login import AzureLogin

_log = logging.getLogger(__name__)
_TIMEOUT_S: Final = 60
_PROPAGATION_PAUSES_S: Final = (15.0, 30.0, 45.0)
"""How long a new object takes to be known everywhere, as documented."""
_NOT_YET_KNOWN: Final = frozenset(
    {"PrincipalNotFound", "Request_ResourceNotFound", "ResourceNotFound", "NotFound"}
)
_MAY_BE_ABSENT: Final = frozenset({404})
_TRANSIENT_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})


class ApiReply(msgspec.Struct, frozen=True):
    """An answer that was a success, or one that was allowed not to be."""

    status: int
    body: Mapping[str, Any]

    @property
    def is_absent(self) -> bool:
        """Whether there is no such thing."""
        return self.status == HTTPStatus.NOT_FOUND


class AzureApi:
    """One operator's requests, retried where that helps."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        login: AzureLogin,
        *,
        graph: str,
        management: str,
        pacing: RetryClock,
        graph_login: Callable[[], AzureLogin] | None = None,
    ) -> None:
        self.graph = graph
        self.management = management
        self._session = session
        self._logins = {graph: login, management: login}
        self._pacing = pacing
        self._graph_login = graph_login

    async def get(self, service: str, path: str) -> ApiReply:
        """Read something; what is absent is an answer too."""
        return await self._call("GET", service, path, allowed=_MAY_BE_ABSENT)

    async def put(self, service: str, path: str, body: object) -> ApiReply:
        """Create or replace something, also when the objects it names are brand-new."""
        return await self.call_when_known("PUT", service, path, body)

    async def delete(self, service: str, path: str) -> ApiReply:
        """Remove something; what is gone already is fine."""
        return await self._call("DELETE", service, path, allowed=_MAY_BE_ABSENT)

    async def call_when_known(
        self, method: str, service: str, path: str, body: object
    ) -> ApiReply:
        """Ask, and again while what was just created is not known everywhere.

        Raises:
            ProvisioningError: It was refused.
        """
        for pause in _PROPAGATION_PAUSES_S:
            try:
                return await self._call(method, service, path, body)
            except ProvisioningError as error:
                if error.code not in _NOT_YET_KNOWN:
                    raise
                _log.info("%s is not known yet; asking again in %s s", path, pause)
            await self.pause(pause)
        return await self._call(method, service, path, body)

    async def pause(self, seconds: float) -> None:
        """Wait."""
        await self._pacing.sleep(seconds)

    async def _call(
        self,
        method: str,
        service: str,
        path: str,
        body: object = None,
        *,
        allowed: frozenset[int] = frozenset(),
    ) -> ApiReply:
        """Send one request; again after faults, and as another login when Graph wants one."""
        attempts = self._pacing.for_faults()
        while True:
            status, reply, wait = await self._send(method, service, path, body)
            if status < HTTPStatus.BAD_REQUEST or status in allowed:
                return ApiReply(status, reply)
            if status in _TRANSIENT_STATUSES and await attempts.wait_for_next(at_least=wait):
                continue
            if status == HTTPStatus.FORBIDDEN and service == self.graph and self._graph_login:
                # Tokens of the Azure CLI are refused for what belongs to agents.
                self._logins[service] = self._graph_login()
                self._graph_login = None
                continue
            raise _to_error(method, path, status, reply)

    async def _send(
        self, method: str, service: str, path: str, body: object
    ) -> tuple[int, Mapping[str, Any], float]:
        token = await self._logins[service].token(service)
        try:
            async with self._session.request(
                method,
                f"{service}{path}",
                json=body,
                headers={"Authorization": f"Bearer {token.reveal()}"},
                allow_redirects=False,
            ) as reply:
                text = await reply.read()
                wait = reply.headers.get("Retry-After", "")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise BackendUnavailable(
                f"no usable answer from {service} ({type(error).__name__})"
            ) from None
        return (
            reply.status,
            as_object(decode_json_or_none(text)),
            float(wait) if wait.isdecimal() else 0.0,
        )


def _to_error(method: str, path: str, status: int, body: Mapping[str, Any]) -> Exception:
    details = as_object(body.get("error"))
    code = str(details.get("code") or status)
    said = str(details.get("message") or "no reason given").splitlines()[0][:300]
    what = f"{method} {path.partition('?')[0]}: {status} {code}: {said}"
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return PermissionDenied(
            f"{what}. The login lacks a role in the subscription or a permission in Graph "
            "(DelegatedPermissionGrant.ReadWrite.All, Application.ReadWrite.All)"
        )
    return ProvisioningError(what, code=code)


@asynccontextmanager
async def open_azure_api(
    login: AzureLogin,
    *,
    graph: str,
    management: str,
    pacing: RetryClock,
    graph_login: Callable[[], AzureLogin] | None = None,
    ca_file: Path | None = None,
) -> AsyncGenerator[AzureApi]:
    """Open the connections. `graph_login` signs in anew when Graph refuses the first login."""
    trusted = create_default_context(cafile=str(ca_file)) if ca_file else True
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trusted),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
    ) as session:
        yield AzureApi(
            session,
            login,
            graph=graph,
            management=management,
            pacing=pacing,
            graph_login=graph_login,
        )
