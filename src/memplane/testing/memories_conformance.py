"""What every OperationalMemory must do.

Subclass it and provide the fixtures `plane`, and `agent` with a name that has no memories yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from memplane.errors import ConcurrencyError, InvalidRequest, UnknownMemory
from memplane.observations.contract import (
    AcceptAsked,
    ActAsked,
    BulkAsked,
    Heard,
    HeardReceipt,
    HeardText,
    ImportAsked,
    ListAsked,
    MemoryChange,
    MemoryView,
    MemoryWanted,
    OperationalMemory,
    PromptAsked,
    ResolveAsked,
    SessionEnded,
    SessionWanted,
)
from memplane.observations.exporting import read_jsonl
from memplane.observations.model import Category, State
from memplane.observations.walking import exported
from memplane.plane.contract import Plane

_ADA = "Ada Λ"
_EVERYTHING = ListAsked(state="any", sort="id", descending=False)


class MemoriesConformance:
    """The contract as tests."""

    async def test_a_memory_is_added_listed_and_changed(self, plane: Plane, agent: str) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        added = await ops.add("Takes 60s to start after a restart", service="jellyfin")
        assert (added.confidence, added.active, added.tier, added.session_id) == (
            0.7,
            True,
            0,
            None,
        )
        assert await memories.one(agent, added.id) == added
        page = await memories.page(agent, ListAsked())
        assert (page.memories, page.total, page.next_cursor) == ((added,), 1, None)
        changed = await memories.change(
            agent, added.id, MemoryChange(confidence=0.95), by=_ADA, version=added.version
        )
        assert (changed.confidence, changed.observation) == (0.95, added.observation)
        late = MemoryChange(observation="Takes 90s to start after a restart")
        with pytest.raises(ConcurrencyError):
            await memories.change(agent, added.id, late, by=_ADA, version=added.version)
        assert await memories.one(agent, added.id) == changed
        assert {one.actor for one in await memories.history(agent, added.id)} == {_ADA}

    async def test_a_list_is_filtered_and_goes_on_page_by_page(
        self, plane: Plane, agent: str
    ) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        for number in range(5):
            await ops.add(f"Backup job {'abcde'[number]} locks the table", f"db-{number}")
        await ops.add("Certificates are renewed by hand", category=Category.MAINTENANCE)
        asked = ListAsked(category=Category.BEHAVIOR, sort="service", descending=False, limit=2)
        listed: list[str | None] = []
        for _ in range(3):
            page = await memories.page(agent, asked)
            assert page.total == 5
            listed += [one.service for one in page.memories]
            asked = msgspec.structs.replace(asked, cursor=page.next_cursor or "")
        assert listed == [f"db-{number}" for number in range(5)]
        (general,) = (await memories.page(agent, ListAsked(service="general"))).memories
        assert general.service is None
        (found,) = (await memories.page(agent, ListAsked(q="certificates"))).memories
        assert found == general
        before = ListAsked(known_at="2020-01-01T00:00:00Z", as_of="2020-01-01T00:00:00Z")
        assert (await memories.page(agent, before)).total == 0
        for wrong in (
            ListAsked(state="nonsense"),
            ListAsked(cursor="nonsense"),
            ListAsked(limit=-1),
        ):
            with pytest.raises(InvalidRequest):
                await memories.page(agent, wrong)

    async def test_the_same_key_makes_one_memory(self, plane: Plane, agent: str) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        first = await ops.add("Needs the NFS mount first", key="k-1")
        assert (await ops.add("Needs the NFS mount first", key="k-1")).id == first.id
        assert (await memories.page(agent, _EVERYTHING)).total == 1
        assert len(await memories.history(agent, first.id)) == 1

    async def test_what_may_not_be_remembered_says_which_field(
        self, plane: Plane, agent: str
    ) -> None:
        memories = await plane.memories()
        for name, wanted in {
            "category": MemoryWanted(category="misc", observation="Needs the NFS mount"),
            "service": MemoryWanted(category="timing", observation="Slow start", service="a/b"),
            "observation": MemoryWanted(category="timing", observation=" "),
        }.items():
            with pytest.raises(InvalidRequest) as refused:
                await memories.add(agent, wanted, by=_ADA)
            assert refused.value.fields.keys() == {name}
            assert str(refused.value)
        assert (await memories.page(agent, _EVERYTHING)).total == 0

    async def test_acts_move_a_memory_and_are_undone(self, plane: Plane, agent: str) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        number = (await ops.add("Needs the NFS mount first")).id
        assert (await ops.act(number, "pin")).pinned
        retired = await ops.act(number, "retire", reason="the mount is gone")
        assert (retired.state, retired.reason) == (State.RETIRED, "the mount is gone")
        with pytest.raises(UnknownMemory):
            await memories.one(agent, number)
        assert (await memories.one(agent, number, trash=True)).state is State.RETIRED
        with pytest.raises(InvalidRequest):
            await ops.act(number, "retire")
        assert (await ops.act(number, "undo")).state is State.ACTIVE
        with pytest.raises(InvalidRequest) as refused:
            await ops.act(number, "purge")
        assert refused.value.fields.keys() == {"confirm"}
        purged = await ops.act(number, "purge", confirm=f"purge {number}")
        assert (purged.state, "NFS" in purged.observation) == (State.PURGED, False)

    async def test_several_are_done_in_one_go_and_undone_in_one(
        self, plane: Plane, agent: str
    ) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        texts = ("Needs the NFS mount", "Logs rotate at midnight", "Cache is cold on Mondays")
        numbers = [(await ops.add(text)).id for text in texts]
        lower = BulkAsked(ids=tuple(numbers), action="adjust_confidence", value=-0.2)
        tried = await memories.bulk(agent, msgspec.structs.replace(lower, dry_run=True), by=_ADA)
        assert (tried.done, [one.ok for one in tried.results]) == (False, [True] * 3)
        done = await memories.bulk(agent, lower, by=_ADA)
        assert done.done
        assert await ops.confidences() == [0.5] * 3
        undone = await memories.undo(agent, done.batch, by=_ADA)
        assert sorted(one.id for one in undone) == numbers
        assert await ops.confidences() == [0.7] * 3
        missing = BulkAsked(ids=(*numbers, 10**6), action="delete")
        outcome = await memories.bulk(agent, missing, by=_ADA)
        assert (outcome.done, [one.ok for one in outcome.results]) == (False, [True] * 3 + [False])
        assert (await memories.page(agent, ListAsked())).total == 3
        with pytest.raises(InvalidRequest):
            await memories.undo(agent, "nothing", by=_ADA)

    async def test_a_session_is_told_and_teaches(self, plane: Plane, agent: str) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        known = await ops.add("Takes 60s to start after a restart", service="jellyfin")
        begun = await memories.begin(SessionWanted(agent=agent, tier=2, services=("jellyfin",)))
        assert begun.prompt.included == (known.id,)
        assert "Takes 60s to start" in begun.prompt.block
        said = "[MEMORY:dependency:caddy] Must be started after WireGuard"
        receipt = await ops.hear(begun.session, said)
        (learned,) = receipt.asserted
        found = await memories.one(agent, learned)
        assert (found.session_id, found.tier, found.service) == (begun.session, 2, "caddy")
        ended = await memories.end(agent, begun.session, SessionEnded(exit_code=3, is_error=True))
        assert (ended.exit_code, ended.is_error, ended.learned, ended.told) == (3, True, 1, 1)
        assert await memories.session(agent, begun.session) == ended
        assert [one.id for one in await memories.sessions(agent)] == [begun.session]
        (injected,) = await memories.injections(agent, known.id)
        assert (injected.session_id, injected.is_error) == (begun.session, True)
        (evidence,) = await memories.evidence(agent, learned)
        assert (evidence.polarity, evidence.session_id) == ("supports", begun.session)
        assert "WireGuard" in evidence.quote
        assert [one.kind for one in await memories.history(agent, learned)] == ["asserted"]

    async def test_a_preview_is_what_a_prompt_would_be_told(
        self, plane: Plane, agent: str
    ) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        asked = PromptAsked(
            agent=agent, services=("jellyfin",), session="s", prompt="Check caddy."
        )
        assert (await memories.preview(asked)).block == ""
        known = await ops.add("Takes 60s to start after a restart", service="jellyfin")
        shown = await memories.preview(asked)
        assert (shown.included, shown.dropped, shown.candidates) == ((known.id,), (), 1)
        assert shown == await memories.preview(asked)
        tight = await memories.preview(msgspec.structs.replace(asked, budget=1))
        assert (tight.block, [one.id for one in tight.dropped]) == ("", [known.id])
        with pytest.raises(InvalidRequest, match="128 KiB"):
            await memories.preview(msgspec.structs.replace(asked, budget=10**6))

    async def test_a_conflict_waits_until_it_is_resolved(self, plane: Plane, agent: str) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        for said in (
            "Must be started after WireGuard",
            "Can be started independently of WireGuard",
        ):
            begun = await memories.begin(SessionWanted(agent=agent, tell=False))
            await ops.hear(begun.session, f"[MEMORY:dependency:caddy] {said}")
        (conflict,) = await memories.conflicts(agent)
        assert (conflict.kind, conflict.status) == ("contradiction", "open")
        assert conflict.b is not None
        assert conflict.a.contested
        asked = ResolveAsked(resolution="keep_b", reason="seen by hand")
        ended = await memories.resolve(agent, conflict.id, asked, by=_ADA)
        assert (ended.status, ended.a.state) == ("resolved", State.SUPERSEDED)
        assert list(await memories.conflicts(agent)) == []
        assert [one.id for one in await memories.conflicts(agent, resolved=True)] == [conflict.id]
        with pytest.raises(InvalidRequest):
            await memories.resolve(agent, conflict.id, asked, by=_ADA)
        for name in ("nothing", "..", "a/b", ""):
            with pytest.raises(UnknownMemory):
                await memories.resolve(agent, name, asked, by=_ADA)

    async def test_a_reject_is_accepted_after_all(self, plane: Plane, agent: str) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        begun = await memories.begin(SessionWanted(agent=agent))
        receipt = await ops.hear(begun.session, "[MEMORY:misc] Needs the NFS mount first")
        (reject,) = await memories.rejects(agent)
        assert receipt.rejects == (reject,)
        assert (reject.reason, reject.session_id) == ("unknown_category", begun.session)
        asked = AcceptAsked(category="dependency")
        accepted = await memories.accept(agent, reject.id, asked, by=_ADA)
        assert (accepted.category, accepted.observation) == (
            Category.DEPENDENCY,
            "Needs the NFS mount first",
        )
        with pytest.raises(InvalidRequest):
            await memories.accept(agent, reject.id, asked, by=_ADA)

    async def test_what_is_exported_can_be_imported(self, plane: Plane, agent: str) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        await ops.add("Takes 60s to start after a restart", service="jellyfin")
        await ops.add("=1+1 is how the report begins")
        asked = ListAsked()
        written = "".join([one async for one in exported(memories, agent, asked, "jsonl")])
        lines = tuple(read_jsonl(written.encode().splitlines()))
        receipt = await memories.take_in(f"{agent}-other", ImportAsked(memories=lines), by=_ADA)
        assert (receipt.added, receipt.known) == (2, 0)
        again = await memories.take_in(f"{agent}-other", ImportAsked(memories=lines), by=_ADA)
        assert (again.added, again.known) == (0, 2)
        mine, theirs = [
            {(one.service, one.category, one.observation, one.confidence) for one in page.memories}
            for page in (
                await memories.page(agent, asked),
                await memories.page(f"{agent}-other", asked),
            )
        ]
        assert mine == theirs

    async def test_agents_do_not_see_each_other(self, plane: Plane, agent: str) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        mine = await ops.add("Needs the NFS mount first")
        assert (await memories.page(f"{agent}-other", _EVERYTHING)).total == 0
        assert mine in (await memories.page(None, _EVERYTHING)).memories
        for reach in (memories.one, memories.history, memories.evidence, memories.injections):
            with pytest.raises(UnknownMemory):
                await reach(f"{agent}-other", mine.id)
        with pytest.raises(UnknownMemory):
            await memories.act(f"{agent}-other", mine.id, ActAsked(act="pin"), by=_ADA)
        for number in (-1, 0, mine.id + 1, 2**63 - 1):
            with pytest.raises(UnknownMemory):
                await memories.one(agent, number)

    async def test_those_who_watch_are_told_what_happens(self, plane: Plane, agent: str) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        before = await memories.latest()
        first = await ops.add("Needs the NFS mount first")
        await memories.add(f"{agent}-other", _wanted("Logs rotate at midnight"), by=_ADA)
        second = await ops.add("Cache is cold on Mondays")
        changes = memories.changes(agent, before)
        told = [await anext(changes), await anext(changes)]
        assert [(one.memory_id, one.agent) for one in told] == [
            (first.id, agent),
            (second.id, agent),
        ]
        assert [one.seq for one in told] == sorted({one.seq for one in told})
        third = await ops.add("Tapes are changed on Fridays")
        assert (await anext(changes)).memory_id == third.id
        resumed = memories.changes(agent, told[0].seq)
        assert (await anext(resumed)).memory_id == second.id

    async def test_everything_is_counted_and_can_be_made_again(
        self, plane: Plane, agent: str
    ) -> None:
        memories = await plane.memories()
        ops = _Ops(memories, agent)
        await ops.add("Takes 60s to start after a restart", service="jellyfin")
        await ops.add("Needs the NFS mount first")
        stats = await memories.stats(agent)
        assert (stats.by_state, stats.injectable) == ({"active": 2}, 2)
        services = [(one.service, one.memories) for one in await memories.services(agent)]
        assert services == [("jellyfin", 1), (None, 1)]
        facets = await memories.facets(agent, ListAsked(service="jellyfin"))
        assert {one.value: one.count for one in facets.service} == {"jellyfin": 1, "general": 1}
        assert [(one.value, one.count) for one in facets.category] == [("behavior", 1)]
        with pytest.raises(InvalidRequest):
            await memories.facets(agent, ListAsked(state="nonsense"))
        rebuilt = await memories.rebuild()
        assert (rebuilt.same, rebuilt.memories >= 2, rebuilt.differing) == (True, True, ())


def _wanted(
    observation: str, service: str | None = None, category: Category = Category.BEHAVIOR
) -> MemoryWanted:
    return MemoryWanted(category=category, observation=observation, service=service)


@dataclass(frozen=True, slots=True)
class _Ops:
    """An agent's memories, and an operator who works on them."""

    memories: OperationalMemory
    agent: str

    async def add(
        self,
        observation: str,
        service: str | None = None,
        *,
        category: Category = Category.BEHAVIOR,
        key: str = "",
    ) -> MemoryView:
        wanted = _wanted(observation, service, category)
        return await self.memories.add(self.agent, wanted, by=_ADA, key=key)

    async def act(self, number: int, act: str, **more: str) -> MemoryView:
        asked = msgspec.convert({"act": act, **more}, ActAsked)
        return await self.memories.act(self.agent, number, asked, by=_ADA)

    async def hear(self, session: int, said: str) -> HeardReceipt:
        heard = Heard(texts=(HeardText(text=said),))
        return await self.memories.hear(self.agent, session, heard)

    async def confidences(self) -> list[float]:
        page = await self.memories.page(self.agent, ListAsked())
        return [one.confidence for one in page.memories]
