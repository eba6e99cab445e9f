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

NEWS = "[MEMORY:timing:caddy] A restart takes two seconds"
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


async def record(plane: Services, day: int, note: TurnNote, answer: str = SAID) -> None:
    """Record a turn as the proxy does, with what it notes."""
    reply = JsonReply(json.dumps({"choices": [{"message": {"content": answer}}]}).encode())
    ts = datetime(2026, 11, day, tzinfo=UTC)
    said = turn("How is plex?", agent="ops", ts=ts, reply=reply, note=encode_note(note))
    await plane.recording.ledger.append(said)


async def confidence_after(tmp_path: Path, *notes: TurnNote) -> float:
    """Say the same in one turn a day, each with its note; returns how sure memory is then."""
    async with open_services(settings(tmp_path)) as plane:
        for day, note in enumerate(notes, 1):
            await record(plane, day, note)
    (found,) = await learned(tmp_path)
    return found.confidence


async def test_six_invented_sessions_have_one_vote_together(tmp_path: Path) -> None:
    invented = [TurnNote(session=f"invented-{number}") for number in range(6)]
    assert await confidence_after(tmp_path, *invented) == 0.7


async def test_six_sessions_with_a_token_have_a_vote_each(tmp_path: Path) -> None:
    real = [TurnNote(session=f"real-{number}", attested=True) for number in range(6)]
    assert await confidence_after(tmp_path, *real) == 1.0


async def test_who_names_the_sessions_of_a_token_without_it_has_no_vote_of_theirs(
    tmp_path: Path,
) -> None:
    async with open_services(settings(tmp_path)) as plane:
        for number in range(6):
            await record(plane, 1, TurnNote(session=f"real-{number}", attested=True), NEWS)
    async with open_services(settings(tmp_path)) as plane:
        for number in range(6):
            await record(plane, 2, TurnNote(session=f"real-{number}"))
    found = {one.service: one.confidence for one in await learned(tmp_path)}
    assert found == {"caddy": 1.0, "plex": 0.7}


async def test_a_session_that_its_hook_attests_has_a_vote(tmp_path: Path) -> None:
    async with open_services(settings(tmp_path)) as plane:
        memories = await plane.memories()
        numbers = [await memories.attest_session("ops", f"hooked-{one}") for one in range(2)]
        assert await memories.attest_session("ops", "hooked-0") == numbers[0]
        with pytest.raises(InvalidRequest, match="without a name"):
            await memories.attest_session("ops", "")
    hooked = [TurnNote(session=f"hooked-{one}") for one in (0, 1, 1)]
    assert await confidence_after(tmp_path, *hooked) == 0.8


async def test_turns_of_a_token_without_a_session_have_one_vote_a_day(tmp_path: Path) -> None:
    async with open_services(settings(tmp_path)) as plane:
        for day in (1, 1, 1, 2):
            await record(plane, day, TurnNote(attested=True))
    (found,) = await learned(tmp_path)
    assert found.confidence == 0.8


async def test_votes_are_counted_alike_when_memory_is_made_anew(tmp_path: Path) -> None:
    notes = [TurnNote(session=f"s-{one}", attested=one > 2) for one in range(6)]
    before = await confidence_after(tmp_path, *notes)
    for name in ("memplane.db", "memplane.db-wal", "memplane.db-shm"):
        (tmp_path / "home" / name).unlink(missing_ok=True)
    (found,) = await learned(tmp_path)
    assert found.confidence == before == 1.0
    async with open_services(settings(tmp_path)) as plane:
        assert (await local_client(plane).call(rebuild)).same


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
    async with open_services(settings(tmp_path)) as plane:
        await record(plane, 2, TurnNote(session="s-2", attested=True, injected=(placed,)))
        await record(plane, 3, TurnNote(session="s-3", attested=True))
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
    await learned(tmp_path)
    async with open_services(settings(tmp_path)) as plane:
        said = "[MEMORY:behavior:plex] Likes green tea"
        await record(plane, 2, TurnNote(session="s-2", attested=True), said)
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
