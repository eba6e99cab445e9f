"""Carrying out a plan: files in place, all or nothing each, and agents' folders swapped whole.

The folder above the agents' stays the same one, because a running proxy has it mounted. For the
moment between two renames an agent has no folder; its token changes at that moment anyway.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.compile_plan import CompilePlan, PlannedFile
from memplane.integrations.clawdapus.pod.paths import CONTEXT_FOLDER
from memplane.kit.durable_files import sync_file, sync_folder, write_all
from memplane.kit.ids import new_id

_ASIDE_PREFIX: Final = ".memplane-aside-"
_LOCK_FILE: Final = ".memplane-compile.lock"
_PERSISTENT_FOLDERS: Final = (".claw-auth", ".claw-session-history")


def write_plan(plan: CompilePlan, folder: Path) -> None:
    """Write everything a plan holds into the pod's folder.

    Raises:
        PodError: The file system refused; files that are in place are whole, old or new.
    """
    try:
        runtime = _private((folder / CONTEXT_FOLDER).parent)
        _private(folder / CONTEXT_FOLDER)
        for name in _PERSISTENT_FOLDERS:
            # Docker would make them for root. Those that are there may be somebody else's.
            (folder / name).mkdir(mode=0o700, exist_ok=True)
        with _compile_lock(runtime / _LOCK_FILE):
            _swap_agents(plan, folder, runtime)
            for file in plan.files:
                if not file.path.startswith(f"{CONTEXT_FOLDER}/"):
                    _replace(folder / file.path, file)
            sync_folder(runtime)
            sync_folder(folder)
    except OSError as error:
        raise PodError(f"{folder} cannot be written: {error}") from error


def _swap_agents(plan: CompilePlan, folder: Path, runtime: Path) -> None:
    for leftover in runtime.glob(f"{_ASIDE_PREFIX}*"):
        shutil.rmtree(leftover)
    context = folder / CONTEXT_FOLDER
    aside = runtime / f"{_ASIDE_PREFIX}{new_id()}"
    new, old = aside / "new", aside / "old"
    try:
        for entry in (aside, new, old):
            _private(entry)
        _write_all(plan.files, new)
        planned_ids = {entry.id for entry in plan.agents}
        for name in sorted({*planned_ids, *(entry.name for entry in context.iterdir())}):
            if os.path.lexists(context / name):
                (context / name).rename(old / name)
            if name in planned_ids:
                (new / name).rename(context / name)
        sync_folder(context)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_all(files: Iterable[PlannedFile], into: Path) -> None:
    folders: set[Path] = set()
    for file in files:
        if file.path.startswith(f"{CONTEXT_FOLDER}/"):
            path = into / file.path.removeprefix(f"{CONTEXT_FOLDER}/")
            folders.add(_private(path.parent))
            _write(path, file)
    for folder in folders:
        sync_folder(folder)


def _replace(path: Path, file: PlannedFile) -> None:
    aside = path.with_name(f"{_ASIDE_PREFIX}{new_id()}")
    try:
        _write(aside, file)
        aside.rename(path)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


def _write(path: Path, file: PlannedFile) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        write_all(descriptor, file.data)
        os.fchmod(descriptor, file.mode)
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def _private(folder: Path) -> Path:
    """Make a folder for this user alone, also if it is there and open to others."""
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    return folder


@contextmanager
def _compile_lock(path: Path) -> Generator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
