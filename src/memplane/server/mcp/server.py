"""Answers the requests of the Model Context Protocol, however they came.

Nothing is kept between requests: the form of a request says which version it speaks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, cast

from memplane.errors import MemplaneError, RecordsError
from memplane.server.mcp.instructions import build_instructions
from memplane.server.mcp.messages import (
    HANDSHAKE_VERSIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    STATELESS_VERSION,
    STATIC_TTL_MS,
    McpError,
    McpRequest,
    McpResponse,
    Result,
    check_version,
    complete_result,
    make_cacheable,
    make_error,
    make_response,
)
from memplane.server.mcp.resources import RESOURCE_METHODS
from memplane.server.mcp.tool import McpCaller, call_tool
from memplane.server.mcp.tools import find_tool, list_tools
from memplane.version import VERSION

CALL_DEADLINE_S: Final = 60.0
"""How long a client waits for a tool; what was begun then goes on behind it."""

_SERVER: Final = {"name": "memplane", "title": "memplane: durable memory", "version": VERSION}
_CAPABILITIES: Final = {"tools": {"listChanged": False}, "resources": {"listChanged": False}}

_log = logging.getLogger(__name__)
_calls: Final = set[asyncio.Task[str]]()
"""The calls that run, also after their deadline; a task that nobody holds may be collected."""


async def answer_request(request: McpRequest, caller: McpCaller) -> McpResponse:
    """Return the response to a request: its result, or the error that ends it."""
    try:
        if request.is_stateless:
            check_version(request)
        result = await _serve(request, caller)
    except McpError as error:
        return make_error(request.id, error)
    except MemplaneError as error:
        return make_error(request.id, McpError(INTERNAL_ERROR, _describe(error)))
    except Exception:  # noqa: BLE001 - logged here; whoever asked learns nothing of it
        _log.exception("%s failed", request.method)
        return make_error(request.id, McpError(INTERNAL_ERROR, "internal error"))
    if request.is_stateless:
        result = complete_result(result, _SERVER)
    return make_response(request.id, result)


async def _serve(request: McpRequest, caller: McpCaller) -> Result:
    if (ask_resources := RESOURCE_METHODS.get(request.method)) is not None:
        return await ask_resources(request, caller)
    match request.method:
        case "initialize":
            return _initialize(request.params)
        case "server/discover":
            return _discover()
        case "ping":
            return {}
        case "tools/list":
            described = [tool.describe() for tool in list_tools(caller)]
            return make_cacheable({"tools": described}, STATIC_TTL_MS)
        case "tools/call":
            return await _call(request.params, caller)
        case method:
            raise McpError(METHOD_NOT_FOUND, f"there is no method {method}")


def _initialize(params: Mapping[str, Any]) -> Result:
    """Agree on a version: the client's, or the newest that has a handshake."""
    asked = params.get("protocolVersion")
    version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
    return {
        "protocolVersion": version,
        "capabilities": _CAPABILITIES,
        "serverInfo": _SERVER,
        "instructions": build_instructions(),
    }


def _discover() -> Result:
    found = {
        "supportedVersions": [STATELESS_VERSION, *HANDSHAKE_VERSIONS],
        "capabilities": _CAPABILITIES,
        "instructions": build_instructions(),
    }
    return make_cacheable(found, STATIC_TTL_MS)


async def _call(params: Mapping[str, Any], caller: McpCaller) -> Result:
    """Call a tool; that it failed is a result that the model reads."""
    tool = find_tool(caller, params.get("name"))
    if tool is None:
        raise McpError(INVALID_PARAMS, f"there is no tool {params.get('name')!r} for this token")
    given: object = params.get("arguments") or {}
    if not isinstance(given, dict):
        raise McpError(INVALID_PARAMS, "the arguments of a tool are an object")
    work = asyncio.create_task(call_tool(tool, cast("dict[str, Any]", given), caller))
    _calls.add(work)
    work.add_done_callback(_calls.discard)
    done, _ = await asyncio.wait({work}, timeout=CALL_DEADLINE_S)
    if not done:
        return _text_result(
            f"memplane has not answered within {CALL_DEADLINE_S:.0f} s; {tool.name} may still be "
            "carried out. `memplane status` says more.",
            is_error=True,
        )
    try:
        return _text_result(work.result())
    except MemplaneError as error:
        return _text_result(_describe(error), is_error=True)


def _text_result(text: str, *, is_error: bool = False) -> Result:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def _describe(error: MemplaneError) -> str:
    """Say what is wrong; what a database says of itself is for the log alone."""
    if isinstance(error, RecordsError):
        _log.error("%s", error)
        return "memplane's database failed; its log says more"
    return str(error)
