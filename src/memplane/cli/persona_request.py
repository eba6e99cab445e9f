"""What `memplane persona` works with: which folder, whose it is, and where its things are kept."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.persona.folder import DocumentFolder
    from memplane.persona.project_marker import ProjectMarker
    from memplane.persona.project_match import Project
    from memplane.persona.sync_status import SyncStatus
    from memplane.service.composition.files import PersonaLocation
    from memplane.settings import Settings


class PersonaResult(NamedTuple):
    """What is printed for machines, how it is printed for people, and the exit code."""

    body: object
    show: Callable[[], None]
    code: int = 0


def make_absolute(path: str) -> Path:
    """Return a path that somebody typed, from the root."""
    return Path(path).expanduser().absolute()


class PersonaRequest(NamedTuple):
    """What was asked of the documents."""

    arguments: argparse.Namespace
    settings: Settings
    here: PersonaLocation

    @property
    def root(self) -> Path:
        """The folder of documents."""
        return self.here.root

    @property
    def marker(self) -> ProjectMarker | None:
        """Whose the folder is; None when it was never synced."""
        from memplane.persona.project_marker import read_marker

        return read_marker(self.root) if self.root.exists() else None

    def project(self) -> Project:
        """Say what is known here of the project, beside what the folder's marker says."""
        from memplane.integrations.claude_code.root_commit import find_root_commit
        from memplane.persona.project_match import Project

        return Project("", self.here.project.name, find_root_commit(self.here.project))

    @property
    def memory(self) -> Path:
        """Where sync keeps its things for this folder, also what it replaced and removed."""
        from memplane.persona.sync_status import find_sync_status
        from memplane.service.composition.persona import sync_folder, synced_place

        marker = self.marker
        if marker is None:
            return self.before_any_sync
        memory = synced_place(self.settings, self.root).memory(marker.project)
        if (memory / "baseline.db").exists():
            return memory
        # The container of then is not the one of now, or none is named.
        known = find_sync_status(sync_folder(self.settings), marker.project, self.root)
        return known.memory if known is not None else memory

    @property
    def before_any_sync(self) -> Path:
        """Where that is for a folder that does not belong to any project yet."""
        from memplane.persona.project_match import Project
        from memplane.persona.sync_status import UNSYNCED
        from memplane.service.composition.persona import persona_place

        return persona_place(self.settings, self.root, Project("")).memory(UNSYNCED)

    def folder(self) -> DocumentFolder:
        """Open the folder for work on this machine alone."""
        from memplane.persona.folder import DocumentFolder

        return DocumentFolder(self.root, self.memory)

    def standing(self) -> SyncStatus | None:
        """Say how the folder stands; None when it was never synced."""
        from memplane.persona.sync_status import read_sync_status

        return read_sync_status(self.memory)

    def key_of(self, path: str) -> str:
        """Return the key of a document that was named by its path or by its key.

        Raises:
            InvalidRequest: It is outside of the folder.
        """
        from memplane.errors import InvalidRequest

        given = Path(path).expanduser()
        typed = Path(os.path.normpath(Path.cwd() / given))
        whole = Path(os.path.normpath(self.root / given))
        for one in (typed, Path(os.path.realpath(typed)), whole):
            for root in (self.root, Path(os.path.realpath(self.root))):
                if one.is_relative_to(root) and one != root:
                    return one.relative_to(root).as_posix()
        raise InvalidRequest(f"{path} is outside of the folder {self.root}")
