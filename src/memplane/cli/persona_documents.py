"""`memplane persona`: looking at documents, beginning new ones, and putting them right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memplane.cli.persona_request import PersonaRequest, PersonaResult, make_absolute

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from memplane.persona.document_kinds import DocumentKind
    from memplane.persona.engine import SyncView
    from memplane.persona.folder_contents import FolderContents
    from memplane.persona.model import DocumentState
    from memplane.persona.plan import ListedObject
    from memplane.persona.validation import DocumentProblem
    from memplane.settings import Settings

# Status


async def _status(asking: PersonaRequest) -> PersonaResult:
    """Say how the folder stands; this needs neither a container nor a network."""
    from memplane.cli.persona_output import print_status
    from memplane.persona.folder_watcher import find_watcher
    from memplane.service.composition.persona import persona_post, synced_place

    container, complaints = _container(asking.settings)
    standing = asking.standing()
    marker = asking.marker
    watcher = find_watcher(persona_post(asking.settings, asking.root))
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
        "prefix": synced_place(asking.settings, asking.root).prefix,
        "project": marker.project if marker else "",
        "device": standing.device if standing else "",
        "last_sync": standing.last_sync if standing else "",
        "watched_by": watcher.pid if watcher else None,
        "conflicts": len(_copies(asking)),
        "complaints": complaints,
    }
    body = {**status, "waiting": waiting, "held": held}
    return PersonaResult(body, lambda: print_status(status, waiting, held))


def _container(settings: Settings) -> tuple[str, list[str]]:
    """Return the container's address, and what is missing."""
    from memplane.errors import BackendMisconfigured
    from memplane.service.composition.storage import configured_container, place_of

    complaints: list[str] = []
    if not settings.persona.sync:
        complaints.append("sync is switched off: MEMPLANE_PERSONA_SYNC says so")
    try:
        return place_of(configured_container(settings)), complaints
    except BackendMisconfigured as error:
        return "", [*complaints, str(error)]


def _copies(asking: PersonaRequest) -> tuple[object, ...]:
    from memplane.cli.persona_maintenance import list_conflict_copies

    return tuple(list_conflict_copies(asking))


def _read(asking: PersonaRequest) -> FolderContents:
    from memplane.persona.folder_contents import read_documents

    return read_documents(asking.folder())


# Listing


async def _list(asking: PersonaRequest) -> PersonaResult:
    """List the documents; without an answer from the container, as far as is known here."""
    from memplane.cli import EXIT_OK, EXIT_UNAVAILABLE
    from memplane.cli.persona_output import print_documents
    from memplane.errors import AuthError, BackendUnavailable
    from memplane.service.composition.persona import look_first, objection_to_syncing, open_persona
    from memplane.service.composition.storage import choose_storage

    choose_storage(asking.settings)  # half a configuration may have to be refused
    if objection := objection_to_syncing(asking.settings):
        rows, note = _rows_here(asking), f"only what is here: {objection}"
        return PersonaResult(rows, lambda: print_documents(rows, note))
    note, code = "", EXIT_OK
    try:
        if asking.marker is None:
            view, _ = await look_first(asking.settings, asking.root, asking.project())
            rows = _rows(asking, view, {}, {})
        else:
            async with open_persona(asking.settings, asking.root, asking.project()) as engine:
                view = await engine.survey()
                held = {one.key: one.reason for one in engine.baseline.held()}
                rows = _rows(asking, view, engine.baseline.states(), held)
    except (BackendUnavailable, AuthError) as error:
        rows = _rows_here(asking)
        note, code = f"only what is here, because {error}", EXIT_UNAVAILABLE
    return PersonaResult(rows, lambda: print_documents(rows, note), code)


def _rows(
    asking: PersonaRequest,
    view: SyncView,
    states: Mapping[str, DocumentState],
    held: Mapping[str, str],
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
                "state": "held" if row.key in held else _STATE_LABELS[row.action.value, is_gone],
            }
        )
    return rows


def _size(there: ListedObject | None) -> int | None:
    return there.size if there is not None else None


def _kind(key: str, text: bytes | None) -> str:
    from memplane.persona.document import parse
    from memplane.persona.document_kinds import detect_kind

    return detect_kind(key, parse(text).type if text is not None else None).name


_CHANGED_HERE: Final = "changed here"
_CHANGED_THERE: Final = "changed there"


class _StateLabels(dict[tuple[str, bool], str]):
    """How a document stands, by what would be done with it and by whether it is gone."""

    def __missing__(self, key: tuple[str, bool]) -> str:
        return "deleted" if key[1] else self[key[0], False]


_STATE_LABELS: Final = _StateLabels(
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


def _rows_here(asking: PersonaRequest) -> list[dict[str, Any]]:
    return [
        {"key": key, "kind": _kind(key, text), "size": len(text), "etag": None, "state": "here"}
        for key, text in _read(asking).files.items()
    ]


# Checking


async def _check(asking: PersonaRequest) -> PersonaResult:
    """Find what is wrong with the documents of a folder."""
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.persona_output import print_problems
    from memplane.errors import InvalidRequest
    from memplane.persona.folder import DocumentFolder
    from memplane.persona.folder_contents import read_documents
    from memplane.persona.validation import DocumentProblem, DocumentRule, check_documents

    root = make_absolute(asking.arguments.dir) if asking.arguments.dir else asking.root
    read = read_documents(DocumentFolder(root, asking.before_any_sync))
    if read.missing:
        raise InvalidRequest(f"there is no folder {root}")
    refused = (
        DocumentProblem(
            key,
            DocumentRule.BAD_NAME,
            "error",
            reason,
            "rename it, move it or replace it by a file",
        )
        for key, reason in read.refused.items()
    )
    found = check_documents(read.files, limit=asking.settings.persona.max_bytes)
    secrets = _secrets(asking, root, read.files)
    problems = sorted((*refused, *found, *secrets), key=lambda one: (one.key, one.severity))
    failed = any(one.severity == "error" for one in problems)
    body = {"folder": str(root), "documents": len(read.files), "problems": problems}
    code = EXIT_FAILED if failed else EXIT_OK
    return PersonaResult(body, lambda: print_problems(problems, len(read.files)), code)


def _secrets(
    asking: PersonaRequest, root: Path, files: Mapping[str, bytes]
) -> Iterator[DocumentProblem]:
    """Yield what looks like a secret, unless somebody said that the document may go."""
    from memplane.persona.baseline_reader import read_baseline
    from memplane.persona.publish_gate import find_secret
    from memplane.service.composition.persona import secrets_unasked

    allowed = read_baseline(asking.memory).allowed if root == asking.root else frozenset[str]()
    find_secrets = secrets_unasked(asking.settings)
    found = (find_secret(key, text, find_secrets) for key, text in files.items())
    return (one for one in found if one is not None and one.key not in allowed)


async def _guide(asking: PersonaRequest) -> PersonaResult:
    from memplane.persona.guide import build_guide

    text = build_guide(asking.arguments.reader)
    return PersonaResult({"guide": text}, lambda: print(text, end=""))


# Writing


async def _new(asking: PersonaRequest) -> PersonaResult:
    """Begin a document, and give it a line in the index."""
    from memplane.errors import InvalidRequest
    from memplane.persona.document_kinds import DOCUMENT_KINDS, find_kind
    from memplane.persona.document_writer import link_document, write_document
    from memplane.persona.templates import new_document

    given = asking.arguments
    kind = find_kind(given.kind)
    if kind is None:
        known = ", ".join(one.name for one in DOCUMENT_KINDS)
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
    linked = link_document(folder, key, text)

    def show() -> None:
        print(path)
        if not linked:
            print(f"MEMORY.md has no line for it yet: somebody is writing there. Add one to {key}")

    return PersonaResult(
        {"key": key, "path": str(path), "kind": _name(kind), "linked": linked}, show
    )


def _name(kind: DocumentKind) -> str:
    return kind.name


def _people(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the UPN of each relationship by its key."""
    from memplane.persona.document import parse
    from memplane.persona.document_kinds import detect_kind

    read = {key: parse(text) for key, text in files.items()}
    return {
        key: one.text_of("upn") or ""
        for key, one in read.items()
        if detect_kind(key, one.type).name == "relationship"
    }


def _local_time(settings: Settings) -> datetime:
    from zoneinfo import ZoneInfo

    from memplane.kit.clock import system_clock

    zone = ZoneInfo(settings.timezone) if settings.timezone else None
    return system_clock().astimezone(zone)


async def _adopt(asking: PersonaRequest) -> PersonaResult:
    """Give a document the frontmatter that it lacks."""
    from memplane.cli.output import escape_text
    from memplane.errors import InvalidRequest, PersonaError
    from memplane.persona.document import parse
    from memplane.persona.document_kinds import REQUIRED_FIELDS
    from memplane.persona.document_writer import write_document
    from memplane.persona.validation import add_missing_frontmatter

    key = asking.key_of(asking.arguments.file)
    folder = asking.folder()
    before = folder.read(key) if asking.root.exists() else None
    if before is None:
        raise InvalidRequest(f"{key} is not in {asking.root}")
    after = add_missing_frontmatter(key, before)
    if after != before and not write_document(folder, key, after, expected=before):
        raise PersonaError(f"{key} is being written by somebody else; try again")
    old, new = parse(before), parse(after)
    added = {
        field: new.text_of(field) or "" for field in REQUIRED_FIELDS if old.text_of(field) is None
    }

    def show() -> None:
        if not added:
            print(f"{key} needs nothing")
        for field, value in added.items():
            print(escape_text(f"added {field}: {value}"))

    return PersonaResult({"key": key, "added": added}, show)


DOCUMENT_ACTIONS: Final[dict[str, Callable[[PersonaRequest], Awaitable[PersonaResult]]]] = {
    "status": _status,
    "list": _list,
    "check": _check,
    "validate": _check,
    "guide": _guide,
    "new": _new,
    "adopt": _adopt,
}
