"""The Persona pages: documents in their states, conflict copies, and what is to set up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.persona.furnished import ADDRESS, Furnished, furnish_persona
from tests.persona.machines import memory
from tests.server.dashboard.browsing import Parsed, Person, parsed, signed_in
from tests.support.azurite import Azurite
from tests.support.in_process import memplane_here
from tests.support.running import Running, running_memplane


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A memplane of their own: another one's folders are not among these."""
    with running_memplane(tmp_path_factory.mktemp("persona") / "home") as started:
        yield started


@pytest.fixture
def furnished(running: Running, tmp_path: Path) -> Furnished:
    return furnish_persona(tmp_path / "memory", running.home / "state" / "sync")


def looked(person: Person, furnished: Furnished) -> Parsed:
    return parsed(person.page(f"/persona?folder={furnished.id}"))


def document(person: Person, furnished: Furnished, key: str, more: str = "") -> str:
    return person.page(f"/persona/document?folder={furnished.id}&key={quote(key)}{more}")


def value(page: str, name: str) -> str:
    """Return what a hidden field of the page holds."""
    found = [a["value"] for _, a in parsed(page).elements if a.get("name") == name]
    assert found
    return found[0]


def test_a_machine_without_anything_is_told_what_to_set_up(tmp_path: Path) -> None:
    with running_memplane(tmp_path / "home") as running:
        page = parsed(signed_in(running).page("/persona")).text
    assert "No folder of documents" in page
    assert "MEMPLANE_BLOB_ENDPOINT" in page
    assert "memplane persona sync" in page
    assert "Sync now" not in page


def test_a_folder_shows_where_it_is_synced_and_how_its_documents_are(
    person: Person, furnished: Furnished
) -> None:
    text = looked(person, furnished).text
    assert str(furnished.folder) in text
    assert f"{ADDRESS}/claude_memory" in text
    for words in ("9 documents", "3 changed here", "1 waiting", "2 held", "1 conflict copy"):
        assert words in text
    for words in ("tried once", "next try", "does not begin with frontmatter", "--allow-secrets"):
        assert words in text
    assert "link.md it is a link" in text
    assert "2 other files are left alone" in text
    kinds = [text.index(f" {kind} ") for kind in ("index 1", "user 1", "reference 4", "other 1")]
    assert kinds == sorted(kinds)
    assert "It cannot be synced from here: no container" in text


def test_a_document_shows_its_frontmatter_text_and_what_it_was_before(
    person: Person, furnished: Furnished
) -> None:
    page = document(person, furnished, "reference_backups.md")
    text = parsed(page).text
    assert "Step 30: rest." in text
    assert "description what it says" in text
    link = next(a["href"] for _, a in parsed(page).elements if "snapshot=" in a.get("href", ""))
    before = person.page(link.partition("#")[0])
    assert "lines are the same" in before
    assert "<del" in before
    assert "<ins" in before
    assert "Step 30: what is done then." in parsed(before).text


def test_a_copy_is_compared_and_used(person: Person, furnished: Furnished) -> None:
    page = document(person, furnished, "user_role.md")
    assert '<del class="line">Prefers short answers, and tables.</del>' in page
    assert '<ins class="line">Prefers long answers, with reasons.</ins>' in page
    given = {name: value(page, name) for name in ("copy", "seen")}
    after = person.follow(person.send("/persona/copies/use", folder=furnished.id, **given))
    assert "The copy is the document now" in after
    assert "changed here" in after
    assert "with reasons" in (furnished.folder / "user_role.md").read_text()
    again = person.send("/persona/copies/use", folder=furnished.id, **given)
    assert again.status == 404


def test_a_copy_is_not_used_over_a_text_that_nobody_saw(
    person: Person, furnished: Furnished
) -> None:
    page = document(person, furnished, "user_role.md")
    given = {name: value(page, name) for name in ("copy", "seen")}
    (furnished.folder / "user_role.md").write_text("typed meanwhile")
    reply = person.send("/persona/copies/use", folder=furnished.id, **given)
    assert (reply.status, "look again" in reply.text) == (409, True)
    assert (furnished.folder / "user_role.md").read_text() == "typed meanwhile"


def test_a_copy_is_dropped_from_either_page(person: Person, furnished: Furnished) -> None:
    copy = value(person.page(f"/persona?folder={furnished.id}"), "copy")
    given = {"folder": furnished.id, "copy": copy}
    reply = person.send("/persona/copies/drop", **given, **{"from": "folder"})
    assert reply.headers["location"].startswith("/persona?folder=")
    assert "Copy dropped" in person.follow(reply)
    assert person.send("/persona/copies/drop", **given).status == 404
    assert "0 conflict copies" in looked(person, furnished).text


@pytest.mark.parametrize("act", ["sync", "copies/use", "copies/drop"])
def test_forms_of_others_do_nothing(person: Person, furnished: Furnished, act: str) -> None:
    stranger = Person(person.running, person.cookie, "wrong")
    copy = value(person.page(f"/persona?folder={furnished.id}"), "copy")
    assert stranger.send(f"/persona/{act}", folder=furnished.id, copy=copy).status == 403
    assert "1 conflict copy" in looked(person, furnished).text


@pytest.mark.parametrize("key", ["", "../x.md", "/etc/passwd", "link.md", "%00.md", "never.md"])
def test_what_is_no_document_is_an_error_page(
    person: Person, furnished: Furnished, key: str
) -> None:
    for folder in (furnished.id, "none", ""):
        reply = person.get(f"/persona/document?folder={folder}&key={key}")
        assert reply.status in {404, 422}, reply.text
        assert "<h1" in reply.text
    assert person.send("/persona/sync", folder="none").status == 404


def test_a_folder_that_is_not_there_is_told_so(person: Person, furnished: Furnished) -> None:
    furnished.folder.rename(furnished.folder.with_name("away"))
    text = looked(person, furnished).text
    assert "The folder is not there" in text
    reply = person.get(f"/persona/document?folder={furnished.id}&key=user_role.md")
    assert reply.status == 503


def test_a_sync_is_asked_for_and_runs_behind_the_page(
    tmp_path: Path, azurite: Azurite, container: str
) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "user_role.md").write_text(memory("Role", "Runs the homelab.", kind="user"))
    env = {
        "MEMPLANE_BLOB_CONNECTION_STRING": azurite.connection_string,
        "MEMPLANE_BLOB_CONTAINER": container,
        "MEMPLANE_PERSONA_DIR": str(folder),
    }
    home = tmp_path / "home"
    with running_memplane(home, env=env) as running:
        person = signed_in(running)
        page = person.page("/persona")
        assert "was never synced" in page
        done = memplane_here(home, "persona", "sync", env=env)
        assert done.returncode == 0, done.stderr
        (folder / "user_role.md").write_text(memory("Role", "Runs it.", kind="user"))
        page = person.page("/persona")
        assert "changed here" in page
        assert azurite.endpoint.lower() in page
        person.follow(person.send("/persona/sync", folder=value(page, "folder")))
        until = time.monotonic() + 60
        while "Synced: " not in (page := person.page("/persona")):
            assert "The sync failed" not in page
            assert time.monotonic() < until
            time.sleep(0.1)
    assert "Synced: 1 sent" in parsed(page).text
    assert "0 changed here" in parsed(page).text
