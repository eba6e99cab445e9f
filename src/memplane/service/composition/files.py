"""The files that every process may use beside the owner of the home: documents and ledgers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memplane.service.services import HomeFiles
from memplane.settings import Settings, get_environment

if TYPE_CHECKING:
    from memplane.persona.service import PersonaService


class PersonaLocation(NamedTuple):
    """The folder of documents, the root of the project it belongs to, and why it is this one."""

    root: Path
    project: Path
    why: str


def find_persona_folder(settings: Settings) -> PersonaLocation:
    """Find the folder: the setting, else Claude Code's memory of the project that we are in."""
    from memplane.integrations.claude_code.memory_folder import (  # noqa: PLC0415 - for documents alone
        claude_code_memory_dir,
        find_main_root,
        find_project_root,
    )

    environ = get_environment()
    cwd = Path.cwd()
    home = Path(environ.get("HOME") or "~").expanduser()
    if settings.persona.dir is not None:
        root = settings.persona.dir.absolute()
        project = find_project_root(root, cwd=cwd, environ=environ, home=home)
        return PersonaLocation(root, project, "persona.dir (MEMPLANE_PERSONA_DIR)")
    project = find_main_root(cwd) or cwd
    root = claude_code_memory_dir(project, environ=environ, home=home)
    return PersonaLocation(root, project, f"Claude Code's memory of {project}")


def open_home_files(settings: Settings, *, is_new_folder_usual: bool = False) -> HomeFiles:
    """Return what operations without an owner work with; nothing is opened yet.

    A folder that settings do not name is the usual one when it exists, or, for an agent at work
    in its project (`is_new_folder_usual`), in any case.
    """

    @cache
    def open_documents() -> PersonaService:
        from memplane.service.composition.persona import persona_desk  # noqa: PLC0415 - see above

        try:
            root = find_persona_folder(settings).root
        except OSError:  # the current folder does not exist any more
            return persona_desk(settings, None)
        is_usual = is_new_folder_usual or settings.persona.dir is not None or root.is_dir()
        return persona_desk(settings, root if is_usual else None)

    return HomeFiles(open_documents, settings.agent or "")
