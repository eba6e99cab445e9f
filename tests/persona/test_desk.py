"""What an operator can do about folders: sync behind the page, use a conflict copy, drop it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from memplane.errors import ConcurrencyError, PersonaError, UnknownMemory
from memplane.kit.clock import system_clock
from memplane.persona.api_types import SyncRun
from memplane.persona.open_sync import SyncTarget
from memplane.persona.project_match import Project
from memplane.persona.report import PersonaReport
from memplane.persona.service import (
    PersonaService,
    PersonaSetup,
    SyncedFolder,
    describe_report,
)
from tests.persona.furnished import ADDRESS, Furnished, furnish_persona


@pytest.fixture
def furnished(tmp_path: Path) -> Furnished:
    return furnish_persona(tmp_path / "memory", tmp_path / "state" / "sync")


async def no_sync(_folder: Path, _prefix: str) -> PersonaReport:
    pytest.fail("nothing was to be synced")


def find_no_secrets(_text: str) -> Mapping[str, int]:
    return {}


def desk_of(furnished: Furnished, **setup: object) -> PersonaService:
    given = {
        "state": furnished.machine.state,
        "here": None,
        "find_secrets": find_no_secrets,
        **setup,
    }
    return PersonaService(PersonaSetup(**given), no_sync, system_clock)  # type: ignore[arg-type]


def only(desk: PersonaService) -> SyncedFolder:
    (found,) = desk.folders()
    return found


def role_copy(desk: PersonaService) -> tuple[SyncedFolder, str, str]:
    whole = desk.inspect_document(only(desk), "user_role.md")
    return only(desk), whole.copies[0][0].id, whole.version


def test_folders_that_were_synced_are_known(furnished: Furnished) -> None:
    one = only(desk_of(furnished))
    assert (one.id, one.root, one.memory) == (furnished.id, furnished.folder, furnished.memory)
    assert (one.address, one.prefix, one.name) == (ADDRESS, "claude_memory", "demo")
    assert one.last
    assert one.project


def test_the_usual_folder_comes_first_also_before_its_first_sync(
    furnished: Furnished, tmp_path: Path
) -> None:
    usual = SyncTarget(tmp_path / "a", furnished.machine.state, "box", "p", Project(""), 1, "here")
    desk = desk_of(furnished, here=usual)
    first, second = desk.folders()
    assert (first.root, first.last, first.address) == (tmp_path / "a", "", "here")
    assert second.id == furnished.id
    assert "never synced" in desk.objection_to(first)
    assert ADDRESS in desk.objection_to(second)
    same = SyncTarget(
        furnished.folder, furnished.machine.state, "box", "claude_memory", Project(""), 1, ADDRESS
    )
    desk = desk_of(furnished, here=same)
    assert only(desk).last
    assert desk.objection_to(only(desk)) == ""


def test_a_folder_of_another_project_by_now_is_not_shown(furnished: Furnished) -> None:
    marker = furnished.folder / ".memplane-persona.json"
    marker.write_text('{"project": "other", "device": "d"}')
    assert desk_of(furnished).folders() == []


def test_without_a_container_nothing_is_synced(furnished: Furnished) -> None:
    desk = desk_of(furnished, objection="no container")
    with pytest.raises(PersonaError, match="no container"):
        desk.start(only(desk))
    assert desk.ran(only(desk)) is None


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


async def ended(desk: PersonaService) -> SyncRun:
    for _ in range(500):
        ran = desk.ran(only(desk))
        assert ran is not None
        if ran.state != "running":
            return ran
        await asyncio.sleep(0.01)
    pytest.fail("the sync did not end")


async def test_a_sync_runs_behind_and_tells_how_it_ended(
    tmp_path: Path, gate: threading.Event
) -> None:
    furnished = await asyncio.to_thread(
        furnish_persona, tmp_path / "memory", tmp_path / "state" / "sync"
    )
    begun: list[Path] = []

    async def sync(folder: Path, prefix: str) -> PersonaReport:
        begun.append(folder)
        assert prefix == "claude_memory"
        await asyncio.to_thread(gate.wait)
        if len(begun) > 1:
            raise PersonaError("too much would be deleted")
        return PersonaReport(copied=2, held=[("a.md", "why")])

    desk = PersonaService(
        PersonaSetup(furnished.machine.state, None, find_no_secrets), sync, system_clock
    )
    for _ in range(3):
        desk.start(only(desk))
    ran = desk.ran(only(desk))
    assert ran is not None
    assert ran.state == "running"
    gate.set()
    done = await ended(desk)
    assert (done.state, done.words) == ("done", "2 sent, 1 held")
    assert begun == [furnished.folder]
    desk.start(only(desk))
    failed = await ended(desk)
    assert (failed.state, failed.words) == ("failed", "too much would be deleted")


def test_a_copy_that_is_used_becomes_the_document_and_the_old_text_is_kept(
    furnished: Furnished,
) -> None:
    desk = desk_of(furnished)
    one, copy, seen = role_copy(desk)
    before = (furnished.folder / "user_role.md").read_bytes()
    assert desk.use(one, copy, seen) == "user_role.md"
    whole = desk.inspect_document(one, "user_role.md")
    assert b"with reasons" in (whole.text or b"")
    assert whole.copies == ()
    assert desk.snapshot(one, "user_role.md", whole.snapshots[0].name) == before
    assert whole.seen.condition.value == "changed here"


def test_a_copy_brings_a_deleted_document_back(furnished: Furnished) -> None:
    desk = desk_of(furnished)
    one, copy, seen = role_copy(desk)
    (furnished.folder / "user_role.md").unlink()
    with pytest.raises(ConcurrencyError):
        desk.use(one, copy, seen)
    desk.use(one, copy, "")
    assert "with reasons" in (furnished.folder / "user_role.md").read_text()


def test_a_document_that_changed_since_is_not_overtaken(furnished: Furnished) -> None:
    desk = desk_of(furnished)
    one, copy, seen = role_copy(desk)
    (furnished.folder / "user_role.md").write_text("typed meanwhile")
    with pytest.raises(ConcurrencyError, match="look again"):
        desk.use(one, copy, seen)
    assert (furnished.folder / "user_role.md").read_text() == "typed meanwhile"
    assert desk.look(one).copies


def test_a_copy_is_dropped_once(furnished: Furnished) -> None:
    desk = desk_of(furnished)
    one, copy, _ = role_copy(desk)
    assert desk.drop(one, copy) == "user_role.md"
    assert desk.look(one).copies == ()
    with pytest.raises(UnknownMemory):
        desk.drop(one, copy)


@pytest.mark.parametrize("copy", ["", "../baseline.db", "/etc/passwd", "x.md", "../conflicts"])
def test_nothing_but_copies_can_be_dropped_or_used(furnished: Furnished, copy: str) -> None:
    desk = desk_of(furnished)
    with pytest.raises(UnknownMemory):
        desk.drop(only(desk), copy)
    with pytest.raises(UnknownMemory):
        desk.use(only(desk), copy, "")
    assert (furnished.memory / "baseline.db").exists()


def test_what_a_sync_did_is_said_in_a_line() -> None:
    assert describe_report(PersonaReport()) == "nothing to do"
    assert describe_report(PersonaReport(pulled=1, merged=2, deleted=3)) == (
        "1 received, 2 merged, 3 deleted"
    )
