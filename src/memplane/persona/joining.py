"""Whether a folder may be synced with the documents under a prefix (pure).

Two projects that shared a prefix would pour their memories into each other, and that cannot be
undone. So a folder joins only what it is known to belong to.
"""

from __future__ import annotations

import msgspec

from memplane.errors import PersonaError


class Project(msgspec.Struct, frozen=True):
    """Whose documents are under a prefix, as recorded there.

    `origin` tells the same project on every machine, such as the first commit of its repository.
    """

    project: str
    name: str = ""
    origin: str = ""
    owner: str = ""


def project_to_join(
    mine: Project, there: Project | None, *, empty: bool, join: bool, new_id: str
) -> Project:
    """Return the project that the folder belongs to from now on.

    `mine.project` is the id in the folder's marker or in the settings, if there is one; `empty`
    says that the folder has no documents; `join` that somebody knows it is the same project.

    Raises:
        PersonaError: It is another project's place, or another agent user's.
    """
    if there is None:
        return Project(mine.project or new_id, mine.name, mine.origin, mine.owner)
    refuse_other_owner(mine, there)
    if mine.project == there.project:
        return there
    if not mine.project:
        same = bool(mine.origin) and mine.origin == there.origin
        if same or empty or join:
            return there
    named = f"the project {there.name!r}" if there.name else "another project"
    advice = (
        "Choose another place with persona.prefix (MEMPLANE_PERSONA_PREFIX)"
        if mine.project
        else "If it is the same project, say so once with --join, and the documents of both are "
        "merged. Otherwise choose another place with persona.prefix (MEMPLANE_PERSONA_PREFIX)"
    )
    raise PersonaError(f"the container has documents of {named} here already. {advice}")


def refuse_other_owner(mine: Project, there: Project) -> None:
    """Refuse the documents of another agent user.

    Raises:
        PersonaError: They are.
    """
    if mine.owner and there.owner and mine.owner != there.owner:
        raise PersonaError(
            f"these documents belong to another agent user ({there.owner}). One container is for "
            "one agent user: choose another container"
        )
