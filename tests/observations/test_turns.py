"""Markers in captured turns become observations, and forgetting a turn takes them back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from memplane.assemble.plane import open_local_plane
from memplane.ledger.entry import JsonReply
from memplane.ledger.note import Injected, InjectedBlock, Note, encoded
from memplane.memory.contract import Ask, ForgetAsked
from memplane.observations.contract import ListAsked, MemoryView, MemoryWanted
from memplane.plane.local import LocalPlane
from memplane.settings import Settings
from tests.support.turns import turn

SAID = "[MEMORY:behavior:plex] First restart fails on a DB lock; the second succeeds"


def entry(identifier: str, answer: str, day: int = 1) -> bytes:
    request = {"messages": [{"role": "user", "content": "How is plex?"}]}
    reply = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
    return json.dumps(
        {
            "id": identifier,
            "ts": f"2026-11-{day:02}T12:00:00Z",
            "request_original": request,
            "response": {"format": "json", "json": reply},
        }
    ).encode()


def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


async def all_of(plane: LocalPlane) -> list[MemoryView]:
    memories = await plane.memories()
    asked = ListAsked(state="any", sort="id", descending=False)
    return list((await memories.page("ops", asked)).memories)


async def learned(tmp_path: Path) -> list[MemoryView]:
    """Open the plane anew, which takes in what there is, and list what was learned."""
    async with open_local_plane(settings(tmp_path)) as plane:
        return await all_of(plane)


async def test_a_marker_in_a_retained_turn_is_learned_with_its_evidence(tmp_path: Path) -> None:
    async with open_local_plane(settings(tmp_path)) as plane:
        await plane.retain("ops", entry("t1", f"Done.\n{SAID}\nBye."))
    (found,) = await learned(tmp_path)
    assert (found.service, found.category) == ("plex", "behavior")
    assert found.observation == "First restart fails on a DB lock; the second succeeds"
    assert found.created_at == "2026-11-01T12:00:00.000Z"
    async with open_local_plane(settings(tmp_path)) as plane:
        (evidence,) = await (await plane.memories()).evidence("ops", found.id)
    assert (evidence.ledger_entry_id, evidence.polarity) == ("t1", "supports")


async def test_turns_of_one_day_have_one_vote_and_those_of_another_day_their_own(
    tmp_path: Path,
) -> None:
    async with open_local_plane(settings(tmp_path)) as plane:
        for number, day in enumerate((1, 1, 1, 2)):
            await plane.retain("ops", entry(f"t{number}", SAID, day))
    (found,) = await learned(tmp_path)
    assert found.confidence == 0.8


async def test_a_near_miss_in_a_turn_is_a_reject(tmp_path: Path) -> None:
    async with open_local_plane(settings(tmp_path)) as plane:
        await plane.retain("ops", entry("t1", "[MEMORY:misc:plex] Likes tea"))
    async with open_local_plane(settings(tmp_path)) as plane:
        (reject,) = await (await plane.memories()).rejects("ops")
        assert (reject.reason, reject.observation) == ("unknown_category", "Likes tea")
        assert await all_of(plane) == []


async def test_nothing_is_learned_twice_when_memory_is_made_anew(tmp_path: Path) -> None:
    async with open_local_plane(settings(tmp_path)) as plane:
        await plane.retain("ops", entry("t1", SAID))
    before = await learned(tmp_path)
    for name in ("memplane.db", "memplane.db-wal", "memplane.db-shm"):
        (tmp_path / "home" / name).unlink(missing_ok=True)
    assert await learned(tmp_path) == before
    async with open_local_plane(settings(tmp_path)) as plane:
        assert (await plane.rebuild()).same
        assert await all_of(plane) == before


async def test_a_turn_that_repeats_what_its_prompt_was_told_earns_nothing(tmp_path: Path) -> None:
    async with open_local_plane(settings(tmp_path)) as plane:
        await plane.retain("ops", entry("t1", SAID))
    (found,) = await learned(tmp_path)
    block = InjectedBlock(id=f"observation-{found.id}", kind="observation")
    placed = Injected(message=0, service="", bytes=9, blocks=(block,))
    reply = JsonReply(json.dumps({"choices": [{"message": {"content": SAID}}]}).encode())
    async with open_local_plane(settings(tmp_path)) as plane:
        for day, note in ((2, Note(session="s-2", injected=(placed,))), (3, Note(session="s-3"))):
            ts = datetime(2026, 11, day, tzinfo=UTC)
            said = turn("And now?", agent="ops", ts=ts, reply=reply, note=encoded(note))
            await plane.recording.ledger.append(said)
    after = (await learned(tmp_path))[0]
    assert after.confidence == 0.8  # the second of the two was told nothing, and saw it itself
    async with open_local_plane(settings(tmp_path)) as plane:
        history = await (await plane.memories()).history("ops", found.id)
    assert [one.kind for one in history] == ["asserted", "echoed", "reinforced"]


async def test_what_only_a_forgotten_turn_said_is_told_no_more(tmp_path: Path) -> None:
    async with open_local_plane(settings(tmp_path)) as plane:
        await plane.retain("ops", entry("t1", SAID))
    async with open_local_plane(settings(tmp_path)) as plane:
        asked = ForgetAsked(agent="ops", ids=("t1",), verify=True)
        receipt = await plane.forget(asked)
        (found,) = await all_of(plane)
        assert found.unsupported
        recalled = await plane.recall(Ask(agent="ops", text="How do I restart plex?"))
        assert recalled.memories == ()
        (evidence,) = await (await plane.memories()).evidence("ops", found.id)
    assert evidence.void
    assert evidence.quote == ""
    about = {one.place: one for one in receipt.checked}["observations"]
    assert about.clean
    assert str(found.id) in about.note


async def test_purging_a_turn_purges_what_only_it_said(tmp_path: Path) -> None:
    async with open_local_plane(settings(tmp_path)) as plane:
        await plane.retain("ops", entry("t1", SAID))
    async with open_local_plane(settings(tmp_path)) as plane:
        await plane.forget(ForgetAsked(agent="ops", ids=("t1",), purge=True))
        (found,) = await all_of(plane)
    assert found.state == "purged"
    held = [
        path.name
        for path in (tmp_path / "home").rglob("*")
        if path.is_file() and b"the second succeeds" in path.read_bytes()
    ]
    assert held == []


async def test_recall_tells_what_was_learned_about_a_service_that_is_named(tmp_path: Path) -> None:
    async with open_local_plane(settings(tmp_path)) as plane:
        memories = await plane.memories()
        for service, text in (
            ("plex", "First restart fails on a DB lock; the second succeeds"),
            ("caddy", "Must be started after WireGuard"),
        ):
            wanted = MemoryWanted(category="behavior", service=service, observation=text)
            await memories.add("ops", wanted, by="ada")
        answer = await plane.recall(Ask(agent="ops", text="Please restart Plex."))
        assert [(one.kind, one.id) for one in answer.memories] == [
            ("observation", "observation-1")
        ]
        assert answer.memories[0].text.startswith("[behavior] plex: First restart fails")
        assert (await plane.recall(Ask(agent="ops", text="What is for dinner?"))).memories == ()
        assert (await plane.recall(Ask(agent="other", text="Restart plex."))).memories == ()
