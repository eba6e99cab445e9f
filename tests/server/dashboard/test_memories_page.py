"""The Memories page by plain forms: without a script, create, change, put away and undo."""

from __future__ import annotations

import json
import re

import pytest

from tests.server.dashboard.browsing import Person, parsed
from tests.server.door import post_json
from tests.server.operating import Api


def listed(api: Api, **query: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = api.get("/memories", **query)["memories"]
    return found


def new(person: Person, api: Api, observation: str, **more: str) -> int:
    fields = {"category": "timing", "service": "", "confidence": "0.7", "agent": api.agent}
    person.follow(person.send("/memories", **{**fields, **more, "observation": observation}))
    (made,) = [one for one in listed(api) if one["observation"] == observation]
    return int(str(made["id"]))


def edited(memory: dict[str, object], **more: str) -> dict[str, str]:
    same = {name: str(memory[name] or "") for name in ("observation", "category", "service")}
    sure = f"{memory['effective_confidence']}"
    fields = {"version": str(memory["version"]), "confidence": sure, "confidence_was": sure}
    return {**same, **fields, **more}


def undo_in(page: str) -> dict[str, str]:
    toast = page[page.index("data-toast") :]
    return dict(re.findall(r'name="(batch|back)" value="([^"]*)"', toast)[:2])


def test_adding_a_memory_by_a_form(person: Person, api: Api) -> None:
    back = f"/memories?agent={api.agent}"
    reply = person.send(
        "/memories",
        observation="Vacuum on Sundays",
        category="maintenance",
        service="postgres",
        confidence="0.9",
        agent=api.agent,
        back=back,
    )
    assert reply.headers["location"].startswith(back)
    page = person.follow(reply)
    assert "Memory written down" in page
    assert "Vacuum on Sundays" in page
    (made,) = listed(api)
    assert (made["session_id"], made["tier"], made["active"]) == (None, 0, True)
    assert (made["confidence"], made["service"]) == (0.9, "postgres")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("observation", "   "),
        ("observation", "ok"),
        ("category", "misc"),
        ("service", "not a name"),
        ("confidence", "very"),
        ("agent", ""),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_typed_is_lost(
    field: str, value: str, person: Person, api: Api
) -> None:
    good = {"observation": "Takes a while <b>", "category": "timing", "service": "caddy"}
    good |= {"confidence": "0.61", "agent": api.agent}
    reply = person.send("/memories", **{**good, field: value})
    assert reply.status == 422
    assert f'id="add-{field}-wrong"' in reply.text
    assert f'aria-describedby="add-{field}-wrong"' in reply.text
    for name in {"observation", "service", "confidence"} - {field}:
        assert good[name].replace("<b>", "&lt;b&gt;") in reply.text
    assert listed(api) == []


def test_changing_the_words_leaves_the_confidence_as_it_is(person: Person, api: Api) -> None:
    made = api.add("Takes 60s to start", confidence=0.83)
    form = edited(made, observation="Takes 70s to start", service="jellyfin")
    page = person.follow(person.send(f"/memories/{made['id']}/update", **form))
    assert "Takes 70s to start" in page
    assert "Memory changed" in page
    (now,) = listed(api)
    assert (now["observation"], now["confidence"]) == ("Takes 70s to start", 0.83)
    kinds = [one["kind"] for one in api.get(f"/memories/{made['id']}/history")["events"]]
    assert kinds == ["asserted", "edited"]


def test_a_confidence_is_stored_exactly_and_wakes_what_was_inactive(
    person: Person, api: Api
) -> None:
    made = api.add("Takes 60s to start", confidence=0.1)
    assert made["state"] == "inactive"
    shown = person.page(f"/memories?agent={api.agent}&state=inactive")
    assert 'class="state inactive">inactive' in shown
    form = edited(made, confidence="0.95")
    person.follow(person.send(f"/memories/{made['id']}/update", **form))
    (now,) = listed(api)
    assert (now["confidence"], now["state"]) == (0.95, "active")


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["whole", "in place"])
def test_two_who_change_the_same_see_both_texts(
    headers: dict[str, str], person: Person, api: Api
) -> None:
    made = api.add("Takes 60s to start")
    path = f"/memories/{made['id']}/update"
    partial = bool(headers)
    mine = edited(made, observation="Takes 65s to start")
    theirs = edited(made, observation="Takes 70s to start", confidence="0.9")
    first = person.send(path, headers, **theirs)
    assert first.status == (200 if partial else 303)
    reply = person.send(path, headers, **mine)
    assert reply.status == 409
    text = parsed(reply.text).text
    assert "Theirs, saved Takes 70s to start" in text
    assert "Yours, not saved Takes 65s to start" in text
    assert ("<html" in reply.text) is not partial
    assert listed(api)[0]["observation"] == "Takes 70s to start"
    version = re.search(r'name="version" value="(\d+)"', reply.text)
    assert version is not None
    again = person.send(path, headers, **{**mine, "version": version[1]})
    assert again.status == (200 if partial else 303)
    assert listed(api)[0]["observation"] == "Takes 65s to start"


def test_a_refused_edit_still_knows_the_version_that_it_began_with(
    person: Person, api: Api
) -> None:
    made = api.add("Takes 60s to start")
    path = f"/memories/{made['id']}/update"
    api.ask(f"PATCH /memories/{made['id']}", {"observation": "Takes 70s to start"})
    reply = person.send(path, **edited(made, confidence="much"))
    assert reply.status == 422
    assert f'name="version" value="{made["version"]}"' in reply.text


def test_what_is_put_into_the_trash_is_gone_and_comes_back(person: Person, api: Api) -> None:
    number = new(person, api, "Backups lock the catalogue")
    back = f"/memories?agent={api.agent}"
    page = person.follow(person.send(f"/memories/{number}/delete", back=back))
    assert "Memory moved to the trash" in page
    assert "Backups lock" not in page
    assert listed(api) == []
    assert api.ask(f"GET /memories/{number}").status == 404
    assert "Backups lock" in person.page(f"{back}&state=trash")
    undone = person.follow(person.send("/undo", **undo_in(page)))
    assert "Memory undone" in undone
    assert "Backups lock" in undone
    assert len(listed(api)) == 1


def test_the_address_that_an_undo_leads_to_tells_only_of_the_undo(
    person: Person, api: Api
) -> None:
    number = new(person, api, "Backups lock the catalogue")
    page = person.follow(person.send(f"/memories/{number}/delete", back="/memories?group=service"))
    reply = person.send("/undo", **undo_in(page))
    assert reply.headers["location"] == "/memories?group=service&done=1&action=undo&batch="


def test_five_in_one_go_and_one_undo(person: Person, api: Api) -> None:
    numbers = [str(new(person, api, f"Job {one} of the night")) for one in range(5)]
    asked = person.send("/memories/bulk", ids=numbers, action="retire")
    assert asked.status == 200
    assert "<strong>5</strong> memories: retire" in asked.text
    assert len(listed(api)) == 5
    back = f"/memories?agent={api.agent}"
    sent = person.send("/memories/bulk", ids=numbers, action="retire", confirmed="1", back=back)
    page = person.follow(sent)
    assert "5 memories moved to the trash" in page
    assert listed(api) == []
    person.follow(person.send("/undo", **undo_in(page)))
    assert len(listed(api)) == 5


def test_a_bulk_that_cannot_be_done_says_why_and_does_nothing(person: Person, api: Api) -> None:
    number = str(new(person, api, "Job of the night"))
    reply = person.send("/memories/bulk", ids=[number], action="set_category", value="misc")
    assert reply.status == 422
    assert "Nothing was done" in reply.text or "category" in reply.text
    for fields in ({"action": "retire"}, {"action": "explode", "ids": number}):
        assert person.send("/memories/bulk", **fields).status == 422
    assert len(listed(api)) == 1


@pytest.mark.parametrize(
    "back",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "\\\\evil.example",
        "javascript:alert(1)",
        "memories",
        "",
        "/\t/evil.example",
        "/ok\r\nSet-Cookie: x=1",
    ],
)
def test_a_form_leads_nowhere_else(back: str, person: Person, api: Api) -> None:
    number = new(person, api, "Backups lock the catalogue")
    sent = [
        person.send(f"/memories/{number}/act", act="pin", back=back),
        person.send(f"/memories/{number}/delete", back=back),
    ]
    for reply in sent:
        assert reply.status == 303
        assert reply.headers["location"].startswith(f"/memories/{number}?done=1")
        assert "x=1" not in reply.headers.get("set-cookie", "")
    shown = person.get(f"/memories/{number}/edit?back=https://evil.example")
    assert "evil" not in shown.text


@pytest.mark.parametrize("path", ["update", "delete", "act"])
@pytest.mark.parametrize("number", ["999999999", "x", "-1", "1" * 40])
def test_what_is_not_there_cannot_be_changed(number: str, path: str, person: Person) -> None:
    assert person.send(f"/memories/{number}/{path}", act="pin").status == 404


def test_a_purge_needs_the_words(person: Person, api: Api) -> None:
    number = new(person, api, "Something that was private")
    path = f"/memories/{number}/act"
    assert person.send(path, act="purge", confirm="yes").status == 422
    assert "Something that was private" in person.page(f"/memories/{number}")
    person.follow(person.send(path, act="purge", confirm=f"purge {number}"))
    assert "Something that was private" not in person.page(f"/memories/{number}")


def test_a_purge_says_before_it_is_done_what_still_has_the_words(person: Person, api: Api) -> None:
    said = "[MEMORY:behavior:plex] First restart fails on a DB lock; the second succeeds"
    reply = {"choices": [{"message": {"role": "assistant", "content": said}}]}
    entry = {
        "id": f"turn-of-{api.agent}",
        "ts": "2026-03-01T12:00:00Z",
        "request_original": {"messages": [{"role": "user", "content": "How is plex?"}]},
        "response": {"format": "json", "json": reply},
    }
    with api.watching() as stream:
        stream.block()
        body = {"agent_id": api.agent, "entry": entry}
        assert post_json(person.running, "/retain", body).status == 202
        while (event := stream.event())["kind"] != "asserted":
            pass
    page = parsed(person.page(f"/memories/{event['memory_id']}")).text
    assert "gone from memory for good" in page
    assert f"memplane forget --agent {api.agent} --entry-id {entry['id']} --purge" in page
    written = person.page(f"/memories/{new(person, api, 'Starts late at night')}")
    assert "What it was learned from" not in written


def test_an_undo_names_the_memories_that_were_changed_together(person: Person, api: Api) -> None:
    numbers = [new(person, api, f"Fact {at} about starting up") for at in (1, 2)]
    api.post("/memories/bulk", {"ids": numbers, "action": "pin"})
    page = person.page(f"/memories/{numbers[0]}")
    assert f"The last change was made to memory {numbers[1]} too" in parsed(page).text
    undone = person.follow(person.send(f"/memories/{numbers[0]}/act", act="undo"))
    assert "2 memories undone" in undone
    assert [one["pinned"] for one in listed(api)] == [False, False]
    assert f"together with memory {numbers[1]}" in parsed(undone).text


def test_what_speaks_against_a_memory_is_named_on_its_page(person: Person, api: Api) -> None:
    (first,) = api.say("[MEMORY:dependency:caddy] Must be started after WireGuard")["asserted"]
    against = "Can be started independently of WireGuard"
    (second,) = api.say(f"[MEMORY:dependency:caddy] {against}")["asserted"]
    page = person.page(f"/memories/{first}")
    evidence = parsed(page.partition('id="evidence-title"')[2].partition("</section>")[0]).text
    assert f"memory {second} : {against}" in " ".join(evidence.split())


def test_an_act_in_place_answers_with_the_row_and_a_way_back(person: Person, api: Api) -> None:
    number = new(person, api, "Backups lock the catalogue")
    reply = person.send(f"/memories/{number}/act", {"HX-Request": "true"}, act="pin")
    assert reply.status == 200
    assert f'id="memory-{number}"' in reply.text
    assert "Memory pinned" in reply.text
    assert "data-undo" in reply.text
    gone = person.send(f"/memories/{number}/delete", {"HX-Request": "true"})
    assert f'id="memory-{number}"' not in gone.text


def test_hits_of_a_search_are_marked_and_stay_text(person: Person, api: Api) -> None:
    new(person, api, "A <b>restart</b> clears the queue; restarting twice helps")
    page = person.page(f"/memories?agent={api.agent}&q=restart")
    assert "&lt;b&gt;<mark>restart</mark>&lt;/b&gt;" in page
    assert "<mark>restarting</mark>" in page
    assert "<mark>" not in person.page(f"/memories?agent={api.agent}")


def test_filters_count_and_lead_to_what_they_name(person: Person, api: Api) -> None:
    new(person, api, "DNS fails while the tunnel reconnects")
    new(person, api, "Takes 60s to start", service="jellyfin")
    page = person.page(f"/memories?agent={api.agent}")
    assert re.search(r"<span>general</span> <span class=\"count\">1</span>", page)
    general = person.page(f"/memories?agent={api.agent}&service=general")
    assert "DNS fails" in general
    assert "Takes 60s" not in general
    assert 'aria-sort="descending"' in page
    assert "Nothing matches" in person.page(f"/memories?agent={api.agent}&q=nosuchword")


def test_a_list_of_many_goes_on(person: Person, api: Api) -> None:
    lines = [
        {"category": "timing", "observation": f"Job {n:03} runs late", "service": f"s-{n}"}
        for n in range(60)
    ]
    api.post("/import", {"memories": lines})
    page = person.page(f"/memories?agent={api.agent}")
    more = re.search(r'href="(/memories\?[^"]*cursor=[^"]*)"', page)
    assert more is not None
    path = more[1].replace("&amp;", "&")
    rest = person.get(path, HX_Request="true").text
    first, second = (set(re.findall(r'id="memory-(\d+)"', one)) for one in (page, rest))
    assert (len(first), len(second), first & second) == (50, 10, set())


def test_a_list_is_exported_with_its_filters_and_taken_in_elsewhere(
    person: Person, api: Api, operator: Api
) -> None:
    new(person, api, "Takes 60s to start", service="jellyfin")
    new(person, api, "DNS fails while the tunnel reconnects")
    reply = person.get(f"/memories/export?agent={api.agent}&service=jellyfin&format=jsonl")
    assert reply.headers["content-disposition"] == 'attachment; filename="memories.jsonl"'
    (line,) = reply.text.splitlines()
    assert json.loads(line)["observation"] == "Takes 60s to start"
    assert "observation" in person.page(f"/memories/export?agent={api.agent}&format=csv")
    assert "## jellyfin" in person.page(f"/memories/export?agent={api.agent}&format=md")
    assert person.get("/memories/export?format=exe").status == 422
    other = f"{api.agent}-copy"
    taken = person.send("/memories/import", lines=reply.text, agent=other)
    assert "<strong>1</strong> memory taken in" in taken.text
    again = person.send("/memories/import", lines=reply.text, agent=other)
    assert "1 were known" in again.text
    assert len(operator.get("/memories", agent=other)["memories"]) == 1


def test_those_that_are_ticked_are_exported(person: Person, api: Api) -> None:
    number = new(person, api, "Takes 60s to start")
    new(person, api, "Vacuum on Sundays, or the disk fills up")
    reply = person.send("/memories/export", ids=[str(number), "999999999"])
    (line,) = reply.text.splitlines()
    assert json.loads(line)["id"] == number
    assert person.send("/memories/export").status == 422


@pytest.mark.parametrize(
    ("lines", "agent", "field"),
    [("no json", "a", "lines"), ("", "a", "lines"), ('{"category":"timing"}', "a", "lines")],
)
def test_an_import_that_cannot_be_read_says_where(
    lines: str, agent: str, field: str, person: Person
) -> None:
    reply = person.send("/memories/import", lines=lines, agent=agent)
    assert reply.status == 422
    assert f'id="import-{field}-wrong"' in reply.text
    assert person.send("/memories/import", lines=lines, agent="../x").status in {404, 422}


def test_the_page_of_a_memory_tells_how_it_came_about(person: Person, api: Api) -> None:
    said = "[MEMORY:timing:jellyfin] Takes 60s to start after a restart"
    (number,) = api.say(said)["asserted"]
    api.say(said.replace("60s", "60 seconds"))
    api.ask(f"PATCH /memories/{number}", {"observation": "Needs 60s to start after a restart"})
    page = person.page(f"/memories/{number}")
    text = parsed(page).text
    assert "written down" in text
    assert "+0.10" in text
    assert "reinforced" in text
    assert "<del>Takes</del><ins>Needs</ins>" in page
    assert "Takes 60s to start after a restart" in text
    assert 'class="forecast"' in page
    session = re.search(r'href="(/sessions/\d+)"', page)
    assert session is not None
    assert "Learned here" in person.page(session[1])
