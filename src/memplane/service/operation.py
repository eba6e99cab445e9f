"""An operation: something that any interface can ask for, defined once as a typed function.

The row says where it is found over HTTP and which scope a token needs. The function's signature
says what it takes and returns, its docstring is the help. Routes, their description, the client
and its transports follow from that; see `docs/decisions/0056-operations-are-rows-of-one-table.md`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import (
    Annotated,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from memplane.auth.grants import Scope
from memplane.errors import MemplaneError, UnknownMemory
from memplane.service.services import HomeFiles, Services

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
SMALL_BODY_BYTES: Final = 64 * 1024

TypeHint: TypeAlias = Any
"""A type as an annotation writes it."""

_PATH_NAME: Final = re.compile(r"{(\w+)(?::\w+)?}")
LARGEST_ID: Final = 2**63 - 1
_ID: Final = re.compile(r"[\w-]+", re.ASCII)


class FileContext(Protocol):
    """What an operation works with that needs no owner: files that every process may use."""

    @property
    def files(self) -> HomeFiles:
        """Documents and ledgers."""
        ...


class Context(msgspec.Struct, frozen=True):
    """What an operation works with: the services of the home, and who asked."""

    services: Services
    operator: str = ""

    @property
    def files(self) -> HomeFiles:
        """Documents and ledgers."""
        return self.services.files


class Place(Enum):
    """Where a parameter travels in an HTTP request."""

    AGENT = "agent"
    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    BODY = "body"


class Header(msgspec.Struct, frozen=True):
    """Marks a parameter that travels in a header."""

    name: str
    about: str


class AgentScope(Enum):
    """Marks the parameter that says whose things an operation reaches."""

    ONE = "one agent"
    ALL = "one agent, or all of them for an admin"


OneAgent: TypeAlias = Annotated[str, AgentScope.ONE]
AnyAgent: TypeAlias = Annotated[str | None, AgentScope.ALL]
ExpectedVersions: TypeAlias = Annotated[
    tuple[int, ...], Header("If-Match", "The ETag of what is to be changed.")
]
"""The versions that a caller may have seen; none is any. It travels as entity tags."""


@dataclass(frozen=True, slots=True)
class TextStream:
    """A text that is returned piece by piece, and what kind of file it is."""

    media_type: str
    filename: str
    pieces: AsyncIterator[str]


@dataclass(frozen=True, slots=True)
class EventStream(Generic[T]):
    """Events as they happen, for ever; `after` is the place from which they go on."""

    after: int
    events: AsyncIterator[T]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an operation."""

    name: str
    place: Place
    type: TypeHint
    default: object
    mark: Header | AgentScope | None = None

    @property
    def is_required(self) -> bool:
        """Whether a call must have it."""
        return self.default is inspect.Parameter.empty


def _make_unknown(name: str) -> MemplaneError:
    return UnknownMemory(f"there is nothing called {name!r}")


@dataclass(frozen=True, kw_only=True)
class Operation(Generic[P, R]):
    """One row of the table.

    Args:
        handler: The function that carries it out.
        method: The HTTP method.
        path: The path, with names of parameters in braces.
        scope: What a token must allow.
        status: The status of a response to a call that worked.
        max_body_bytes: How long a request's body may be.
        is_body_optional: Whether a request may have no body.
        is_slow: Whether a client waits for as long as it takes.
        needs_owner: Whether the process that owns the home has to carry it out.
        has_version: Whether a response carries the version of what it returns, as its ETag.
        is_attributed: Whether who asked is recorded.
        may_conflict: Whether a request that is valid, but not possible now, is a conflict (409).
        needs_all_fields: Whether a body without a required field is malformed (400).
        replaces_half_characters: Whether text that cannot be stored is replaced, not refused.
        line_reader: Makes the body of lines of JSON, where those are accepted too.
        media_types: What a stream of text may be.
        refusals: Statuses of its own, and what they mean.
        make_unknown: Makes the error for an id that nothing has.
    """

    handler: Callable[Concatenate[Context, P], Awaitable[R]]
    method: str
    path: str
    scope: Scope
    status: int = 200
    max_body_bytes: int = MAX_BODY_BYTES
    is_body_optional: bool = False
    is_slow: bool = False
    needs_owner: bool = True
    has_version: bool = False
    is_attributed: bool = False
    may_conflict: bool = False
    needs_all_fields: bool = False
    replaces_half_characters: bool = False
    line_reader: Callable[[Iterable[bytes]], msgspec.Struct] | None = None
    media_types: tuple[str, ...] = ()
    refusals: Mapping[int, str] = field(default_factory=dict[int, str])
    make_unknown: Callable[[str], MemplaneError] = _make_unknown

    @property
    def name(self) -> str:
        """The function's name."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """One line of help: the first of the function's docstring."""
        return (self.handler.__doc__ or "").partition("\n")[0].rstrip(".")

    @property
    def is_read_only(self) -> bool:
        """Whether it changes nothing, so that it can be asked for again."""
        return self.method == "GET" or self.scope is Scope.READ

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """What it takes, beside the context."""
        hints = get_type_hints(self.handler, include_extras=True)
        in_path = {found[1] for found in _PATH_NAME.finditer(self.path)}
        (_, *own) = self._signature.parameters.values()
        return tuple(_parameter(each, hints[each.name], in_path) for each in own)

    @cached_property
    def response_type(self) -> TypeHint:
        """What it returns; None when it returns nothing."""
        found = get_type_hints(self.handler)["return"]
        return None if found is type(None) else found

    @cached_property
    def event_type(self) -> TypeHint:
        """What its events are; None when it returns no stream of them."""
        origin: object = get_origin(self.response_type)
        return get_args(self.response_type)[0] if origin is EventStream else None

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.handler)

    @cached_property
    def _path_names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.parameters if each.place is Place.PATH)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """Return the arguments of a call by name, with defaults.

        Raises:
            MemplaneError: An id in the path has a form that no id has.
        """
        bound = self._signature.bind(None, *args, **kwargs)
        bound.apply_defaults()
        (_, *arguments) = bound.arguments.items()
        for name in self._path_names:
            self.check_id(bound.arguments[name])
        return dict(arguments)

    def check_id(self, value: object) -> None:
        """Refuse an id of a form that no id has.

        Raises:
            MemplaneError: It has such a form.
        """
        is_possible = (
            0 <= value <= LARGEST_ID if isinstance(value, int) else _ID.fullmatch(str(value))
        )
        if not is_possible:
            raise self.make_unknown(str(value))


def _parameter(given: inspect.Parameter, hint: TypeHint, in_path: set[str]) -> Parameter:
    parts: tuple[TypeHint, ...] = (hint,)
    if hasattr(hint, "__metadata__"):
        parts = get_args(hint)
    bare, *marks = parts
    mark = next((each for each in marks if isinstance(each, Header | AgentScope)), None)
    if isinstance(mark, Header):
        place = Place.HEADER
    elif isinstance(mark, AgentScope):
        place = Place.AGENT
    elif given.name in in_path:
        place = Place.PATH
    else:
        place = Place(given.name)  # `query` and `body` say it themselves
    return Parameter(given.name, place, bare if mark else hint, given.default, mark)


class OperationOptions(TypedDict, total=False):
    """What a row may say beside its place; see `Operation`."""

    status: int
    max_body_bytes: int
    is_body_optional: bool
    is_slow: bool
    needs_owner: bool
    has_version: bool
    is_attributed: bool
    may_conflict: bool
    needs_all_fields: bool
    replaces_half_characters: bool
    line_reader: Callable[[Iterable[bytes]], msgspec.Struct]
    media_types: tuple[str, ...]
    refusals: Mapping[int, str]
    make_unknown: Callable[[str], MemplaneError]


def operation(
    method: str, path: str, *, scope: Scope, **options: Unpack[OperationOptions]
) -> Callable[[Callable[Concatenate[Context, P], Awaitable[R]]], Operation[P, R]]:
    """Make a row of a function."""

    def make(handler: Callable[Concatenate[Context, P], Awaitable[R]]) -> Operation[P, R]:
        return Operation(handler=handler, method=method, path=path, scope=scope, **options)

    return make
