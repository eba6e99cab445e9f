"""Overview, prompt, recall lab, turns, audit, and what is told while a page is open."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.server.dashboard.browsing import Person, parsed, signed_in
from tests.server.door import bearer, post_json
from tests.server.operating import Api, Stream, new_agent
from tests.support.in_process import memplane_here
from tests.support.running import Running, running_memplane


def entry(api: Api, number: int, said: str, answer: str = "I see.") -> str:
    """Let an agent's memory keep a turn, and return its id."""
    identifier = f"hist1_{number:064x}"
    turn = {
        "version": 1,
        "id": identifier,
        "ts": f"2026-03-01T09:{number % 60:02}:00Z",
        "claw_id": api.agent,
        "path": "/v1/chat/completions",
        "requested_model": "small",
        "effective_provider": "openai",
        "effective_model": "small-1",
        "status_code": 200,
        "stream": False,
        "request_original": {"messages": [{"role": "user", "content": said}]},
        "response": {"format": "json", "json": {"choices": [{"message": {"content": answer}}]}},
        "usage": {"prompt_tokens": 12, "completion_tokens": 3},
    }
    body = {"agent": api.agent, "entry": turn}
    kept = post_json(api.running, "/api/v1/memory/retain", body, bearer(api.running))
    assert kept.json()["status"] == "retained", kept.text
    return identifier


def test_a_newcomer_is_told_what_to_try(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_memplane(tmp_path_factory.mktemp("new") / "home") as fresh:
        person = signed_in(fresh)
        text = parsed(person.page("/")).text
        assert "Nothing was learned yet" in text
        assert 'memplane run --agent ops -- claude -p "Check the hosts."' in text
        for path in ("/memories", "/preview"):
            assert "memplane run --agent ops -- claude" in parsed(person.page(path)).text
        assert f"{fresh.address}/agent/me/v1" in text
        for path in ("/memories", "/conflicts", "/preview", "/lab", "/turns", "/audit"):
            assert 'class="empty' in person.page(path), path


def test_the_overview_counts_and_shows_the_newest_first(person: Person, api: Api) -> None:
    api.add("An old and certain one", confidence=1.0)
    api.add("A new and doubtful one", confidence=0.4)
    text = parsed(person.page(f"/?agent={api.agent}")).text
    assert text.index("A new and doubtful one") < text.index("An old and certain one")
    assert "2 to tell in prompts" in text
    assert "Ledger" in text
    assert "2 of 2 memories" in text
    assert "active 2" in text
    assert "60 days" in text
    assert person.get("/?days=x").status == 200


def test_the_preview_is_the_block_to_the_byte(person: Person, api: Api) -> None:
    for number in range(12):
        api.add(f"Fact {number} about <something> & others", service=f"svc{number % 3}")
    page = parsed(person.page(f"/preview?agent={api.agent}"))
    block = api.get("/preview")["block"]
    assert " ".join(block.split()) in page.text
    small = f"/preview?agent={api.agent}&budget=120&service=svc1&prompt=is+svc2+up"
    left = parsed(person.page(small)).text
    assert "no room left" in left
    assert "of 120 tokens" in left
    partial = person.get(small, HX_Request="true")
    assert "<html" not in partial.text
    for budget in ("-1", "x", "99999999999"):
        wrong = person.get(f"/preview?agent={api.agent}&budget={budget}")
        assert wrong.status == 422
        assert 'role="alert"' in wrong.text


def test_the_lab_answers_with_blocks_and_their_reasons(person: Person, api: Api) -> None:
    entry(api, 1, "My sister Ada is allergic to peanuts.")
    page = parsed(person.page(f"/lab?agent={api.agent}&q=what+about+peanuts"))
    assert "allergic to peanuts" in page.text
    assert "it matches the question" in page.text
    assert "score" in page.text
    none = person.page(f"/lab?agent={api.agent}&q=zebra+crossing")
    assert "Nothing is remembered about that" in none
    assert "Nothing is remembered" not in person.page(f"/lab?agent={api.agent}")
    assert person.get("/lab?agent=..%2Fx&q=hello").status == 404


def test_the_turns_of_the_only_agent_say_whose_they_are(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running_memplane(tmp_path_factory.mktemp("single") / "home") as fresh:
        api = new_agent(fresh)
        entry(api, 1, "The only question")
        assert f'<option value="{api.agent}" selected' in signed_in(fresh).page("/turns")


def test_turns_are_listed_newest_first_and_shown_whole(person: Person, api: Api) -> None:
    entry(api, 1, "The first question")
    said = "[MEMORY:timing:jellyfin] Takes 60s to start after a restart"
    second = entry(api, 2, "The second question", f"Noted.\n{said}")
    page = person.page(f"/turns?agent={api.agent}")
    assert f'<option value="{api.agent}"' in person.page("/turns")
    assert page.index("The second question") < page.index("The first question")
    assert "The first question" not in person.page(f"/turns?agent={api.agent}&count=1")
    whole = parsed(person.page(f"/turns/{api.agent}/{second}")).text
    assert "The second question" in whole
    assert "Noted." in whole
    assert "small-1 (openai)" in whole
    assert "12 → 3" in whole


def test_what_clients_add_is_in_no_list_no_recall_and_no_episode(person: Person, api: Api) -> None:
    reminder = "<system-reminder>The zebra crossing is closed.</system-reminder>"
    notice = "<task-notification>The walrus task is done.</task-notification>"
    turn = entry(api, 5, f"{reminder}\nWhich kettle is broken?", "The blue one.")
    entry(api, 6, notice, "I see that.")
    listed = parsed(person.page(f"/turns?agent={api.agent}")).text
    assert "Which kettle is broken?" in listed
    assert "no question from a user" in listed
    whole = parsed(person.page(f"/turns/{api.agent}/{turn}")).text
    for added in ("zebra", "walrus", "system-reminder", "task-notification"):
        assert added not in listed
        assert added not in whole.split("The whole entry")[0]
        assert "Nothing is remembered" in person.page(f"/lab?agent={api.agent}&q={added}")
    for asked in (notice, f"{notice} {reminder}"):
        body = {"agent_id": api.agent, "messages": [{"role": "user", "content": asked}]}
        told = post_json(api.running, "/recall", body, f"Authorization: Bearer {api.token}")
        assert told.json() == {"memories": []}


def test_what_was_learned_from_a_turn_leads_back_to_it(person: Person, api: Api) -> None:
    said = "[MEMORY:timing:jellyfin] Takes 60s to start after a restart"
    with api.watching() as stream:
        turn = entry(api, 3, "How long does it take?", said)
        while stream.event()["kind"] != "asserted":
            pass  # It is learned a moment after it is kept.
    (made,) = api.get("/memories")["memories"]
    (same,) = api.get("/memories", entry=turn)["memories"]
    assert same == made
    assert api.get("/memories", entry="hist1_other")["memories"] == []
    link = f'href="/memories/{made["id"]}"'
    assert link in person.page(f"/turns/{api.agent}/{turn}")
    assert f'href="/turns/{api.agent}/{turn}"' in person.page(f"/memories/{made['id']}")


def test_a_forgotten_turn_is_not_there(person: Person, api: Api, operator: Api) -> None:
    turn = entry(api, 4, "Something to be forgotten")
    asked = {"agent": api.agent, "ids": [turn]}
    forgotten = post_json(api.running, "/api/v1/memory/forget", asked, bearer(api.running))
    assert forgotten.status == 200, forgotten.text
    assert "Something to be forgotten" not in person.page(f"/turns?agent={api.agent}")
    assert person.get(f"/turns/{api.agent}/{turn}").status == 404


@pytest.mark.parametrize(
    "path",
    ["nobody/hist1_00", "..%2F..%2Fetc/passwd", "a/" + "x" * 300, "%00/x", "a/%ff"],
)
def test_a_turn_that_is_not_there_is_404(path: str, person: Person) -> None:
    assert person.get(f"/turns/{path}").status in {401, 404}


def test_the_audit_names_who_did_what(person: Person, api: Api) -> None:
    made = api.add("Takes 60s to start")
    person.send(f"/memories/{made['id']}/act", act="pin")
    where = f"/audit?agent={api.agent}"
    text = parsed(person.page(where)).text
    assert text.index("pinned") < text.index("Takes 60s to start")
    assert "dashboard" in text
    kinds = parsed(person.page(f"{where}&kind=pinned"))
    assert "Takes 60s to start" not in kinds.text
    assert "Nothing happened" in person.page(f"{where}&who=import")
    assert person.get(f"{where}&who=nobody&kind=nothing&before=x").status == 200


def test_the_audit_tells_what_commands_did(person: Person, api: Api) -> None:
    home = api.running.home
    for path, operation, minute in (
        (home / "commands.jsonl", "forget", 1),
        (home / "logs" / "telemetry.jsonl", "recall", 2),
        (home / "commands.jsonl", "retain", 3),
    ):
        event = {"ts": f"2099-03-01T12:0{minute}:00Z", "claw_id": api.agent, "type": "memory_op"}
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with path.open("a") as log:
            log.write(json.dumps({**event, "memory_op": operation}) + "\n")
    text = parsed(person.page(f"/audit?agent={api.agent}&who=log")).text
    assert text.index("op retain") < text.index("op recall") < text.index("op forget")


def test_the_audit_goes_on_behind_its_first_page(person: Person, api: Api) -> None:
    lines = [
        {"category": "timing", "observation": f"Job {n:03} runs late", "service": f"s-{n}"}
        for n in range(120)
    ]
    api.post("/import", {"memories": lines})
    page = person.page(f"/audit?agent={api.agent}&who=import&kind=asserted")
    assert "Job 119" in page
    assert "Job 001" not in page
    older = page[page.index("more-link") :].split('href="')[1].split('"')[0]
    assert "Job 001" in person.page(older.replace("&amp;", "&"))


@contextmanager
def watching(person: Person, last: str = "") -> Iterator[tuple[int, Stream]]:
    connection = http.client.HTTPConnection("127.0.0.1", person.running.port, timeout=60)
    headers = {"Accept": "text/event-stream", "Cookie": f"memplane_session={person.cookie}"}
    try:
        connection.request("GET", "/live", headers={**headers, "Last-Event-ID": last})
        reply = connection.getresponse()
        yield reply.status, Stream(reply)
    finally:
        connection.close()


def test_a_page_is_told_what_happens_as_it_happens(person: Person, api: Api) -> None:
    with watching(person) as (status, stream):
        assert status == 200
        began = stream.block()
        made = api.add("Takes 60s to start")
        told = stream.event()
    assert (told["kind"], told["memory_id"]) == ("asserted", made["id"])
    assert "observation" not in told
    with watching(person, began["id"]) as (_, stream):
        stream.block()
        assert stream.event() == told
    with watching(Person(person.running, "wrong")) as (status, _):
        assert status == 401


def test_a_stream_ends_with_the_session(person: Person, api: Api) -> None:
    with watching(person) as (_, stream):
        stream.block()
        person.send("/logout")
        api.add("Nobody may hear of this")
        assert stream.block() == {}


def test_the_command_prints_an_address_that_lets_one_browser_in(running: Running) -> None:
    done = memplane_here(running.home, "dashboard")
    address, _, code = done.stdout.strip().partition("#")
    assert (done.returncode, address) == (0, f"{running.address}/login")
    assert Person(running).send("/login", code=code).status == 303
    assert Person(running).send("/login", code=code).status == 403
    told = json.loads(memplane_here(running.home, "dashboard", "--json").stdout)
    assert told["address"].startswith(f"{running.address}/login#")


def test_without_a_server_the_command_says_how_to_start_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    done = memplane_here(tmp_path_factory.mktemp("none") / "home", "dashboard")
    assert done.returncode == 3
    assert "memplane up" in done.stderr


def test_the_same_is_told_to_programs(api: Api) -> None:
    made = api.add("Takes 60s to start")
    api.post(f"/memories/{made['id']}/pin")
    days = api.get("/stats/days", days=2)["days"]
    assert [one["by_state"]["active"] for one in days] == [0, 1]
    acts = api.get("/acts", actor="operator", limit=1)["acts"]
    assert [one["event"]["kind"] for one in acts] == ["pinned"]
    rest = api.get("/acts", before=acts[0]["seq"])["acts"]
    assert [one["event"]["kind"] for one in rest] == ["asserted"]
    course = api.get(f"/memories/{made['id']}/course")
    assert course["points"][0]["kind"] == "asserted"
    assert api.ask("GET /stats/days", days=0).status == 422
    assert api.ask("GET /acts", kind="nothing").status == 422
    assert api.ask("GET /memories/999999/course").status == 404
