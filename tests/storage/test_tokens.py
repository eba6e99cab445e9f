"""Tokens of the machine's own identity: asked for seldom, shared, and refreshed."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import azure.identity.aio
import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from memplane.errors import AuthError, BackendMisconfigured
from memplane.kit.clock import system_clock
from memplane.secret import Secret
from memplane.storage.token_sources import AmbientTokenSource, FixedTokenSource


@dataclass
class Machine:
    """A clock, and an identity that hands out numbered tokens for an hour each."""

    now: datetime = datetime(2026, 3, 1, tzinfo=UTC)
    scopes: list[str] = field(default_factory=list[str])
    broken: bool = False

    def clock(self) -> datetime:
        return self.now


class FakeCredential:
    machine: Machine

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    async def get_token(self, *scopes: str) -> AccessToken:
        await asyncio.sleep(0)
        if self.machine.broken:
            raise ClientAuthenticationError("nobody is logged in")
        self.machine.scopes += scopes
        expires = self.machine.now + timedelta(hours=1)
        return AccessToken(f"token{len(self.machine.scopes)}", int(expires.timestamp()))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(FakeCredential, "machine", made, raising=False)
    monkeypatch.setattr(azure.identity.aio, "DefaultAzureCredential", FakeCredential)
    return made


async def test_one_question_serves_all_who_wait(machine: Machine) -> None:
    tokens = AmbientTokenSource(clock=machine.clock)
    given = await asyncio.gather(*(tokens.token() for _ in range(50)))
    assert set(given) == {"token1"}
    assert machine.scopes == ["https://storage.azure.com/.default"]


async def test_a_token_is_renewed_five_minutes_before_it_ends(machine: Machine) -> None:
    tokens = AmbientTokenSource(clock=machine.clock)
    assert await tokens.token() == "token1"
    machine.now += timedelta(minutes=54)
    assert await tokens.token() == "token1"
    machine.now += timedelta(minutes=2)
    assert await tokens.token() == "token2"


async def test_a_refused_token_is_not_given_again(machine: Machine) -> None:
    tokens = AmbientTokenSource(clock=machine.clock)
    first = await tokens.token()
    tokens.refused(first)
    second = await tokens.token()
    assert second == "token2"
    tokens.refused(first)  # somebody else was told late
    assert await tokens.token() == second


async def test_without_an_identity_the_remedy_is_said(machine: Machine) -> None:
    machine.broken = True
    tokens = AmbientTokenSource(clock=machine.clock)
    with pytest.raises(AuthError, match="az login"):
        await tokens.token()
    machine.broken = False
    assert await tokens.token() == "token1"


async def test_without_the_library_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity.aio", None)
    with pytest.raises(BackendMisconfigured, match=r"pip install 'memplane\[azure\]'"):
        await AmbientTokenSource(clock=system_clock).token()


async def test_a_fixed_token_stays_what_it_is() -> None:
    tokens = FixedTokenSource(Secret("given"))
    tokens.refused("given")
    assert await tokens.token() == "given"
