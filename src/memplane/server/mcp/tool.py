"""A tool: a row of the table of operations as a model sees it.

A tool names the fields of its row that a model may give. Their types, limits and defaults, and the
scope that a token needs, are those of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from memplane.auth.grants import Scope
from memplane.errors import InvalidRequest
from memplane.service.operation import AgentScope, Operation, Parameter, Place
from memplane.service.transport import Transport

R = TypeVar("R")


class McpCaller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls: the agent whose memory it is, what may be reached, and what carries the calls.

    `reach` is the one agent that a token is for, and None for whoever reaches all. `user` is the
    end user who is at work, whose own memories are meant as well; None for none.
    """

    transport: Transport
    agent: str
    reach: str | None
    allows: Callable[[Scope], bool]
    user: str | None = None


class Tool(msgspec.Struct, Generic[R], frozen=True, kw_only=True, dict=True):
    """A row as a model sees it.

    `fields` are the fields that a model may give, with descriptions. `defaults` replace those of
    the row; `required` must be given although the row has a default.
    `render` turns a result into text, given the agent's name.
    """

    name: str
    title: str
    operation: Operation[..., R]
    description: str
    fields: Mapping[str, str]
    render: Callable[[R, str], str]
    defaults: Mapping[str, Any] = {}
    required: frozenset[str] = frozenset()
    is_destructive: bool = False

    def describe(self) -> dict[str, Any]:
        """Return the tool as `tools/list` shows it."""
        row = self.operation
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": {
                "title": self.title,
                "readOnlyHint": row.is_read_only,
                "destructiveHint": self.is_destructive,
                "idempotentHint": row.method in {"GET", "PUT"},
                "openWorldHint": False,
            },
        }

    @cached_property
    def input_type(self) -> type[msgspec.Struct]:
        """The type of its arguments, made of the fields of its row."""
        row_fields = _list_row_fields(self.operation)
        required, optional = list[Any](), list[Any]()
        for name, description in self.fields.items():
            field = row_fields[name]
            hint: Any = Annotated[field.type, msgspec.Meta(description=description)]
            if name in self.required or (field.required and name not in self.defaults):
                required.append((name, hint))
            else:
                optional.append((name, hint, self.defaults.get(name, field.default)))
        return msgspec.defstruct(
            self.name,
            [*required, *optional],
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=True,
        )

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        _, definitions = msgspec.json.schema_components([self.input_type])
        schema = dict(definitions.pop(self.name))
        if definitions:
            raise TypeError(f"the arguments of {self.name} have structures of their own")
        schema.pop("title", None)
        return schema

    def build_arguments(self, given: Mapping[str, Any], caller: McpCaller) -> dict[str, Any]:
        """Make the arguments of the row out of those that a model gave.

        Raises:
            InvalidRequest: One is missing, unknown or not possible.
        """
        try:
            values = msgspec.structs.asdict(msgspec.convert(given, self.input_type))
        except msgspec.ValidationError as error:
            raise InvalidRequest(f"the arguments of {self.name}: {error}") from error
        parameters = self.operation.parameters
        return {one.name: _make_argument(one, values, caller) for one in parameters}


async def call_tool(tool: Tool[R], given: Mapping[str, Any], caller: McpCaller) -> str:
    """Carry out a tool's row, and return its result as a model gets it.

    Raises:
        InvalidRequest: An argument is missing, unknown or not possible.
        MemplaneError: The row failed.
    """
    arguments = tool.build_arguments(given, caller)
    return tool.render(await caller.transport.send(tool.operation, arguments), caller.agent)


def _list_row_fields(operation: Operation[..., Any]) -> dict[str, msgspec.structs.FieldInfo]:
    """Return the fields of a row's query and body, by name."""
    return {
        field.name: field
        for parameter in operation.parameters
        if parameter.place in {Place.BODY, Place.QUERY}
        for field in msgspec.structs.fields(parameter.type)
    }


def _make_argument(parameter: Parameter, values: Mapping[str, Any], caller: McpCaller) -> object:
    if parameter.mark is AgentScope.ALL:
        return caller.reach
    if parameter.mark is AgentScope.ONE:
        return _require_agent(caller)
    if parameter.place not in {Place.BODY, Place.QUERY}:
        return parameter.default
    kind: type[msgspec.Struct] = parameter.type
    fields = {field.name for field in msgspec.structs.fields(kind)}
    given = dict(values)
    if "agent" in fields:
        given["agent"] = _require_agent(caller)
    if "user" in fields:
        given["user"] = caller.user
    return kind(**given)


def _require_agent(caller: McpCaller) -> str:
    if not caller.agent:
        raise InvalidRequest(
            "whose memory? Start this server with --agent NAME or MEMPLANE_AGENT=NAME; over HTTP "
            "use the token of an agent, or /mcp?agent=NAME"
        )
    return caller.agent
