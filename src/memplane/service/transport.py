"""Carries calls of operations to where they are carried out."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

import msgspec

from memplane.service.operation import Context, Operation
from memplane.service.services import HomeFiles, Services

R = TypeVar("R")


class Transport(Protocol):
    """Carries calls to where operations are carried out."""

    async def send(self, operation: Operation[..., R], arguments: dict[str, Any]) -> R:
        """Carry out an operation with these arguments."""
        ...


class LocalTransport(msgspec.Struct, frozen=True):
    """Carries out operations in this process, which owns the home."""

    services: Services
    operator: str = ""

    async def send(self, operation: Operation[..., R], arguments: dict[str, Any]) -> R:
        return await operation.handler(Context(self.services, self.operator), **arguments)


class FileTransport(msgspec.Struct, frozen=True):
    """Carries out, in this process, the operations that need no owner of the home."""

    files: HomeFiles

    async def send(self, operation: Operation[..., R], arguments: dict[str, Any]) -> R:
        if operation.needs_owner:
            raise TypeError(f"{operation.name} is carried out by the owner of the home")
        # Its handler takes a FileContext, which is all that this is.
        return await operation.handler(cast("Context", self), **arguments)
