"""`memplane persona`: what is kept aside, removed, taken out and taken in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memplane.cli.persona_asking import Answer, Asking, absolute

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from datetime import timedelta
    from pathlib import Path

    from memplane.persona.folder import Folder
    from memplane.persona.keeping import ConflictCopy
    from memplane.persona.reading import Read
    from memplane.persona.retention import Verdict

_WHY: Final = {
    "merge": "a merge had to leave it out",
    "adopted": "the memory of earlier syncs was lost, and the container has another text",
    "typed": "it was typed in the moment in which sync wrote the document",
    "import": "an archive had another text",
}
_OLDER_THAN: Final = re.compile(r"([0-9]{1,5})d?")
_DIGESTS_AFTER: Final = "90d"
_TOMBSTONES_AFTER: Final = "180d"
_LEAST_FOR_TOMBSTONES: Final = 90

# Conflict copies


def copies_of(asking: Asking) -> Iterator[tuple[Folder, ConflictCopy]]:
    """Yield the texts that wait for a person, also those from before the first sync."""
    from memplane.persona.folder import Folder

    places = dict.fromkeys((asking.before_any_sync, asking.memory))
    for place in places:
        folder = Folder(asking.root, place)
        for copy in folder.conflicts():
            yield folder, copy


async def _conflicts(asking: Asking) -> Answer:
    from memplane.errors import InvalidRequest

    given = asking.arguments
    if given.act is None:
        return _listed(asking)
    if given.name is None:
        raise InvalidRequest(f"which one? memplane persona conflicts {given.act} NAME")
    folder, copy = _found(asking, given.name)
    act = {"show": _show, "drop": _drop, "restore": _restore}[given.act]
    return act(folder, copy)


def _listed(asking: Asking) -> Answer:
    from memplane.cli.persona_show import print_copies
    from memplane.clock import milli_stamp

    copies = [
        {
            "name": _short(copy),
            "key": copy.key,
            "at": milli_stamp(copy.at),
            "why": _WHY.get(copy.label, copy.label),
            "path": str(copy.path),
        }
        for _, copy in copies_of(asking)
    ]
    return Answer(copies, lambda: print_copies(copies))


def _short(copy: ConflictCopy) -> str:
    from memplane.cli.persona_show import copy_name

    return copy_name(copy.path.name)


def _found(asking: Asking, name: str) -> tuple[Folder, ConflictCopy]:
    from memplane.errors import InvalidRequest

    named = [
        (folder, copy)
        for folder, copy in copies_of(asking)
        if name in {_short(copy), copy.path.name, str(copy.path)}
    ]
    if len(named) == 1:
        return named[0]
    if named:
        raise InvalidRequest(f"several are called {name}: give the whole name of the file")
    raise InvalidRequest(f"no conflict copy is called {name}. See memplane persona conflicts")


def _show(folder: Folder, copy: ConflictCopy) -> Answer:
    """Show how a copy differs from the document: what only it has, and what it lacks."""
    from difflib import unified_diff

    from memplane.cli.persona_show import print_diff

    here = _lines(folder.read(copy.key) or b"")
    there = _lines(copy.path.read_bytes())
    diff = list(unified_diff(here, there, f"{copy.key} now", f"the copy {_short(copy)}", n=2))
    return Answer({"key": copy.key, "diff": diff}, lambda: print_diff(diff or ["no difference"]))


def _lines(text: bytes) -> list[str]:
    return text.decode("utf-8", "replace").splitlines()


def _drop(folder: Folder, copy: ConflictCopy) -> Answer:
    folder.drop_copy(copy.path)
    return _said({"dropped": _short(copy), "key": copy.key}, f"dropped {_short(copy)}")


def _restore(folder: Folder, copy: ConflictCopy) -> Answer:
    """Put a copy's text in its document's place; the text there becomes a snapshot."""
    from memplane.errors import PersonaError
    from memplane.persona.writing import write_document

    now, then = folder.read(copy.key), copy.path.read_bytes()
    if now != then and not write_document(folder, copy.key, then, expected=now):
        raise PersonaError(f"{copy.key} is being written by somebody else; try again")
    folder.drop_copy(copy.path)
    body = {"restored": _short(copy), "key": copy.key}
    return _said(body, f"{copy.key} has that text now; the one before it is kept as a snapshot")


def _said(body: object, sentence: str) -> Answer:
    from memplane.cli.show import harmless

    return Answer(body, lambda: print(harmless(sentence)))


# Pruning


async def _prune(asking: Asking) -> Answer:
    """Remove digests that a larger one covers, or forget old deletions."""
    if asking.arguments.tombstones:
        return await _prune_tombstones(asking)
    from memplane.clock import system_clock
    from memplane.errors import InvalidRequest
    from memplane.persona.kinds import kind_named
    from memplane.persona.reading import documents_in
    from memplane.persona.retention import prunable

    given = asking.arguments
    kind = kind_named(given.type)
    if kind is None:
        raise InvalidRequest(f"there is no kind {given.type!r}")
    folder = asking.folder()
    read = documents_in(folder)
    seen = max(read.changed.values(), default=None)
    verdicts = prunable(
        kind,
        read.files,
        older_than=_age(given.older_than or _DIGESTS_AFTER),
        today=system_clock().date(),
        seen=seen.date() if seen is not None else None,
    )
    removed = _remove(folder, read, verdicts) if given.yes else []
    body = {"verdicts": verdicts, "removed": removed}
    return Answer(body, lambda: _print_verdicts(verdicts, removed, read, done=given.yes))


def _age(text: str) -> timedelta:
    from datetime import timedelta

    from memplane.errors import InvalidRequest

    days = _OLDER_THAN.fullmatch(text)
    if days is None:
        raise InvalidRequest(f"--older-than takes a number of days such as 90d, not {text!r}")
    return timedelta(days=int(days[1]))


def _remove(folder: Folder, read: Read, verdicts: list[Verdict]) -> list[str]:
    """Move documents to the trash, and take their lines out of the index."""
    from memplane.persona.kinds import INDEX_KEY
    from memplane.persona.merge.index import without_links
    from memplane.persona.writing import remove_document, write_document

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
    verdicts: list[Verdict], removed: list[str], read: Read, *, done: bool
) -> None:
    from memplane.cli.show import harmless
    from memplane.persona.plan import MOST_DELETED_SHARE, MOST_DELETIONS

    for one in verdicts:
        word = "kept" if not one.is_removable else "removed" if one.key in removed else "remove"
        print(harmless(f"{word:<8} {one.key}: {one.reason}"))
    count = sum(one.is_removable for one in verdicts)
    if not done:
        print(f"{count} could go; nothing was removed. --yes removes them")
        return
    print(f"{len(removed)} moved to the trash; the next sync deletes them everywhere")
    if len(removed) > min(MOST_DELETIONS, max(1, MOST_DELETED_SHARE * len(read.files))):
        print("That is more than sync deletes unasked: memplane persona sync --force")


async def _prune_tombstones(asking: Asking) -> Answer:
    """Forget deletions that are so old that no machine can still have the document."""
    from datetime import timedelta

    from memplane.assemble.persona import open_persona
    from memplane.clock import system_clock
    from memplane.errors import InvalidRequest
    from memplane.persona.newer import read_instant

    given = asking.arguments
    age = _age(given.older_than or _TOMBSTONES_AFTER)
    if age < timedelta(days=_LEAST_FOR_TOMBSTONES):
        raise InvalidRequest(
            f"tombstones are kept for at least {_LEAST_FOR_TOMBSTONES} days: a machine that was "
            "away would bring back what was deleted"
        )
    before = system_clock() - age
    old: list[str] = []
    async with open_persona(asking.settings, asking.root, asking.project()) as engine:
        listed = (await engine.look()).survey.listed
        for key in sorted(key for key, one in listed.items() if one.tombstone):
            there = await engine.container.read(key)
            deleted = read_instant(there.changed) if there and there.text is None else None
            if there is None or deleted is None or deleted >= before:
                continue
            if not given.yes or await engine.container.forget_tombstone(key, there.etag):
                old.append(key)
    what = "forgotten" if given.yes else "could be forgotten; nothing was done. --yes does it"
    return _said({"tombstones": old, "done": given.yes}, "\n".join([*old, f"{len(old)} {what}"]))


# Archives


async def _export(asking: Asking) -> Answer:
    """Write all documents into one file, or to the output."""
    import sys

    from memplane.errors import InvalidRequest
    from memplane.persona.archive import export_archive
    from memplane.persona.reading import documents_in

    read = documents_in(asking.folder())
    if read.missing:
        raise InvalidRequest(f"there is no folder {asking.root}")
    archive = export_archive(read.files)
    if asking.arguments.path == "-":
        sys.stdout.buffer.write(archive)
        sys.stdout.buffer.flush()
        return Answer(None, lambda: None)
    path = absolute(asking.arguments.path)
    _write_archive(path, archive, replace=asking.arguments.force)
    left = "".join(f"\nleft out {key}: {reason}" for key, reason in read.refused.items())
    body = {"path": str(path), "documents": len(read.files), "bytes": len(archive)}
    return _said(body, f"{len(read.files)} documents are in {path}{left}")


def _write_archive(path: Path, archive: bytes, *, replace: bool) -> None:
    import os

    from memplane.errors import InvalidRequest
    from memplane.home import replace_private

    if path.is_dir() or (path.exists() and not replace):
        raise InvalidRequest(f"{path} is there already. --force replaces a file")
    if not path.parent.is_dir():
        raise InvalidRequest(f"there is no folder {os.fspath(path.parent)}")
    replace_private(path, archive)


async def _import(asking: Asking) -> Answer:
    """Take documents in: merged with those here, or in their place. Nothing here is removed."""
    from memplane.cli import FAILED, OK
    from memplane.clock import system_clock
    from memplane.persona.taking_in import take_in

    given = asking.arguments
    archived = _read_archive(given.path)
    folder = asking.folder()
    folder.create()
    taken = take_in(folder, archived, now=system_clock(), replace=given.replace)
    failed = any(one.what == "failed" for one in taken)
    lines = [f"{one.what:<9} {one.key}{f': {one.more}' if one.more else ''}" for one in taken]
    same = sum(one.what == "same" for one in taken)
    lines = [line for line, one in zip(lines, taken, strict=True) if one.what != "same"]
    told = f"{len(taken)} documents in the archive, {same} were here already"
    answer = _said({"documents": taken}, "\n".join([*lines, told]))
    return answer._replace(code=FAILED if failed else OK)


def _read_archive(name: str) -> dict[str, bytes]:
    from pathlib import Path

    from memplane.errors import InvalidRequest
    from memplane.persona.archive import read_archive

    try:
        with Path(name).open("rb") as file:
            return read_archive(file)
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from error


ACTIONS: Final[dict[str, Callable[[Asking], Awaitable[Answer]]]] = {
    "conflicts": _conflicts,
    "prune": _prune,
    "export": _export,
    "import": _import,
}
