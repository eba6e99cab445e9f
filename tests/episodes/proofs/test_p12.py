"""P12: no answer has another agent's bytes, whatever is asked and however."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import aiohttp
import pytest

from memplane.database.interface import Connection
from memplane.episodes import store as table
from memplane.episodes.api_types import RecallRequest
from memplane.episodes.episode import Episode
from memplane.episodes.scope_store import ScopeNumber, ScopeStats, VisibleScopes
from memplane.search.turn_terms import SearchTurn
from tests.clawdapus.service_contract import MemoryService
from tests.episodes.remembering import entry, give, memory_in
from tests.support.running import running_memplane

pytestmark = pytest.mark.timeout(600)

TENANTS = [f"tenant{number}" for number in range(10)]
_NO_AGENTS = ("", " ", "*", "../tenant1", "tenant1/", "a b", "-", "\u00e4")
SHARED = "the deployment of the search service"


def canary(agent: str) -> str:
    return f"canary-{agent}-bird"


@dataclass(frozen=True, slots=True)
class Tenant:
    agent: str
    token: str


@asynccontextmanager
async def tenants(home: Path) -> AsyncIterator[tuple[str, str, list[Tenant]]]:
    """Start memplane with some agents, each with a token and a few turns of its own."""
    with running_memplane(home) as running:
        made: list[Tenant] = []
        async with aiohttp.ClientSession(running.address) as session:
            admin = {"Authorization": f"Bearer {running.token}"}
            for agent in TENANTS:
                wanted = {"agent": agent, "scopes": ["read", "write"]}
                async with session.post("/api/v1/tokens", json=wanted, headers=admin) as reply:
                    made.append(Tenant(agent, (await reply.json())["token"]))
            for tenant in made:
                for number in range(3):
                    said = entry(
                        f"What about {SHARED}, {canary(tenant.agent)}?",
                        f"We decided that {canary(tenant.agent)} owns {SHARED} {number}.",
                        minutes=number,
                        id=f"{tenant.agent}-{number}",
                    )
                    body = {"agent_id": tenant.agent, "entry": said}
                    async with session.post("/retain", json=body, headers=_as(tenant)) as reply:
                        assert reply.status == 202
        yield running.address, running.token, made


def _as(tenant: Tenant) -> dict[str, str]:
    return {"Authorization": f"Bearer {tenant.token}"}


def foreign(agent: str, answer: bytes) -> list[str]:
    """Return the canaries in an answer that are not the agent's own."""
    found = re.findall(rb"canary-(tenant\d+)-bird", answer)
    found += re.findall(rb"(tenant\d+)-\d\b", answer)
    return [one.decode() for one in found if one.decode() != agent]


async def test_no_answer_has_another_agents_bytes(tmp_path: Path) -> None:
    some = random.Random(5)  # noqa: S311
    leaks: list[tuple[str, str]] = []
    own = 0
    async with (
        tenants(tmp_path / "home") as (address, _, made),
        aiohttp.ClientSession(address) as session,
    ):
        for number in range(600):
            tenant, other = some.sample(made, 2)
            named = some.choice(
                [tenant.agent, other.agent, "", "*", "../" + other.agent, other.agent + "/", None]
            )
            scope: object = some.choice([named, named, [other.agent], {"agent": other.agent}])
            asked = [{"role": "user", "content": f"{SHARED} {canary(other.agent)}"}]
            method, path, body = some.choice(
                [
                    ("POST", "/recall", {"agent_id": scope, "messages": asked}),
                    ("POST", "/recall", {"messages": asked, "limit": 50, "explain": True}),
                    ("POST", "/api/v1/memory/recall", {"agent": scope, "text": SHARED}),
                    ("POST", "/api/v1/memory/forget", {"agent": scope, "ids": ["x"]}),
                    ("POST", "/api/v1/memory/rebuild", None),
                    ("POST", "/forget", {"agent_id": other.agent, "entry_ids": ["y"]}),
                    ("GET", f"/history/{other.agent}", None),
                    ("GET", "/history", None),
                    ("GET", "/metrics", None),
                    ("GET", "/api/v1/status", None),
                    ("GET", "/openapi.json", None),
                ]
            )
            headers = {**_as(tenant), "Content-Type": "application/json"}
            sent = json.dumps(body).encode() if body is not None else None
            async with session.request(method, path, headers=headers, data=sent) as reply:
                answer = await reply.read()
            said = str(reply.headers).encode() + answer
            if foreign(tenant.agent, said.replace(json.dumps(body).encode(), b"")):
                leaks.append((f"{method} {path} {body}", said.decode()[:300]))
            own += canary(tenant.agent).encode() in answer
            assert number < 0 or reply.status < 500
    assert leaks == []
    assert own > 50


def test_an_admin_must_name_an_agent(tmp_path: Path) -> None:
    with running_memplane(tmp_path / "home") as running:
        service = MemoryService(running.address, running.token)
        for named in (*_NO_AGENTS, None, ["tenant1"], {"agent": "tenant1"}, 1):
            bodies: list[tuple[str, dict[str, object]]] = [
                ("/recall", {"agent_id": named, "messages": []}),
                ("/retain", {"agent_id": named, "entry": entry("x")}),
                ("/forget", {"agent_id": named, "entry_ids": ["x"]}),
            ]
            for path, body in bodies:
                assert service.post(path, body).status == 400, (path, named)
                del body["agent_id"]
                assert service.post(path, body).status == 400, path


def test_nobody_can_ask_without_an_agent() -> None:
    with pytest.raises(TypeError):
        RecallRequest(text="anything")  # type: ignore[call-arg]


# Every statement says whose rows it is about.

_OF_EVERYBODY = (
    # what is still to be done, of whoever comes next
    "SELECT scope FROM underived LIMIT 1",
    "SELECT COALESCE(MAX(key), 0) FROM unindexed",
    (
        "SELECT u.key, u.scope, e.state, e.asked, e.told FROM unindexed u LEFT JOIN episodes e "
        "ON e.key = u.key AND e.scope = u.scope"
    ),
    (
        "SELECT e.key, e.scope, e.question, e.answer FROM episodes e LEFT JOIN vectors v "
        "ON v.key = e.key AND v.scope = e.scope"
    ),
    "DELETE FROM unindexed",
    # what was inserted by the statement before
    "SELECT COALESCE(MAX(key), 0) FROM episodes",
    "INSERT INTO unindexed SELECT key, scope, 0 FROM episodes WHERE",
    "INSERT INTO underived SELECT scope, at, id FROM episodes WHERE key > ?",
    # totals, tombstones and what is too old, of all agents
    "SELECT (SELECT COUNT(DISTINCT agent) FROM scopes WHERE episodes > 0)",
    (
        "SELECT (SELECT COALESCE(SUM(episodes), 0) FROM scopes) - (SELECT COUNT(*) FROM vectors v "
        "JOIN episodes e ON e.key = v.key AND e.scope = v.scope"
    ),
    "SELECT a.agent, t.id FROM tombstones t JOIN agents a",
    "DELETE FROM injections WHERE at < ?",
    "DELETE FROM said WHERE at < ?",
    # the start of a statement that goes on with a condition, see `get_visible_scopes`
    "SELECT s.number, s.episodes, s.terms, s.noise, s.removals FROM scopes s ",
    "SELECT agent, number FROM agents WHERE agent IN",
    "INSERT INTO agents",
    # an episode that was moved, by its key
    "UPDATE unindexed SET scope = ? WHERE key = ?",
)
_SCOPE_TABLES = "episodes|stretches|artefacts|underived|unindexed|vectors|scopes|injections|said"
_AGENT_TABLES = "agents|markers|tombstones|injected_from"
_NAMES_SCOPE = re.compile(
    r"(?<!SET )\bscope (?:= \?|{scopes(?:.sql)?}|= middle.scope)"
    r"|\bs\.end_user = \?|\bagent = \? AND end_user = \?"
    r"|{_WHERE_(?:SCOPE|PLACE)}|scopes SET [^?]*\?[^?]*\? WHERE number = \?"
    r"|scopes SET (?:noise|removals)"
    r"|VALUES \(\?|VALUES {', '|\(agent, end_user, view\b"
)
"""A condition on a scope, or a row that is written with one."""
_NAMES_ENTRY = re.compile(r"\b(?:e\.)?agent = \? AND (?:e\.)?(?:id|entry)\b")
"""An entry of an agent, whose scope is found and not asked for: it is forgotten or moved."""
_OF_OPERATORS = (
    "SELECT a.agent, s.end_user, s.view, s.episodes, s.noise FROM scopes s",
    # whether what was forgotten is anywhere
    "SELECT COUNT(*) FROM artefacts f JOIN scopes s ON s.number = f.scope WHERE s.agent = ?",
    "SELECT COUNT(*) FROM said s JOIN agents a ON a.agent = s.agent WHERE a.number = ?",
    "SELECT COUNT(*) FROM scopes WHERE agent = ? AND end_user = ?",
    "DELETE FROM scopes WHERE agent = ? AND end_user = ?",
    "SELECT id FROM episodes WHERE agent = ? AND (instr(question, ?)",
    "DELETE FROM injections WHERE agent = ? AND text <> ''",
    # which sources there are, and which turns have words of one
    "SELECT origins FROM episodes WHERE agent = ? AND origins <> ''",
    "SELECT id, origins FROM episodes WHERE agent = ? AND origins <> ''",
    "SELECT 1 FROM episodes WHERE agent = ? AND origins IS NULL",
    "DELETE FROM injections WHERE key = ?",
    "SELECT entry FROM said WHERE {where}",
)
_NAMES_AGENT = re.compile(r"\bagent = \?|\ba\.number = \?|VALUES \(\?")


def statements() -> list[str]:
    """Return every statement about memory that our modules have."""
    found: list[str] = []
    for module in (resources.files("memplane.episodes")).iterdir():
        if module.name.endswith(".py"):
            text = module.read_text("utf-8")
            joined = re.sub(r'"\s*(?:# noqa[^\n]*)?\n\s*f?"', "", text)
            found += re.findall(r'"((?:SELECT|INSERT|UPDATE|DELETE|WITH)\b[^"]*)"', joined)
    return found


def unscoped(told: list[str]) -> list[str]:
    """Return the statements that could reach rows of another agent, user or view."""
    asking = [one for one in told if not one.startswith(_OF_EVERYBODY)]
    return [one for one in asking if not _is_scoped(one)]


def _is_scoped(statement: str) -> bool:
    if re.search(rf"\b(?:FROM|INTO|UPDATE|JOIN) (?:{_SCOPE_TABLES})\b", statement):
        named = _NAMES_SCOPE.search(statement) or _NAMES_ENTRY.search(statement)
        return bool(named) or statement.startswith(_OF_OPERATORS)
    if re.search(rf"\b(?:FROM|INTO|UPDATE|JOIN) (?:{_AGENT_TABLES})\b", statement):
        return bool(_NAMES_AGENT.search(statement))
    return True


def test_every_statement_names_its_scope() -> None:
    told = statements()
    assert len(told) > 60
    assert unscoped(told) == []


@pytest.mark.parametrize(
    "predicate",
    [
        "scope = ? AND ",
        "+scope {scopes.sql} ",
        "WHERE scope {scopes.sql} ",
        "agent = ? AND id",
        "{_WHERE_SCOPE} AND ",
        "AND s.end_user = ? ",
    ],
)
def test_a_statement_without_its_scope_is_found(predicate: str) -> None:
    """A control for each way in which statements name whose rows they are about."""
    told = statements()
    having = [one for one in told if predicate in one]
    broken = [one.replace(predicate, "") for one in having]
    assert having
    assert len(unscoped(broken)) == len(broken)


# Controls


async def test_one_predicate_less_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = table.list_searchable

    def of_everybody(rows: Connection, _seen: VisibleScopes) -> list[SearchTurn]:
        both = tuple(ScopeStats(ScopeNumber(number), 1, 1, 0) for number in (1, 2))
        return everything(rows, VisibleScopes(both))

    def by_key(rows: Connection, _seen: VisibleScopes, keys: object) -> list[Episode]:
        sql = "SELECT id, at, question, answer, calls, origins FROM episodes WHERE key = ?"
        assert isinstance(keys, list)
        return [table._episode(row) for key in keys for row in rows.rows(sql, (key,))]

    monkeypatch.setattr(table, "list_searchable", of_everybody)
    monkeypatch.setattr(table, "get_episodes", by_key)
    async with memory_in(tmp_path) as memory:
        for agent in ("tenant1", "tenant2"):
            await give(memory, entry(f"{canary(agent)} has {SHARED}"), agent=agent)
        found = await memory.recall(RecallRequest(agent="tenant1", text=canary("tenant2")))
    told = "\n".join(one.text for one in found.memories).encode()
    assert foreign("tenant1", told) == ["tenant2"]
