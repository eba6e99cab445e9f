"""Which prefix of a container holds the documents of a project."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from memplane.errors import BackendUnavailable, ConcurrencyError
from memplane.kit.ids import new_id
from memplane.persona.container import PROJECT_FILE, DocumentContainer
from memplane.persona.project_match import (
    OwnedPrefix,
    Project,
    build_own_prefix,
    check_project_id,
    find_project,
    has_id,
    is_same_project,
    new_project,
    refuse_other_owner,
    unknown_project_error,
)
from memplane.storage.store import ObjectStore

_MAX_ATTEMPTS: Final = 8


async def find_prefix(
    store: ObjectStore,
    base: str,
    mine: Project,
    *,
    marked: str = "",
    join: str = "",
    claim: bool = True,
) -> OwnedPrefix:
    """Return where a project's documents lie, and record it there if it is new.

    `marked` is the id in the folder's marker, `join` the name of a project that somebody says it
    is. Without `claim` nothing is written.

    Raises:
        UnknownProject: Nothing says which project it is, or none has that name.
        PersonaError: The container is another agent user's.
        BackendUnavailable: Too many devices recorded projects at the same time.
    """
    check_project_id(mine.project)
    for _ in range(_MAX_ATTEMPTS):
        try:
            return await _try_find_prefix(store, base, mine, marked=marked, join=join, claim=claim)
        except ConcurrencyError:
            continue  # another device recorded a project meanwhile
    raise BackendUnavailable("other devices record their projects at the same time: sync again")


async def _try_find_prefix(
    store: ObjectStore, base: str, mine: Project, *, marked: str, join: str, claim: bool
) -> OwnedPrefix:
    record = await DocumentContainer(store, base).read_record()
    first = None if record is None else OwnedPrefix(base, record[0])
    if first is not None:
        refuse_other_owner(mine, first.project)
        if not join and _is_first(first.project, mine, marked):
            return first
    known = await _known_projects(store, base, first)
    owned = find_project(known, join) if join else _project_of(known, mine, marked)
    if owned is None:
        # A first commit is the id; what a setting says counts for projects without one.
        project_id = marked or ("" if mine.origin else mine.project)
        project = new_project(replace(mine, project=project_id), new_id())
        owned = _choose_new_prefix(
            base, project, known, first, is_known=has_id(mine) or bool(marked)
        )
        if record is not None and claim:
            # This write decides between devices that do the same under another name.
            others = {**record[0].others, owned.prefix: project}
            record_with_project = replace(record[0], others=others)
            await DocumentContainer(store, base).replace_record(record_with_project, record[1])
    if claim:
        claimed = await DocumentContainer(store, owned.prefix).claim(owned.project)
        if claimed.project != owned.project.project:
            raise ConcurrencyError("another project was recorded here first", key=owned.prefix)
    return owned


def _choose_new_prefix(
    base: str,
    project: Project,
    known: list[OwnedPrefix],
    first: OwnedPrefix | None,
    *,
    is_known: bool,
) -> OwnedPrefix:
    """Choose the prefix of a project that the container has no record of.

    Raises:
        UnknownProject: It may be one of the others: nothing tells.
    """
    if first is None:
        return OwnedPrefix(base, project)
    if not is_known:
        raise unknown_project_error(known)
    return OwnedPrefix(build_own_prefix(base, project, {owned.prefix for owned in known}), project)


def _is_first(first: Project, mine: Project, marked: str) -> bool:
    return first.project == marked if marked else is_same_project(mine, first)


def _project_of(known: list[OwnedPrefix], mine: Project, marked: str) -> OwnedPrefix | None:
    """Find a project by the folder's marker, or else by what else is known of it."""
    by_marker = (owned for owned in known if marked and owned.project.project == marked)
    by_identity = (owned for owned in known if is_same_project(mine, owned.project))
    return next(by_marker, None) or next(by_identity, None)


async def _known_projects(
    store: ObjectStore, base: str, first: OwnedPrefix | None
) -> list[OwnedPrefix]:
    """List the projects of the container, the first one first."""
    listing = await store.listing(f"{base}.")
    suffix = f"/{PROJECT_FILE}"
    prefixes = {
        info.key.removesuffix(suffix) for info in listing.entries if info.key.endswith(suffix)
    }
    top = sorted(prefix for prefix in prefixes if "/" not in prefix.removeprefix(base))
    records = await asyncio.gather(
        *(DocumentContainer(store, info).read_project() for info in top)
    )
    others = dict(first.project.others) if first is not None else {}
    others |= {prefix: info for prefix, info in zip(top, records, strict=True) if info is not None}
    nested_projects = [OwnedPrefix(prefix, project) for prefix, project in sorted(others.items())]
    return nested_projects if first is None else [first, *nested_projects]
