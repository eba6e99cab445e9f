"""What lies in the folder: the documents, and what is there but cannot be one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from memplane.kit.durable_files import translate_os_errors
from memplane.persona.document_names import DOCUMENT_SUFFIX, explain_invalid_name
from memplane.persona.safe_open import explain_invalid_file

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class ScannedFile(msgspec.Struct, frozen=True):
    """A document's file. Only its bytes say whether it changed; this tells where to look."""

    size: int
    mtime_ns: int
    inode: int


class FolderScan(msgspec.Struct, frozen=True):
    """The documents by key, how many other files there are, and what was refused and why.

    A folder that is `missing` is not an empty one: its disk may not be mounted.
    """

    documents: Mapping[str, ScannedFile] = msgspec.field(default_factory=dict[str, ScannedFile])
    ignored: int = 0
    refused: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    missing: bool = False


def scan_folder(root: Path) -> FolderScan:
    """Look through the folder, following no link. What comes or goes meanwhile may be missed.

    Raises:
        StorageError: A part of it cannot be read.
    """
    with translate_os_errors(""):
        try:
            folder = os.open(root, _FOLDER)
        except FileNotFoundError:
            return FolderScan(missing=True)
        walk = _FolderWalk()
        try:
            walk.through(folder, "")
        finally:
            os.close(folder)
    return FolderScan(walk.documents, walk.ignored, walk.refused)


@dataclass(slots=True)
class _FolderWalk:
    """What was seen so far."""

    documents: dict[str, ScannedFile] = field(default_factory=dict[str, ScannedFile])
    ignored: int = 0
    refused: dict[str, str] = field(default_factory=dict[str, str])

    def through(self, folder: int, prefix: str) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                # What was deleted since the folder was listed is not an offence.
                with suppress(FileNotFoundError):
                    self._see(folder, entry, prefix + entry.name)

    def _see(self, folder: int, entry: os.DirEntry[str], path: str) -> None:
        if entry.name.startswith("."):
            self.ignored += 1
        elif entry.is_symlink():
            self._refuse(path, "it is a link, and links are not followed")
        elif entry.is_dir(follow_symlinks=False):
            self._enter(folder, entry.name, path)
        elif not entry.name.endswith(DOCUMENT_SUFFIX):
            self.ignored += 1
        elif reason := explain_invalid_name(path):
            self._refuse(path, reason)
        else:
            self._add(path, entry.stat(follow_symlinks=False))

    def _enter(self, folder: int, name: str, path: str) -> None:
        if reason := explain_invalid_name(f"{path}/a{DOCUMENT_SUFFIX}"):
            self._refuse(path, reason)
            return
        try:
            deeper = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        except NotADirectoryError:
            self._refuse(path, "it became a link or a file while the folder was read")
            return
        try:
            self.through(deeper, f"{path}/")
        finally:
            os.close(deeper)

    def _add(self, path: str, status: os.stat_result) -> None:
        if reason := explain_invalid_file(status):
            self._refuse(path, reason)
        else:
            self.documents[path] = ScannedFile(status.st_size, status.st_mtime_ns, status.st_ino)

    def _refuse(self, path: str, reason: str) -> None:
        # A name that is not UTF-8 could not be printed.
        self.refused[os.fsencode(path).decode(errors="backslashreplace")] = reason
