"""`memplane persona`: what is kept aside, removed, taken out and taken in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memplane.cli.persona_request import PersonaRequest, PersonaResult, make_absolute

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from datetime import timedelta
    from pathlib import Path

    from memplane.persona.folder import DocumentFolder
    from memplane.persona.folder_contents import FolderContents
    from memplane.persona.local_history import ConflictCopy
    from memplane.persona.retention import RetentionVerdict

_REASON_OF_LABEL: Final = {
    "merge": "a merge had to leave it out",
    "adopted": "the memory of earlier syncs was lost, and the container has another text",
    "typed": "it was typed in the moment in which sync wrote the document",
    "import": "an archive had another text",
}
_DAYS_PATTERN: Final = re.compile(r"([0-9]{1,5})d?")
_DEFAULT_DIGEST_AGE: Final = "90d"
_DEFAULT_TOMBSTONE_AGE: Final = "180d"
_MIN_TOMBSTONE_AGE_DAYS: Final = 90

# Conflict copies


def list_conflict_copies(asking: PersonaRequest) -> Iterator[tuple[DocumentFolder, ConflictCopy]]:
    """Yield the texts that wait for a person, also those from before the first sync."""
    from memplane.persona.folder import DocumentFolder

    places = dict.fromkeys((asking.before_any_sync, asking.memory))
    for place in places:
        folder = DocumentFolder(asking.root, place)
        for copy in folder.conflicts():
            yield folder, copy


async def _conflicts(asking: PersonaRequest) -> PersonaResult:
    from memplane.errors import InvalidRequest

    given = asking.arguments
    if given.act is None:
        return _listed(asking)
    if given.name is None:
        raise InvalidRequest(f"which one? memplane persona conflicts {given.act} NAME")
    folder, copy = _find_copy(asking, given.name)
    act = {"show": _show, "drop": _drop, "restore": _restore}[given.act]
    return act(folder, copy)


def _listed(asking: PersonaRequest) -> PersonaResult:
    from memplane.cli.persona_output import print_copies
    from memplane.kit.clock import format_milli_timestamp

    copies = [
        {
            "name": _short(copy),
            "key": copy.key,
            "at": format_milli_timestamp(copy.at),
            "why": _REASON_OF_LABEL.get(copy.label, copy.label),
            "path": str(copy.path),
        }
        for _, copy in list_conflict_copies(asking)
    ]
    return PersonaResult(copies, lambda: print_copies(copies))


def _short(copy: ConflictCopy) -> str:
    from memplane.cli.persona_output import copy_name

    return copy_name(copy.path.name)


def _find_copy(asking: PersonaRequest, name: str) -> tuple[DocumentFolder, ConflictCopy]:
    from memplane.errors import InvalidRequest

    named = [
        (folder, copy)
        for folder, copy in list_conflict_copies(asking)
        if name in {_short(copy), copy.path.name, str(copy.path)}
    ]
    if len(named) == 1:
        return named[0]
    if named:
        raise InvalidRequest(f"several are called {name}: give the whole name of the file")
    raise InvalidRequest(f"no conflict copy is called {name}. See memplane persona conflicts")


def _show(folder: DocumentFolder, copy: ConflictCopy) -> PersonaResult:
    """Show how a copy differs from the document: what only it has, and what it lacks."""
    from difflib import unified_diff

    from memplane.cli.persona_output import print_diff

    here = _lines(folder.read(copy.key) or b"")
    there = _lines(copy.path.read_bytes())
    diff = list(unified_diff(here, there, f"{copy.key} now", f"the copy {_short(copy)}", n=2))
    return PersonaResult(
        {"key": copy.key, "diff": diff}, lambda: print_diff(diff or ["no difference"])
    )


def _lines(text: bytes) -> list[str]:
    return text.decode("utf-8", "replace").splitlines()


def _drop(folder: DocumentFolder, copy: ConflictCopy) -> PersonaResult:
    folder.drop_copy(copy.path)
    return _make_result({"dropped": _short(copy), "key": copy.key}, f"dropped {_short(copy)}")


def _restore(folder: DocumentFolder, copy: ConflictCopy) -> PersonaResult:
    """Put a copy's text in its document's place; the text there becomes a snapshot."""
    from memplane.errors import PersonaError
    from memplane.persona.document_writer import write_document

    now, then = folder.read(copy.key), copy.path.read_bytes()
    if now != then and not write_document(folder, copy.key, then, expected=now):
        raise PersonaError(f"{copy.key} is being written by somebody else; try again")
    folder.drop_copy(copy.path)
    body = {"restored": _short(copy), "key": copy.key}
    return _make_result(
        body, f"{copy.key} has that text now; the one before it is kept as a snapshot"
    )


def _make_result(body: object, sentence: str) -> PersonaResult:
    from memplane.cli.output import escape_text

    return PersonaResult(body, lambda: print(escape_text(sentence)))


# Pruning


async def _prune(asking: PersonaRequest) -> PersonaResult:
    """Remove digests that a larger one covers, or forget old deletions."""
    if asking.arguments.tombstones:
        return await _prune_tombstones(asking)
    from memplane.errors import InvalidRequest
    from memplane.kit.clock import system_clock
    from memplane.persona.document_kinds import find_kind
    from memplane.persona.folder_contents import read_documents
    from memplane.persona.retention import judge_retention

    given = asking.arguments
    kind = find_kind(given.type)
    if kind is None:
        raise InvalidRequest(f"there is no kind {given.type!r}")
    folder = asking.folder()
    read = read_documents(folder)
    seen = max(read.changed.values(), default=None)
    verdicts = judge_retention(
        kind,
        read.files,
        older_than=_age(given.older_than or _DEFAULT_DIGEST_AGE),
        today=system_clock().date(),
        seen=seen.date() if seen is not None else None,
    )
    removed = _remove(folder, read, verdicts) if given.yes else []
    body = {"verdicts": verdicts, "removed": removed}
    return PersonaResult(body, lambda: _print_verdicts(verdicts, removed, read, done=given.yes))


def _age(text: str) -> timedelta:
    from datetime import timedelta

    from memplane.errors import InvalidRequest

    days = _DAYS_PATTERN.fullmatch(text)
    if days is None:
        raise InvalidRequest(f"--older-than takes a number of days such as 90d, not {text!r}")
    return timedelta(days=int(days[1]))


def _remove(
    folder: DocumentFolder, read: FolderContents, verdicts: list[RetentionVerdict]
) -> list[str]:
    """Move documents to the trash, and take their lines out of the index."""
    from memplane.persona.document_kinds import INDEX_KEY
    from memplane.persona.document_writer import remove_document, write_document
    from memplane.persona.merge.index import without_links

    gone = [
        one.key
        for one in verdicts
        if one.is_removable and remove_document(folder, one.key, expected=read.files[one.key])
    ]
    index = read.files.get(INDEX_KEY)
    if index is not None and gone:
        without = without_links(index, gone)
        if without != index:
            write_document(folder, INDEX_KEY, without, expected=index)
    return gone


def _print_verdicts(
    verdicts: list[RetentionVerdict], removed: list[str], read: FolderContents, *, done: bool
) -> None:
    from memplane.cli.output import escape_text
    from memplane.persona.plan import MAX_DELETED_SHARE, MAX_DELETIONS

    for one in verdicts:
        word = "kept" if not one.is_removable else "removed" if one.key in removed else "remove"
        print(escape_text(f"{word:<8} {one.key}: {one.reason}"))
    count = sum(one.is_removable for one in verdicts)
    if not done:
        print(f"{count} could go; nothing was removed. --yes removes them")
        return
    print(f"{len(removed)} moved to the trash; the next sync deletes them everywhere")
    if len(removed) > min(MAX_DELETIONS, max(1, MAX_DELETED_SHARE * len(read.files))):
        print("That is more than sync deletes unasked: memplane persona sync --force")


async def _prune_tombstones(asking: PersonaRequest) -> PersonaResult:
    """Forget deletions that are so old that no machine can still have the document."""
    from datetime import timedelta

    from memplane.errors import InvalidRequest
    from memplane.kit.clock import system_clock
    from memplane.persona.version_order import read_instant
    from memplane.service.composition.persona import open_persona

    given = asking.arguments
    age = _age(given.older_than or _DEFAULT_TOMBSTONE_AGE)
    if age < timedelta(days=_MIN_TOMBSTONE_AGE_DAYS):
        raise InvalidRequest(
            f"tombstones are kept for at least {_MIN_TOMBSTONE_AGE_DAYS} days: a machine that was "
            "away would bring back what was deleted"
        )
    before = system_clock() - age
    old: list[str] = []
    async with open_persona(asking.settings, asking.root, asking.project()) as engine:
        listed = (await engine.survey()).survey.listed
        for key in sorted(key for key, one in listed.items() if one.tombstone):
            there = await engine.container.read(key)
            deleted = read_instant(there.changed) if there and there.text is None else None
            if there is None or deleted is None or deleted >= before:
                continue
            if not given.yes or await engine.container.forget_tombstone(key, there.etag):
                old.append(key)
    what = "forgotten" if given.yes else "could be forgotten; nothing was done. --yes does it"
    return _make_result(
        {"tombstones": old, "done": given.yes}, "\n".join([*old, f"{len(old)} {what}"])
    )


# Archives


async def _export(asking: PersonaRequest) -> PersonaResult:
    """Write all documents into one file, or to the output."""
    import sys

    from memplane.errors import InvalidRequest
    from memplane.persona.archive import export_archive
    from memplane.persona.folder_contents import read_documents

    read = read_documents(asking.folder())
    if read.missing:
        raise InvalidRequest(f"there is no folder {asking.root}")
    archive = export_archive(read.files)
    if asking.arguments.path == "-":
        sys.stdout.buffer.write(archive)
        sys.stdout.buffer.flush()
        return PersonaResult(None, lambda: None)
    path = make_absolute(asking.arguments.path)
    _write_archive(path, archive, replace=asking.arguments.force)
    left = "".join(f"\nleft out {key}: {reason}" for key, reason in read.refused.items())
    body = {"path": str(path), "documents": len(read.files), "bytes": len(archive)}
    return _make_result(body, f"{len(read.files)} documents are in {path}{left}")


def _write_archive(path: Path, archive: bytes, *, replace: bool) -> None:
    import os

    from memplane.errors import InvalidRequest
    from memplane.kit.private_files import replace_private_file

    if path.is_dir() or (path.exists() and not replace):
        raise InvalidRequest(f"{path} is there already. --force replaces a file")
    if not path.parent.is_dir():
        raise InvalidRequest(f"there is no folder {os.fspath(path.parent)}")
    replace_private_file(path, archive)


async def _import(asking: PersonaRequest) -> PersonaResult:
    """Take documents in: merged with those here, or in their place. Nothing here is removed."""
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.kit.clock import system_clock
    from memplane.persona.archive_import import import_documents

    given = asking.arguments
    archived = _read_archive(given.path)
    folder = asking.folder()
    folder.create()
    taken = import_documents(folder, archived, now=system_clock(), replace=given.replace)
    failed = any(one.outcome == "failed" for one in taken)
    lines = [
        f"{one.outcome:<9} {one.key}{f': {one.detail}' if one.detail else ''}" for one in taken
    ]
    same = sum(one.outcome == "same" for one in taken)
    lines = [line for line, one in zip(lines, taken, strict=True) if one.outcome != "same"]
    told = f"{len(taken)} documents in the archive, {same} were here already"
    answer = _make_result({"documents": taken}, "\n".join([*lines, told]))
    return answer._replace(code=EXIT_FAILED if failed else EXIT_OK)


def _read_archive(name: str) -> dict[str, bytes]:
    from pathlib import Path

    from memplane.errors import InvalidRequest
    from memplane.persona.archive import read_archive

    try:
        with Path(name).open("rb") as file:
            return read_archive(file)
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from error


MAINTENANCE_ACTIONS: Final[dict[str, Callable[[PersonaRequest], Awaitable[PersonaResult]]]] = {
    "conflicts": _conflicts,
    "prune": _prune,
    "export": _export,
    "import": _import,
}
