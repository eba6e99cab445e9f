"""What `memplane persona` works with: which folder, whose it is, and where its things are kept."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.persona.folder import Folder
    from memplane.persona.joining import Project
    from memplane.persona.marking import Marker
    from memplane.persona.standing import Standing
    from memplane.settings import Settings


class Answer(NamedTuple):
    """What is printed for machines, how it is printed for people, and the exit code."""

    body: object
    show: Callable[[], None]
    code: int = 0


def absolute(path: str) -> Path:
    """Return a path that somebody typed, from the root."""
    return Path(path).expanduser().absolute()


class Here(NamedTuple):
    """The folder of documents, the root of the project it belongs to, and why it is this one."""

    root: Path
    project: Path
    why: str


def folder_here(settings: Settings) -> Here:
    """Find the folder: the setting, else Claude Code's memory of the project that we are in."""
    from memplane.claude_code.memory_folder import claude_code_memory_dir, main_root
    from memplane.settings import environment

    if settings.persona.dir is not None:
        root = settings.persona.dir.absolute()
        return Here(root, main_root(root) or root, "persona.dir (MEMPLANE_PERSONA_DIR)")
    environ = environment()
    cwd = Path.cwd()
    project = main_root(cwd) or cwd
    home = Path(environ.get("HOME") or "~").expanduser()
    root = claude_code_memory_dir(project, environ=environ, home=home)
    return Here(root, project, f"Claude Code's memory of {project}")


class Asking(NamedTuple):
    """What was asked of the documents."""

    arguments: argparse.Namespace
    settings: Settings
    here: Here

    @property
    def root(self) -> Path:
        """The folder of documents."""
        return self.here.root

    @property
    def marker(self) -> Marker | None:
        """Whose the folder is; None when it was never synced."""
        from memplane.persona.marking import read_marker

        return read_marker(self.root) if self.root.exists() else None

    def project(self) -> Project:
        """Say what is known here of the project. A folder with a marker knows it already."""
        from memplane.claude_code.origin import root_commit
        from memplane.persona.joining import Project

        if self.marker is not None:
            return Project("")
        return Project("", self.here.project.name, root_commit(self.here.project))

    @property
    def memory(self) -> Path:
        """Where sync keeps its things for this folder, also what it replaced and removed."""
        from memplane.assemble.persona import persona_place, sync_folder
        from memplane.persona.joining import Project
        from memplane.persona.standing import standing_of

        marker = self.marker
        if marker is None:
            return self.before_any_sync
        memory = persona_place(self.settings, self.root, Project("")).memory(marker.project)
        if (memory / "baseline.db").exists():
            return memory
        # The container of then is not the one of now, or none is named.
        known = standing_of(sync_folder(self.settings), marker.project, self.root)
        return known.memory if known is not None else memory

    @property
    def before_any_sync(self) -> Path:
        """Where that is for a folder that does not belong to any project yet."""
        from memplane.assemble.persona import persona_place
        from memplane.persona.joining import Project
        from memplane.persona.standing import UNSYNCED

        return persona_place(self.settings, self.root, Project("")).memory(UNSYNCED)

    def folder(self) -> Folder:
        """Open the folder for work on this machine alone."""
        from memplane.persona.folder import Folder

        return Folder(self.root, self.memory)

    def standing(self) -> Standing | None:
        """Say how the folder stands; None when it was never synced."""
        from memplane.persona.standing import standing_in

        return standing_in(self.memory)

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
