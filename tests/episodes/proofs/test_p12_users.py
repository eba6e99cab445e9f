"""P12 below the agent: no answer to one end user has another's bytes, whatever is asked."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import pytest

from memplane.auth.memory_scope import MemoryScope, ReadScope, WholeAgent
from memplane.database.interface import Connection
from memplane.episodes import injection_store, search
from memplane.episodes.api_types import RecallRequest
from memplane.episodes.injection_store import Injection
from memplane.episodes.retain_queue import EntryOrigin
from memplane.episodes.scope_store import VisibleScopes, get_visible_scopes
from memplane.ledger.note_reader import NoteReader
from memplane.observations import store
from memplane.observations.requests import MemoryCreate, PromptQuery
from memplane.service.client import local_client
from memplane.service.composition.home import open_services
from memplane.service.operations.memory import rebuild, recall
from memplane.service.services import Services
from memplane.settings import Settings
from tests.episodes.remembering import entry, raw
from tests.server.dashboard.browsing import signed_in
from tests.support.running import Running, running_memplane

pytestmark = pytest.mark.timeout(600)

SHARED = "the deployment of the search service"


def canary(agent: str, user: str) -> str:
    return f"canary-{agent}-{user}-bird"


def foreign(agent: str, user: str, answer: str) -> list[str]:
    """Return the canaries in an answer that are not the user's own."""
    found = re.findall(r"canary-(a\d+)-(u\d+)-bird", answer)
    return [f"{one}/{other}" for one, other in found if (one, other) != (agent, user)]


def turn(agent: str, user: str, number: int) -> dict[str, object]:
    own = canary(agent, user)
    said = f"We decided that {own} owns {SHARED} {number}."
    marked = f"{said} [MEMORY:behavior:{own}] First restart of {own} fails on a DB lock {number}"
    return entry(
        f"What about {SHARED}, {own}?", marked, minutes=number, id=f"{agent}-{user}-{number}"
    )


@dataclass(slots=True)
class Crowd:
    """Agents and their users, who say and ask things all at once."""

    running: Running
    agents: list[str]
    users: list[str]
    some: random.Random
    leaks: list[str] = field(default_factory=list[str])
    own: int = 0
    said: int = 0

    def asks(self, agent: str, user: str, other: str) -> list[tuple[str, str, object]]:
        """Return every way in which something is asked for a user."""
        text = f"{SHARED} {canary(agent, other)}"
        named = urlencode({"agent": agent, "user": user})
        words = urlencode({"q": text})
        body = {"agent_id": agent, "user": user, "messages": text}
        return [
            ("POST", "/recall", body),
            ("POST", "/recall", {**body, "limit": 50, "explain": True, "max_bytes": 65536}),
            ("POST", "/api/v1/memory/recall", {"agent": agent, "user": user, "text": text}),
            ("GET", f"/api/v1/memories?{named}&state=any", None),
            ("GET", f"/api/v1/memories?{named}&known_at=2099-01-01T00:00:00Z", None),
            ("GET", f"/api/v1/facets?{named}", None),
            ("GET", f"/api/v1/export?{named}&format=md", None),
            ("GET", f"/api/v1/preview?{named}&prompt={canary(agent, other)}", None),
            ("GET", f"/api/v1/memory/export-user?{named}", None),
            ("GET", f"/lab?{named}&{words}", None),
            ("GET", f"/turns?{named}", None),
            ("GET", f"/memories?{named}", None),
            ("GET", "/metrics", None),
            ("GET", "/api/v1/status", None),
        ]

    async def live(self, session: aiohttp.ClientSession, times: int) -> None:
        """Ask, say, forget and rebuild, each at any moment."""
        for _ in range(times):
            agent = self.some.choice(self.agents)
            user, other = self.some.sample(self.users, 2)
            match self.some.randrange(12):
                case 0 | 1:
                    await self.say(session, agent, user)
                case 2:
                    ids = [f"{agent}-{user}-{self.some.randrange(self.said + 1)}"]
                    body = {"agent_id": agent, "user": user, "entry_ids": ids}
                    await _post(session, "/forget", body)
                case 3 if self.some.random() < 0.1:
                    await _post(session, "/api/v1/memory/rebuild", None)
                case _:
                    await self.ask(session, agent, user, other)

    async def say(self, session: aiohttp.ClientSession, agent: str, user: str) -> None:
        self.said += 1
        told = turn(agent, user, self.said)
        await _post(session, "/retain", {"agent_id": agent, "user": user, "entry": told})

    async def ask(self, session: aiohttp.ClientSession, agent: str, user: str, other: str) -> None:
        method, path, body = self.some.choice(self.asks(agent, user, other))
        async with session.request(method, path, json=body) as reply:
            answer = await reply.text()
        assert reply.status == 200, (path, reply.status, answer[:300])
        # What was asked is said again on pages, and is no answer.
        answer = answer.replace(f"{SHARED} {canary(agent, other)}", "")
        self.leaks += [f"{method} {path}: {one}" for one in foreign(agent, user, answer)]
        self.own += canary(agent, user) in answer


async def _post(session: aiohttp.ClientSession, path: str, body: object) -> None:
    async with session.post(path, json=body) as reply:
        assert reply.status < 300, (path, reply.status, await reply.text())


@asynccontextmanager
async def asking(running: Running) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {running.token}"}
    cookies = {"memplane_session": signed_in(running).cookie}
    async with aiohttp.ClientSession(running.address, headers=headers, cookies=cookies) as session:
        yield session


async def lived(home: Path, *, agents: int, users: int, times: int) -> Crowd:
    """Let a crowd live with a memplane that is killed once in the middle."""
    crowd = None
    for _ in range(2):
        with running_memplane(home) as running:
            known = crowd or Crowd(
                running,
                [f"a{number}" for number in range(agents)],
                [f"u{number}" for number in range(users)],
                random.Random(7),  # noqa: S311
            )
            crowd = known
            async with asking(running) as session:
                for agent in crowd.agents:
                    await asyncio.gather(*(crowd.say(session, agent, one) for one in crowd.users))
                await asyncio.gather(*(crowd.live(session, times // 8) for _ in range(4)))
            running.process.kill()
    assert crowd is not None
    return crowd


async def test_no_answer_has_another_users_bytes(tmp_path: Path) -> None:
    crowd = await lived(tmp_path / "home", agents=2, users=3, times=112)
    assert crowd.leaks == []
    assert crowd.own > 10


@pytest.mark.long
async def test_no_answer_has_another_users_bytes_with_ten_agents_of_ten_users(
    tmp_path: Path,
) -> None:
    crowd = await lived(tmp_path / "home", agents=10, users=10, times=4000)
    assert crowd.leaks == []
    assert crowd.own > 300


# Controls: each store by itself would leak without its scope.


async def told_to_ben(services: Services) -> dict[str, str]:
    """Return what another user is told, store by store, after one has said something."""
    memory = await services.lazy_memory.memory()
    curator = await services.memories()
    asked = RecallRequest(agent="a1", user="u2", text=f"{SHARED} {canary('a1', 'u1')}")
    client = local_client(services)
    prompt = await curator.preview("a1", PromptQuery(user="u2"))
    held = await memory.injected(MemoryScope("a1", "u2"), ["place"])
    return {
        "recall": json.dumps([one.text for one in (await client.call(recall, asked)).memories]),
        "prompt": prompt.block,
        "conversations": "".join(one.text for one in held),
        "turns": " ".join(await memory.users.list_turns("a1", "u2")),
    }


async def leaking(home: Path) -> set[str]:
    """Let one user say things, rebuild, and name the places that tell another of it."""
    async with open_services(Settings(home=home)) as services:
        memory = await services.lazy_memory.memory()
        for number in range(3):
            told = raw(turn("a1", "u1", number))
            await memory.retain(EntryOrigin("a1", user="u1"), told)
        await memory.retain(EntryOrigin("a1", user="u2"), raw(turn("a1", "u2", 9)))
        mine = MemoryScope("a1", "u1")
        text = canary("a1", "u1")
        await memory.save_injections([Injection(mine, "place", "", 1 << 60, "memplane", text)])
        await memory.settle()
        curator = await services.memories()
        learned = MemoryCreate(
            category="behavior", observation=f"The restart of {text} fails once", user="u1"
        )
        await curator.add("a1", learned, by="operator")
        await local_client(services).call(rebuild)
        told_ben = await told_to_ben(services)
    return {
        name
        for name, answer in told_ben.items()
        if foreign("a1", "u2", answer) or "a1-u1-" in answer
    }


async def test_no_store_tells_one_user_of_another(tmp_path: Path) -> None:
    assert await leaking(tmp_path / "home") == set()


def _break_rows(patch: pytest.MonkeyPatch) -> None:
    def see_all(rows: Connection, scope: ReadScope) -> VisibleScopes:
        return get_visible_scopes(rows, WholeAgent(scope.agent))

    patch.setattr(search, "get_visible_scopes", see_all)


def _break_observations(patch: pytest.MonkeyPatch) -> None:
    make = store.make_scope_filter
    patch.setattr(store, "make_scope_filter", lambda scope: make(WholeAgent(scope.agent)))


def _break_conversations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(injection_store, "_whose", lambda scope: (scope.agent, "", ""))


def _break_notes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NoteReader, "scope_of", lambda self, _: MemoryScope(self._folder.agent))


def _break_turn_lists(patch: pytest.MonkeyPatch) -> None:
    def list_all(self: NoteReader, _: str) -> list[str]:
        self._read_on()
        return [*self._scopes]

    patch.setattr(NoteReader, "list_turns_of", list_all)


@pytest.mark.parametrize(
    ("broken", "place"),
    [
        (_break_rows, "recall"),
        (_break_observations, "prompt"),
        (_break_conversations, "conversations"),
        (_break_notes, "recall"),
        (_break_turn_lists, "turns"),
    ],
)
async def test_a_store_without_its_scope_is_found(
    broken: Callable[[pytest.MonkeyPatch], None],
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch)
    assert place in await leaking(tmp_path / "home")
