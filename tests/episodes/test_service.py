"""memplane as a memory service: the contract of every service, and what is ours alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from memplane.integrations.clawdapus.pod.descriptor import read_descriptor
from memplane.kit.clock import system_clock
from tests.clawdapus.service_contract import (
    MemoryService,
    Restart,
    ServiceContract,
    entry,
    new_prefix,
)
from tests.support.in_process import memplane_here
from tests.support.running import Running, running_memplane

TOKEN = "the-service-token-of-these-tests"


class Processes:
    """Starts memplane, one process at a time, always with the same home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.stack = ExitStack()
        self.running: Running | None = None

    def start(self) -> Running:
        self.stack.close()
        self.running = self.stack.enter_context(
            running_memplane(self.home, env={"MEMPLANE_SERVICE_TOKEN": TOKEN})
        )
        return self.running


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    made = Processes(tmp_path_factory.mktemp("service") / "home")
    with made.stack:
        made.start()
        yield made


@pytest.fixture
def service(processes: Processes) -> MemoryService:
    """The service that all tests share, with agents that no other test asks about."""
    assert processes.running is not None
    return MemoryService(processes.running.address, TOKEN, new_prefix())


@pytest.fixture
def restarted(processes: Processes, service: MemoryService) -> Restart:
    return lambda: replace(service, base_url=processes.start().address)


class TestMemplane(ServiceContract):
    """memplane keeps the contract of memory services."""


def test_it_describes_itself(service: MemoryService) -> None:
    reply = service.ask("GET", "/.claw-describe.json", headers={"Authorization": ""})
    assert reply.status == 200
    described = read_descriptor(reply.body)
    assert described.memory is not None
    assert (described.memory.recall, described.memory.forget) == ("/recall", "/forget")


def test_retain_answers_with_a_receipt(service: MemoryService) -> None:
    one = entry()
    reply = service.post("/retain", {"agent_id": service.agent("a"), "entry": one})
    assert reply.status == 202
    assert reply.json() == {
        "id": one["id"],
        "status": "retained",
        "durable": True,
        "searchable": True,
        "redacted": 0,
    }


def test_half_a_character_is_taken(service: MemoryService) -> None:
    agent = service.agent("a").encode()
    body = b'{"entry":{"id":"h","request_original":{"messages":[{"role":"user",'
    body += b'"content":"The osprey \\ud800 lives in Lisbon"}]}},"agent_id":"%s"}' % agent
    assert service.ask("POST", "/retain", body).status == 202
    asked = b'{"agent_id":"%s","pod":null,"messages":"osprey \\ud83d"}' % agent
    reply = service.ask("POST", "/recall", asked)
    assert reply.status == 200
    assert "Lisbon" in reply.body.decode()


def test_as_many_entries_are_forgotten_at_once_as_a_body_has_room_for(
    service: MemoryService,
) -> None:
    many = [f"hist1_{number:064x}" for number in range(16_000)]
    assert service.forget("a", *many) == 204
    late = entry("Where is the osprey?", "The osprey lives in Lisbon.")
    assert service.retain("a", {**late, "id": many[-1]}) == 202
    assert service.recall("a", "Where is the osprey?") == []


def test_no_answer_is_longer_than_a_proxy_reads(service: MemoryService) -> None:
    learned = (
        "[MEMORY:timing:plex] restart takes about 4 minutes\n"
        "[MEMORY:behavior:plex] fills its cache at night\n"
        "[MEMORY:dependency:plex] needs the database first"
    )
    for number in range(12):
        said = f"Plex is at step {number}.\n{learned}"
        one = entry(f"Plex in week {number}?", said, ts=f"{system_clock():%Y-%m-%dT%H:%M:%SZ}")
        assert service.retain("a", {**one, "id": f"{number}" + "梟" * 500}) == 202
    asked = {"agent_id": service.agent("a"), "messages": "Plex in which week?"}
    few = service.post("/recall", {**asked, "limit": 8})
    assert len(few.body) < 16384
    assert few.json()["memories"]
    kinds: list[str] = []
    until = time.monotonic() + 30
    while time.monotonic() < until:
        kinds = [one["kind"] for one in service.recall("a", asked["messages"])]
        if kinds.count("observation") == 3:
            break
        time.sleep(0.1)
    assert kinds.count("observation") == 3


def test_a_time_is_written_as_everybody_reads_it(service: MemoryService) -> None:
    one = entry("Where is the osprey?", "It lives in Lisbon.", ts="0001-01-01T00:00:00Z")
    assert service.retain("a", one) == 202
    (block,) = service.recall("a", "Where does the osprey live?")
    assert block["ts"] == one["ts"]


def test_the_service_token_reaches_memory_and_nothing_else(
    service: MemoryService, processes: Processes
) -> None:
    service.retain("a", entry())
    for path in ("/api/v1/status", "/api/v1/tokens", "/metrics"):
        assert service.ask("GET", path).status == 403
    assert service.ask("GET", f"/history/{service.agent('a')}").status in {403, 404}
    for path in ("/api/v1/memory/forget", "/api/v1/memory/rebuild"):
        assert service.post(path, {"agent": service.agent("a"), "ids": ["x"]}).status == 403


def test_an_agents_token_needs_no_agent_and_reaches_no_other(
    service: MemoryService, processes: Processes
) -> None:
    service.retain("a", entry())
    made = memplane_here(
        processes.home,
        *("token", "create", "--agent", service.agent("b"), "--scope", "read", "--json"),
    )
    token = json.loads(made.stdout)["token"]
    of_b = MemoryService(service.base_url, token)
    messages = [{"role": "user", "content": "When is the kestrel rollout?"}]
    assert of_b.post("/recall", {"messages": messages}).json() == {"memories": []}
    absent = of_b.post("/recall", {"agent_id": "nobody", "messages": messages})
    other = of_b.post("/recall", {"agent_id": service.agent("a"), "messages": messages})
    assert (other.status, other.body) == (absent.status, absent.body) == (404, absent.body)
    assert of_b.post("/retain", {"entry": entry()}).status == 403


@pytest.mark.parametrize(
    "more",
    [{"limit": 0}, {"limit": 51}, {"limit": "3"}, {"max_bytes": 65537}, {"explain": "yes"}],
)
def test_what_cannot_be_asked_is_refused(service: MemoryService, more: dict[str, object]) -> None:
    body = {"agent_id": service.agent("a"), "messages": [], **more}
    assert service.post("/recall", body).status == 400


def test_the_command_line_asks_the_running_one(
    service: MemoryService, processes: Processes
) -> None:
    agent = service.agent("a")
    said = memplane_here(processes.home, "retain", "--agent", agent, "The osprey lives in Lisbon.")
    assert said.returncode == 0, said.stderr
    assert "1 retained" in said.stdout
    assert "Lisbon" in json.dumps(
        service.post(
            "/recall", {"agent_id": agent, "messages": [{"role": "user", "content": "osprey?"}]}
        ).json()
    )
    found = memplane_here(
        processes.home, "recall", "--agent", agent, "--json", "where is the osprey"
    )
    assert found.returncode == 0
    (memory,) = json.loads(found.stdout)["memories"]
    assert memory["text"] == "The osprey lives in Lisbon."
    rebuilt = memplane_here(processes.home, "rebuild")
    assert rebuilt.returncode == 0, rebuilt.stdout
    assert "memory is what the ledgers say" in rebuilt.stdout


def test_the_command_line_needs_nothing_running(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert (
        memplane_here(home, "retain", "--agent", "a", "The osprey lives in Lisbon.").returncode
        == 0
    )
    found = memplane_here(home, "recall", "--agent", "a", "--explain", "osprey")
    assert "The osprey lives in Lisbon." in found.stdout
    assert "why: match; ospr" in found.stdout
    nothing = memplane_here(home, "recall", "--agent", "a", "penguins")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "nothing is remembered" in nothing.stderr
    assert "say which agent" in memplane_here(home, "recall", "osprey").stderr
