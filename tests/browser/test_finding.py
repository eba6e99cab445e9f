"""The list of memories: searching, filtering, sorting, grouping, going on."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.homelab import AGENT, Homelab
from tests.browser.looking import Desk, row_of, shown
from tests.server.operating import Api

HERE = f"/memories?agent={AGENT}"


@pytest.fixture
def listed(desk: Desk, homelab: Homelab) -> Page:
    return desk.open(HERE)


def total(page: Page) -> int:
    return int(page.locator(".total strong").inner_text().replace(",", ""))


def facet(page: Page, name: str, value: str) -> Locator:
    group = page.get_by_role("group", name=name, exact=True)
    return group.get_by_role("link", name=re.compile(rf"^{re.escape(value)}\b"))


def said_in(page: Page) -> dict[str, str]:
    return {name: value[0] for name, value in parse_qs(urlsplit(page.url).query).items()}


def test_a_row_says_all_that_a_person_asks_first(listed: Page, homelab: Homelab) -> None:
    number = homelab.number("Takes about 60s")
    row = row_of(listed, number)
    expect(row).to_contain_text("Takes about 60s to answer health checks after a restart")
    expect(row.locator(".category")).to_have_text("timing")
    expect(row.locator("[data-label=Service]")).to_have_text("jellyfin")
    expect(row.locator("[data-label=Confidence]")).to_contain_text("0.9")
    expect(row.locator("[data-label=State]")).to_have_text("active")
    expect(row.locator("[data-label=Updated] time")).to_have_text("21 d ago")
    expect(row.locator("[data-label=From]")).to_contain_text("tier 2")
    expect(row.get_by_role("link", name=re.compile(r"session \d+"))).to_be_visible()
    general = row_of(listed, homelab.number("DNS fails"))
    expect(general.locator("[data-label=Service]")).to_have_text("general")


def test_the_list_narrows_while_somebody_types(listed: Page, homelab: Homelab) -> None:
    before = total(listed)
    listed.locator("#q").press_sequentially("health che", delay=20)
    expect(listed.locator("tr[data-memory]")).to_have_count(1)
    assert shown(listed) == [homelab.number("Takes about 60s")]
    expect(listed.locator("tr[data-memory] mark")).to_have_text(["health", "checks"])
    assert said_in(listed) == {"agent": AGENT, "q": "health che"}
    expect(listed.locator("#q")).to_be_focused()
    listed.reload()
    expect(listed.locator("#q")).to_have_value("health che")
    expect(listed.locator("tr[data-memory]")).to_have_count(1)
    listed.get_by_role("link", name="show all").click()
    expect(listed.locator(".total strong")).not_to_have_text("1")
    assert total(listed) >= before


def test_a_filter_stays_when_something_is_searched_for(listed: Page) -> None:
    facet(listed, "Service", "postgres").click()
    expect(listed.locator("tr[data-memory]")).to_have_count(3)
    listed.locator("#q").fill("runs")
    expect(listed.locator("tr[data-memory]")).to_have_count(1)
    assert said_in(listed) == {"agent": AGENT, "service": "postgres", "q": "runs"}


def test_what_was_searched_for_comes_back_with_the_back_button(listed: Page) -> None:
    facet(listed, "Category", "timing").click()
    expect(listed.locator("tr[data-memory] .category").first).to_have_text("timing")
    timing = total(listed)
    facet(listed, "Category", "timing").click()
    expect(listed.locator(".total strong")).not_to_have_text(str(timing))
    listed.go_back()
    expect(listed.locator(".total strong")).to_have_text(str(timing))


FACETS = (
    ("State", "active"),
    ("State", "inactive"),
    ("State", "quarantined"),
    ("Service", "jellyfin"),
    ("Service", "general"),
    ("Category", "remediation"),
    ("Tier", "3"),
    ("Origin", "operator"),
    ("Worth a look", "contested"),
    ("Worth a look", "fades within a week"),
    ("Worth a look", "pinned"),
)


def test_each_filter_leaves_as_many_as_it_says(listed: Page) -> None:
    for group, value in FACETS:
        link = facet(listed, group, value)
        promised = link.locator(".count").inner_text()
        assert int(promised) > 0, value
        link.click()
        expect(facet(listed, group, value)).to_have_attribute("aria-current", "true")
        expect(listed.locator(".total strong")).to_have_text(promised)
        expect(listed.locator("tr[data-memory]")).to_have_count(int(promised))
        facet(listed, group, value).click()
        expect(facet(listed, group, value)).not_to_have_attribute("aria-current", "true")


def test_filters_narrow_each_other(listed: Page) -> None:
    facet(listed, "Category", "timing").click()
    expect(facet(listed, "Category", "timing")).to_have_attribute("aria-current", "true")
    facet(listed, "Service", "jellyfin").click()
    expect(facet(listed, "Service", "jellyfin")).to_have_attribute("aria-current", "true")
    expect(listed.locator(".total strong")).to_have_text("1")


@pytest.mark.parametrize("column", ["Confidence", "Service"])
def test_a_column_is_sorted_both_ways_and_says_so(listed: Page, column: str) -> None:
    def cells() -> list[str]:
        found = listed.locator(f"tr[data-memory] [data-label={column}]").all_inner_texts()
        return [one.strip() for one in found if one.strip() != "general"]

    head = listed.get_by_role("columnheader", name=column)
    head.get_by_role("link").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert cells() == sorted(cells())
    head.get_by_role("link").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert cells() == sorted(cells(), reverse=True)
    assert listed.locator("th[aria-sort=descending], th[aria-sort=ascending]").count() == 1


def test_rows_stand_together_by_service_with_general_last(listed: Page) -> None:
    listed.get_by_role("link", name="service", exact=True).click()
    groups = listed.locator("tr.group th")
    expect(groups.first).to_be_visible()
    names = [one.split()[0] for one in groups.all_inner_texts()]
    assert len(names) == len(set(names))
    assert names[-1] == "general"


def test_a_long_list_goes_on_page_by_page(desk: Desk, api: Api) -> None:
    lines = [
        {"category": "timing", "service": f"job-{n}", "observation": f"Job {n:03} starts at night"}
        for n in range(130)
    ]
    api.post("/import", {"memories": lines})
    page = desk.open(f"/memories?agent={api.agent}&sort=observation")
    assert total(page) == 130
    for count in (50, 100, 130):
        expect(page.locator("tr[data-memory]")).to_have_count(count)
        if count < 130:
            page.get_by_role("link", name="Show more").click()
    expect(page.get_by_role("link", name="Show more")).to_have_count(0)
    numbers = shown(page)
    assert len(set(numbers)) == 130
    texts = page.locator("tr[data-memory] .text").all_inner_texts()
    assert texts == sorted(texts)


def test_inactive_rows_look_and_read_differently(listed: Page, homelab: Homelab) -> None:
    faded, firm = (homelab.number(one) for one in ("The preview generator", "Takes about 60s"))
    expect(row_of(listed, faded).locator("[data-label=State]")).to_have_text("inactive")

    def look(number: int) -> list[str]:
        text = row_of(listed, number).locator(".text")
        return list(
            text.evaluate("e => [getComputedStyle(e).fontStyle, getComputedStyle(e).color]")
        )

    assert all(a != b for a, b in zip(look(faded), look(firm), strict=True))
    expect(row_of(listed, faded).get_by_role("link", name="Edit memory")).to_be_visible()
    expect(row_of(listed, faded).get_by_role("button", name="trash")).to_be_visible()


def test_a_list_that_nothing_fits_says_how_to_get_out(desk: Desk, homelab: Homelab) -> None:
    page = desk.open(f"{HERE}&q=hippopotamus")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    page.get_by_role("link", name="Show all memories").click()
    expect(page.locator("tr[data-memory]").first).to_be_visible()


def test_an_address_that_makes_no_sense_says_what_is_wrong(desk: Desk, homelab: Homelab) -> None:
    desk.watch.allow("status of 4")
    page = desk.open("/memories?sort=colour")
    expect(page.get_by_text("memories cannot be sorted by 'colour'")).to_be_visible()
    page.goto("/memories/99999999")
    expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()


def test_the_list_is_exported_as_it_is_narrowed(listed: Page) -> None:
    facet(listed, "Service", "postgres").click()
    expect(listed.locator("tr[data-memory]")).to_have_count(3)
    with listed.expect_download() as download:
        listed.get_by_role("link", name="lines of JSON").click()
    assert download.value.suggested_filename == "memories.jsonl"
    lines = download.value.path().read_text().splitlines()
    assert len(lines) == 3
    assert all('"postgres"' in line for line in lines)
