"""The last layer: from a request to the endpoint at its address, and from errors to answers."""

from __future__ import annotations

import logging

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from memplane.errors import MemplaneError
from memplane.server.endpoints import (
    AnyTokenAuth,
    AuthRule,
    EndpointTable,
    HandlerAuth,
    NoAuth,
    ScopeAuth,
)
from memplane.server.errors import (
    missing_scope_error,
    not_found_error,
    render_http_error,
    render_internal_error,
    render_memplane_error,
)
from memplane.server.request_auth import require_grant
from memplane.server.request_body import check_head, limit_body
from memplane.server.response_stream import DisconnectedResponse

_log = logging.getLogger(__name__)


class Dispatcher(msgspec.Struct, frozen=True):
    """Answers from a table of endpoints; what is raised before an answer begins becomes one.

    It asks for the token again, so that a table without a gate before it lets nobody in.
    """

    table: EndpointTable

    async def __call__(self, scope: Scope, receive: Receive) -> Response:
        try:
            return await self._answered(scope, receive)
        except HTTPException as refusal:
            return render_http_error(refusal, scope)
        except MemplaneError as error:
            return render_memplane_error(error)
        except ClientDisconnect:
            return DisconnectedResponse()  # in the middle of its body
        except Exception:  # noqa: BLE001 - logged here; whoever asked learns nothing of it
            _log.exception("%s %s failed", scope["method"], scope["path"])
            return render_internal_error()

    async def _answered(self, scope: Scope, receive: Receive) -> Response:
        path, parameters = self.table.find(scope["path"])
        if path is None:
            raise not_found_error()
        place = self.table.places[path]
        endpoint = place.get(scope["method"])
        if endpoint is None:
            raise HTTPException(405, "Method Not Allowed", {"Allow": ", ".join(place)})
        scope["path_params"] = parameters
        request = Request(scope, limit_body(receive, endpoint.body_limit))
        _authorise(endpoint.needs, request)
        check_head(
            scope["headers"],
            limit=endpoint.body_limit,
            json=endpoint.takes is not None,
            encoded=endpoint.encoded,
            lines=endpoint.takes_lines,
            optional=endpoint.body_optional,
        )
        return await endpoint.handler(request)


def _authorise(needs: AuthRule, request: Request) -> None:
    match needs:
        case NoAuth() | HandlerAuth():
            return
        case AnyTokenAuth():
            require_grant(request)
        case ScopeAuth(scope):
            if not require_grant(request).allows(scope):
                raise missing_scope_error(scope)
