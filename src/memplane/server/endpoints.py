"""The table of endpoints, from which requests are answered and the description is made.

An endpoint cannot be written down without saying who may ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from memplane.auth.grants import Scope
from memplane.server.request_body import DEFAULT_MAX_BODY_BYTES

_LOOKUP_CACHE_SIZE: Final = 512
_MAX_CACHED_PATH_CHARS: Final = 256

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class NoAuth(msgspec.Struct, frozen=True):
    """Anybody may ask."""


class AnyTokenAuth(msgspec.Struct, frozen=True):
    """Whoever has a token may ask."""


class ScopeAuth(msgspec.Struct, frozen=True):
    """Whoever has a token with this scope may ask."""

    scope: Scope


class HandlerAuth(msgspec.Struct, frozen=True):
    """The handler decides, because a contract fixes its answers."""

    why: str


AuthRule: TypeAlias = NoAuth | AnyTokenAuth | ScopeAuth | HandlerAuth


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One thing that can be asked: where, by whom, and what goes in and out."""

    method: str
    path: str
    handler: Handler
    needs: AuthRule
    summary: str
    takes: type[Any] | None = None
    gives: Any = None
    media_type: str = "application/json"
    also_gives: tuple[str, ...] = ()
    """Other media types of its answer, when asked for."""
    names_agent: bool = False
    """Whether the query may name the agent that it is about."""
    query: type[msgspec.Struct] | None = None
    """What the query may say, a field each."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The headers that mean something here, and what."""
    refuses: Mapping[int, str] = field(default_factory=dict[int, str])
    """The statuses of its own refusals, beside those that follow from the rest, and why."""
    plain_refusals: bool = False
    """Whether it is refused in plain text, as a contract may want."""
    status: int = 200
    body_limit: int = DEFAULT_MAX_BODY_BYTES
    body_optional: bool = False
    takes_lines: bool = False
    """Whether it takes several documents too, one a line."""
    encoded: bool = False
    """Whether the body may have a Content-Encoding, which the handler then undoes."""


PathEndpoints: TypeAlias = Mapping[str, Endpoint]


FALLBACK_PATH: Final = "*"
"""The path of whoever is asked without a token about addresses at which there is nothing."""


class EndpointTable:
    """Endpoints by path and method."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        places: dict[str, dict[str, Endpoint]] = {}
        self.elsewhere: Handler | None = None
        for one in endpoints:
            if one.path == FALLBACK_PATH:
                self.elsewhere = one.handler
                continue
            place = places.setdefault(one.path, {})
            if one.method in place:
                raise ValueError(f"{one.method} {one.path} is in the table twice")
            place[one.method] = one
        for place in places.values():
            if "GET" in place:
                place.setdefault("HEAD", place["GET"])
        self.places: Final[Mapping[str, PathEndpoints]] = places
        self._patterns = [(path, compile_path(path)) for path in places if "{" in path]
        # Agents ask at the same few addresses, and more than one layer looks.
        self._remembered = lru_cache(_LOOKUP_CACHE_SIZE)(self._found)

    def find(self, asked: str) -> tuple[str | None, Mapping[str, Any]]:
        """Return the path in the table that an address is at, and what stands for its names."""
        return (self._remembered if len(asked) <= _MAX_CACHED_PATH_CHARS else self._found)(asked)

    def _found(self, asked: str) -> tuple[str | None, Mapping[str, Any]]:
        if asked in self.places and "{" not in asked:
            return asked, {}
        for path, (pattern, _, convertors) in self._patterns:
            if found := pattern.fullmatch(asked):
                given = found.groupdict()
                return path, {name: convertors[name].convert(given[name]) for name in given}
        return None, {}

    def allows_without_token(self, path: str | None, method: str) -> bool:
        """Say whether a request without a token of ours goes on to the handler."""
        place = self.places.get(path or "", {})
        endpoint = place.get(method)
        if endpoint is None:
            # What is refused there, and how, is up to those rules too.
            return any(isinstance(one.needs, HandlerAuth) for one in place.values())
        return isinstance(endpoint.needs, NoAuth | HandlerAuth)

    def refuses_in_plain_text(self, path: str | None) -> bool:
        """Say whether what is at a path is refused in plain text."""
        return any(one.plain_refusals for one in self.places.get(path or "", {}).values())
