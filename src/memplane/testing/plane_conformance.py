"""What every Plane must do. Subclass it and provide the fixtures `plane` and `home`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from memplane.access.grants import Scope, TokenWanted
from memplane.errors import InvalidRequest, UnknownAgent, UnknownToken
from memplane.memory.contract import Ask, ForgetAsked
from memplane.plane.contract import Plane
from memplane.version import VERSION

_ENTRY = (
    b'{"id":"turn-1","ts":"2026-03-01T12:00:00Z","request_original":{"messages":[{"role":"user",'
    b'"content":"When is the kestrel rollout?"}]},"response":{"format":"json","json":{"choices":'
    b'[{"message":{"content":"On Thursday."}}]}}}'
)
_ASK = Ask(agent="analyst", text="kestrel rollout?")
_ANALYST = TokenWanted(agent="analyst", scopes=(Scope.WRITE, Scope.READ), name="hers")


class PlaneConformance:
    """The contract as tests."""

    async def test_status_says_where_state_lives(self, plane: Plane, home: Path) -> None:
        status = await plane.status()
        assert status.version == VERSION
        assert status.home == str(home)
        assert status.storage.kind == "local"
        assert status.storage.where == str(home / "data")
        assert status.storage.reason
        assert status.jobs == 0

    async def test_a_token_is_issued_and_listed_without_itself(
        self, plane: Plane, home: Path
    ) -> None:
        assert await plane.tokens() == ()
        issued = await plane.issue_token(_ANALYST)
        about = issued.about
        assert (about.name, about.agent, about.expires) == ("hers", "analyst", None)
        assert about.scopes == (Scope.READ, Scope.WRITE)
        assert issued.token.reveal().startswith("analyst:")
        assert await plane.tokens() == (about,)
        assert issued.token.reveal() not in (home / "tokens.json").read_text()

    async def test_an_admins_token_and_its_expiry(self, plane: Plane) -> None:
        issued = await plane.issue_token(TokenWanted(admin=True, expires_in=3600))
        about = issued.about
        assert (about.name, about.agent, about.scopes) == ("admin", None, (Scope.ADMIN,))
        assert about.expires is not None
        assert about.expires - about.created == timedelta(hours=1)

    async def test_a_token_is_rotated(self, plane: Plane) -> None:
        first = await plane.issue_token(_ANALYST)
        second = await plane.rotate_token(first.about.id)
        assert second.about.id == first.about.id
        assert second.token.reveal() not in {"", first.token.reveal()}
        assert await plane.tokens() == (second.about,)

    async def test_a_token_is_revoked(self, plane: Plane) -> None:
        issued = await plane.issue_token(_ANALYST)
        await plane.revoke_token(issued.about.id)
        assert await plane.tokens() == ()

    async def test_a_token_that_is_not_there_is_said_so(self, plane: Plane) -> None:
        for token_id in ("nothing", "home", "..", "../status", "a/b", "%2e", "?"):
            for change in (plane.revoke_token, plane.rotate_token):
                with pytest.raises(UnknownToken):
                    await change(token_id)

    async def test_a_token_that_may_not_be_is_refused(self, plane: Plane) -> None:
        for wanted in (TokenWanted(), TokenWanted(agent="*", scopes=(Scope.READ,))):
            with pytest.raises(InvalidRequest, match="agent"):
                await plane.issue_token(wanted)
        assert await plane.tokens() == ()

    async def test_tokens_that_are_issued_at_once_are_all_there(self, plane: Plane) -> None:
        issued = await asyncio.gather(*(plane.issue_token(_ANALYST) for _ in range(10)))
        listed = await plane.tokens()
        assert {one.about.id for one in issued} == {one.id for one in listed}
        assert len(listed) == 10

    async def test_what_is_retained_is_recalled_until_it_is_forgotten(self, plane: Plane) -> None:
        assert (await plane.recall(_ASK)).memories == ()
        receipt = await plane.retain("analyst", _ENTRY)
        assert (receipt.id, receipt.status, receipt.searchable) == ("turn-1", "retained", True)
        assert (await plane.retain("analyst", _ENTRY)).status == "known"
        (found,) = (await plane.recall(_ASK)).memories
        assert "On Thursday." in found.text
        assert found.entry_ids == ("turn-1",)
        asked = ForgetAsked(agent="analyst", ids=("turn-1", "turn-2"), verify=True)
        outcome = await plane.forget(asked)
        assert (outcome.forgotten, outcome.already, outcome.clean) == (2, 0, True)
        assert (await plane.recall(_ASK)).memories == ()
        assert (await plane.retain("analyst", _ENTRY)).status == "forgotten"

    async def test_memory_keeps_agents_apart(self, plane: Plane) -> None:
        await plane.retain("analyst", _ENTRY)
        assert (await plane.recall(Ask(agent="writer", text=_ASK.text))).memories == ()
        for wrong in ("", "*", "../analyst"):
            with pytest.raises((UnknownAgent, InvalidRequest)):
                await plane.retain(wrong, _ENTRY)

    async def test_what_cannot_be_retained_or_forgotten_is_said_so(self, plane: Plane) -> None:
        with pytest.raises(InvalidRequest, match="id"):
            await plane.retain("analyst", b'{"ts":"2026-03-01T12:00:00Z"}')
        with pytest.raises(InvalidRequest, match="at least one"):
            await plane.forget(ForgetAsked(agent="analyst", ids=(" ",)))

    async def test_a_rebuild_says_that_memory_is_what_the_ledgers_say(self, plane: Plane) -> None:
        await plane.retain("analyst", _ENTRY)
        outcome = await plane.rebuild()
        assert outcome.same
        assert {one.name: one.rows for one in outcome.tables}["episodes"] == 1
