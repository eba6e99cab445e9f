"""What the tests with real clients share: a provider, memplane before one, and folders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.proxied import Proxied, proxied
from tests.support.claude_code import NEWEST, PINNED, ClaudeCode
from tests.support.upstream import Upstream, running_upstream


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with running_upstream() as running:
        yield running


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Proxied]:
    """Memplane as it is served, with a scripted upstream of its own behind it."""
    async with proxied(tmp_path / "served") as served:
        yield served


@pytest.fixture
def claude_at(tmp_path: Path) -> Callable[[str], ClaudeCode]:
    """Claude Code for an address, always of the same user and in the same project."""
    return lambda address: ClaudeCode(address, tmp_path / "claude", tmp_path / "project")


@pytest.fixture(
    params=[
        pytest.param(PINNED, id="pinned"),
        pytest.param(NEWEST, id="newest", marks=pytest.mark.long),
    ]
)
def any_version(request: pytest.FixtureRequest) -> Path:
    """Where either version of Claude Code is installed."""
    version: Path = request.param
    return version


@pytest.fixture
def any_claude_at(
    claude_at: Callable[[str], ClaudeCode], any_version: Path
) -> Callable[[str], ClaudeCode]:
    """The same, of either version."""
    return lambda address: replace(claude_at(address), version=any_version)
