"""Every page for everybody: axe in both themes, narrow screens, large targets, calm motion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.homelab import AGENT, Homelab
from tests.browser.looking import PHONE, Desk, Watch
from tests.browser.places import NAMES, Place, places
from tests.server.operating import Api
from tests.support.azurite import ROOT
from tests.support.running import Running

AXE = (ROOT / "node_modules" / "axe-core" / "axe.min.js").read_text()
_LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_CONTROLS = (
    "button, a.button, select, textarea, nav a, summary, .facet a, .choice a, .grouping a, th a,"
    " input:not([type=hidden]):not([type=checkbox]), label:has(> input[type=checkbox])"
)
_SMALL = f"""least => [...document.querySelectorAll(`{_CONTROLS}`)]
  .filter(one => one.checkVisibility() && !one.matches('.unseen, .unseen *'))
  .filter(one => getComputedStyle(one.closest('thead') ?? one).position !== 'absolute')
  .map(one => [one.outerHTML.slice(0, 120), one.getBoundingClientRect()])
  .filter(([, box]) => box.height > 1 && (box.height < least || box.width < 24))
  .map(([words, box]) => `${{box.width}}x${{box.height}} ${{words}}`)"""
_WIDE = """() => [...document.querySelectorAll('body *')]
  .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && one.checkVisibility())
  .map(one => one.outerHTML.slice(0, 120)).slice(0, 5)"""


def grave(page: Page, only: object = _LEVELS) -> list[str]:
    """What axe finds that keeps people out."""
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(AXE)
    found: dict[str, Any] = page.evaluate(
        "only => axe.run(document, {runOnly: only, resultTypes: ['violations']})", only
    )
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]}: {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"][:3]
    ]


def open_place(desk: Desk, place: Place, page: Page | None = None, **how: Any) -> Page:
    if place.status != 200:
        desk.watch.allow(f"status of {place.status}")
    if page is None or not place.signed_in:
        page = desk.context(signed_in=place.signed_in, **how).new_page()
    page.goto(place.path)
    place.prepare(page)
    return page


@pytest.fixture(scope="module")
def one_page(chromium: Browser, running: Running, signed_in: Any) -> Iterator[tuple[Desk, Page]]:
    """A page that goes from place to place: one that is new loads and compiles all anew."""
    desk = Desk(running, chromium, Watch(f"127.0.0.1:{running.port}"), signed_in)
    yield desk, desk.context(reduced_motion="reduce").new_page()
    desk.close()
    assert not desk.watch.found()


@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing_grave_in_either_theme(
    one_page: tuple[Desk, Page], homelab: Homelab, name: str
) -> None:
    desk, page = one_page
    place = next(one for one in places(homelab) if one.name == name)
    page.emulate_media(color_scheme="light")
    page = open_place(desk, place, page, color_scheme="light", reduced_motion="reduce")
    found = grave(page)
    page.emulate_media(color_scheme="dark")
    found += grave(page, {"type": "rule", "values": ["color-contrast", "link-in-text-block"]})
    found += desk.watch.found()
    desk.watch.forget()
    assert not found, "\n".join(found)


def test_axe_finds_what_is_planted(chromium: Browser) -> None:
    page = chromium.new_page()
    page.set_content("<html lang=en><title>x</title><main><h1>x</h1><img src=x><input>")
    assert {one.split()[0] for one in grave(page)} == {"image-alt", "label"}
    page.close()


def test_no_page_is_wider_than_a_narrow_phone_and_targets_are_for_thumbs(
    desk: Desk, homelab: Homelab
) -> None:
    page = desk.context(viewport=PHONE, has_touch=True, is_mobile=True).new_page()
    wide, small = [], []
    for place in places(homelab):
        if place.name == "keys":
            continue
        looked = open_place(desk, place, page, viewport=PHONE, has_touch=True, is_mobile=True)
        if looked.evaluate("document.documentElement.scrollWidth") > PHONE["width"]:
            wide += [f"{place.name}: {one}" for one in looked.evaluate(_WIDE)]
        small += [f"{place.name}: {one}" for one in looked.evaluate(_SMALL, 44)]
    assert not wide, "\n".join(wide)
    assert not small, "\n".join(small)


def test_the_longest_name_of_a_service_fits_a_narrow_phone(desk: Desk, api: Api) -> None:
    api.add("Takes 60s to start", service="s" * 64)
    for path in ("/memories?group=service&", "/preview?", "/memories?", "/?"):
        page = desk.open(f"{path}agent={api.agent}", viewport=PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], path
        boxes = page.locator(".boxes label")
        for at in range(boxes.count()):
            box, whole = boxes.nth(at).bounding_box(), page.locator(".boxes").bounding_box()
            assert box is not None
            assert whole is not None
            assert box["x"] + box["width"] <= whole["x"] + whole["width"] + 1


def test_pages_fit_their_windows_and_targets_are_at_least_24_pixels(
    desk: Desk, homelab: Homelab
) -> None:
    page = desk.context().new_page()
    wide: list[str] = []
    small: list[str] = []
    for place in places(homelab):
        looked = open_place(desk, place, page)
        small += [f"{place.name}: {one}" for one in looked.evaluate(_SMALL, 24)]
        for width in (820, 1024, 1180, 1920, 1280):
            looked.set_viewport_size({"width": width, "height": 800})
            if looked.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide += [f"{place.name}, {width}: {one}" for one in looked.evaluate(_WIDE)]
    assert not wide, "\n".join(wide)
    assert not small, "\n".join(small)


def test_small_targets_and_wide_pages_are_seen(chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 320, "height": 700})
    page.set_content(
        "<style>button {height: 20px; padding: 0}</style><button>Go</button>"
        "<div style='width: 900px'>wide</div>"
    )
    assert len(page.evaluate(_SMALL, 24)) == 1
    assert page.evaluate("document.documentElement.scrollWidth") > 320
    assert len(page.evaluate(_WIDE)) == 1
    page.close()


def test_nothing_moves_for_those_who_do_not_want_it(desk: Desk, homelab: Homelab) -> None:
    moving = """() => [...document.querySelectorAll('*')].filter(one => {
      const {transitionDuration, animationName} = getComputedStyle(one);
      return parseFloat(transitionDuration) > 0 || animationName !== 'none';
    }).length"""
    path = f"/conflicts?agent={AGENT}"
    assert desk.open(path, reduced_motion="reduce").evaluate(moving) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_somebody_chooses(
    desk: Desk, homelab: Homelab, scheme: Any
) -> None:
    light = "getComputedStyle(document.body).backgroundColor === 'rgb(246, 247, 248)'"
    page = desk.open(f"/memories?agent={AGENT}", color_scheme=scheme)
    assert page.evaluate(light) is (scheme == "light")
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate(light) is (scheme == "dark")
    page.reload()
    assert page.evaluate(light) is (scheme == "dark")


def test_times_are_relative_and_exact(desk: Desk, homelab: Homelab) -> None:
    page = desk.open(f"/memories/{homelab.number('Takes about 60s')}")
    time = page.get_by_role("region", name="What happened").locator("time").last
    expect(time).to_have_text("41 d ago")
    assert (time.get_attribute("datetime") or "").endswith("Z")
    assert time.get_attribute("title")
