"""The description of the API and the server agree, whatever is asked."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.server.operating import Api, new_agent
from tests.support.running import Running, running_memplane

LEFT_OUT = {
    "/api/v1/events": "its answer has no end; tests/server/test_memories.py reads it",
}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = {GenerationMode.POSITIVE: 6, GenerationMode.NEGATIVE: 4}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_memplane(tmp_path_factory.mktemp("described") / "home") as started:
        yield started


@pytest.fixture(scope="module")
def described(running: Running) -> Any:
    headers = {"Authorization": f"Bearer {running.token}"}
    return requests.get(f"{running.address}/openapi.json", headers=headers, timeout=30).json()


def known_ids(api: Api) -> dict[str, list[Any]]:
    """Make something of every kind, so that not everything that is asked for is missing."""
    api.say("[MEMORY:dependency:caddy] Must be started after WireGuard", "[MEMORY:misc] Words")
    api.say("[MEMORY:dependency:caddy] Can be started independently of WireGuard")
    return {
        "sessions": [one["id"] for one in api.get("/sessions")["sessions"]],
        "conflicts": [one["id"] for one in api.get("/conflicts")["conflicts"]],
        "rejects": [one["id"] for one in api.get("/rejects")["rejects"]],
    }


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks as an agent, or as an admin about that agent."""

    session: requests.Session
    address: str
    token: str
    agent: str

    def check(self, case: Any) -> None:
        # Another agent's things are absent, which is soon told.
        for place in (case.query, case.body):
            if isinstance(place, dict) and "agent" in place:
                place["agent"] = self.agent
        headers = {"Authorization": f"Bearer {self.token}"}
        reply = case.call(base_url=self.address, session=self.session, headers=headers)
        case.validate_response(reply, checks=CHECKS)


def examine(operation: Any, mode: GenerationMode, ids: list[Any], asking: Asking) -> None:
    """Ask for many things, about what is there and what is not, and check every answer."""

    @hypothesis.settings(
        max_examples=EXAMPLES[mode],
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(
        case=operation.as_strategy(generation_mode=mode), known=st.sampled_from([None, *ids])
    )
    def answers_as_described(case: Any, known: Any) -> None:
        if known is not None and "id" in case.path_parameters:
            case.path_parameters["id"] = known
        asking.check(case)

    answers_as_described()


def operations_in(described: Any) -> Iterator[Any]:
    for found in schemathesis.openapi.from_dict(described).get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.path.startswith("/api/v1/") and operation.path not in LEFT_OUT:
            yield operation


@pytest.mark.parametrize("mode", EXAMPLES, ids=lambda mode: mode.value)
def test_the_server_does_what_its_description_says(
    mode: GenerationMode, running: Running, described: Any
) -> None:
    api = new_agent(running)
    known = known_ids(api)
    asked = 0
    with requests.Session() as session:
        for operation in operations_in(described):
            needed = operation.definition.raw["security"][0]["bearer"]
            token = running.token if needed == ["admin"] else api.token
            ids = known.get(operation.path.split("/")[3], [])
            if operation.path.startswith("/api/v1/memories/{id}"):
                ids = [api.add(f"Takes a while, as {operation.label} does", service="a")["id"]]
            examine(operation, mode, ids, Asking(session, running.address, token, api.agent))
            asked += 1
    assert asked >= 40


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/api/v1/stats", lambda schemas: schemas["Stats"]["required"].append("colour")),
        ("/api/v1/memories", lambda schemas: schemas["MemoryPage"].update(type="array")),
    ],
)
def test_a_description_that_is_wrong_is_noticed(
    path: str, change: Callable[[Any], None], running: Running, described: Any
) -> None:
    wrong = copy.deepcopy(described)
    change(wrong["components"]["schemas"])
    api = new_agent(running)
    with requests.Session() as session:
        asking = Asking(session, running.address, api.token, api.agent)
        (operation,) = [
            one for one in operations_in(wrong) if (one.path, one.method) == (path, "get")
        ]
        with pytest.raises(FailureGroup, match="Response violates schema"):
            examine(operation, GenerationMode.POSITIVE, [], asking)
