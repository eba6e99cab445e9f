"""Pages that are open hear what happens elsewhere, and never disturb who is editing."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import Desk, edit_row, row_of, save
from tests.server.operating import Api

# What the contract allows from the word to the page.
SOON = 5_000


def watching(desk: Desk, path: str) -> Page:
    """Open a page, and wait until it listens."""
    page = desk.context().new_page()
    with page.expect_response("**/live"):
        page.goto(path)
    return page


@pytest.fixture
def listed(desk: Desk, api: Api) -> Page:
    api.add("Takes 60s to start", service="jellyfin")
    return watching(desk, f"/memories?agent={api.agent}")


def test_what_a_running_session_learns_is_counted_and_then_shown(listed: Page, api: Api) -> None:
    (number,) = api.say("[MEMORY:timing:caddy] Reloads in 2s")["asserted"]
    pill = listed.locator("[data-new]")
    expect(pill).to_have_text("1 new", timeout=SOON)
    expect(listed.locator("#live")).to_have_text("1 new memory")
    expect(row_of(listed, number)).to_have_count(0)
    api.say("[MEMORY:behavior:gitea] Webhooks are retried three times")
    expect(pill).to_have_text("2 new", timeout=SOON)
    pill.click()
    expect(row_of(listed, number)).to_be_visible()
    expect(listed.locator("tr[data-memory]")).to_have_count(3)
    expect(listed.locator("[data-new]")).to_be_hidden()


def test_a_row_that_changes_elsewhere_is_replaced(listed: Page, api: Api) -> None:
    number = api.get("/memories")["memories"][0]["id"]
    api.ask(f"PATCH /memories/{number}", {"observation": "Takes 75s to start"})
    expect(row_of(listed, number).locator(".text")).to_have_text(
        "Takes 75s to start", timeout=SOON
    )
    expect(listed.locator("[data-new]")).to_be_hidden()


def test_a_row_that_somebody_edits_is_never_touched(listed: Page, api: Api, desk: Desk) -> None:
    desk.watch.allow("status of 409")
    number = api.get("/memories")["memories"][0]["id"]
    other = api.add("Reloads in 2s", service="caddy")["id"]
    expect(listed.locator("[data-new]")).to_have_text("1 new", timeout=SOON)
    listed.locator("[data-new]").click()
    expect(row_of(listed, other)).to_be_visible()
    field = edit_row(listed, number).get_by_label("Observation")
    field.fill("Takes 90s to start, I think")
    api.ask(f"PATCH /memories/{number}", {"observation": "Takes 75s to start"})
    # A later change of another row has been shown: the page has heard of both.
    api.ask(f"PATCH /memories/{other}", {"observation": "Reloads in 3s"})
    expect(row_of(listed, other).locator(".text")).to_have_text("Reloads in 3s", timeout=SOON)
    expect(field).to_have_value("Takes 90s to start, I think")
    expect(field).to_be_focused()
    row_of(listed, number).get_by_role("button", name="Save").click()
    expect(row_of(listed, number).get_by_role("alert")).to_contain_text("Takes 75s to start")
    save(listed, number)
    assert api.get(f"/memories/{number}")["observation"] == "Takes 90s to start, I think"


def test_new_rows_wait_until_an_edit_is_finished(listed: Page, api: Api) -> None:
    number = api.get("/memories")["memories"][0]["id"]
    field = edit_row(listed, number).get_by_label("Observation")
    field.fill("Half a thought")
    api.add("Reloads in 2s", service="caddy")
    expect(listed.locator("[data-new]")).to_have_text("1 new", timeout=SOON)
    listed.locator("[data-new]").click()
    expect(listed.get_by_text("Finish your edit first.")).to_be_visible()
    expect(field).to_have_value("Half a thought")


def test_what_belongs_to_another_agent_does_not_count_here(
    listed: Page, api: Api, desk: Desk
) -> None:
    desk.api.post(
        "/memories", {"category": "timing", "observation": "Not for this list"}, agent="x"
    )
    api.add("Reloads in 2s", service="caddy")
    expect(listed.locator("[data-new]")).to_have_text("1 new", timeout=SOON)


def test_the_overview_shows_what_was_just_learned(desk: Desk, api: Api) -> None:
    api.add("Takes 60s to start", service="jellyfin")
    page = watching(desk, f"/?agent={api.agent}")
    api.say("[MEMORY:timing:caddy] Reloads in 2s")
    feed = page.get_by_role("region", name="Learned lately")
    expect(feed.get_by_role("link", name="Reloads in 2s")).to_be_visible(timeout=SOON)
