"""What every memory service keeps, asked over a real port.

A subclass has a fixture `service` and one `restarted`, which ends that service and starts it
again with what it has kept. Tests may share a process: each has agents of its own.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

MOST_BODY = 32 << 20
BLOCKED = {"raw_transcript", "session_tail", "transcript_tail"}
FACT = "The kestrel rollout is scheduled for Thursday."
QUESTION = "When is the kestrel rollout?"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class MemoryService:
    """A running service; without a token it lets everybody ask.

    Agents that nobody else asks about have ids that begin with `prefix`.
    """

    base_url: str
    token: str = ""
    prefix: str = ""

    def agent(self, name: str) -> str:
        """Return the id of an agent."""
        return f"{self.prefix}{name}"

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request, with the token unless headers say otherwise."""
        own = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        address = urlsplit(self.base_url)
        connection = http.client.HTTPConnection(address.netloc, timeout=30)
        try:
            connection.request(method, path, body, {**own, **_JSON, **(headers or {})})
            answer = connection.getresponse()
            return Reply(answer.status, answer.read())
        finally:
            connection.close()

    def post(self, path: str, body: object) -> Reply:
        return self.ask("POST", path, json.dumps(body).encode())

    def retain(self, agent: str, entry: Mapping[str, Any]) -> int:
        agent = self.agent(agent)
        metadata = {"path": "retain", "service": agent, "type": "", "later": [1]}
        body = {"agent_id": agent, "pod": "p", "metadata": metadata, "entry": entry, "later": 1}
        return self.post("/retain", body).status

    def forget(self, agent: str, *entry_ids: str) -> int:
        agent = self.agent(agent)
        metadata = {"path": "forget", "service": agent, "type": ""}
        body = {"agent_id": agent, "metadata": metadata, "entry_ids": entry_ids, "reason": "r"}
        return self.post("/forget", body).status

    def recall(self, agent: str, question: object = QUESTION) -> list[dict[str, Any]]:
        agent = self.agent(agent)
        metadata = {"path": "openai", "service": agent, "type": ""}
        messages = [{"role": "user", "content": question}]
        body = {"agent_id": agent, "messages": messages, "metadata": metadata}
        answer = self.post("/recall", body)
        assert answer.status == 200
        assert len(answer.body) < 16384
        memories: list[dict[str, Any]] = answer.json()["memories"]
        assert len(memories) <= 8
        assert sum(len(one["text"].encode()) for one in memories) <= 8192
        assert all(one.get("kind") not in BLOCKED for one in memories)
        assert all(one.get("source") not in BLOCKED for one in memories)
        return memories

    def recalled(self, agent: str, question: object = QUESTION) -> str:
        return "\n".join(one["text"] for one in self.recall(agent, question))


_JSON = {"Content-Type": "application/json", "Accept": "application/json"}
Restart = Callable[[], MemoryService]


def new_prefix() -> str:
    """Make what the ids of one test's agents begin with."""
    return f"{uuid.uuid4().hex[:12]}-"


def entry(question: str = "Please note it.", answer: str = FACT, **changes: Any) -> dict[str, Any]:
    """One turn as the ledger has it; its id is opaque to services."""
    request = {"model": "m", "messages": [{"role": "user", "content": question}]}
    body: dict[str, Any] = {
        "version": 1,
        "ts": "2026-01-02T03:04:05Z",
        "claw_id": "a",
        "path": "/v1/chat/completions",
        "requested_model": "o/m",
        "effective_provider": "o",
        "effective_model": "m",
        "status_code": 200,
        "stream": False,
        "request_original": request,
        "request_effective": request,
        "response": {"format": "json", "json": {"choices": [{"message": {"content": answer}}]}},
        "usage": {},
        **changes,
    }
    seal = hashlib.sha256(json.dumps(body).encode()).hexdigest()
    return {"id": f"hist1_{seal}", **body}


def streamed(*pieces: str) -> dict[str, str]:
    lines = [f"data: {json.dumps({'choices': [{'delta': {'content': one}}]})}" for one in pieces]
    return {"format": "sse", "text": "\n\n".join([*lines, "data: [DONE]", ""])}


def anthropic(text: str) -> dict[str, Any]:
    return {"format": "json", "json": {"content": [{"type": "text", "text": text}]}}


class ServiceContract:
    """The contract of a memory service."""

    def test_it_says_that_it_is_well_without_a_token(self, service: MemoryService) -> None:
        assert service.ask("GET", "/health", headers={"Authorization": ""}).status == 200

    def test_what_was_retained_is_recalled(self, service: MemoryService) -> None:
        assert service.recall("a") == []
        assert service.retain("a", entry()) == 202
        assert "Thursday" in service.recalled("a")
        assert "Thursday" in service.recalled("a", [{"type": "text", "text": QUESTION}])

    def test_a_repeated_entry_is_one_memory(self, service: MemoryService) -> None:
        one = entry()
        assert [service.retain("a", one) for _ in range(3)] == [202, 202, 202]
        assert service.recalled("a").count("Thursday") == 1

    def test_what_was_forgotten_stays_forgotten(
        self, service: MemoryService, restarted: Restart
    ) -> None:
        one = entry()
        service.retain("a", one)
        assert service.forget("a", one["id"]) == 204
        assert service.recall("a") == []
        assert service.retain("a", one) == 202
        assert service.recall("a") == []
        assert service.forget("a", one["id"]) == 204
        again = restarted()
        assert again.recall("a") == []
        assert again.retain("a", one) == 202
        assert again.recall("a") == []

    def test_what_was_retained_survives_a_restart(
        self, service: MemoryService, restarted: Restart
    ) -> None:
        one = entry()
        service.retain("a", one)
        again = restarted()
        assert again.retain("a", one) == 202
        assert again.recalled("a").count("Thursday") == 1

    def test_an_entry_may_be_forgotten_before_it_comes(
        self, service: MemoryService, restarted: Restart
    ) -> None:
        one, other = entry(), entry("Where is it?", "The kestrel rollout is in Oslo.")
        assert service.forget("a", one["id"], "hist1_unknown") == 204
        assert service.retain("a", one) == 202
        assert service.retain("a", other) == 202
        assert "Thursday" not in service.recalled("a")
        assert "Oslo" in service.recalled("a")
        assert "Thursday" not in restarted().recalled("a")

    def test_agents_are_strangers(self, service: MemoryService) -> None:
        one = entry()
        service.retain("a", one)
        service.retain("b", one)
        assert service.recall("c") == []
        assert service.forget("b", one["id"]) == 204
        assert service.recall("b") == []
        assert "Thursday" in service.recalled("a")

    def test_nothing_that_fits_is_nothing(self, service: MemoryService) -> None:
        service.retain("a", entry())
        assert service.recall("a", "xylophone zeppelin") == []
        assert service.recall("a", "") == []
        assert service.recall("a", 5) == []

    @pytest.mark.parametrize(
        "response", [streamed("The kes", "trel rollout is on Thurs", "day."), anthropic(FACT)]
    )
    def test_every_form_of_an_answer_is_understood(
        self, response: object, service: MemoryService
    ) -> None:
        assert service.retain("a", entry(response=response)) == 202
        text = service.recalled("a")
        assert "Thursday" in text
        assert "data:" not in text
        assert "choices" not in text

    def test_failed_and_empty_turns_are_accepted(self, service: MemoryService) -> None:
        assert service.retain("a", entry(status="error", response={"format": "json"})) == 202
        assert service.retain("a", entry(response={"format": "sse"}, request_original={})) == 202
        assert service.retain("a", {"id": "opaque", "later": {"x": None}}) == 202

    def test_injected_memory_does_not_come_back(self, service: MemoryService) -> None:
        block = "--- BEGIN MEMORY (from m) ---\nthe walrus sleeps\n--- END MEMORY ---"
        effective = {"messages": [{"role": "user", "content": f"{block}\nThe narwhal sings."}]}
        service.retain("a", entry(request_effective=effective))
        service.retain("a", entry(f"{block}\nHello again.", "Hello."))
        assert "walrus" not in service.recalled("a", "Where does the walrus sleep?")
        assert "narwhal" not in service.recalled("a", "Does the narwhal sing?")

    def test_answers_stay_small(self, service: MemoryService) -> None:
        for number in range(20):
            wide = f'kestrel rollout {number} "\\' + "\U0001f985\x01" * 3000
            assert service.retain("a", entry(f"q{number}", wide)) == 202
        assert service.recall("a")

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/retain", b""),
            ("/retain", b"{"),
            ("/retain", b"[]"),
            ("/retain", b"[" * 100_000),
            ("/retain", b"\xff"),
            ("/retain", b"{}"),
            ("/retain", b'{"agent_id":"a"}'),
            ("/retain", b'{"agent_id":"","entry":{"id":"x"}}'),
            ("/retain", b'{"agent_id":5,"entry":{"id":"x"}}'),
            ("/retain", b'{"agent_id":"a","entry":"x"}'),
            ("/retain", b'{"agent_id":"a","entry":{}}'),
            ("/retain", b'{"agent_id":"a","entry":{"id":""}}'),
            ("/recall", b'{"messages":[]}'),
            ("/forget", b'{"agent_id":"a"}'),
            ("/forget", b'{"agent_id":"a","entry_ids":"x"}'),
            ("/forget", b'{"agent_id":"a","entry_ids":[1]}'),
        ],
    )
    def test_an_invalid_body_is_400(self, path: str, body: bytes, service: MemoryService) -> None:
        assert service.ask("POST", path, body).status == 400

    @pytest.mark.parametrize("given", ["", "Bearer wrong", "Bearer ", "Basic eDp5"])
    @pytest.mark.parametrize("path", ["/recall", "/retain", "/forget"])
    def test_a_missing_or_wrong_token_is_401(
        self, path: str, given: str, service: MemoryService
    ) -> None:
        assert service.token, "a service under test has a token"
        answer = service.ask("POST", path, b"{}", {"Authorization": given})
        assert answer.status == 401
        assert service.token.encode() not in answer.body

    @pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
    @pytest.mark.parametrize("path", ["/recall", "/retain", "/forget"])
    def test_a_wrong_method_is_405(self, path: str, method: str, service: MemoryService) -> None:
        assert service.ask(method, path).status == 405

    def test_a_body_that_is_too_large_is_413(self, service: MemoryService) -> None:
        large = {"Content-Length": str(MOST_BODY + 1)}
        assert service.ask("POST", "/retain", None, large).status == 413
