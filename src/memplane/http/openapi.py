"""The description of the API, made from the table of endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from memplane.http.endpoints import Access, AnyToken, Endpoint, Needs, Open, OwnRules, Table
from memplane.version import VERSION

_Json: TypeAlias = dict[str, Any]

_JSON_TYPE: Final = "application/json"
_PARAMETER: Final = re.compile(r"{(\w+)(?::\w+)?}")
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
            "required": ["message"],
            "properties": {"message": {"type": "string"}, "type": {"type": "string"}},
        }
    },
}


def describe(table: Table) -> bytes:
    """Describe every endpoint as OpenAPI 3.1."""
    endpoints = [one for place in table.places.values() for one in _own(place.items())]
    kinds = [kind for one in endpoints for kind in (one.takes, one.gives) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    schema_of = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: dict[str, _Json] = {}
    for one in endpoints:
        path = _PARAMETER.sub(r"{\1}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, schema_of)
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


def _own(place: Iterable[tuple[str, Endpoint]]) -> Iterable[Endpoint]:
    return (endpoint for method, endpoint in place if method == endpoint.method)


def _operation(one: Endpoint, schema_of: Mapping[str, _Json]) -> _Json:
    good: _Json = {"description": "Done."}
    if one.gives is not None:
        good["content"] = {one.media_type: {"schema": schema_of[repr(one.gives)]}}
    elif one.media_type != _JSON_TYPE:
        good["content"] = {one.media_type: {"schema": {"type": "string"}}}
    wrong: _Json = {_JSON_TYPE: {"schema": {"$ref": "#/components/schemas/Error"}}}
    if one.plain_refusals:
        wrong = {"text/plain": {"schema": {"type": "string"}}}
    operation: _Json = {
        "summary": one.summary,
        "operationId": _name(one),
        "security": _security(one.needs),
        "responses": {
            str(one.status): good,
            "default": {"description": "Not done, and why.", "content": wrong},
        },
    }
    if isinstance(one.needs, OwnRules):
        operation["description"] = one.needs.why
    if one.takes is not None:
        body = {"application/json": {"schema": schema_of[repr(one.takes)]}}
        operation["requestBody"] = {"required": True, "content": body}
    parameters = _parameters(one)
    if parameters:
        operation["parameters"] = parameters
    return operation


def _parameters(one: Endpoint) -> list[_Json]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(one.path)
    ]
    in_query = [
        {"name": name, "in": "query", "description": words, "schema": {"type": "string"}}
        for name, words in one.query.items()
    ]
    return [*in_path, *in_query]


def _name(one: Endpoint) -> str:
    words = re.findall(r"\w+", one.path)
    return "_".join([one.method.lower(), *words])


def _security(needs: Access) -> list[dict[str, list[str]]]:
    match needs:
        case Open():
            return []
        case AnyToken() | OwnRules():
            return [{scheme: []} for scheme in _SCHEMES]
        case Needs(scope):
            return [{scheme: [scope.value]} for scheme in _SCHEMES]
