"""The commands for pods are tested with the same pod and the same service as what they call."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from memplane.kit.retry_clock import RetryClock
from tests.clawdapus.conftest import pod, service

__all__ = ["pod", "service"]


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process that get no answer ask again a hundred times sooner."""

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 100)

    monkeypatch.setattr(
        "memplane.service.composition.storage.RetryClock", partial(RetryClock, sleep=sleep)
    )
