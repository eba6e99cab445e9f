"""The description of the API, made from the table of endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from memplane.server.endpoints import (
    AnyTokenAuth,
    AuthRule,
    Endpoint,
    EndpointTable,
    HandlerAuth,
    NoAuth,
    ScopeAuth,
)
from memplane.server.request_body import NDJSON_TYPE
from memplane.version import VERSION

_Json: TypeAlias = dict[str, Any]

_JSON_TYPE: Final = "application/json"
_PARAMETER: Final = re.compile(r"{(\w+)(?::(\w+))?}")
_FIRST_ERROR_STATUS: Final = 400
_REFERENCE: Final = "#/components/schemas/"
_SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}
_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "description": "The status, for programs."},
                "message": {"type": "string", "description": "What is wrong, for people."},
                "type": {"type": "string", "description": "The error that was raised."},
                "fields": {
                    "type": "object",
                    "description": "What is wrong with which field.",
                    "additionalProperties": {"type": "string"},
                },
            },
        }
    },
}
_PATH_TYPES: Final[Mapping[str, _Json]] = {
    "int": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
}


def build_openapi(table: EndpointTable) -> bytes:
    """Describe every endpoint as OpenAPI 3.1."""
    endpoints = [one for place in table.places.values() for one in _own_methods(place.items())]
    kinds = [
        kind for one in endpoints for kind in (one.takes, one.gives, one.query) if kind is not None
    ]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template=f"{_REFERENCE}{{name}}"
    )
    schema_of = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: dict[str, _Json] = {}
    for one in endpoints:
        path = _PARAMETER.sub(r"{\1}", one.path)
        operation = _describe_operation(one, schema_of)
        parameters = [
            *_path_parameters(one),
            *_agents(one),
            *_query_parameters(one, schema_of, components),
            *_header_parameters(one),
        ]
        if parameters:
            operation["parameters"] = parameters
        paths.setdefault(path, {})[one.method.lower()] = operation
    for one in endpoints:
        if one.query is not None:
            components.pop(_schema_name(schema_of[repr(one.query)]), None)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "memplane", "version": VERSION},
            "paths": paths,
            "components": {
                "schemas": {**components, "Error": _ERROR},
                "securitySchemes": _SCHEMES,
            },
        }
    )


def _own_methods(place: Iterable[tuple[str, Endpoint]]) -> Iterable[Endpoint]:
    return (endpoint for method, endpoint in place if method == endpoint.method)


def _describe_operation(one: Endpoint, schema_of: Mapping[str, _Json]) -> _Json:
    good: _Json = {"description": "Done."}
    if one.gives is not None:
        good["content"] = {one.media_type: {"schema": schema_of[repr(one.gives)]}}
    elif one.media_type != _JSON_TYPE:
        kinds = (one.media_type, *one.also_gives)
        good["content"] = {kind: {"schema": {"type": "string"}} for kind in kinds}
    wrong: _Json = {_JSON_TYPE: {"schema": {"$ref": f"{_REFERENCE}Error"}}}
    if one.plain_refusals:
        wrong = {"text/plain": {"schema": {"type": "string"}}}
    refused = {
        str(status): {"description": why}
        | ({"content": wrong} if status >= _FIRST_ERROR_STATUS else {})
        for status, why in sorted(_describe_refusals(one).items())
    }
    operation: _Json = {
        "summary": one.summary,
        "operationId": _operation_id(one),
        "security": _describe_security(one.needs),
        "responses": {
            str(one.status): good,
            **refused,
            "default": {"description": "Not done, and why.", "content": wrong},
        },
    }
    if isinstance(one.needs, HandlerAuth):
        operation["description"] = one.needs.why
    if one.takes is not None:
        body = {_JSON_TYPE: {"schema": schema_of[repr(one.takes)]}}
        if one.takes_lines:
            body[NDJSON_TYPE] = {"schema": {"type": "string"}}
        operation["requestBody"] = {"required": not one.body_optional, "content": body}
    return operation


def _describe_refusals(one: Endpoint) -> dict[int, str]:
    """Say how an endpoint refuses: what follows from what it needs and takes, and its own."""
    found: dict[int, str] = {}
    if isinstance(one.needs, AnyTokenAuth | ScopeAuth):
        found[401] = "There is no token, or it is good for nothing."
    if isinstance(one.needs, ScopeAuth):
        found[403] = f"The token does not have the scope {one.needs.scope}."
    if one.takes is not None:
        found |= {
            400: "The body is not JSON.",
            413: "The body is too long.",
            415: "The body is of another kind.",
            422: "A value is not possible; the fields say which.",
        }
    if (one.query is not None or one.names_agent) and not one.plain_refusals:
        found[422] = "A value is not possible; the fields say which."
    return {**found, **one.refuses}


def _path_parameters(one: Endpoint) -> list[_Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PATH_TYPES.get(kind, {"type": "string"}),
        }
        for name, kind in _PARAMETER.findall(one.path)
    ]


def _agents(one: Endpoint) -> list[_Json]:
    if not one.names_agent:
        return []
    words = "The agent, where the token is not one agent's."
    return [{"name": "agent", "in": "query", "schema": {"type": "string"}, "description": words}]


def _query_parameters(
    one: Endpoint, schema_of: Mapping[str, _Json], components: Mapping[str, _Json]
) -> list[_Json]:
    if one.query is None:
        return []
    described = components[_schema_name(schema_of[repr(one.query)])]
    parameters: list[_Json] = []
    for name, given in described["properties"].items():
        schema = _without_null(given)
        words = schema.pop("description", "")
        parameter: _Json = {"name": name, "in": "query", "schema": schema}
        parameters.append({**parameter, "description": words} if words else parameter)
    return parameters


def _without_null(schema: _Json) -> _Json:
    """Take out what no address can say: a parameter that is not there has no value."""
    kept = dict(schema)
    if kept.get("default", 0) in (None, "", []):
        del kept["default"]
    if "anyOf" in kept:
        (only,) = [one for one in kept.pop("anyOf") if one != {"type": "null"}]
        kept = {**only, **kept}
    return kept


def _schema_name(schema: _Json) -> str:
    return str(schema["$ref"]).removeprefix(_REFERENCE)


def _header_parameters(one: Endpoint) -> list[_Json]:
    return [
        {"name": name, "in": "header", "description": words, "schema": {"type": "string"}}
        for name, words in one.headers.items()
    ]


def _operation_id(one: Endpoint) -> str:
    words = re.findall(r"\w+", _PARAMETER.sub(r"\1", one.path))
    return "_".join([one.method.lower(), *words])


def _describe_security(needs: AuthRule) -> list[dict[str, list[str]]]:
    match needs:
        case NoAuth():
            return []
        case AnyTokenAuth() | HandlerAuth():
            return [{scheme: []} for scheme in _SCHEMES]
        case ScopeAuth(scope):
            return [{scheme: [scope.value]} for scheme in _SCHEMES]
