"""A pod, its memory service, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memplane.integrations.clawdapus.memory_service.client import (
    ServiceClient,
    open_service_client,
)
from tests.clawdapus.memory_pod import MemoryPod, Service, memory_pod, running_service


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """A memory service that keeps what it was asked."""
    async with running_service() as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[ServiceClient]:
    """A client for any service."""
    async with open_service_client() as opened:
        yield opened


@pytest.fixture
def pod(tmp_path: Path) -> MemoryPod:
    """An empty pod."""
    return memory_pod(tmp_path / "pod")
