"""Queries and headers, read as the types that an endpoint names."""

from __future__ import annotations

from typing import Annotated, Final, TypeVar, get_args, get_origin

import msgspec
from starlette.datastructures import Headers, QueryParams

from memplane.errors import InvalidRequest
from memplane.server.errors import InvalidFieldsError
from memplane.server.request_body import find_wrong_fields
from memplane.service.operation import LARGEST_ID

_Q = TypeVar("_Q", bound=msgspec.Struct)

PAGING: Final = frozenset({"limit", "offset"})
_NULL: Final = "null"
_MAX_DIGITS: Final = 19
_NO_VERSION: Final = -1
"""The version of a tag that no memory ever had."""


def read_query(given: QueryParams, kind: type[_Q]) -> _Q:
    """Read what a query says; what it does not know is ignored, and so is what is left empty.

    A value that is not possible ends the request with 422. A place in a list that can be none,
    because it is negative or no number, ends it with 400.
    """
    values: dict[str, str | list[str]] = {}
    for one in msgspec.structs.fields(kind):
        said = [value for value in given.getlist(one.encode_name) if value]
        if one.default is None and said[-1:] == [_NULL]:
            raise _make_query_error(one.encode_name, f"{_NULL!r} is not possible")
        if said:
            values[one.encode_name] = said if _is_repeated(one.type) else said[-1]
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        ((name, what),) = find_wrong_fields(error).items()
        raise _make_query_error(name, what) from error


def _is_repeated(kind: object) -> bool:
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return get_origin(bare) is tuple


def _make_query_error(name: str, what: str) -> InvalidFieldsError:
    malformed = name in PAGING and "<=" not in what
    return InvalidFieldsError(
        400 if malformed else 422, f"{name} in the query: {what}", {name: what}
    )


def read_header(headers: Headers, name: str, kind: object, default: object) -> object:
    """Read a header as text, as a number, or as the versions that entity tags name."""
    text = headers.get(name, "").strip()
    if not text:
        return default
    if kind == tuple[int, ...]:
        return _versions(entity_tags(headers, name))
    return text if kind is str else _number(name, text)


def entity_tags(headers: Headers, name: str) -> set[str]:
    """Return the entity tags in a header; a weak one counts as well."""
    return {tag.strip().removeprefix("W/") for tag in headers.get(name, "").split(",")}


def _versions(tags: set[str]) -> tuple[int, ...]:
    if "*" in tags:
        return ()
    return tuple(_version(tag) for tag in tags)


def _version(tag: str) -> int:
    digits = tag[1:-1]
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS
    return int(digits) if is_number and tag == f'"{digits}"' else _NO_VERSION


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        why = "is no number"
        raise InvalidRequest(f"{name} {why}", fields={name: why})
    return int(text) if len(text) <= _MAX_DIGITS else LARGEST_ID
