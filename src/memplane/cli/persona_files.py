"""`memplane persona`: looking at documents, beginning new ones, and putting them right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memplane.cli.persona_asking import Answer, Asking, absolute

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from memplane.persona.checking import Problem
    from memplane.persona.engine import View
    from memplane.persona.folder import Folder
    from memplane.persona.kinds import Kind
    from memplane.persona.model import State
    from memplane.persona.plan import Listed
    from memplane.persona.reading import Read
    from memplane.settings import Settings

# Status


async def _status(asking: Asking) -> Answer:
    """Say how the folder stands; this needs neither a container nor a network."""
    from memplane.assemble.persona import persona_post
    from memplane.cli.persona_show import print_status
    from memplane.persona.watching import watched

    container, complaints = _container(asking.settings)
    standing = asking.standing()
    marker = asking.marker
    watcher = watched(persona_post(asking.settings, asking.root))
    if watcher is not None and watcher.trouble:
        complaints.append(watcher.trouble)
    read = _read(asking)
    complaints += [f"{key}: {reason}" for key, reason in read.refused.items()]
    waiting = standing.waiting if standing else ()
    held = standing.held if standing else ()
    status = {
        "folder": str(asking.root),
        "why": asking.here.why,
        "exists": not read.missing,
        "documents": len(read.files),
        "container": container,
        "prefix": asking.settings.persona.prefix,
        "project": marker.project if marker else "",
        "device": standing.device if standing else "",
        "last_sync": standing.last_sync if standing else "",
        "watched_by": watcher.pid if watcher else None,
        "conflicts": len(_copies(asking)),
        "complaints": complaints,
    }
    body = {**status, "waiting": waiting, "held": held}
    return Answer(body, lambda: print_status(status, waiting, held))


def _container(settings: Settings) -> tuple[str, list[str]]:
    """Return the container's address, and what is missing."""
    from memplane.assemble.storage import configured_container, container_address
    from memplane.errors import BackendMisconfigured

    complaints: list[str] = []
    if not settings.persona.sync:
        complaints.append("sync is switched off: MEMPLANE_PERSONA_SYNC says so")
    try:
        return container_address(configured_container(settings).blob), complaints
    except BackendMisconfigured as error:
        return "", [*complaints, str(error)]


def _copies(asking: Asking) -> tuple[object, ...]:
    from memplane.cli.persona_keeping import copies_of

    return tuple(copies_of(asking))


def _read(asking: Asking) -> Read:
    from memplane.persona.reading import documents_in

    return documents_in(asking.folder())


# Listing


async def _list(asking: Asking) -> Answer:
    """List the documents; without an answer from the container, as far as is known here."""
    from memplane.assemble.persona import look_first, open_persona
    from memplane.cli import OK, UNAVAILABLE
    from memplane.cli.persona_show import print_documents
    from memplane.errors import AuthError, BackendUnavailable

    note, code = "", OK
    try:
        if asking.marker is None:
            view, _ = await look_first(asking.settings, asking.root, asking.project())
            rows = _rows(asking, view, {}, {})
        else:
            async with open_persona(asking.settings, asking.root, asking.project()) as engine:
                view = await engine.look()
                held = {one.key: one.reason for one in engine.baseline.held()}
                rows = _rows(asking, view, engine.baseline.states(), held)
    except (BackendUnavailable, AuthError) as error:
        rows = _rows_here(asking)
        note, code = f"only what is here, because {error}", UNAVAILABLE
    return Answer(rows, lambda: print_documents(rows, note), code)


def _rows(
    asking: Asking, view: View, states: Mapping[str, State], held: Mapping[str, str]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in view.rows:
        there = view.survey.listed.get(row.key)
        text = view.files.get(row.key)
        is_gone = text is None and (there is None or there.tombstone)
        if is_gone and not asking.arguments.all:
            continue
        known = states.get(row.key)
        base = known.base.text if known is not None and known.base is not None else None
        rows.append(
            {
                "key": row.key,
                "kind": _kind(row.key, text if text is not None else base),
                "size": None if is_gone else len(text) if text is not None else _size(there),
                "etag": there.etag if there else None,
                "state": "held" if row.key in held else _STATES[row.action.value, is_gone],
            }
        )
    return rows


def _size(there: Listed | None) -> int | None:
    return there.size if there is not None else None


def _kind(key: str, text: bytes | None) -> str:
    from memplane.persona.document import parse
    from memplane.persona.kinds import kind_of

    return kind_of(key, parse(text).type if text is not None else None).name


_CHANGED_HERE: Final = "changed here"
_CHANGED_THERE: Final = "changed there"


class _States(dict[tuple[str, bool], str]):
    """How a document stands, by what would be done with it and by whether it is gone."""

    def __missing__(self, key: tuple[str, bool]) -> str:
        return "deleted" if key[1] else self[key[0], False]


_STATES: Final = _States(
    {
        ("nothing", False): "same",
        ("create", False): "new here",
        ("put", False): _CHANGED_HERE,
        ("republish", False): "missing there",
        ("pull", False): _CHANGED_THERE,
        ("merge", False): "changed here and there",
        ("delete", False): "deleted here",
        ("remove", False): "deleted there",
        ("restore", False): "deleted here, changed there",
        ("settle", False): "to be looked at",
    }
)


def _rows_here(asking: Asking) -> list[dict[str, Any]]:
    return [
        {"key": key, "kind": _kind(key, text), "size": len(text), "etag": None, "state": "here"}
        for key, text in _read(asking).files.items()
    ]


# Checking


async def _check(asking: Asking) -> Answer:
    """Find what is wrong with the documents of a folder."""
    from memplane.cli import FAILED, OK
    from memplane.cli.persona_show import print_problems
    from memplane.errors import InvalidRequest
    from memplane.persona.checking import Problem, Rule, problems_in
    from memplane.persona.folder import Folder
    from memplane.persona.reading import documents_in

    root = absolute(asking.arguments.dir) if asking.arguments.dir else asking.root
    read = documents_in(Folder(root, asking.before_any_sync))
    if read.missing:
        raise InvalidRequest(f"there is no folder {root}")
    refused = (
        Problem(key, Rule.BAD_NAME, "error", reason, "rename it, move it or replace it by a file")
        for key, reason in read.refused.items()
    )
    found = problems_in(read.files, limit=asking.settings.persona.max_bytes)
    secrets = _secrets(asking, root, read.files)
    problems = sorted((*refused, *found, *secrets), key=lambda one: (one.key, one.severity))
    failed = any(one.severity == "error" for one in problems)
    body = {"folder": str(root), "documents": len(read.files), "problems": problems}
    code = FAILED if failed else OK
    return Answer(body, lambda: print_problems(problems, len(read.files)), code)


def _secrets(asking: Asking, root: Path, files: Mapping[str, bytes]) -> Iterator[Problem]:
    """Yield what looks like a secret, unless somebody said that the document may go."""
    from memplane.assemble.persona import secrets_unasked
    from memplane.persona.gate import secret_in
    from memplane.persona.remembering import remembered_in

    allowed = remembered_in(asking.memory).allowed if root == asking.root else frozenset[str]()
    find_secrets = secrets_unasked(asking.settings)
    found = (secret_in(key, text, find_secrets) for key, text in files.items())
    return (one for one in found if one is not None and one.key not in allowed)


async def _guide(asking: Asking) -> Answer:
    from memplane.persona.guide import guide_for

    text = guide_for(asking.arguments.reader)
    return Answer({"guide": text}, lambda: print(text, end=""))


# Writing


async def _new(asking: Asking) -> Answer:
    """Begin a document, and give it a line in the index."""
    from memplane.errors import InvalidRequest
    from memplane.persona.kinds import KINDS, kind_named
    from memplane.persona.templates import new_document
    from memplane.persona.writing import write_document

    given = asking.arguments
    kind = kind_named(given.kind)
    if kind is None:
        known = ", ".join(one.name for one in KINDS)
        raise InvalidRequest(f"there is no kind {given.kind!r}. There are {known}")
    folder = asking.folder()
    folder.create()
    files = _read(asking).files
    key, text = new_document(
        kind,
        name=" ".join(given.title),
        description=given.description,
        upn=given.upn,
        people=_people(files),
        now=_local_time(asking.settings),
    )
    path = asking.root / key
    if not write_document(folder, key, text, expected=None):
        raise InvalidRequest(f"{path} is there already, and stays as it is")
    linked = _link(folder, files, key, text)

    def show() -> None:
        print(path)
        if not linked:
            print(f"MEMORY.md has no line for it yet: somebody is writing there. Add one to {key}")

    return Answer({"key": key, "path": str(path), "kind": _name(kind), "linked": linked}, show)


def _name(kind: Kind) -> str:
    return kind.name


def _people(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the UPN of each relationship by its key."""
    from memplane.persona.document import parse
    from memplane.persona.kinds import kind_of

    read = {key: parse(text) for key, text in files.items()}
    return {
        key: one.text_of("upn") or ""
        for key, one in read.items()
        if kind_of(key, one.type).name == "relationship"
    }


def _local_time(settings: Settings) -> datetime:
    from zoneinfo import ZoneInfo

    from memplane.clock import system_clock

    zone = ZoneInfo(settings.timezone) if settings.timezone else None
    return system_clock().astimezone(zone)


def _link(folder: Folder, files: Mapping[str, bytes], key: str, text: bytes) -> bool:
    """Give a document a line in the index; False when somebody is at the index right now."""
    from memplane.persona.document import parse
    from memplane.persona.index import with_link
    from memplane.persona.kinds import INDEX_KEY
    from memplane.persona.writing import write_document

    if key == INDEX_KEY:
        return True
    about = parse(text)
    index = files.get(INDEX_KEY)
    linked = with_link(index or b"", key, about.name or key, about.description or "")
    if linked == index:
        return True
    return write_document(folder, INDEX_KEY, linked, expected=index)


async def _adopt(asking: Asking) -> Answer:
    """Give a document the frontmatter that it lacks."""
    from memplane.cli.show import harmless
    from memplane.errors import InvalidRequest, PersonaError
    from memplane.persona.checking import adopted
    from memplane.persona.document import parse
    from memplane.persona.kinds import REQUIRED
    from memplane.persona.writing import write_document

    key = asking.key_of(asking.arguments.file)
    folder = asking.folder()
    before = folder.read(key) if asking.root.exists() else None
    if before is None:
        raise InvalidRequest(f"{key} is not in {asking.root}")
    after = adopted(key, before)
    if after != before and not write_document(folder, key, after, expected=before):
        raise PersonaError(f"{key} is being written by somebody else; try again")
    old, new = parse(before), parse(after)
    added = {field: new.text_of(field) or "" for field in REQUIRED if old.text_of(field) is None}

    def show() -> None:
        if not added:
            print(f"{key} needs nothing")
        for field, value in added.items():
            print(harmless(f"added {field}: {value}"))

    return Answer({"key": key, "added": added}, show)


ACTIONS: Final[dict[str, Callable[[Asking], Awaitable[Answer]]]] = {
    "status": _status,
    "list": _list,
    "check": _check,
    "validate": _check,
    "guide": _guide,
    "new": _new,
    "adopt": _adopt,
}
