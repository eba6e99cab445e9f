"""The client over every transport, and what it is for people who write programs with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import pytest

import memplane
from memplane import Client, Settings, SyncClient
from memplane.auth.grants import Scope, TokenRequest
from memplane.errors import InvalidRequest, OwnerUnavailable, UnknownMemory
from memplane.observations.requests import MemoryPatch, PromptQuery
from memplane.service.http_transport import encode_request
from memplane.service.operation import AnyAgent, Context, Header, operation
from memplane.service.operations import tokens
from memplane.service.operations.observations import (
    get_history,
    get_memory,
    list_memories,
    update_memory,
)
from memplane.service.operations.sessions import preview_prompt
from memplane.service.table import OPERATIONS
from tests.support.running import running_memplane

PORT = "The staging database is on port 5433"
QUESTION = "which port has the staging database?"


async def test_a_note_is_recalled_in_this_process(home: Path) -> None:
    async with Client(Settings(home=home)) as memory:
        receipt = await memory.retain(PORT, agent="ops")
        (block,) = (await memory.recall(QUESTION, agent="ops", limit=3)).memories
        assert PORT in block.text
        await memory.forget(receipt.id, agent="ops")
        assert (await memory.recall(QUESTION, agent="ops", limit=3)).memories == ()


async def test_a_note_is_recalled_on_another_machine_with_an_agents_token(home: Path) -> None:
    with running_memplane(home) as running:
        async with Client(url=running.address, token=running.token) as admin:
            wanted = TokenRequest(agent="ops", scopes=(Scope.READ, Scope.WRITE))
            issued = await admin.call(tokens.issue_token, wanted)
        async with Client(url=running.address, token=issued.token) as memory:
            await memory.retain(PORT, agent="ops")
            (block,) = (await memory.recall(QUESTION, agent="ops", limit=3)).memories
            assert PORT in block.text
            with pytest.raises(OwnerUnavailable, match="answered 404"):
                await memory.recall(QUESTION, agent="somebody-else")
            with pytest.raises(OwnerUnavailable, match="answered 403"):
                await memory.call(tokens.list_tokens)


async def test_a_wrong_token_and_a_wrong_address_are_said(home: Path) -> None:
    with running_memplane(home) as running:
        async with Client(url=running.address, token="wrong") as memory:
            with pytest.raises(
                OwnerUnavailable, match=f"memplane at {running.address} answered 401"
            ):
                await memory.status()
    async with Client(url=running.address, token="wrong") as memory:
        with pytest.raises(OwnerUnavailable, match=r"does not answer there\. Check the address"):
            await memory.status()


def test_code_that_is_not_asynchronous_has_the_same(home: Path) -> None:
    with SyncClient(Settings(home=home)) as memory:
        receipt = memory.retain(PORT, agent="ops")
        assert PORT in memory.recall(QUESTION, agent="ops").memories[0].text
        assert memory.forget(receipt.id, agent="ops").forgotten == 1
        assert memory.status().home == str(home)
        assert memory.call(tokens.list_tokens) == ()


async def test_a_client_that_is_not_open_says_how_to_open_it() -> None:
    with pytest.raises(RuntimeError, match=r"async with Client\(\)"):
        await Client().recall("anything", agent="ops")


async def test_an_empty_note_is_refused(home: Path) -> None:
    async with Client(Settings(home=home)) as memory:
        with pytest.raises(InvalidRequest, match="nothing to remember"):
            await memory.retain("  ", agent="ops")


@pytest.mark.parametrize("name", ["Plane", "open_plane"])
def test_names_of_earlier_versions_warn_and_work(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"memplane.{name} is now memplane.Client"):
        assert getattr(memplane, name) is Client


def test_a_new_token_is_not_in_its_repr(home: Path) -> None:
    with SyncClient(Settings(home=home)) as memory:
        issued = memory.call(tokens.issue_token, TokenRequest(admin=True))
    assert issued.token not in repr(issued)


def test_the_example_of_the_page_on_operational_memory_works(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[2] / "docs" / "operational-memory.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    monkeypatch.setenv("MEMPLANE_HOME", str(home))
    exec(example, {})  # noqa: S102 - our own page
    assert "confidence=0.9" in capsys.readouterr().out
    with SyncClient(Settings(home=home)) as client:
        (made,) = client.call(list_memories, "ops").memories
        history = client.call(get_history, "ops", made.id).events
    assert [(event.kind, event.actor) for event in history] == [
        ("asserted", "ada"),
        ("confidence_set", "ada"),
    ]


@operation("PATCH", "/things/{id:int}", scope=Scope.WRITE)
async def change_thing(
    context: Context,
    agent: AnyAgent,
    id: int,  # noqa: A002 - its name in the path
    body: TokenRequest,
    *,
    version: Annotated[int | None, Header("If-Match", "The version that is changed.")] = None,
) -> None:
    """Change a thing."""


def test_arguments_travel_where_the_signature_says() -> None:
    arguments = change_thing.bind("ops", 7, TokenRequest(name="new"), version=3)
    request = encode_request(change_thing, arguments)
    assert (request.path, request.query, request.headers) == (
        "/things/7",
        {"agent": "ops"},
        {"If-Match": "3"},
    )
    assert request.body == TokenRequest(name="new")
    without = encode_request(change_thing, change_thing.bind(None, 7, TokenRequest()))
    assert (without.query, without.headers) == ({}, {})


def test_versions_travel_as_entity_tags_and_queries_under_their_own_names() -> None:
    patch = MemoryPatch(pinned=True)
    arguments = update_memory.bind("ops", 7, patch, versions=(3, 4))
    assert encode_request(update_memory, arguments).headers == {"If-Match": '"3", "4"'}
    without = encode_request(update_memory, update_memory.bind("ops", 7, patch))
    assert without.headers == {}
    arguments = preview_prompt.bind("ops", PromptQuery(services=("a", "b"), budget=0))
    assert encode_request(preview_prompt, arguments).query == {
        "agent": "ops",
        "service": ["a", "b"],
        "budget": "0",
    }


@pytest.mark.parametrize("number", [-1, 2**63])
def test_a_number_that_nothing_can_have_is_unknown_before_anything_is_sent(number: int) -> None:
    with pytest.raises(UnknownMemory, match="nothing called"):
        get_memory.bind("ops", number)
    assert get_memory.bind("ops", 2**63 - 1)["id"] == 2**63 - 1


@pytest.mark.parametrize("thing", ["../8", "a/b", "", "?", "%2e"])
def test_an_id_of_no_possible_form_is_unknown_before_anything_is_sent(thing: str) -> None:
    with pytest.raises(UnknownMemory, match="nothing called"):
        change_thing.bind("ops", thing, TokenRequest())  # type: ignore[arg-type]


def test_every_row_has_help_and_a_place_of_its_own() -> None:
    places = [(row.method, row.path) for row in OPERATIONS]
    assert len(set(places)) == len(places)
    for row in OPERATIONS:
        assert row.summary, row.name
        assert row.parameters is not None
        assert not row.summary.endswith(".")
