"""Carries calls of operations to where they are carried out."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import msgspec

from memplane.service.operation import Context, Operation
from memplane.service.services import Services

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
