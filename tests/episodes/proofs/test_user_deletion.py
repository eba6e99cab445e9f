"""One of very many users of an agent is deleted, and nobody else's answers change."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from memplane.episodes.api_types import RecallRequest
from memplane.episodes.retain_queue import EntryOrigin
from memplane.service.client import local_client
from memplane.service.composition.home import open_services
from memplane.service.operations.memory import recall
from memplane.service.operations.users import UserForgetRequest, forget_user
from memplane.settings import Settings
from tests.episodes.remembering import entry, raw

_TOGETHER = 100
_QUESTION = "Which delivery address does the kestrel customer have?"


def said(user: int, turn: int) -> bytes:
    place = f"{user} Kestrel Lane, house {turn}"
    return raw(
        entry(
            f"Customer {user} asks for delivery {turn}.",
            f"The delivery address of customer {user} is {place}.",
            minutes=user * 3 + turn,
            id=f"t-{user}-{turn}",
        )
    )


async def delete_one_of(home: Path, users: int, turns: int = 2) -> float:
    """Delete one user; returns how many seconds it took."""
    async with open_services(Settings(home=home)) as services:
        memory = await services.lazy_memory.memory()
        client = local_client(services)

        async def answers() -> list[bytes]:
            return [
                msgspec.json.encode(await client.call(recall, _asked(user, limit)))
                for user in (None, *range(1, users, max(1, users // 20)))
                for limit in (None, 50)
            ]

        for first in range(0, users, _TOGETHER):
            some = range(first, min(first + _TOGETHER, users))
            await asyncio.gather(
                *(
                    memory.retain(EntryOrigin("shop", user=f"u-{user}"), said(user, turn))
                    for user in some
                    for turn in range(turns)
                )
            )
        await memory.retain(EntryOrigin("shop"), said(users, 0))
        await memory.settle()
        before = await answers()
        began = time.perf_counter()
        asked = UserForgetRequest(agent="shop", user="u-0", confirm="u-0")
        receipt = await client.call(forget_user, asked)
        took = time.perf_counter() - began
        assert receipt.clean, [one for one in receipt.checked if not one.clean]
        assert len(receipt.ids) == turns
        assert {one.place: one.deleted for one in receipt.deleted}["ledgers: turns"] == turns
        assert await answers() == before
        assert (await client.call(recall, _asked(0, None))).memories == (
            await client.call(recall, _asked(None, None))
        ).memories
    return took


def _asked(user: int | None, limit: int | None) -> RecallRequest:
    named = None if user is None else f"u-{user}"
    return RecallRequest(agent="shop", user=named, text=_QUESTION, limit=limit, explain=True)


async def test_one_of_many_users_is_deleted_and_nobody_else_is_told_anything_else(
    tmp_path: Path,
) -> None:
    await delete_one_of(tmp_path / "home", users=40)


@pytest.mark.long
async def test_one_of_ten_thousand_users_is_deleted(tmp_path: Path) -> None:
    assert await delete_one_of(tmp_path / "home", users=10_000) > 0
