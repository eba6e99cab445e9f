"""The walk through the service, the commands and the dashboard; what each refuses and exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clawdapus.service_contract import MemoryService
from tests.episodes.remembering import entry
from tests.server.dashboard.browsing import signed_in
from tests.support.running import Running, memplane, running_memplane

TELLS = entry(
    "My delivery address is 12 Kestrel Lane.",
    "Noted: 12 Kestrel Lane. [MEMORY:behavior:courier] Rings twice at Kestrel Lane",
    id="t-1",
)
QUESTION = "What is my delivery address?"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_memplane(tmp_path_factory.mktemp("users") / "home") as started:
        yield started


def service(running: Running) -> MemoryService:
    return MemoryService(running.address, running.token)


def asked(running: Running, user: str | None, **more: Any) -> str:
    body = {"agent_id": "shop", "messages": QUESTION, "user": user, **more}
    reply = service(running).post("/recall", body)
    assert reply.status == 200
    return json.dumps(reply.json())


def command(running: Running, *words: str) -> tuple[int, str]:
    ended = memplane(running.home, *words)
    return ended.returncode, ended.stdout + ended.stderr


RECALL = ("recall", "--agent", "shop", *QUESTION.split())


def test_the_walk_through_the_service_the_commands_and_the_dashboard(running: Running) -> None:
    told = {"agent_id": "shop", "user": "u-1", "entry": TELLS}
    assert service(running).post("/retain", told).status == 202
    assert_others_see_nothing(running)
    assert_the_user_sees_it(running)
    assert_it_is_exported(running)
    assert_it_is_erased(running)


def assert_others_see_nothing(running: Running) -> None:
    person = signed_in(running)
    assert "Kestrel" not in asked(running, "u-2")
    assert "Kestrel" not in asked(running, None)
    assert command(running, *RECALL, "--user", "u-2")[0] == 1
    assert command(running, *RECALL)[0] == 1
    assert "Kestrel" not in person.page("/lab?agent=shop&user=u-2&q=delivery+address")
    assert "Kestrel" not in person.page("/turns?agent=shop&user=u-2")


def assert_the_user_sees_it(running: Running) -> None:
    person = signed_in(running)
    assert "Kestrel Lane" in asked(running, "u-1")
    for whose in (("--user", "u-1"), ("--all-users",)):
        code, printed = command(running, *RECALL, *whose)
        assert code == 0
        assert "Kestrel Lane" in printed
        assert ("user u-1" in printed) is (whose == ("--all-users",))
    assert "Kestrel Lane" in person.page("/lab?agent=shop&user=u-1&q=delivery+address")
    assert "user u-1" in person.page("/turns?agent=shop")
    assert "12 Kestrel" in person.page("/turns?agent=shop&user=u-1")
    assert re.search(r"u-1 +1 turns", command(running, "users", "list", "--agent", "shop")[1])


def assert_it_is_exported(running: Running) -> None:
    _, lines = command(running, "export", "--agent", "shop", "--user", "u-1")
    exported = [json.loads(line) for line in lines.splitlines()]
    assert exported[0]["kind"] == "turn"
    assert (exported[-1]["kind"], exported[-1]["turns"]) == ("receipt", 1)


def assert_it_is_erased(running: Running) -> None:
    person = signed_in(running)
    erase = ("forget", "--agent", "shop", "--user", "u-1", "--all")
    assert "was not confirmed" in command(running, *erase)[1]
    code, receipt = command(running, *erase, "--confirm", "u-1", "--json")
    assert code == 0, receipt
    deleted = {one["place"]: one["deleted"] for one in json.loads(receipt)["deleted"]}
    assert deleted["ledgers: turns"] == deleted["ledgers: notes"] == 1
    assert all(one["clean"] for one in json.loads(receipt)["checked"])
    assert "Kestrel" not in asked(running, "u-1")
    assert "Kestrel" not in person.page("/turns?agent=shop")
    assert "Kestrel" not in person.page("/memories?agent=shop")
    assert "u-1" not in command(running, "users", "list", "--agent", "shop")[1]
    assert "memory is what the ledgers say" in command(running, "rebuild")[1]


@pytest.mark.parametrize("user", ["", " ", "a\nb", "x" * 257])
def test_our_own_routes_refuse_what_cannot_be_a_user(running: Running, user: str) -> None:
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/recall", {"messages": QUESTION}),
        ("/retain", {"entry": entry("Hello")}),
        ("/forget", {"entry_ids": ["x"]}),
    ]
    for path, body in bodies:
        reply = service(running).post(path, {"agent_id": "shop", "user": user, **body})
        assert reply.status == 400, path
        assert "a user is a name" in json.dumps(reply.json()), path


def test_commands_refuse_what_cannot_be_a_user(running: Running) -> None:
    for words in (
        ("recall", "--agent", "shop", "key", "--user", ""),
        ("forget", "--agent", "shop", "--all", "--user", " "),
    ):
        code, printed = command(running, *words)
        assert code == 2
        assert "a user is a name" in printed


def test_a_forget_for_a_user_leaves_what_is_anothers(running: Running) -> None:
    theirs = entry("My key is under the mat.", id="mat-1")
    service(running).post("/retain", {"agent_id": "door", "user": "ada", "entry": theirs})
    body = {"agent_id": "door", "user": "ben", "entry_ids": ["mat-1"]}
    assert service(running).post("/forget", body).status == 400
    assert service(running).post("/forget", {**body, "user": "ada"}).status == 204


def test_two_roles_of_one_subject_share_nothing(running: Running) -> None:
    """As pods will send it: the role's named view is in the metadata of recall and retain."""

    def metadata(view: str) -> dict[str, Any]:
        return {"subject": "shop", "role": view, "view": view, "purpose": "orders", "n": 1}

    said = entry("The discount is a secret kestrel.", id="sales-1")
    body = {"agent_id": "pod", "entry": said, "metadata": metadata("sales")}
    assert service(running).post("/retain", body).status == 202
    for view, seen in (("sales", True), ("support", False)):
        question = {"agent_id": "pod", "messages": "discount?", "metadata": metadata(view)}
        reply = service(running).post("/recall", question)
        assert ("kestrel" in json.dumps(reply.json())) is seen
    notes = (running.home / "received" / "pod" / "notes.jsonl").read_text()
    note = json.loads(notes)
    assert (note["subject"], note["role"], note["view"]) == ("shop", "sales", "sales")


def test_a_turn_that_is_shared_is_told_to_all(running: Running, tmp_path: Path) -> None:
    del tmp_path
    said = entry("The gate code is 4711.", id="gate-1")
    service(running).post("/retain", {"agent_id": "gate", "user": "ada", "entry": said})
    question = {"agent_id": "gate", "user": "ben", "messages": "gate code?"}
    assert "4711" not in json.dumps(service(running).post("/recall", question).json())
    code, printed = command(running, "users", "share", "gate-1", "--agent", "gate")
    assert (code, "1 turns" in printed) == (0, True)
    assert "4711" in json.dumps(service(running).post("/recall", question).json())
    assert "memory is what the ledgers say" in command(running, "rebuild")[1]
