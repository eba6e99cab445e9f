"""Queries of addresses, read as the type that an endpoint names."""

from __future__ import annotations

from typing import Annotated, Final, TypeVar, get_args, get_origin

import msgspec
from starlette.datastructures import QueryParams

from memplane.http.bodies import wrong_fields
from memplane.http.errors import Refused

_Q = TypeVar("_Q", bound=msgspec.Struct)

_PAGING: Final = frozenset({"limit", "offset"})
_NONE: Final = "null"


def read_query(given: QueryParams, kind: type[_Q]) -> _Q:
    """Read what a query says; what it does not know is ignored, and so is what is left empty.

    A value that is not possible ends the request with 422. A place in a list that can be none,
    because it is negative or no number, ends it with 400.
    """
    values: dict[str, str | list[str]] = {}
    for one in msgspec.structs.fields(kind):
        said = [value for value in given.getlist(one.encode_name) if value]
        if one.default is None and said[-1:] == [_NONE]:
            raise _refused(one.encode_name, f"{_NONE!r} is not possible")
        if said:
            values[one.encode_name] = said if _is_repeated(one.type) else said[-1]
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        ((name, what),) = wrong_fields(error).items()
        raise _refused(name, what) from error


def _is_repeated(kind: object) -> bool:
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return get_origin(bare) is tuple


def _refused(name: str, what: str) -> Refused:
    malformed = name in _PAGING and "<=" not in what
    return Refused(400 if malformed else 422, f"{name} in the query: {what}", {name: what})
