"""JSON-RPC as the Model Context Protocol uses it, in its two forms (pure).

Up to 2025-11-25 a client begins with `initialize`, and its version holds for the connection. From
2026-07-28 there is no connection state: each request names its version and the client's
capabilities in `_meta`. A request is served in the form that it has.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeGuard, cast

import msgspec

STATELESS_VERSION: Final = "2026-07-28"
HANDSHAKE_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The newest first."""

STATIC_TTL_MS: Final = 3_600_000
"""How long what does not change while a server runs may be kept."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022

_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
_SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
_NAME_FIELDS: Final = MappingProxyType(
    {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
)
"""What the header Mcp-Name repeats, by method."""
_ENCODED_HEADER: Final = ("=?base64?", "?=")

RequestId: TypeAlias = str | int
Result: TypeAlias = dict[str, Any]


class McpError(Exception):
    """A request that cannot be served, as its JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class McpRequest(msgspec.Struct, frozen=True):
    """A request that wants a response."""

    id: RequestId
    method: str
    params: Mapping[str, Any]

    @property
    def is_stateless(self) -> bool:
        """Whether it has the form of 2026-07-28."""
        return self.method != "initialize" and _VERSION_KEY in self.meta

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the protocol itself says about the request."""
        meta = self.params.get("_meta")
        return cast("Mapping[str, Any]", meta) if isinstance(meta, dict) else {}


class McpResponse(msgspec.Struct, frozen=True):
    """A response as it is sent; `error` is the code of the error that it is, and 0 for none."""

    body: bytes
    error: int = 0


class McpNotification(msgspec.Struct, frozen=True):
    """A message that wants no response; a client's response to us counts as one."""

    method: str
    params: Mapping[str, Any]


def decode_message(data: bytes) -> McpRequest | McpNotification:
    """Read a message.

    Raises:
        McpError: It is not JSON, or no message.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise McpError(PARSE_ERROR, f"this is not JSON: {error}") from error
    if not _is_object(value) or value.get("jsonrpc") != "2.0":
        raise McpError(INVALID_REQUEST, "a message is one JSON-RPC 2.0 object; batches are not")
    if "method" not in value and ("result" in value or "error" in value):
        return McpNotification("", {})
    method, params, request_id = value.get("method"), value.get("params", {}), value.get("id")
    if not isinstance(method, str) or not _is_object(params):
        raise McpError(INVALID_REQUEST, "a message has a method, and an object as its params")
    if "id" not in value:
        return McpNotification(method, params)
    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        raise McpError(INVALID_REQUEST, "the id of a request is a string or an integer")
    return McpRequest(request_id, method, params)


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def check_version(request: McpRequest) -> None:
    """Check what a stateless request says about itself.

    Raises:
        McpError: Its version is not served, or its `_meta` lacks something.
    """
    version = request.meta[_VERSION_KEY]
    if not isinstance(version, str):
        raise McpError(INVALID_PARAMS, f"{_VERSION_KEY} in _meta is no string")
    if _CAPABILITIES_KEY not in request.meta:
        raise McpError(INVALID_PARAMS, f"_meta lacks {_CAPABILITIES_KEY}")
    if version != STATELESS_VERSION:
        raise make_version_error(version)


def make_version_error(requested: str) -> McpError:
    """Make the error for a version that is not served; it names those that are."""
    data = {"supported": [STATELESS_VERSION, *HANDSHAKE_VERSIONS], "requested": requested}
    return McpError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def check_headers(request: McpRequest, headers: Mapping[str, str]) -> None:
    """Check that the HTTP headers of a stateless request repeat what its body says.

    Raises:
        McpError: One is missing or says something else.
    """
    expected = {
        "mcp-protocol-version": request.meta.get(_VERSION_KEY),
        "mcp-method": request.method,
    }
    if (field := _NAME_FIELDS.get(request.method)) is not None:
        expected["mcp-name"] = request.params.get(field)
    for name, value in expected.items():
        if value is not None and _decode_header(headers.get(name)) != value:
            raise McpError(HEADER_MISMATCH, f"the header {name} does not match the request's body")


def _decode_header(value: str | None) -> str | None:
    begin, end = _ENCODED_HEADER
    if value is None or not (value.startswith(begin) and value.endswith(end)):
        return value
    try:
        return base64.b64decode(value[len(begin) : -len(end)], validate=True).decode()
    except ValueError:
        return None


def make_cacheable(result: Result, ttl_ms: int) -> Result:
    """Say how long a result is good for, and that it is for this caller alone."""
    return {**result, "ttlMs": ttl_ms, "cacheScope": "private"}


def complete_result(result: Result, server: Mapping[str, Any]) -> Result:
    """Return a result as 2026-07-28 wants it."""
    return {
        "resultType": "complete",
        **result,
        "_meta": {**result.get("_meta", {}), _SERVER_KEY: server},
    }


def make_response(request_id: RequestId, result: Result) -> McpResponse:
    """Make the response to a request."""
    return McpResponse(msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": result}))


def make_error(request_id: RequestId | None, error: McpError) -> McpResponse:
    """Make the error that ends a request; without an id where none could be read."""
    body: Result = {"code": error.code, "message": str(error)}
    if error.data is not None:
        body["data"] = error.data
    return McpResponse(
        msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": body}), error.code
    )
