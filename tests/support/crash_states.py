"""What a power loss may leave of a folder: a recorder of what was made durable, and its states.

The recorder wraps the calls of `os` that change files or make them durable, and looks at the
folder after each. So it knows, at every such moment, what the disk must still have and what it
may have: bytes since a file's last sync and names since a folder's last sync may be there, in
part, in disorder, or not.

The model is stricter than most file systems. A sync of a file does not make its name durable, and
one file's bytes may be there without another's. A rename is one step, durable once either folder
is: every journalling file system keeps that.
"""

from __future__ import annotations

import errno
import os
import random
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

_BLOCKS: Final = (512, 4096)
_CHANGING: Final = ("write", "ftruncate", "rename", "replace", "mkdir", "unlink")
_SYNCING: Final = ("fsync", "fdatasync")
_EMPTY: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _File:
    """The bytes that a file must have after a power loss, and those that it has now."""

    durable: bytes
    now: bytes


@dataclass(frozen=True, slots=True)
class _Folder:
    """The names that a folder must have after a power loss, and those that it has now."""

    durable: Mapping[str, int]
    now: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Point:
    """A moment at which the power may fail, and how much had been promised by then."""

    after: str
    promised: int
    top: int
    files: Mapping[int, _File]
    folders: Mapping[int, _Folder]


@dataclass(frozen=True, slots=True)
class State:
    """What a power loss left. `orderly` when of each file a beginning is there and no damage."""

    files: Mapping[str, bytes]
    folders: tuple[str, ...]
    orderly: bool

    def write_to(self, folder: Path) -> None:
        for name in self.folders:
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            (folder / name).write_bytes(data)


class Recorder:
    """Follows one folder, which is durable as it is at the beginning."""

    def __init__(self, folder: Path, *, honest: bool = True) -> None:
        self.points: list[Point] = []
        self.promised = 0
        self.changes_left = -1
        self._folder = folder
        self._honest = honest
        self._lock = threading.RLock()
        self._numbers: dict[tuple[int, int], int] = {}
        self._stamps: dict[int, tuple[int, int]] = {}
        self._following = 0
        self._files: dict[int, _File] = {}
        self._folders: dict[int, _Folder] = {}
        self._look()
        for number, folder_then in self._folders.items():
            self._folders[number] = _Folder(folder_then.now, folder_then.now)
        for number, file in self._files.items():
            self._files[number] = _File(file.now, file.now)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Wrap the calls while the block runs."""
        with pytest.MonkeyPatch.context() as patch:
            for name in _CHANGING:
                patch.setattr(os, name, partial(self._changed, name, getattr(os, name)))
            for name in _SYNCING:
                patch.setattr(os, name, partial(self._synced, name, getattr(os, name)))
            patch.setattr(os, "open", partial(self._opened, os.open))
            yield

    def promise(self) -> None:
        """Note that one more thing was promised, and that the power may fail now."""
        with self._lock:
            self.promised += 1
            self._mark("a promise")

    def fail_after(self, changes: int) -> None:
        """Let every change after so many fail, as if the process were gone; -1 lets none fail."""
        with self._lock:
            self.changes_left = changes

    def _changed(self, name: str, call: Callable[..., Any], *words: Any, **more: Any) -> Any:
        with self._lock:
            if self.changes_left == 0:
                raise OSError(errno.EIO, "the process is gone")
            self.changes_left -= self.changes_left > 0
            answer = call(*words, **more)
            self._mark(name)
            return answer

    def _opened(
        self, call: Callable[..., int], path: Any, flags: int, *w: Any, **more: Any
    ) -> int:
        if flags & os.O_CREAT:
            return int(self._changed("open", call, path, flags, *w, **more))
        return call(path, flags, *w, **more)

    def _synced(self, name: str, call: Callable[[int], None], descriptor: int) -> None:
        with self._lock:
            if self.changes_left == 0:
                raise OSError(errno.EIO, "the process is gone")
            self._look()
            status = os.fstat(descriptor)
            number = self._numbers.get((status.st_dev, status.st_ino))
            if number is not None and self._honest:
                self._make_durable(number)
            self._mark(name)
        call(descriptor)

    def _make_durable(self, number: int) -> None:
        if number in self._files:
            now = self._files[number].now
            self._files[number] = _File(now, now)
            return
        here = self._folders[number]
        arrived = set(here.now.values()) - set(here.durable.values())
        left = set(here.durable.values()) - set(here.now.values())
        self._folders[number] = _Folder(here.now, here.now)
        for other, folder in self._folders.items():
            if other == number:
                continue
            kept = {
                name: one
                for name, one in folder.durable.items()
                if one not in arrived or folder.now.get(name) == one
            }
            moved = {name: one for name, one in folder.now.items() if one in left}
            self._folders[other] = _Folder(kept | moved, folder.now)

    def _mark(self, after: str) -> None:
        self._look()
        top = self._number_of(self._folder.stat())
        point = Point(after, self.promised, top, dict(self._files), dict(self._folders))
        self.points.append(point)

    def _look(self) -> None:
        """See what the folder holds now."""
        seen: set[int] = set()
        self._look_into(self._folder, seen)
        for key, number in list(self._numbers.items()):
            if number not in seen:
                del self._numbers[key]  # the system may use it for another file
                self._stamps.pop(number, None)

    def _look_into(self, folder: Path, seen: set[int]) -> int:
        number = self._number_of(folder.stat())
        seen.add(number)
        now: dict[str, int] = {}
        with os.scandir(folder) as listing:
            for one in listing:
                if one.is_dir(follow_symlinks=False):
                    now[one.name] = self._look_into(Path(one.path), seen)
                else:
                    now[one.name] = self._look_at(Path(one.path), seen)
        before = self._folders.get(number)
        self._folders[number] = _Folder(before.durable if before else _EMPTY, now)
        return number

    def _look_at(self, path: Path, seen: set[int]) -> int:
        status = path.stat()
        number = self._number_of(status)
        seen.add(number)
        stamp = status.st_size, status.st_mtime_ns
        if self._stamps.get(number) != stamp:
            before = self._files.get(number)
            self._files[number] = _File(before.durable if before else b"", path.read_bytes())
            self._stamps[number] = stamp
        return number

    def _number_of(self, status: os.stat_result) -> int:
        key = status.st_dev, status.st_ino
        if key not in self._numbers:
            self._following += 1
            self._numbers[key] = self._following
        assert stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
        return self._numbers[key]


def state_at(point: Point, rng: random.Random) -> State:
    """Choose what a power loss at a point leaves."""
    return _Loss(point, rng).state()


@dataclass(slots=True)
class _Loss:
    point: Point
    rng: random.Random
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    folders: list[str] = field(default_factory=list[str])
    orderly: bool = True
    renamed: dict[int, bool] = field(default_factory=dict[int, bool])

    def state(self) -> State:
        self._choose_folder(self.point.top, "")
        return State(self.files, tuple(self.folders), self.orderly)

    def _choose_folder(self, number: int, path: str) -> None:
        folder = self.point.folders[number]
        for name in sorted(folder.durable.keys() | folder.now.keys()):
            chosen = self._choose_name(folder.durable.get(name), folder.now.get(name))
            if chosen is None:
                continue
            below = f"{path}/{name}" if path else name
            if chosen in self.point.folders:
                self.folders.append(below)
                self._choose_folder(chosen, below)
            else:
                self.files[below] = self._choose_bytes(self.point.files[chosen])

    def _choose_name(self, durable: int | None, now: int | None) -> int | None:
        if durable == now:
            return now
        if now is not None and self._has_moved(now):
            return now if self._move_is_durable(now) else durable
        if durable is not None and self._has_moved(durable):
            if not self._move_is_durable(durable):
                return durable
            return self.rng.choice((now, None))
        return self.rng.choice((durable, now))

    def _has_moved(self, number: int) -> bool:
        """Say whether a file had another name when its folder was synced last."""
        folders = self.point.folders.values()
        return any(number in one.durable.values() for one in folders) and any(
            number in one.now.values() for one in folders
        )

    def _move_is_durable(self, number: int) -> bool:
        return self.renamed.setdefault(number, self.rng.random() < 0.5)

    def _choose_bytes(self, file: _File) -> bytes:
        durable, now = file.durable, file.now
        if durable == now:
            return now
        certain = _common(durable, now)
        kind = self.rng.choice(("none", "all", "cut", "cut", "zeros", "block", "dropped", "mixed"))
        if kind == "none":
            return durable
        if kind == "all" or len(now) == certain:
            return now
        cut = self._cut(now, certain)
        if kind == "cut":
            return now[:cut]
        self.orderly = False
        if kind == "zeros":
            return now[:cut] + bytes(len(now) - cut)
        if kind == "mixed":
            return now + durable[len(now) :]
        start, end = self._block(certain, len(now))
        return now[:start] + (bytes(end - start) if kind == "block" else b"") + now[end:]

    def _cut(self, now: bytes, certain: int) -> int:
        """Choose where bytes end: anywhere, and as often at the end of a line, or just around."""
        cut = self.rng.randint(certain, len(now))
        if self.rng.random() < 0.5:
            return cut
        newline = now.find(b"\n", cut)
        return max(certain, min(len(now), newline + self.rng.randint(0, 2)))

    def _block(self, certain: int, size: int) -> tuple[int, int]:
        """Choose a block that was not durable; what is certain of it stays."""
        length = self.rng.choice(_BLOCKS)
        first = self.rng.randint(certain // length, (size - 1) // length)
        return max(certain, first * length), min(size, (first + 1) * length)


def _common(one: bytes, other: bytes) -> int:
    """Count the bytes with which both begin."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(at for at in range(shorter) if one[at] != other[at])
