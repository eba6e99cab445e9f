"""`/mcp`: the Model Context Protocol as streamable HTTP, one request and one response at a time.

There are no sessions and no streams of the server's own, so any process may answer any request.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from memplane.server.agent_scope import resolve_agent, resolve_operator
from memplane.server.endpoints import AnyTokenAuth, Endpoint
from memplane.server.mcp.messages import (
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    STATELESS_VERSION,
    UNSUPPORTED_VERSION,
    McpError,
    McpNotification,
    McpRequest,
    McpResponse,
    check_headers,
    decode_message,
    make_error,
    make_version_error,
)
from memplane.server.mcp.server import answer_request
from memplane.server.mcp.tool import McpCaller
from memplane.server.request_auth import header_values, require_grant
from memplane.server.request_body import read_body_bytes
from memplane.service.services import Services
from memplane.service.transport import LocalTransport

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024

_STATUS_OF: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The statuses of errors in 2026-07-28; the earlier form has 200 for whatever is a response."""
_ROUTING_HEADERS: Final = ("mcp-protocol-version", "mcp-method", "mcp-name")


class McpQuery(msgspec.Struct, frozen=True, kw_only=True):
    """For whom the agent works."""

    user: Annotated[str, msgspec.Meta(description="The end user, by id.")] = ""


def mcp_endpoint(services: Services, default_agent: str) -> Endpoint:
    """Make the endpoint; the default agent is an admin's, who names none with `?agent=`."""

    async def post(request: Request) -> Response:
        _check_accept(request)
        caller = _make_caller(request, services, default_agent)
        try:
            headers = _read_headers(request)
            message = decode_message(await read_body_bytes(request))
            if isinstance(message, McpRequest):
                _check_request(message, headers)
        except McpError as error:
            return _respond(make_error(None, error), 400)
        if isinstance(message, McpNotification):
            return Response(status_code=202)
        response = await answer_request(message, caller)
        is_refused = message.is_stateless and response.error
        return _respond(response, _STATUS_OF.get(response.error, 200) if is_refused else 200)

    return Endpoint(
        method="POST",
        path="/mcp",
        handler=post,
        needs=AnyTokenAuth(),
        takes=dict[str, Any],
        gives=dict[str, Any],
        names_agent=True,
        query=McpQuery,
        body_limit=MAX_MESSAGE_BYTES,
        headers={
            "MCP-Protocol-Version": "The version of the protocol.",
            "Mcp-Method": "From 2026-07-28: the method that the body has.",
            "Mcp-Name": "From 2026-07-28: the tool's name or the resource's URI.",
        },
        refuses={
            400: "The message cannot be read, or its version is not served.",
            406: "The client does not accept JSON.",
        },
        summary="The Model Context Protocol: memory as tools, documents as resources",
    )


def _make_caller(request: Request, services: Services, default_agent: str) -> McpCaller:
    reach = resolve_agent(request)
    return McpCaller(
        transport=LocalTransport(services, resolve_operator(request)),
        agent=reach or default_agent,
        reach=reach,
        allows=require_grant(request).allows,
        user=request.query_params.get("user") or None,
    )


def _check_accept(request: Request) -> None:
    kinds = {
        kind.partition(";")[0].strip().lower()
        for kind in request.headers.get("accept", "*/*").split(",")
    }
    if not kinds & {"application/json", "application/*", "*/*"}:
        raise HTTPException(406, "responses are application/json: accept that")


def _read_headers(request: Request) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name in _ROUTING_HEADERS:
        values = header_values(request.scope, name.encode())
        if len(values) > 1:
            raise McpError(HEADER_MISMATCH, f"the header {name} is there twice")
        if values:
            headers[name] = values[0]
    return headers


def _check_request(message: McpRequest, headers: dict[str, str]) -> None:
    """Check that the headers fit the form that the body has.

    Raises:
        McpError: They say another version, method or name, or a version that is not served.
    """
    version = headers.get("mcp-protocol-version")
    if message.is_stateless:
        check_headers(message, headers)
    elif version == STATELESS_VERSION:
        raise McpError(
            INVALID_PARAMS, f"a request of {STATELESS_VERSION} has its version in _meta"
        )
    elif version is not None and version not in HANDSHAKE_VERSIONS:
        raise make_version_error(version)


def _respond(response: McpResponse, status: int) -> Response:
    return Response(response.body, status, media_type="application/json")
