"""From a local tree to a backend: every file once, nothing changed at the source, all verified."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from memplane.errors import ConcurrencyError, MemplaneError
from memplane.kit.durable_files import open_folder, read_file, translate_os_errors
from memplane.kit.ids import RESERVED_PREFIX
from memplane.storage.backend import KeyInfo, Versioned
from memplane.storage.keys import check_key
from memplane.storage.manifest import MANIFEST_KEY

_MAX_CONCURRENT_COPIES: Final = 8
_MOVED_KEYS: Final = {
    "watched_chats": "state/watched_chats",
    "email_cursor.txt": "state/email_cursor.txt",
}
PERSONA_PREFIX: Final = "claude_memory"
"""Where a local tree has persona documents, and where they go unless a prefix is given."""
PERSONA_FOLDERS: Final = (PERSONA_PREFIX, "behavioral")
"""What that folder is called in a local tree; the second name is an older one."""

Refuse: TypeAlias = Callable[[str, bytes], str]
"""Says why what is to be at a key may not leave this machine; empty when it may."""

LocalRoot: TypeAlias = "Path | str | Sequence[tuple[Path | str, str]]"


class MigrationDestination(Protocol):
    """What migration needs of a backend."""

    def read_versioned(self, key: str) -> Versioned | None:
        """Read back what was copied."""
        ...

    def write_if(
        self, key: str, data: bytes, *, if_match: str | None = None, if_absent: bool = False
    ) -> str:
        """Create a key."""
        ...

    def list_meta(self, prefix: str = "") -> list[KeyInfo]:
        """Learn what is there already."""
        ...


@runtime_checkable
class IndexedDestination(Protocol):
    """A backend with an index of its own."""

    def settle(self) -> None:
        """Bring the index up to date."""
        ...


@dataclass(slots=True)
class MigrationReport:
    """What a migration did.

    `errors` and `held` hold (file, reason) pairs: what could not be copied, and what was not
    allowed to leave this machine. Neither stops anything else.
    """

    copied: int = 0
    skipped: int = 0
    errors: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    bytes_copied: int = 0
    keys_copied: list[str] = field(default_factory=list[str])
    verified: int = 0
    held: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


@dataclass(frozen=True, slots=True)
class _SourceFile:
    path: Path
    root: Path
    relative: str
    key: str
    is_renamed: bool


@dataclass(frozen=True, slots=True)
class _CopyOutcome:
    file: _SourceFile
    state: Literal["copied", "skipped", "failed", "held"]
    size: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What a migration will copy, as far as is known before anything is read."""

    work: list[_SourceFile]
    existing_keys: frozenset[str]
    report: MigrationReport

    @property
    def missing(self) -> list[_SourceFile]:
        """The files whose keys the backend does not have yet."""
        return [file for file in self.work if file.key not in self.existing_keys]

    def count_bytes(self) -> int:
        """Add up the sizes of the missing files; one that vanished meanwhile counts nothing."""
        total = 0
        for file in self.missing:
            with suppress(OSError):
                total += file.path.stat().st_size
        return total


def copy_tree(
    local_root: LocalRoot,
    backend: MigrationDestination,
    *,
    refuse: Refuse,
    sources: Sequence[str] | None = None,
    persona_prefix: str = PERSONA_PREFIX,
    progress: Callable[[int, int, str], None] | None = None,
) -> MigrationReport:
    """Copy a local tree, or several (folder, prefix) pairs, into a backend.

    A key that exists is skipped, so a second run copies nothing. `sources` names the subtrees to
    take. Persona documents of a tree without a prefix go below `persona_prefix`. Every copy is
    read back and compared. What `refuse` objects to is held back. `progress` is told (done, of
    how many, key).

    Raises:
        StorageError: The backend could not say what it holds. Nothing was copied.
    """
    plan = plan_migration(local_root, backend, sources=sources, persona_prefix=persona_prefix)
    return run_migration(plan, backend, refuse=refuse, progress=progress)


def plan_migration(
    local_root: LocalRoot,
    backend: MigrationDestination,
    *,
    sources: Sequence[str] | None = None,
    persona_prefix: str = PERSONA_PREFIX,
) -> MigrationPlan:
    """Look at what is here and what is there. Nothing is copied.

    Raises:
        StorageError: The backend could not say what it holds.
    """
    report = MigrationReport()
    pairs: Sequence[tuple[Path | str, str]] = (
        [(local_root, "")] if isinstance(local_root, (Path, str)) else local_root
    )
    files = [
        file
        for root, prefix in pairs
        for file in _files(
            Path(root), prefix, sources, report.errors, persona_prefix=persona_prefix
        )
    ]
    work = _dedupe_by_key(files, report)
    existing_keys = frozenset(info.key for info in backend.list_meta())
    return MigrationPlan(work, existing_keys, report)


def run_migration(
    plan: MigrationPlan,
    backend: MigrationDestination,
    *,
    refuse: Refuse,
    progress: Callable[[int, int, str], None] | None = None,
) -> MigrationReport:
    """Copy what was planned, and read it back."""
    report = plan.report
    with ThreadPoolExecutor(_MAX_CONCURRENT_COPIES, thread_name_prefix="migrate") as pool:
        copy = partial(
            _copy_file, backend=backend, existing_keys=plan.existing_keys, refuse=refuse
        )
        for done, outcome in enumerate(pool.map(copy, plan.work), 1):
            _note(report, outcome)
            if progress:
                progress(done, len(plan.work), outcome.file.key)
    if isinstance(backend, IndexedDestination):
        backend.settle()
    return report


def _dedupe_by_key(files: Sequence[_SourceFile], report: MigrationReport) -> list[_SourceFile]:
    """Choose one file for each key: the one that has that name already, if there is one."""
    chosen: dict[str, _SourceFile] = {}
    for file in sorted(files, key=lambda file: file.is_renamed):
        first = chosen.setdefault(file.key, file)
        if first is file:
            continue
        report.skipped += 1
        if first.path.read_bytes() != file.path.read_bytes():
            reason = f"would be {file.key!r} too, which comes from {first.path}"
            report.errors.append((str(file.path), reason))
    return [file for file in files if chosen[file.key] is file and file.key != MANIFEST_KEY]


def _files(
    root: Path,
    prefix: str,
    sources: Sequence[str] | None,
    errors: list[tuple[str, str]],
    *,
    persona_prefix: str,
) -> Iterator[_SourceFile]:
    for path in _walk(root, errors):
        relative = path.relative_to(root).as_posix()
        if (sources is not None and not _is_below(relative, sources)) or _is_memplane_file(
            relative
        ):
            continue
        if path.is_symlink():
            errors.append((str(path), "is a symbolic link, and those are not followed"))
        elif not path.is_file():
            errors.append((str(path), "is not an ordinary file"))
        else:
            key = _key(relative, prefix, persona_prefix)
            usual = key if prefix else _key(relative, prefix, PERSONA_PREFIX)
            yield _SourceFile(
                path, root, relative, key, is_renamed=not prefix and usual != relative
            )


def _walk(root: Path, errors: list[tuple[str, str]]) -> Iterator[Path]:
    """Yield everything below the root that is not a folder, and links to folders, sorted."""

    def unreadable(error: OSError) -> None:
        errors.append((str(error.filename), f"cannot be read: {error.strerror}"))

    if not root.is_dir():
        return
    for top, folders, names in os.walk(root, onerror=unreadable):
        folders.sort()
        links = [name for name in folders if (Path(top) / name).is_symlink()]
        yield from (Path(top) / name for name in sorted(names + links))


def _is_memplane_file(relative: str) -> bool:
    return any(part.startswith(RESERVED_PREFIX) for part in relative.split("/"))


def _is_below(relative: str, sources: Sequence[str]) -> bool:
    folders = [source.strip("/") for source in sources]
    return any(relative == folder or relative.startswith(f"{folder}/") for folder in folders)


def _key(relative: str, prefix: str, persona_prefix: str) -> str:
    if prefix:
        return f"{prefix.rstrip('/')}/{relative}"
    folder, slash, document = relative.partition("/")
    if slash and folder in PERSONA_FOLDERS:
        return f"{persona_prefix}/{document}"
    return _MOVED_KEYS.get(relative, relative)


def _copy_file(
    file: _SourceFile,
    *,
    backend: MigrationDestination,
    existing_keys: frozenset[str],
    refuse: Refuse,
) -> _CopyOutcome:
    try:
        check_key(file.key)
        if file.key in existing_keys:
            return _CopyOutcome(file, "skipped")
        data = _content(file)
        if reason := refuse(file.key, data):
            return _CopyOutcome(file, "held", reason=reason)
        backend.write_if(file.key, data, if_absent=True)
        back = backend.read_versioned(file.key)
    except ConcurrencyError:
        return _CopyOutcome(file, "skipped")
    except MemplaneError as error:
        return _CopyOutcome(file, "failed", reason=str(error))
    if back is None or hashlib.sha256(back.data).digest() != hashlib.sha256(data).digest():
        return _CopyOutcome(file, "failed", reason="what was read back differs from the file")
    return _CopyOutcome(file, "copied", size=len(data))


def _content(file: _SourceFile) -> bytes:
    *folders, name = file.relative.split("/")
    with translate_os_errors(file.relative):
        folder = open_folder(file.root, tuple(folders), create=False)
        try:
            return read_file(folder, name)[0]
        finally:
            os.close(folder)


def _note(report: MigrationReport, outcome: _CopyOutcome) -> None:
    match outcome.state:
        case "copied":
            report.copied += 1
            report.verified += 1
            report.bytes_copied += outcome.size
            report.keys_copied.append(outcome.file.key)
        case "skipped":
            report.skipped += 1
        case "held":
            report.held.append((str(outcome.file.path), outcome.reason))
        case "failed":
            report.errors.append((str(outcome.file.path), outcome.reason))
