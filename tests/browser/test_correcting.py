"""Putting memories right in the browser: writing, editing, many at once, the trash, one's page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.homelab import Homelab
from tests.browser.looking import Desk, edit_row, row_of, save, shown, toast
from tests.server.operating import Api


def stored(api: Api, number: int) -> Any:
    return api.get(f"/memories/{number}", state="any")


def list_of(desk: Desk, api: Api, **how: Any) -> Page:
    return desk.open(f"/memories?agent={api.agent}", **how)


# Editing


def test_editing_the_text_leaves_the_confidence_alone(desk: Desk, api: Api) -> None:
    number = api.add("Takes 60s to strat", service="jellyfin", confidence=0.95)["id"]
    page = list_of(desk, api)
    form = edit_row(page, number)
    expect(form.get_by_label("Observation")).to_be_focused()
    form.get_by_label("Observation").fill("Takes 60s to start")
    save(page, number)
    expect(row_of(page, number).locator(".text")).to_have_text("Takes 60s to start")
    after = stored(api, number)
    assert (after["observation"], after["confidence"]) == ("Takes 60s to start", 0.95)
    assert [one["kind"] for one in api.get(f"/memories/{number}/history")["events"]] == [
        "asserted",
        "edited",
    ]


def test_a_saved_edit_says_so_and_can_be_undone(desk: Desk, api: Api) -> None:
    number = api.add("Takes 60s to start", service="jellyfin", confidence=0.9)["id"]
    page = list_of(desk, api)
    form = edit_row(page, number)
    form.get_by_label("Observation").fill("Takes 90s to start")
    form.get_by_label("Confidence").fill("1.5")
    save(page, number)
    message = toast(page, "Memory changed")
    expect(message).to_be_visible()
    assert stored(api, number)["confidence"] == 1.0
    message.get_by_role("button", name="Undo").click()
    expect(toast(page, "Memory undone")).to_be_visible()
    expect(page).to_have_url(re.compile(rf"agent={api.agent}"))
    expect(row_of(page, number).locator(".text")).to_have_text("Takes 60s to start")
    after = stored(api, number)
    assert (after["observation"], after["confidence"]) == ("Takes 60s to start", 0.9)


def test_an_edit_that_changes_nothing_says_so(desk: Desk, api: Api) -> None:
    number = api.add("Takes 60s to start", service="jellyfin")["id"]
    page = list_of(desk, api)
    edit_row(page, number)
    save(page, number)
    message = toast(page, "Nothing was changed")
    expect(message).to_be_visible()
    expect(message.get_by_role("button", name="Undo")).to_have_count(0)


def test_the_key_u_undoes_a_saved_edit(desk: Desk, api: Api) -> None:
    number = api.add("Takes 60s to start", service="jellyfin")["id"]
    page = list_of(desk, api)
    edit_row(page, number).get_by_label("Observation").fill("Takes 90s to start")
    save(page, number)
    expect(toast(page, "Memory changed")).to_be_visible()
    page.keyboard.press("u")
    expect(row_of(page, number).locator(".text")).to_have_text("Takes 60s to start")


def test_every_field_of_a_row_can_be_edited(desk: Desk, api: Api) -> None:
    number = api.add("Takes 60s to start", service="jelyfin", category="behavior")["id"]
    page = list_of(desk, api)
    form = edit_row(page, number)
    form.get_by_label("Confidence").fill("0.95")
    form.get_by_label("Service").fill("jellyfin")
    form.get_by_label("Category").select_option("timing")
    save(page, number)
    after = stored(api, number)
    assert (after["service"], after["category"]) == ("jellyfin", "timing")
    assert after["confidence"] == 0.95
    form = edit_row(page, number)
    form.get_by_label("Service").fill("")
    save(page, number)
    expect(row_of(page, number).locator("[data-label=Service]")).to_have_text("general")


@pytest.mark.parametrize(("typed", "kept"), [("1.5", 1.0), ("-1", 0.0)])
def test_a_confidence_beyond_the_ends_is_moved_to_the_nearer_one(
    desk: Desk, api: Api, typed: str, kept: float
) -> None:
    number = api.add("Takes 60s to start", service="jellyfin")["id"]
    page = list_of(desk, api)
    edit_row(page, number).get_by_label("Confidence").fill(typed)
    save(page, number)
    expect(row_of(page, number).locator("[data-label=Confidence]")).to_contain_text(str(kept))
    assert stored(api, number)["confidence"] == kept


def test_what_is_wrong_with_an_edit_is_said_at_its_field(desk: Desk, api: Api) -> None:
    desk.watch.allow("status of 422")
    number = api.add("Takes 60s to start", service="jellyfin")["id"]
    page = list_of(desk, api)
    form = edit_row(page, number)
    form.get_by_label("Observation").fill("Takes 90s to start")
    form.get_by_label("Confidence").fill("very")
    form.get_by_role("button", name="Save").click()
    field = page.get_by_label("Confidence", exact=True).locator("visible=true")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description("the confidence is a number from 0 to 1")
    expect(field).to_have_value("very")
    expect(row_of(page, number).get_by_label("Observation")).to_have_value("Takes 90s to start")
    assert stored(api, number)["observation"] == "Takes 60s to start"


def test_an_edit_can_be_left_and_changes_nothing(desk: Desk, api: Api) -> None:
    number = api.add("Takes 60s to start", service="jellyfin")["id"]
    page = list_of(desk, api)
    edit_row(page, number).get_by_label("Observation").fill("Nonsense")
    row_of(page, number).get_by_role("link", name="Cancel").click()
    expect(row_of(page, number).locator(".text")).to_have_text("Takes 60s to start")
    assert stored(api, number)["version"] == 1


def test_two_browsers_that_edit_one_row_lose_nothing(desk: Desk, api: Api) -> None:
    desk.watch.allow("status of 409")
    number = api.add("Takes 60s to start", service="jellyfin")["id"]
    first, second = list_of(desk, api), list_of(desk, api)
    edit_row(first, number).get_by_label("Observation").fill("Takes 75s to start")
    edit_row(second, number).get_by_label("Observation").fill("Takes 90s to start")
    save(first, number)
    row_of(second, number).get_by_role("button", name="Save").click()
    both = row_of(second, number).get_by_role("alert")
    expect(both).to_contain_text("Somebody else changed this memory meanwhile")
    expect(both).to_contain_text("Takes 75s to start")
    expect(both).to_contain_text("Takes 90s to start")
    expect(row_of(second, number).get_by_label("Observation")).to_have_value("Takes 90s to start")
    assert stored(api, number)["observation"] == "Takes 75s to start"
    save(second, number)
    expect(row_of(second, number).locator(".text")).to_have_text("Takes 90s to start")
    said = [one["observation"] for one in api.get(f"/memories/{number}/history")["events"]]
    assert said == ["Takes 60s to start", "Takes 75s to start", "Takes 90s to start"]


def test_raising_an_inactive_memory_makes_it_active(desk: Desk, api: Api) -> None:
    number = api.add("Takes 60s to start", service="jellyfin", confidence=0.2)["id"]
    page = list_of(desk, api)
    expect(row_of(page, number).locator("[data-label=State]")).to_have_text("inactive")
    edit_row(page, number).get_by_label("Confidence").fill("0.3")
    save(page, number)
    expect(row_of(page, number).locator("[data-label=State]")).to_have_text("active")
    assert stored(api, number)["active"] is True


# Writing down


def test_a_person_can_write_something_down(desk: Desk, api: Api) -> None:
    page = list_of(desk, api)
    page.get_by_role("link", name="Add memory").first.click()
    form = page.locator("#add")
    expect(form.get_by_label("Observation")).to_be_focused()
    form.get_by_label("Observation").fill("Vacuum runs on Sundays")
    form.get_by_label("Category").select_option("maintenance")
    form.get_by_label("Service").fill("postgres")
    form.get_by_label("Confidence").fill("0.9")
    expect(form.get_by_label("Agent")).to_have_value(api.agent)
    form.get_by_role("button", name="Add memory").click()
    expect(toast(page, "Memory written down")).to_be_visible()
    expect(page).to_have_url(re.compile(rf"agent={api.agent}"))
    (made,) = api.get("/memories")["memories"]
    assert (made["category"], made["service"], made["confidence"]) == (
        *("maintenance", "postgres"),
        0.9,
    )
    assert (made["session_id"], made["tier"], made["active"]) == (None, 0, True)
    expect(row_of(page, made["id"])).to_be_visible()


def test_what_cannot_be_written_down_is_kept_in_the_form(desk: Desk, api: Api) -> None:
    desk.watch.allow("status of 422")
    page = list_of(desk, api)
    page.get_by_role("link", name="Add memory").first.click()
    form = page.locator("#add")
    form.get_by_label("Observation").fill("Vacuum runs on Sundays")
    form.get_by_label("Category").select_option("remediation")
    form.get_by_label("Service").fill("post gres!")
    form.get_by_label("Confidence").fill("0.85")
    form.get_by_role("button", name="Add memory").click()
    wrong = form.get_by_label("Service")
    expect(wrong).to_be_visible()
    expect(wrong).to_have_attribute("aria-invalid", "true")
    expect(wrong).to_have_accessible_description(re.compile("service", re.IGNORECASE))
    expect(wrong).to_have_value("post gres!")
    expect(form.get_by_label("Observation")).to_have_value("Vacuum runs on Sundays")
    expect(form.get_by_label("Category")).to_have_value("remediation")
    expect(form.get_by_label("Confidence")).to_have_value("0.85")
    assert api.get("/memories")["total"] == 0


# The trash


def test_what_is_put_into_the_trash_comes_back_with_undo(desk: Desk, api: Api) -> None:
    number = api.add("Takes 60s to start", service="jellyfin")["id"]
    page = list_of(desk, api)
    row_of(page, number).get_by_role("button", name="trash").click()
    expect(row_of(page, number)).to_have_count(0)
    assert api.ask(f"GET /memories/{number}").status == 404
    assert api.get("/preview")["included"] == []
    toast(page, "Memory moved to the trash").get_by_role("button", name="Undo").click()
    expect(toast(page, "undone")).to_be_visible()
    expect(row_of(page, number)).to_be_visible()
    assert stored(api, number)["state"] == "active"


def test_the_trash_can_be_looked_into_and_restored_from(desk: Desk, api: Api) -> None:
    number = api.add("Takes 60s to start", service="jellyfin")["id"]
    api.ask(f"DELETE /memories/{number}")
    page = list_of(desk, api)
    expect(row_of(page, number)).to_have_count(0)
    page.get_by_role("link", name="trash", exact=True).click()
    expect(row_of(page, number)).to_contain_text("retired")
    row_of(page, number).get_by_role("button", name="Restore").click()
    expect(toast(page, "Memory restored")).to_be_visible()
    assert stored(api, number)["state"] == "active"


def test_purging_must_be_typed(desk: Desk, api: Api) -> None:
    desk.watch.allow("status of 422")
    number = api.add("The old password hint is on the door", service="door")["id"]
    page = desk.open(f"/memories/{number}")
    page.get_by_label(re.compile("for good")).fill("purge")
    page.get_by_role("button", name="Purge").click()
    expect(page.locator("main")).to_contain_text(f"purge {number}")
    assert stored(api, number)["state"] == "active"
    page.goto(f"/memories/{number}")
    page.get_by_label(re.compile("for good")).fill(f"purge {number}")
    page.get_by_role("button", name="Purge").click()
    expect(toast(page, "Memory purged")).to_be_visible()
    expect(page.get_by_text("password hint")).to_have_count(0)
    assert stored(api, number)["state"] == "purged"


# Many at once


def five(api: Api) -> list[int]:
    lines = [f"Job {name} starts at night" for name in ("apple", "pear", "plum", "fig", "quince")]
    return [api.add(one, service=f"s{at}")["id"] for at, one in enumerate(lines)]


def tick(page: Page, numbers: list[int]) -> None:
    for number in numbers:
        page.get_by_role("checkbox", name=f"Tick memory {number}", exact=True).check()


def test_five_go_into_the_trash_after_a_count_and_come_back_with_one_undo(
    desk: Desk, api: Api
) -> None:
    numbers = five(api)
    other = api.add("The sixth stays where it is", service="s9")["id"]
    page = list_of(desk, api)
    expect(page.locator("[data-bulk-bar]")).to_be_hidden()
    tick(page, numbers)
    expect(page.locator("[data-bulk-count]")).to_have_text("5 ticked:")
    page.get_by_label("What to do").select_option("retire")
    page.get_by_role("button", name="Go on").click()
    question = page.get_by_role("alertdialog")
    expect(question).to_contain_text("5 memories")
    assert api.get("/memories")["total"] == 6
    question.get_by_role("button", name="Do it").click()
    expect(toast(page, "5 memories moved to the trash")).to_be_visible()
    assert shown(page) == [other]
    assert api.get("/memories")["total"] == 1
    toast(page, "5 memories").get_by_role("button", name="Undo").click()
    expect(toast(page, "5 memories undone")).to_be_visible()
    assert sorted(shown(page)) == sorted([*numbers, other])


def test_a_bulk_question_can_be_answered_with_no(desk: Desk, api: Api) -> None:
    numbers = five(api)
    page = list_of(desk, api)
    page.get_by_role("checkbox", name="Tick all").check()
    expect(page.locator("[data-bulk-count]")).to_have_text("5 ticked:")
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alertdialog")).to_have_count(0)
    assert sorted(shown(page)) == numbers


@pytest.mark.parametrize(
    ("action", "value", "field", "then"),
    [
        ("pin", "", "pinned", True),
        ("adjust_confidence", "-0.2", "confidence", 0.5),
        ("set_confidence", "0.35", "confidence", 0.35),
        ("set_category", "timing", "category", "timing"),
        ("set_service", "cron", "service", "cron"),
    ],
)
def test_many_are_changed_in_one_go(
    desk: Desk, api: Api, action: str, value: str, field: str, then: object
) -> None:
    numbers = five(api)
    page = list_of(desk, api)
    tick(page, numbers[:3])
    page.get_by_label("What to do").select_option(action)
    if value:
        page.get_by_label("Value").fill(value)
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("3 memories")
    page.get_by_role("button", name="Do it").click()
    expect(toast(page, "3 memories")).to_be_visible()
    assert [stored(api, one)[field] == then for one in numbers] == [True] * 3 + [False] * 2


def test_two_are_merged_into_one(desk: Desk, api: Api) -> None:
    numbers = five(api)[:2]
    page = list_of(desk, api)
    tick(page, numbers)
    page.get_by_label("What to do").select_option("merge")
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("button", name="Do it").click()
    expect(toast(page, "merged")).to_be_visible()
    assert [stored(api, one)["state"] for one in numbers] == ["active", "superseded"]


def test_what_is_ticked_is_exported(desk: Desk, api: Api) -> None:
    numbers = five(api)
    page = list_of(desk, api)
    tick(page, numbers[:2])
    with page.expect_download() as download:
        page.locator("[data-bulk-bar]").get_by_role("button", name="Export").click()
    lines = download.value.path().read_text().splitlines()
    assert len(lines) == 2


def test_an_export_is_imported_again(desk: Desk, api: Api) -> None:
    desk.watch.allow("status of 422")
    page = desk.open("/memories/import")
    page.get_by_label("Agent").fill(api.agent)
    page.get_by_label("Lines of JSON").fill("nonsense")
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_label("Lines of JSON")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Lines of JSON")).to_have_value("nonsense")
    line = '{"category": "timing", "service": "jellyfin", "observation": "Takes 60s to start"}'
    page.get_by_label("Lines of JSON").fill(line)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("status").filter(has_text="taken in")).to_contain_text("1 memory")
    assert api.get("/memories")["total"] == 1


# The page of one memory


def test_the_page_of_a_memory_says_how_it_came_about(desk: Desk, homelab: Homelab) -> None:
    page = desk.open(f"/memories/{homelab.number('Takes about 60s')}")
    chart = page.get_by_role("img", name=re.compile("Confidence over time"))
    expect(chart).to_be_visible()
    assert chart.locator("path.series").get_attribute("d")
    assert chart.locator("path.forecast").get_attribute("d")
    assert chart.locator("path.point").count() >= 3
    story = page.get_by_role("region", name="What happened")
    expect(story.get_by_text("written down")).to_have_count(1)
    expect(story.get_by_text("reinforced")).to_have_count(2)
    expect(story.locator(".delta.up")).to_have_text(["+0.10", "+0.10"])
    expect(page.get_by_role("heading", name="Told in")).to_be_visible()
    told = page.locator("section", has=page.get_by_role("heading", name="Told in"))
    expect(told.get_by_role("link", name=re.compile(r"session \d+")).first).to_be_visible()


def test_evidence_opens_the_very_line_of_the_log(desk: Desk, homelab: Homelab) -> None:
    page = desk.open(f"/memories/{homelab.number('Takes about 60s')}")
    evidence = page.get_by_role("region", name="Evidence")
    link = evidence.get_by_role("link", name=re.compile(r"session \d+, line 4")).first
    link.click()
    hit = page.locator(".log .line.hit")
    expect(hit).to_contain_text("[MEMORY:timing:jellyfin] Takes about 60s")
    expect(hit).to_be_in_viewport()
    assert page.url.endswith("#line-4")
    expect(page.get_by_role("link", name="Takes about 60s")).to_be_visible()


def test_an_edit_is_shown_word_by_word(desk: Desk, homelab: Homelab) -> None:
    page = desk.open(f"/memories/{homelab.number('The rack is on two')}")
    changed = page.locator(".diff")
    expect(changed.locator("del").first).to_contain_text("one")
    expect(changed.locator("ins").first).to_contain_text("two")
    expect(changed).to_contain_text("The rack is on")


def test_a_memory_that_was_replaced_leads_to_the_one_that_stays(desk: Desk, api: Api) -> None:
    gone, stays = five(api)[:2]
    api.post(f"/memories/{gone}/merge", {"into": stays})
    page = desk.open(f"/memories/{gone}")
    page.get_by_role("definition").get_by_role("link", name=f"memory {stays}").click()
    expect(page).to_have_url(re.compile(rf"/memories/{stays}$"))


def test_the_last_change_is_undone_from_its_page(desk: Desk, api: Api) -> None:
    number = api.add("Takes 60s to start", service="jellyfin")["id"]
    page = desk.open(f"/memories/{number}")
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(toast(page, "Memory pinned")).to_be_visible()
    assert stored(api, number)["pinned"] is True
    page.get_by_role("button", name="Undo last change").click()
    expect(page.get_by_role("button", name="Pin", exact=True)).to_be_visible()
    assert stored(api, number)["pinned"] is False
