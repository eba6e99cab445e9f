"""Every key of the help does what the help says."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import Desk, row_of, shown, toast
from tests.server.operating import Api


@pytest.fixture
def listed(desk: Desk, api: Api) -> Page:
    for at, name in enumerate(("apple", "pear", "plum")):
        api.add(f"Job {name} starts at night", service=f"s{at}", confidence=0.9 - at / 10)
    return desk.open(f"/memories?agent={api.agent}")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_j_and_k_go_from_row_to_row(listed: Page) -> None:
    rows = shown(listed)
    press(listed, "j")
    expect(row_of(listed, rows[0])).to_be_focused()
    press(listed, "j", "j", "j")
    expect(row_of(listed, rows[2])).to_be_focused()
    press(listed, "k")
    expect(row_of(listed, rows[1])).to_be_focused()


def test_slash_searches_and_escape_leaves(listed: Page) -> None:
    press(listed, "/")
    expect(listed.locator("#q")).to_be_focused()
    listed.keyboard.type("xjk")
    expect(listed.locator("#q")).to_have_value("xjk")
    press(listed, "Escape")
    expect(listed.locator("#q")).not_to_be_focused()


def test_escape_clears_the_search_and_the_list_is_whole_again(listed: Page) -> None:
    press(listed, "/")
    for _ in range(2):  # the same words again, too
        listed.keyboard.type("pear")
        expect(listed.locator("tr[data-memory]")).to_have_count(1)
        press(listed, "Escape")
        expect(listed.locator("#q")).to_have_value("")
        expect(listed.locator("#q")).not_to_be_focused()
        expect(listed.locator("tr[data-memory]")).to_have_count(3)
        assert "pear" not in listed.url
        press(listed, "/")


def test_escape_takes_filters_away_when_nothing_is_left_to_leave(listed: Page) -> None:
    agent = listed.url.partition("agent=")[2]
    filters = listed.get_by_role("complementary", name="Filters")
    filters.get_by_role("link", name="s1").click()
    expect(listed.locator("tr[data-memory]")).to_have_count(1)
    press(listed, "?")
    expect(listed.get_by_role("dialog")).to_be_visible()
    press(listed, "Escape")
    expect(listed.get_by_role("dialog")).not_to_be_visible()
    expect(listed.locator("tr[data-memory]")).to_have_count(1)
    press(listed, "/")
    listed.keyboard.type("pear")
    press(listed, "Escape")
    expect(listed.locator("#q")).to_have_value("")
    press(listed, "Escape")
    expect(listed.locator("tr[data-memory]")).to_have_count(3)
    expect(listed).to_have_url(re.compile(rf"/memories\?agent={agent}$"))
    listed.reload()
    expect(listed.locator("tr[data-memory]")).to_have_count(3)


def test_e_edits_the_row_and_escape_leaves_it(listed: Page) -> None:
    first = shown(listed)[0]
    press(listed, "j", "e")
    field = row_of(listed, first).get_by_label("Observation")
    expect(field).to_be_focused()
    field.fill("e#p")
    press(listed, "Escape")
    expect(row_of(listed, first).locator(".text")).to_have_text("Job apple starts at night")
    expect(row_of(listed, first)).to_be_focused()


def test_x_ticks_the_row(listed: Page) -> None:
    rows = shown(listed)
    press(listed, "j", "x", "j", "x")
    expect(listed.locator("[data-bulk-count]")).to_have_text("2 ticked:")
    box = listed.get_by_role("checkbox", name=f"Tick memory {rows[1]}", exact=True)
    expect(box).to_be_checked()
    press(listed, "x")
    expect(box).not_to_be_checked()


def test_p_pins_the_row_and_again_unpins_it(listed: Page) -> None:
    first = shown(listed)[0]
    press(listed, "j", "p")
    expect(row_of(listed, first)).to_contain_text("pinned")
    expect(row_of(listed, first)).to_be_focused()
    press(listed, "p")
    expect(row_of(listed, first)).not_to_contain_text("pinned")


def test_hash_puts_the_row_into_the_trash_and_u_brings_it_back(listed: Page, api: Api) -> None:
    first = shown(listed)[0]
    press(listed, "j", "#")
    expect(row_of(listed, first)).to_have_count(0)
    expect(toast(listed, "Memory moved to the trash")).to_be_visible()
    press(listed, "u")
    expect(row_of(listed, first)).to_be_visible()
    assert api.get(f"/memories/{first}")["state"] == "active"


def test_a_question_mark_shows_the_keys_and_escape_closes_them(listed: Page) -> None:
    press(listed, "?")
    keys = listed.get_by_role("dialog", name="Keyboard")
    expect(keys).to_be_visible()
    for key in ("/", "j", "k", "e", "x", "p", "#", "u", "Esc", "?"):
        expect(keys.locator("kbd", has_text=key).first).to_be_visible()
    press(listed, "Escape")
    expect(keys).to_be_hidden()


def test_a_key_with_control_is_the_browsers(listed: Page) -> None:
    first = shown(listed)[0]
    press(listed, "j", "Control+x", "Alt+e")
    expect(row_of(listed, first)).to_be_focused()
    expect(listed.locator("[data-editing]")).to_have_count(0)
    expect(listed.locator("input[name=ids]:checked")).to_have_count(0)


def test_the_whole_list_is_reached_with_tab(listed: Page) -> None:
    press(listed, "Tab")
    skip = listed.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    press(listed, "Enter")
    expect(listed.locator("main")).to_be_focused()
    press(listed, "Tab")
    expect(listed.get_by_role("link", name="Add memory")).to_be_focused()
