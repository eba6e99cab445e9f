"""Every page there is, and how it looks in its states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.browser.homelab import AGENT, Homelab
from tests.browser.looking import edit_row

NAMES = (
    *("login", "overview", "memories", "memories-grouped", "memories-searched"),
    *("memories-trash", "memories-none", "memories-editing", "memories-adding", "memories-bulk"),
    *("memory", "memory-edit", "conflicts", "preview", "lab", "turns", "turn", "session"),
    *("persona", "persona-document", "persona-snapshot", "audit", "import", "missing", "keys"),
)


def _as_it_is(page: Page) -> None:
    expect(page.locator("main")).to_be_visible()


@dataclass(frozen=True, slots=True)
class Place:
    """A page: its name, where it is, and what is done there before it is looked at."""

    name: str
    path: str
    prepare: Callable[[Page], None] = _as_it_is
    signed_in: bool = True
    status: int = 200


def places(homelab: Homelab) -> list[Place]:
    """List every page of the dashboard, with something to see in each."""
    firm = homelab.number("Takes about 60s")
    session = homelab.api.get(f"/memories/{homelab.number('DNS fails')}")["session_id"]
    learned = homelab.number("Reloading the configuration")
    turn = homelab.api.get(f"/memories/{learned}/evidence")["evidence"][0]["ledger_entry_id"]
    question = quote("How long does jellyfin need after a restart?")
    listed = f"/memories?agent={AGENT}"
    documents = homelab.documents
    backups = f"/persona/document?folder={documents.id}&key=reference_backups.md"
    found = [
        Place("login", "/login", signed_in=False),
        Place("overview", f"/?agent={AGENT}"),
        Place("memories", listed),
        Place("memories-grouped", f"{listed}&group=service"),
        Place("memories-searched", f"{listed}&q=restart"),
        Place("memories-trash", f"{listed}&state=trash"),
        Place("memories-none", f"{listed}&q=hippopotamus"),
        Place("memories-editing", listed, lambda page: _edit(page, firm)),
        Place("memories-adding", listed, _add),
        Place("memories-bulk", listed, _ask_for_many),
        Place("memory", f"/memories/{firm}"),
        Place("memory-edit", f"/memories/{firm}/edit"),
        Place("conflicts", f"/conflicts?agent={AGENT}", _unfold),
        Place("preview", f"/preview?agent={AGENT}&budget=300"),
        Place("lab", f"/lab?agent={AGENT}&q={question}", _unfold),
        Place("turns", f"/turns?agent={AGENT}"),
        Place("turn", f"/turns/{AGENT}/{turn}"),
        Place("session", f"/sessions/{session}?line=4"),
        Place("persona", f"/persona?folder={documents.id}"),
        Place(
            "persona-document",
            f"/persona/document?folder={documents.id}&key=user_role.md",
            _unfold,
        ),
        Place("persona-snapshot", f"{backups}&snapshot={documents.snapshot}"),
        Place("audit", f"/audit?agent={AGENT}&who="),
        Place("import", "/memories/import"),
        Place("missing", "/memories/99999999", status=404),
        Place("keys", listed, _show_keys),
    ]
    assert tuple(one.name for one in found) == NAMES
    return found


def _edit(page: Page, number: int) -> None:
    edit_row(page, number)


def _add(page: Page) -> None:
    page.get_by_role("link", name="Add memory").first.click()
    expect(page.get_by_label("Observation")).to_be_focused()


def _ask_for_many(page: Page) -> None:
    for box in page.get_by_role("checkbox", name="Tick memory").all()[:3]:
        box.check()
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("alertdialog")).to_be_visible()


def _unfold(page: Page) -> None:
    page.locator("main summary").first.click()


def _show_keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
