"""Markers in captured turns become observations, and forgetting a turn takes them back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memplane.episodes.api_types import ForgetRequest
from memplane.errors import InvalidRequest, UnknownMemory
from memplane.ledger.entry import JsonReply
from memplane.ledger.turn_note import InjectedBlock, MessageInjection, TurnNote, encode_note
from memplane.observations.api_types import MemoryView
from memplane.observations.events import EventKind
from memplane.observations.export_format import format_jsonl, format_markdown, parse_jsonl
from memplane.observations.requests import ActAsked, ActQuery, MemoryCreate, MemoryQuery
from memplane.service.client import local_client
from memplane.service.composition.home import open_services
from memplane.service.operations.memory import forget, rebuild
from memplane.service.services import Services
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


async def all_of(plane: Services) -> list[MemoryView]:
    memories = await plane.memories()
    asked = MemoryQuery(state="any", sort="id", order="asc")
    return list((await memories.page("ops", asked)).memories)


async def learned(tmp_path: Path) -> list[MemoryView]:
    """Open the plane anew, which takes in what there is, and list what was learned."""
    async with open_services(settings(tmp_path)) as plane:
        return await all_of(plane)


async def test_a_marker_in_a_retained_turn_is_learned_with_its_evidence(tmp_path: Path) -> None:
    async with open_services(settings(tmp_path)) as plane:
        await local_client(plane).retain(agent="ops", entry=entry("t1", f"Done.\n{SAID}\nBye."))
    (found,) = await learned(tmp_path)
    assert (found.service, found.category) == ("plex", "behavior")
    assert found.observation == "First restart fails on a DB lock; the second succeeds"
    assert found.created_at == "2026-11-01T12:00:00.000Z"
    async with open_services(settings(tmp_path)) as plane:
        (evidence,) = await (await plane.memories()).evidence("ops", found.id)
    assert (evidence.ledger_entry_id, evidence.polarity) == ("t1", "supports")


async def test_turns_of_one_day_have_one_vote_and_those_of_another_day_their_own(
    tmp_path: Path,
) -> None:
    async with open_services(settings(tmp_path)) as plane:
        for number, day in enumerate((1, 1, 1, 2)):
            await local_client(plane).retain(agent="ops", entry=entry(f"t{number}", SAID, day))
    (found,) = await learned(tmp_path)
    assert found.confidence == 0.8


async def test_a_near_miss_in_a_turn_is_a_reject(tmp_path: Path) -> None:
    async with open_services(settings(tmp_path)) as plane:
        await local_client(plane).retain(
            agent="ops", entry=entry("t1", "[MEMORY:misc:plex] Likes tea")
        )
    async with open_services(settings(tmp_path)) as plane:
        (reject,) = await (await plane.memories()).rejects("ops")
        assert (reject.reason, reject.observation) == ("unknown_category", "Likes tea")
        assert await all_of(plane) == []


async def test_nothing_is_learned_twice_when_memory_is_made_anew(tmp_path: Path) -> None:
    async with open_services(settings(tmp_path)) as plane:
        await local_client(plane).retain(agent="ops", entry=entry("t1", SAID))
    before = await learned(tmp_path)
    for name in ("memplane.db", "memplane.db-wal", "memplane.db-shm"):
        (tmp_path / "home" / name).unlink(missing_ok=True)
    assert await learned(tmp_path) == before
    async with open_services(settings(tmp_path)) as plane:
        assert (await local_client(plane).call(rebuild)).same
        assert await all_of(plane) == before


async def test_a_turn_that_repeats_what_its_prompt_was_told_earns_nothing(tmp_path: Path) -> None:
    async with open_services(settings(tmp_path)) as plane:
        await local_client(plane).retain(agent="ops", entry=entry("t1", SAID))
    (found,) = await learned(tmp_path)
    block = InjectedBlock(id=f"observation-{found.id}", kind="observation")
    placed = MessageInjection(message=0, service="", bytes=9, blocks=(block,))
    reply = JsonReply(json.dumps({"choices": [{"message": {"content": SAID}}]}).encode())
    async with open_services(settings(tmp_path)) as plane:
        for day, note in (
            (2, TurnNote(session="s-2", injected=(placed,))),
            (3, TurnNote(session="s-3")),
        ):
            ts = datetime(2026, 11, day, tzinfo=UTC)
            said = turn("And now?", agent="ops", ts=ts, reply=reply, note=encode_note(note))
            await plane.recording.ledger.append(said)
    after = (await learned(tmp_path))[0]
    assert after.confidence == 0.8  # the second of the two was told nothing, and saw it itself
    async with open_services(settings(tmp_path)) as plane:
        history = await (await plane.memories()).history("ops", found.id)
    assert [one.kind for one in history] == ["asserted", "echoed", "reinforced"]


async def test_what_only_a_forgotten_turn_said_is_told_no_more(tmp_path: Path) -> None:
    async with open_services(settings(tmp_path)) as plane:
        await local_client(plane).retain(agent="ops", entry=entry("t1", SAID))
    async with open_services(settings(tmp_path)) as plane:
        asked = ForgetRequest(agent="ops", ids=("t1",), verify=True)
        (found,) = await all_of(plane)
        receipt = await local_client(plane).call(forget, asked)
        assert await all_of(plane) == []
        recalled = await local_client(plane).recall("How do I restart plex?", agent="ops")
        assert recalled.memories == ()
    about = {one.place: one for one in receipt.checked}["observations"]
    assert about.clean
    assert str(found.id) in about.note


async def test_what_was_forgotten_is_listed_and_marked_when_it_is_asked_for(
    tmp_path: Path,
) -> None:
    async with open_services(settings(tmp_path)) as plane:
        await local_client(plane).retain(agent="ops", entry=entry("t1", SAID))
    async with open_services(settings(tmp_path)) as plane:
        await local_client(plane).forget("t1", agent="ops")
        memories = await plane.memories()
        (found,) = (await memories.page("ops", MemoryQuery(forgotten="include"))).memories
        assert found.unsupported
        (act,) = await memories.acts("ops", ActQuery(kind=EventKind.ASSERTED, forgotten="include"))
        assert (act.event.observation, act.event.forgotten) == (found.observation, True)
        assert await memories.acts("ops", ActQuery(kind=EventKind.ASSERTED)) == []
        line = json.loads(format_jsonl([found]))
        assert (line["forgotten"], line["memory"]["observation"]) == (True, found.observation)
        with pytest.raises(InvalidRequest, match="line 1 is no memory"):
            list(parse_jsonl([format_jsonl([found]).encode()]))
        assert "unsupported" in format_markdown([found])[0]
        for ask in (memories.one, memories.history, memories.evidence, memories.course):
            with pytest.raises(UnknownMemory):
                await ask("ops", found.id)
        for asked in (ActAsked(act="pin"), ActAsked(act="purge", confirm=f"purge {found.id}")):
            with pytest.raises(UnknownMemory):
                await memories.act("ops", found.id, asked, by="admin")


async def test_what_others_said_too_is_worded_as_they_said_it(tmp_path: Path) -> None:
    async with open_services(settings(tmp_path)) as plane:
        await local_client(plane).retain(
            agent="ops", entry=entry("t1", "[MEMORY:behavior:plex] Likes  GREEN tea")
        )
        await local_client(plane).retain(
            agent="ops", entry=entry("t2", "[MEMORY:behavior:plex] Likes green tea", 2)
        )
    (found,) = await learned(tmp_path)
    assert found.observation == "Likes GREEN tea"
    async with open_services(settings(tmp_path)) as plane:
        await local_client(plane).forget("t1", agent="ops")
        (after,) = await all_of(plane)
        assert (after.id, after.observation) == (found.id, "Likes green tea")
        memories = await plane.memories()
        (page,) = (
            await memories.page("ops", MemoryQuery(known_at="2100-01-01T00:00:00Z"))
        ).memories
        assert page.observation == "Likes green tea"
        first, _ = await memories.history("ops", found.id)
        assert (first.kind, first.observation, first.forgotten) == ("asserted", None, True)
        evidence = await memories.evidence("ops", found.id)
        assert [(one.void, one.quote) for one in evidence] == [
            (True, ""),
            (False, "Likes green tea"),
        ]
        assert (await local_client(plane).call(rebuild)).same


async def test_purging_a_turn_purges_what_only_it_said(tmp_path: Path) -> None:
    async with open_services(settings(tmp_path)) as plane:
        await local_client(plane).retain(agent="ops", entry=entry("t1", SAID))
    async with open_services(settings(tmp_path)) as plane:
        await local_client(plane).call(forget, ForgetRequest(agent="ops", ids=("t1",), purge=True))
        (found,) = await all_of(plane)
    assert found.state == "purged"
    held = [
        path.name
        for path in (tmp_path / "home").rglob("*")
        if path.is_file() and b"the second succeeds" in path.read_bytes()
    ]
    assert held == []


async def test_recall_tells_what_was_learned_about_a_service_that_is_named(tmp_path: Path) -> None:
    async with open_services(settings(tmp_path)) as plane:
        memories = await plane.memories()
        for service, text in (
            ("plex", "First restart fails on a DB lock; the second succeeds"),
            ("caddy", "Must be started after WireGuard"),
        ):
            wanted = MemoryCreate(category="behavior", service=service, observation=text)
            await memories.add("ops", wanted, by="ada")
        answer = await local_client(plane).recall("Please restart Plex.", agent="ops")
        assert [(one.kind, one.id) for one in answer.memories] == [
            ("observation", "observation-1")
        ]
        assert answer.memories[0].text.startswith("[behavior] plex: First restart fails")
        assert (
            await local_client(plane).recall("What is for dinner?", agent="ops")
        ).memories == ()
        assert (await local_client(plane).recall("Restart plex.", agent="other")).memories == ()
