"""A picture of every page, in both themes and as on a phone.

`make screenshots` keeps them, and takes only a moment; the everyday suite looks without pictures.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.homelab import AGENT, Homelab, configure, furnish
from tests.browser.looking import Desk, state_of_one_who_signed_in
from tests.browser.places import places
from tests.browser.servers import Provider
from tests.support.azurite import ROOT
from tests.support.running import Running, running_memplane

_LARGEST = 1400 * 1024
"""All of one look; nobody wants to clone more."""
_PHONE = {"width": 390, "height": 844}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": _PHONE, "has_touch": True, "is_mobile": True},
}
KEPT = {
    *("login", "overview", "memories", "memory"),
    *("conflicts", "preview", "lab", "turns", "turn", "session", "audit", "import"),
    *("persona", "persona-document"),
}


_AS_AT_HOME = """folder => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode())
        texts.currentNode.data = texts.currentNode.data.replaceAll(folder, "/home/ada/notes");
}"""
"""A picture shows no path of the machine on which it was taken."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Running]:
    """A memplane that has seen nothing but the homelab."""
    home = tmp_path_factory.mktemp("screenshots") / "home"
    configure(home, provider)
    with running_memplane(home) as started:
        yield started


@pytest.fixture(scope="module")
def signed_in(chromium: Browser, running: Running) -> Any:
    return state_of_one_who_signed_in(running, chromium)


@pytest.fixture(scope="module")
def pictured(running: Running, provider: Provider) -> Homelab:
    return furnish(running, provider)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wanted = os.environ.get("SCREENSHOTS")
    made = ROOT / wanted if wanted else tmp_path_factory.mktemp("screenshots")
    made.mkdir(parents=True, exist_ok=True)
    return made


def smaller(png: bytes) -> bytes:
    """Press a picture harder than a browser does, which is in a hurry."""
    pieces, packed, at = [png[:8]], b"", 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12
        if kind == b"IDAT":
            packed += data
            continue
        if kind == b"IEND":
            pieces.append(_chunk(b"IDAT", zlib.compress(zlib.decompress(packed), 9)))
        pieces.append(_chunk(kind, data))
    return b"".join(pieces)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.mark.long
@pytest.mark.parametrize("look", LOOKS)
def test_every_page_is_photographed(
    desk: Desk, running: Running, pictured: Homelab, folder: Path, look: str
) -> None:
    page = desk.context(reduced_motion="reduce", **LOOKS[look]).new_page()
    stranger = desk.context(signed_in=False, **LOOKS[look]).new_page()
    made: list[Path] = []
    for place in places(pictured):
        if place.name not in KEPT:
            continue
        at = page if place.signed_in else stranger
        # There is one agent: pages look as they do for somebody who has just begun.
        at.goto(place.path.replace(f"agent={AGENT}", "").replace("?&", "?").removesuffix("?"))
        if place.name != "conflicts":
            place.prepare(at)
        at.mouse.move(0, 0)
        at.evaluate(_AS_AT_HOME, str(running.home.parent))
        made.append(folder / f"{place.name}-{look}.png")
        made[-1].write_bytes(smaller(at.screenshot()))
    assert len(made) == len(KEPT)
    assert sum(one.stat().st_size for one in made) < _LARGEST
