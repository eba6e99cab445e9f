"""Resources: the guide, and the documents that a caller reaches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote

from memplane.auth.grants import Scope
from memplane.errors import InvalidKey, UnknownMemory
from memplane.persona.api_types import DocumentQuery
from memplane.persona.guide import build_guide
from memplane.server.mcp.instructions import GUIDE_URI
from memplane.server.mcp.messages import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    STATIC_TTL_MS,
    McpError,
    McpRequest,
    Result,
    make_cacheable,
)
from memplane.server.mcp.quotation import quote_document, quote_line
from memplane.server.mcp.tool import McpCaller
from memplane.service.operations.documents import list_documents, read_document

_DOCUMENT_SCHEME: Final = "memplane://documents/"

_GUIDE: Final = {
    "uri": GUIDE_URI,
    "name": "guide",
    "title": "The guide to your documents",
    "description": "Which documents there are, and when to read and write each.",
    "mimeType": "text/markdown",
}


async def _list(_request: McpRequest, caller: McpCaller) -> Result:
    return make_cacheable({"resources": await _list_resources(caller)}, 0)


async def _list_resources(caller: McpCaller) -> list[Result]:
    if not caller.allows(Scope.READ):
        return [_GUIDE]
    try:
        listed = await caller.transport.send(list_documents, list_documents.bind(caller.reach))
    except UnknownMemory:
        return [_GUIDE]  # no folder of documents is within reach
    return [
        _GUIDE,
        *(
            {
                "uri": f"{_DOCUMENT_SCHEME}{quote(document.key)}",
                "name": document.key,
                "title": quote_line(document.name) or document.key,
                "description": quote_line(document.description),
                "mimeType": "text/markdown",
                "size": document.size,
            }
            for document in listed.contents.documents
            if document.size is not None
        ),
    ]


async def _list_templates(_request: McpRequest, caller: McpCaller) -> Result:
    template = {
        "uriTemplate": f"{_DOCUMENT_SCHEME}{{+key}}",
        "name": "document",
        "title": "A document",
        "description": "One of your documents, by its name, such as MEMORY.md.",
        "mimeType": "text/markdown",
    }
    templates = [template] if caller.allows(Scope.READ) else []
    return make_cacheable({"resourceTemplates": templates}, STATIC_TTL_MS)


async def _read(request: McpRequest, caller: McpCaller) -> Result:
    uri = request.params.get("uri")
    if not isinstance(uri, str):
        raise McpError(INVALID_PARAMS, "which resource? There is no uri")
    if uri == GUIDE_URI:
        return _contents(uri, build_guide("agent"))
    missing = INVALID_PARAMS if request.is_stateless else RESOURCE_NOT_FOUND
    unknown = McpError(missing, "there is no such resource for this token", {"uri": uri})
    if not uri.startswith(_DOCUMENT_SCHEME) or not caller.allows(Scope.READ):
        raise unknown
    query = DocumentQuery(key=unquote(uri.removeprefix(_DOCUMENT_SCHEME)))
    try:
        view = await caller.transport.send(read_document, read_document.bind(caller.reach, query))
    except (UnknownMemory, InvalidKey) as error:
        raise unknown from error
    if view.text is None:
        raise unknown
    kind, version = view.document.kind, view.version
    return _contents(
        uri, quote_document(query.key, kind, version, view.text, is_exact=view.is_exact)
    )


def _contents(uri: str, text: str) -> Result:
    contents = [{"uri": uri, "mimeType": "text/markdown", "text": text}]
    return make_cacheable({"contents": contents}, 0)


RESOURCE_METHODS: Final[Mapping[str, Callable[[McpRequest, McpCaller], Awaitable[Result]]]] = (
    MappingProxyType(
        {
            "resources/list": _list,
            "resources/templates/list": _list_templates,
            "resources/read": _read,
        }
    )
)
