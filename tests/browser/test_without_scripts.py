"""All that must be done can be done in a browser without JavaScript."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import Desk, row_of, toast
from tests.server.operating import Api


@pytest.fixture
def plain(desk: Desk, api: Api) -> Page:
    api.add("Takes 60s to strat", service="jellyfin", confidence=0.95)
    return desk.open(f"/memories?agent={api.agent}", java_script_enabled=False)


def only(api: Api) -> int:
    return int(api.get("/memories")["memories"][0]["id"])


def test_signing_in_takes_a_code_in_a_form(desk: Desk) -> None:
    desk.watch.allow("status of 403")
    page = desk.context(signed_in=False, java_script_enabled=False).new_page()
    page.goto("/memories")
    expect(page).to_have_url(re.compile("/login$"))
    page.get_by_label("One-time code").fill("not-a-code")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("One-time code")).to_have_attribute("aria-invalid", "true")
    code = desk.code()
    page.get_by_label("One-time code").fill(code)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    again = desk.context(signed_in=False, java_script_enabled=False).new_page()
    again.goto("/login")
    again.get_by_label("One-time code").fill(code)
    again.get_by_role("button", name="Sign in").click()
    expect(again.get_by_text("This code is not good")).to_be_visible()


def test_a_memory_is_written_down(plain: Page, api: Api, desk: Desk) -> None:
    desk.watch.allow("status of 422")
    form = plain.locator("#add")
    form.get_by_label("Observation").fill("Vacuum runs on Sundays")
    form.get_by_label("Category").select_option("maintenance")
    form.get_by_label("Service").fill("post gres")
    form.get_by_role("button", name="Add memory").click()
    expect(form.get_by_label("Service")).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_label("Observation")).to_have_value("Vacuum runs on Sundays")
    form.get_by_label("Service").fill("postgres")
    form.get_by_role("button", name="Add memory").click()
    expect(toast(plain, "Memory written down")).to_be_visible()
    expect(plain.locator("tr[data-memory]")).to_have_count(2)


def test_a_memory_is_edited(plain: Page, api: Api) -> None:
    number = only(api)
    row_of(plain, number).get_by_role("link", name="Edit memory").click()
    plain.get_by_label("Observation").fill("Takes 60s to start")
    plain.get_by_role("button", name="Save").click()
    expect(plain.get_by_text("Takes 60s to start").first).to_be_visible()
    after = api.get(f"/memories/{number}")
    assert (after["observation"], after["confidence"]) == ("Takes 60s to start", 0.95)


def test_an_edit_that_came_too_late_shows_both_texts(plain: Page, api: Api, desk: Desk) -> None:
    desk.watch.allow("status of 409")
    number = only(api)
    row_of(plain, number).get_by_role("link", name="Edit memory").click()
    api.ask(f"PATCH /memories/{number}", {"observation": "Takes 75s to start"})
    plain.get_by_label("Observation").fill("Takes 90s to start")
    plain.get_by_role("button", name="Save").click()
    expect(plain.get_by_role("alert")).to_contain_text("Takes 75s to start")
    expect(plain.get_by_label("Observation")).to_have_value("Takes 90s to start")
    plain.get_by_role("button", name="Save").click()
    assert api.get(f"/memories/{number}")["observation"] == "Takes 90s to start"


def test_a_memory_goes_into_the_trash_and_comes_back(plain: Page, api: Api) -> None:
    number = only(api)
    row_of(plain, number).get_by_role("button", name="trash").click()
    expect(toast(plain, "Memory moved to the trash")).to_be_visible()
    assert f"agent={api.agent}" in plain.url
    assert api.ask(f"GET /memories/{number}").status == 404
    plain.get_by_role("button", name="Undo").click()
    expect(row_of(plain, number)).to_be_visible()
    assert api.get(f"/memories/{number}")["state"] == "active"


def test_several_are_changed_after_a_count(plain: Page, api: Api) -> None:
    api.add("Reloads in 2s", service="caddy")
    plain.reload()
    for box in plain.get_by_role("checkbox", name=re.compile(r"^Tick memory")).all():
        box.check()
    plain.get_by_label("What to do").select_option("pin")
    plain.get_by_role("button", name="Go on").click()
    expect(plain.locator("main")).to_contain_text("2 memories")
    assert api.get("/memories", pinned="true")["total"] == 0
    plain.get_by_role("button", name="Do it").click()
    expect(toast(plain, "2 memories pinned")).to_be_visible()
    assert api.get("/memories", pinned="true")["total"] == 2


def test_searching_and_filtering_are_links_and_forms(plain: Page, api: Api) -> None:
    api.add("Reloads in 2s", service="caddy")
    plain.reload()
    plain.get_by_role("group", name="Service").get_by_role("link", name="caddy").click()
    expect(plain.locator("tr[data-memory]")).to_have_count(1)
    plain.get_by_role("searchbox").fill("reloads")
    plain.get_by_role("button", name="Search").click()
    expect(plain.locator("tr[data-memory]")).to_have_count(1)
    assert "service=caddy" in plain.url
    assert "q=reloads" in plain.url
    plain.get_by_role("columnheader", name="Updated").get_by_role("link").click()
    assert "sort=updated" in plain.url
