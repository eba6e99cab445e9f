"""Which project a folder belongs to, and what its prefix is called (pure).

Two projects that shared a prefix would pour their memories into each other, and that cannot be
undone. So a folder joins only what it is known to belong to. A container's first project has the
prefix of the settings; every other one has a prefix of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from memplane.errors import PersonaError, UnknownProject

_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")
_PROJECT_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")
_MAX_NAME_CHARS: Final = 40
_COMMIT_DIGITS: Final = (8, 16, 64)
"""How much of the first commit a prefix has; more than the first only if another one has it."""


class Project(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose documents are under a prefix, as recorded there.

    `origin` tells the same project on every machine: the first commit of its repository. The
    record of the container's first project also lists the `others`, by their prefixes.
    """

    project: str
    name: str = ""
    origin: str = ""
    owner: str = ""
    others: dict[str, Project] = msgspec.field(default_factory=dict[str, "Project"])


class OwnedPrefix(msgspec.Struct, frozen=True):
    """A prefix of the container, and the project whose documents lie there."""

    prefix: str
    project: Project

    @property
    def title(self) -> str:
        """The project as people read it."""
        return f"{self.project.name} ({self.prefix})" if self.project.name else self.prefix


def is_same_project(mine: Project, other: Project) -> bool:
    """Say whether two projects are one: by their first commits, or else by id."""
    if mine.origin and other.origin:
        return mine.origin == other.origin
    return bool(mine.project) and mine.project in {other.project, other.origin}


def has_id(mine: Project) -> bool:
    """Say whether anything tells which project it is."""
    return bool(mine.origin or mine.project)


def new_project(mine: Project, new_id: str) -> Project:
    """Describe a project that is recorded for the first time."""
    name = mine.name if mine.origin else mine.project or mine.name
    return Project(mine.project or mine.origin or new_id, name, mine.origin, mine.owner)


def build_own_prefix(base: str, project: Project, taken: Collection[str]) -> str:
    """Name the prefix of a project that is not the container's first."""
    identity = project.origin or project.project
    is_commit = _COMMIT.fullmatch(identity) is not None
    digits = identity if is_commit else hashlib.sha256(identity.encode()).hexdigest()
    name = (
        re.sub(r"[^A-Za-z0-9._-]+", "-", project.name)[:_MAX_NAME_CHARS].strip("-.") or "project"
    )
    prefixes = [f"{base}.{name}-{digits[:length]}" for length in _COMMIT_DIGITS]
    return next((prefix for prefix in prefixes if prefix not in taken), prefixes[-1])


def find_project(known: Sequence[OwnedPrefix], name: str) -> OwnedPrefix:
    """Return the project with this name, prefix or id.

    Raises:
        UnknownProject: None has it, or several do.
    """
    exact = [
        candidate
        for candidate in known
        if name.strip("/") in {candidate.prefix, candidate.project.project}
    ]
    matches = exact or [candidate for candidate in known if candidate.project.name == name]
    if len(matches) == 1:
        return matches[0]
    problem = "several projects are" if matches else "no project in the container is"
    hint = " Give the prefix instead of the name." if matches else ""
    raise UnknownProject(f"{problem} called {name!r}.{hint} {_list_projects(known)}")


def unknown_project_error(known: Sequence[OwnedPrefix]) -> UnknownProject:
    """Make the error for a folder that nothing is known of."""
    return UnknownProject(
        "nothing says which project this folder belongs to: it has no marker, and no first commit "
        f"of a git repository is known. {_list_projects(known)} If it is one of them, say so once "
        "with --join NAME. If it is not, give it an id of its own with persona.project "
        "(MEMPLANE_PERSONA_PROJECT)"
    )


def _list_projects(known: Sequence[OwnedPrefix]) -> str:
    if not known:
        return "The container has no projects."
    return (
        f"Projects in the container: {', '.join(sorted(candidate.title for candidate in known))}."
    )


def check_project_id(project: str) -> None:
    """Refuse an id that cannot be the name of a folder.

    Raises:
        PersonaError: It is one.
    """
    if project and _PROJECT_ID.fullmatch(project) is None:
        raise PersonaError(
            f"{project[:40]!r} cannot be the id of a project: use letters, digits, dots, dashes "
            "and underscores"
        )


def build_sharing_warning(mine: Project, origin: str, name: str, prefix: str) -> str:
    """Say that two projects share a prefix; empty when they do not, or nobody can tell."""
    if not mine.origin or not origin or mine.origin == origin:
        return ""
    return (
        f"the documents in {prefix} are those of another project ({name or origin[:8]}), and this "
        "folder shares them: what is deleted here is deleted there. To give this folder a prefix "
        "of its own, remove .memplane-persona.json from it and sync again"
    )


def refuse_other_owner(mine: Project, other: Project) -> None:
    """Refuse the documents of another agent user.

    Raises:
        PersonaError: They are.
    """
    if mine.owner and other.owner and mine.owner != other.owner:
        raise PersonaError(
            f"these documents belong to another agent user ({other.owner}). One container is for "
            "one agent user: choose another container"
        )
