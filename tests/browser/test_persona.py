"""The Persona pages, clicked through: documents, conflict copies, a sync that is watched."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.looking import Desk, Watch, toast
from tests.persona.furnished import Furnished, furnish_persona
from tests.persona.machines import memory
from tests.support.azurite import Azurite
from tests.support.running import Running, memplane, running_memplane


@pytest.fixture
def furnished(running: Running, tmp_path: Path) -> Furnished:
    return furnish_persona(tmp_path / "memory", running.home / "state" / "sync")


@pytest.mark.parametrize("scripts", ["on", "off"])
def test_a_copy_is_compared_and_takes_the_documents_place(
    desk: Desk, furnished: Furnished, scripts: str
) -> None:
    page = desk.open(f"/persona?folder={furnished.id}", java_script_enabled=scripts == "on")
    page.get_by_role("link", name="Compare the copy of user_role.md").click()
    copy = page.get_by_role("region", name="A conflict copy")
    expect(copy.locator("del")).to_have_text("Prefers short answers, and tables.")
    expect(copy.locator("ins")).to_have_text("Prefers long answers, with reasons.")
    copy.get_by_role("button", name="Use this copy").click()
    expect(toast(page, "The copy is the document now")).to_be_visible()
    expect(page.get_by_role("region", name="Text")).to_contain_text("with reasons")
    page.get_by_role("region", name="Before").get_by_role("link").click()
    expect(page.locator("#snapshot ins")).to_have_text("Prefers short answers, and tables.")


@pytest.mark.parametrize("scripts", ["on", "off"])
def test_a_copy_is_dropped(desk: Desk, furnished: Furnished, scripts: str) -> None:
    page = desk.open(f"/persona?folder={furnished.id}", java_script_enabled=scripts == "on")
    page.get_by_role("button", name="Drop this copy of user_role.md").click()
    expect(toast(page, "Copy dropped")).to_be_visible()
    expect(page.get_by_role("region", name="Conflict copies")).to_have_count(0)


def test_a_long_name_is_wrapped_on_a_phone(desk: Desk, furnished: Furnished) -> None:
    name = f"reference_{'long' * 30}.md"
    (furnished.folder / name).write_text(memory("x" * 120, "Runs.", kind="reference"))
    for key in ("", f"/document?key={name}"):
        path = f"/persona{key}{'&' if key else '?'}folder={furnished.id}"
        page = desk.open(path, viewport={"width": 390, "height": 844})
        expect(page.locator("main")).to_contain_text(name)
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_another_folder_is_chosen(desk: Desk, furnished: Furnished, tmp_path: Path) -> None:
    other = furnish_persona(tmp_path / "b" / "memory", furnished.machine.state)
    page = desk.open(f"/persona?folder={furnished.id}")
    page.get_by_label("Folder").select_option(other.id)
    expect(page.locator("#sync")).to_contain_text(str(other.folder))


def test_a_sync_is_watched_until_it_ends(
    chromium: Browser, tmp_path: Path, azurite: Azurite, container: str
) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "user_role.md").write_text(memory("Role", "Runs the homelab.", kind="user"))
    env = {
        "MEMPLANE_BLOB_CONNECTION_STRING": azurite.connection_string,
        "MEMPLANE_BLOB_CONTAINER": container,
        "MEMPLANE_PERSONA_DIR": str(folder),
    }
    assert memplane(tmp_path / "home", "persona", "sync", env=env).returncode == 0
    (folder / "user_role.md").write_text(memory("Role", "Runs it.", kind="user"))
    with running_memplane(tmp_path / "home", env=env) as started:
        desk = Desk(started, chromium, Watch(f"127.0.0.1:{started.port}"))
        page = desk.sign_in()
        page.get_by_role("link", name="Persona").click()
        expect(page.locator("main")).to_contain_text("changed here")
        page.get_by_role("button", name="Sync now").click()
        expect(page.locator("#sync")).to_contain_text("Synced: 1 sent", timeout=60_000)
        expect(page.get_by_role("button", name="Sync now")).to_be_enabled()
        desk.close()
    assert not desk.watch.found()
