"""Routes for the table of operations: arguments out of requests, results into responses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memplane.errors import InvalidRequest
from memplane.kit.clock import system_clock
from memplane.server.agent_scope import (
    OPERATOR_HEADER,
    resolve_agent,
    resolve_one_agent,
    resolve_operator,
)
from memplane.server.endpoints import Endpoint, Handler, ScopeAuth
from memplane.server.errors import InvalidFieldsError
from memplane.server.event_stream import MEDIA_TYPE, stream_events
from memplane.server.query_params import PAGING, entity_tags, read_header, read_query
from memplane.server.request_auth import read_token, require_agent
from memplane.server.request_body import (
    convert_json,
    is_ndjson,
    read_json_replacing,
    read_opaque,
    read_value,
)
from memplane.server.system_api import answer_text, json_response
from memplane.service.operation import (
    AgentScope,
    Context,
    EventStream,
    Header,
    Operation,
    Parameter,
    Place,
    TextStream,
)
from memplane.service.services import Services

_IF_NONE_MATCH: Final = "If-None-Match"
_OPERATOR_HELP: Final = (
    "For whom an admin does this, percent-encoded; otherwise it is the token's name."
)


def operation_endpoints(
    operations: Iterable[Operation[..., Any]], services: Services
) -> list[Endpoint]:
    """Make an endpoint for each operation."""
    return [_endpoint(operation, services) for operation in operations]


def _endpoint(operation: Operation[..., Any], services: Services) -> Endpoint:
    places = {parameter.place: parameter for parameter in operation.parameters}
    media_types = operation.media_types or ("application/json",)
    is_text = operation.response_type is TextStream
    if operation.event_type is not None:
        media_types = (MEDIA_TYPE,)
    return Endpoint(
        method=operation.method,
        path=operation.path,
        handler=_handler(operation, services),
        needs=ScopeAuth(operation.scope),
        takes=places[Place.BODY].type if Place.BODY in places else None,
        gives=None if is_text or operation.event_type else operation.response_type,
        media_type=media_types[0],
        also_gives=media_types[1:],
        names_agent=Place.AGENT in places,
        query=places[Place.QUERY].type if Place.QUERY in places else None,
        headers=_headers(operation),
        refuses={**_refusals(operation), **operation.refusals},
        status=operation.status,
        body_limit=operation.max_body_bytes,
        body_optional=operation.is_body_optional,
        takes_lines=operation.line_reader is not None,
        summary=operation.summary,
    )


def _headers(operation: Operation[..., Any]) -> dict[str, str]:
    marks = [each.mark for each in operation.parameters if isinstance(each.mark, Header)]
    headers = {header.name: header.about for header in marks}
    if operation.has_version and operation.method == "GET":
        headers[_IF_NONE_MATCH] = "The ETag of what is known already."
    if operation.is_attributed:
        headers[OPERATOR_HEADER] = _OPERATOR_HELP
    return headers


def _refusals(operation: Operation[..., Any]) -> dict[int, str]:
    """Say how an operation refuses; what is true of every endpoint is said elsewhere."""
    places = {parameter.place: parameter for parameter in operation.parameters}
    refusals: dict[int, str] = {}
    if Place.QUERY in places:
        fields = {each.name for each in msgspec.structs.fields(places[Place.QUERY].type)}
        if paging := sorted(fields & PAGING):
            refusals[400] = f"The {' or the '.join(paging)} is negative, or no number."
    if operation.needs_all_fields:
        refusals[400] = "The body is not JSON, or a required field is missing."
    if Place.AGENT in places and Place.PATH in places:
        refusals[404] = "There is none for whoever asks."
    if operation.may_conflict:
        refusals[409] = "It is not possible as things are now."
    if any(isinstance(each.mark, Header) and _is_version(each) for each in operation.parameters):
        refusals[409] = "It was changed meanwhile."
    if operation.has_version and operation.method == "GET":
        refusals[304] = "It is what is known already."
    return refusals


def _is_version(parameter: Parameter) -> bool:
    return bool(parameter.type == tuple[int, ...])


def _handler(operation: Operation[..., Any], services: Services) -> Handler:
    async def handle(request: Request) -> Response:
        arguments = await _read_arguments(operation, request)
        operator = resolve_operator(request) if operation.is_attributed else ""
        try:
            result = await operation.handler(Context(services, operator), **arguments)
        except InvalidRequest as error:
            if operation.may_conflict and not error.fields:
                raise InvalidFieldsError(409, str(error)) from error
            raise
        return _answer(operation, result, request, services)

    return handle


def _answer(
    operation: Operation[..., Any], result: object, request: Request, services: Services
) -> Response:
    if operation.response_type is None:
        return Response(status_code=operation.status)
    if isinstance(result, TextStream):
        return answer_text(result)
    if isinstance(result, EventStream):
        token, stream = read_token(request.scope), cast("Any", result)
        return stream_events(
            stream,
            request,
            # A token that was revoked since is good for nothing, in the middle of a response too.
            lambda: not token or services.issued.find(token, system_clock()) is not None,
        )
    if not operation.has_version:
        return json_response(result, operation.status)
    tag = f'"{cast("Any", result).version}"'
    if operation.method == "GET" and tag in entity_tags(request.headers, _IF_NONE_MATCH):
        return Response(status_code=304, headers={"ETag": tag})
    response = json_response(result, operation.status)
    response.headers["ETag"] = tag
    return response


async def _read_arguments(operation: Operation[..., Any], request: Request) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    named = ""
    for parameter in operation.parameters:
        if parameter.place is Place.BODY:
            body = await _read_body(operation, parameter, request)
            arguments[parameter.name] = body
            agent = getattr(body, "agent", None)
            named = agent if isinstance(agent, str) else ""
    if named and not any(each.place is Place.AGENT for each in operation.parameters):
        require_agent(request, named)
    for parameter in operation.parameters:
        if parameter.place is not Place.BODY:
            arguments[parameter.name] = _read(operation, parameter, request, named)
    return arguments


def _read(
    operation: Operation[..., Any], parameter: Parameter, request: Request, named: str
) -> object:
    """Read an argument; `named` is the agent that the body names, if it names one."""
    match parameter.place:
        case Place.PATH:
            value = request.path_params[parameter.name]
            if isinstance(value, int):
                operation.check_id(value)
            return msgspec.convert(value, parameter.type)
        case Place.AGENT if parameter.mark is AgentScope.ONE:
            return resolve_one_agent(request, named)
        case Place.AGENT:
            return resolve_agent(request, named)
        case Place.QUERY:
            return read_query(request.query_params, parameter.type)
        case _:
            mark = parameter.mark
            name = mark.name if isinstance(mark, Header) else parameter.name
            return read_header(request.headers, name, parameter.type, parameter.default)


async def _read_body(
    operation: Operation[..., Any], parameter: Parameter, request: Request
) -> object:
    """Read the body; what a client recorded is kept to the byte, and so is not parsed."""
    kind: type[msgspec.Struct] = parameter.type
    if any(field.type is msgspec.Raw for field in msgspec.structs.fields(kind)):
        return await read_opaque(request, kind)
    if operation.is_body_optional and not await request.body():
        return parameter.default
    if operation.line_reader and is_ndjson(request.headers.get("content-type", "")):
        lines = (await request.body()).split(b"\n")
        return await asyncio.to_thread(operation.line_reader, lines)
    read = read_json_replacing if operation.replaces_half_characters else read_value
    value = await read(request)
    if operation.needs_all_fields:
        _check_fields(value, kind)
    return convert_json(value, kind)


def _check_fields(value: object, kind: type[msgspec.Struct]) -> None:
    """End the request with 400 unless an object has every field that has no default."""
    if not isinstance(value, dict):
        return
    given = cast("dict[str, object]", value)
    missing = {
        field.encode_name: "is missing"
        for field in msgspec.structs.fields(kind)
        if field.required and given.get(field.encode_name) is None
    }
    if missing:
        raise InvalidFieldsError(400, f"the body has no {' and no '.join(missing)}", missing)
