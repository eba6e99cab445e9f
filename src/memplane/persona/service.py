"""What an operator sees of the folders that are synced on this machine, and can do about them.

Looking takes no lock and asks no container. A sync runs behind whoever asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from memplane.errors import ConcurrencyError, MemplaneError, PersonaError, UnknownMemory
from memplane.kit.background_loop import start_in_background
from memplane.kit.clock import Clock, format_milli_timestamp
from memplane.persona.api_types import FolderInspection, SyncRun, WrittenDocument
from memplane.persona.baseline_reader import read_baseline, read_facts
from memplane.persona.document_writer import put_document, version_of, write_document
from memplane.persona.folder import DocumentFolder
from memplane.persona.inspection import (
    DocumentInspection,
    inspect_document,
    inspect_folder,
    read_conflict_copy,
)
from memplane.persona.open_sync import SyncTarget, find_current_target
from memplane.persona.project_marker import read_marker
from memplane.persona.publish_gate import PublishGate, SecretFinder
from memplane.persona.report import PersonaReport
from memplane.persona.validation import DEFAULT_LIMIT_BYTES

SyncFolder: TypeAlias = Callable[[Path, str], Coroutine[Any, Any, PersonaReport]]
"""Syncs a folder with a place in the container."""


class PersonaSetup(msgspec.Struct, frozen=True):
    """Where syncs are remembered, the usual folder, and why none can be synced ("": they can).

    `find_secrets` looks through what is written here; no document may be larger than `limit`.
    """

    state: Path
    here: SyncTarget | None
    find_secrets: SecretFinder
    objection: str = ""
    limit: int = DEFAULT_LIMIT_BYTES


class SyncedFolder(msgspec.Struct, frozen=True):
    """A folder: where it is, where it is synced to, and when that was; "" when it never was."""

    id: str
    root: Path
    memory: Path
    address: str
    prefix: str
    project: str = ""
    name: str = ""
    last: str = ""
    trouble: str = ""
    """Why it cannot be looked at."""


class PersonaService:
    """The folders of this machine."""

    def __init__(self, setup: PersonaSetup, sync: SyncFolder, clock: Clock) -> None:
        self.setup = setup
        self._sync = sync
        self._clock = clock
        self._runs: dict[str, tuple[str, Future[PersonaReport]]] = {}

    def folders(self) -> list[SyncedFolder]:
        """List the usual folder, then every other one that was ever synced here."""
        known = {folder.id: folder for folder in self._remembered()}
        usual = self._usual(known)
        if usual is not None:
            known.pop(usual.id, None)
        others = sorted(known.values(), key=lambda folder: str(folder.root))
        return others if usual is None else [usual, *others]

    def usual_folder(self) -> SyncedFolder | None:
        """Return the folder of the project that this process works in, if it has one."""
        return self._usual({folder.id: folder for folder in self._remembered()})

    def _usual(self, known: Mapping[str, SyncedFolder]) -> SyncedFolder | None:
        if self.setup.here is None:
            return None
        here = find_current_target(self.setup.here)
        folder_id = here.memory("any").name
        return known.get(folder_id) or SyncedFolder(
            folder_id, here.root, here.memory(_project_of(here.root)), here.address, here.prefix
        )

    def _remembered(self) -> Iterator[SyncedFolder]:
        for path in sorted(self.setup.state.glob("*/*/baseline.db")):
            memory = path.parent
            try:
                facts = read_facts(memory)
            except PersonaError:
                continue  # the sync of that folder says so itself
            root = Path(facts.get("folder", ""))
            if not root.is_absolute() or _belongs_elsewhere(root, memory.parent.name):
                continue
            yield SyncedFolder(
                id=memory.name,
                root=root,
                memory=memory,
                address=facts.get("address", ""),
                prefix=facts.get("prefix", ""),
                project=facts.get("project", ""),
                name=facts.get("name", ""),
                last=facts.get("last_sync", ""),
            )

    def look(self, one: SyncedFolder) -> FolderInspection:
        """Look at the documents of a folder."""
        return inspect_folder(one.root, one.memory)

    def inspect_document(self, one: SyncedFolder, key: str) -> DocumentInspection:
        """Look at one document.

        Raises:
            UnknownMemory: There is none of that name.
        """
        is_new_folder = not one.last and not one.root.exists()
        found = None if is_new_folder else inspect_document(one.root, one.memory, key)
        if found is None:
            raise UnknownMemory("there is no such document, and there was none")
        return found

    def snapshot(self, one: SyncedFolder, key: str, name: str) -> bytes | None:
        """Return an earlier text of a document; None when it is no longer kept."""
        return DocumentFolder(one.root, one.memory).read_snapshot(key, name)

    # Doing.

    def objection_to(self, one: SyncedFolder) -> str:
        """Say why a folder cannot be synced from here; empty when it can."""
        here = self.setup.here
        if self.setup.objection:
            return self.setup.objection
        if not one.last:
            return "it was never synced: `memplane persona sync` in its project does it first"
        if here is not None and one.address and one.address != here.address:
            return f"it is synced with {one.address}, and here {here.address} is set"
        return ""

    def start(self, one: SyncedFolder) -> None:
        """Sync a folder, and do not wait for it; one that runs is not started again.

        Raises:
            PersonaError: It cannot be synced from here.
        """
        if objection := self.objection_to(one):
            raise PersonaError(objection)
        ran = self.ran(one)
        if ran is None or ran.state != "running":
            work = start_in_background(self._sync(one.root, one.prefix))
            self._runs[one.id] = (format_milli_timestamp(self._clock()), work)

    def ran(self, one: SyncedFolder) -> SyncRun | None:
        """Return the last sync of a folder that was asked for here."""
        at, work = self._runs.get(one.id, ("", None))
        if work is None:
            return None
        if not work.done():
            return SyncRun(at, "running")
        error = work.exception()
        if error is None:
            return SyncRun(at, "done", describe_report(work.result()))
        words = str(error) if isinstance(error, MemplaneError) else type(error).__name__
        return SyncRun(at, "failed", words)

    def drop(self, one: SyncedFolder, copy: str) -> str:
        """Let go of a conflict copy; return whose it was.

        Raises:
            UnknownMemory: There is no such copy.
        """
        folder, path, key = self._copy(one, copy)
        folder.drop_copy(path)
        return key

    def write(self, one: SyncedFolder, key: str, text: bytes, expected: str) -> WrittenDocument:
        """Write a document that has the expected version, "" for none; see `put_document`."""
        folder = DocumentFolder(one.root, one.memory)
        if not one.last:
            folder.create()  # one that was synced before may be on a disk that is not mounted
        allowed = read_baseline(one.memory).allowed
        gate = PublishGate(self.setup.find_secrets, allowed=allowed, limit=self.setup.limit)
        return put_document(folder, key, text, expected=expected, gate=gate)

    def use(self, one: SyncedFolder, copy: str, expected: str) -> str:
        """Put a conflict copy in the place of its document; return which that is.

        `expected` is the version that it is to replace, "" for none. That text is kept as a
        snapshot, and the copy is no more. The next sync tells the others.

        Raises:
            UnknownMemory: There is no such copy.
            ConcurrencyError: The document is another by now. Nothing was changed.
        """
        folder, path, key = self._copy(one, copy)
        text, now = read_conflict_copy(one.memory, copy), folder.read(key)
        if text is None:
            raise UnknownMemory("there is no such copy any more")
        if version_of(now) != expected:
            raise ConcurrencyError("was changed since it was read: look again", key=key)
        if not write_document(folder, key, text, expected=now):
            raise ConcurrencyError("is being changed: look again", key=key)
        folder.drop_copy(path)
        return key

    @staticmethod
    def _copy(one: SyncedFolder, copy: str) -> tuple[DocumentFolder, Path, str]:
        folder, path = DocumentFolder(one.root, one.memory), one.memory / "conflicts" / copy
        found = next((known for known in folder.conflicts() if known.path == path), None)
        if found is None:
            raise UnknownMemory("there is no such copy, or it was dealt with")
        return folder, path, found.key


def describe_report(report: PersonaReport) -> str:
    """Say what a sync did, in a line."""
    counts = (
        (report.copied, "sent"),
        (report.pulled, "received"),
        (report.merged, "merged"),
        (report.deleted, "deleted"),
        (len(report.held), "held"),
        (len(report.waiting), "waiting"),
        (len(report.conflicts), "conflict copies"),
        (len(report.errors), "with errors"),
    )
    return ", ".join(f"{count} {what}" for count, what in counts if count) or "nothing to do"


def _project_of(root: Path) -> str:
    """Return the project in a folder's marker; "new" when it has none that can be read."""
    try:
        marker = read_marker(root)
    except MemplaneError:
        return "new"
    return marker.project if marker else "new"


def _belongs_elsewhere(root: Path, project: str) -> bool:
    """Say whether a folder belongs to another project by now."""
    return _project_of(root) not in {"new", project}
