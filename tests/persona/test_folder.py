"""The folder: what is a document in it, and how one is replaced and deleted."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest

from memplane.errors import BackendUnavailable, InvalidKey, TooLarge
from memplane.persona import atomic_rename
from memplane.persona import folder as folder_module
from memplane.persona.document_writer import write_document
from memplane.persona.folder import DocumentFolder, SwapResult
from memplane.persona.local_history import LocalHistory
from memplane.persona.project_marker import MARKER_FILE, ProjectMarker
from memplane.persona.safe_open import MAX_DOCUMENT_BYTES

KEYS = ["a.md", "sub/a.md", "a/b/c/d.md"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "memory"
    made.mkdir()
    return made


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def folder(root: Path, state: Path) -> DocumentFolder:
    return DocumentFolder(root, state)


@pytest.fixture(params=["one step", "small steps"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the system's rename that knows flags, and as where there is none."""
    if request.param == "small steps":
        monkeypatch.setattr(atomic_rename, "_system_rename", lambda: None)


def hidden(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob(".*"))


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# What lies there


def test_a_scan_finds_documents_by_their_path(folder: DocumentFolder, root: Path) -> None:
    for key in KEYS:
        put(root / key, key.encode())
    scan = folder.scan()
    assert sorted(scan.documents) == sorted(KEYS)
    found, status = scan.documents["sub/a.md"], (root / "sub" / "a.md").stat()
    assert (found.size, found.mtime_ns, found.inode) == (
        len("sub/a.md"),
        status.st_mtime_ns,
        status.st_ino,
    )
    assert (scan.ignored, scan.refused, scan.missing) == (0, {}, False)


def test_a_missing_folder_is_not_an_empty_one(folder: DocumentFolder, root: Path) -> None:
    assert not folder.scan().missing
    root.rmdir()
    assert folder.scan().missing
    assert folder.scan().documents == {}


def test_other_files_are_ignored_and_counted(folder: DocumentFolder, root: Path) -> None:
    others = [".hidden.md", ".a.md.swp", "a.md~", "#a.md#", "4913", "x.txt", "x.MD", MARKER_FILE]
    for name in others:
        put(root / name, b"x")
    put(root / ".git" / "a.md", b"x")
    put(root / "sub" / "x.json", b"x")
    scan = folder.scan()
    assert scan.documents == {}
    assert scan.refused == {}
    assert scan.ignored == len(others) + 2


def test_what_cannot_be_a_document_is_refused_with_its_reason(
    folder: DocumentFolder, root: Path, tmp_path: Path
) -> None:
    outside = put(tmp_path / "outside" / "a.md", b"secret")
    put(root / "good.md", b"x")
    (root / "link.md").symlink_to(outside)
    (root / "notes").symlink_to(outside.parent)
    (root / "dangling.md").symlink_to(root / "nowhere.md")
    (root / "twin.md").hardlink_to(outside)
    os.mkfifo(root / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket.md"))
    put(root / "with space.md", b"x")
    put(root / "CLAUDE.md", b"x")
    put(root / "con.md", b"x")
    put(root / "bad dir" / "a.md", b"x")
    put(root / "a" / "b" / "c" / "d" / "e.md", b"x")
    put(root / "e\u0301.md", b"x")
    Path(os.fsdecode(os.fsencode(root) + b"/not-utf8-\xff.md")).write_bytes(b"x")
    scan = folder.scan()
    assert list(scan.documents) == ["good.md"]
    assert scan.ignored == 0
    reasons = {
        "link.md": "a link",
        "notes": "a link",
        "dangling.md": "a link",
        "twin.md": "second name",
        "pipe.md": "pipe",
        "socket.md": "socket",
        "with space.md": "ASCII",
        "CLAUDE.md": "instructions",
        "con.md": "device",
        "bad dir": "ASCII",
        "a/b/c/d": "folders deep",
        "e\u0301.md": "NFC",
        "not-utf8-\\xff.md": "surrogate",
    }
    assert scan.refused.keys() == reasons.keys()
    for path, reason in reasons.items():
        assert reason in scan.refused[path], path


def test_a_file_that_goes_while_the_folder_is_read_is_no_offence(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        put(root / f"{number}.md", b"x")
    listed = os.scandir

    class Late:
        """Lists the folder, and lets half of it go before anybody looks."""

        def __init__(self, descriptor: int) -> None:
            with listed(descriptor) as entries:
                self.entries = list(entries)
            for entry in self.entries[::2]:
                os.unlink(entry.name, dir_fd=descriptor)

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            return iter(self.entries)

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(os, "scandir", Late)
    assert len(folder.scan().documents) == 5


def test_a_folder_that_becomes_a_link_while_it_is_scanned_is_not_entered(
    folder: DocumentFolder, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = put(tmp_path / "outside" / "a.md", b"secret").parent
    put(root / "sub" / "a.md", b"x")
    opened = os.open

    def swapping(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "sub":
            (root / "sub").rename(tmp_path / "sub")
            (root / "sub").symlink_to(outside)
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapping)
    scan = folder.scan()
    assert scan.documents == {}
    assert "link" in scan.refused["sub"]


def test_a_scan_that_cannot_read_everything_fails(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "sub" / "a.md", b"x")
    opened = os.open

    def failing(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "sub":
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(Exception, match="refused"):
        folder.scan()


# Reading


@pytest.mark.parametrize(
    "data", [b"", b"a\r\nb\r\n", b"\xef\xbb\xbfx", b"\xff\x00\xfe", b"no end"]
)
def test_bytes_are_read_and_written_as_they_are(
    folder: DocumentFolder, root: Path, data: bytes
) -> None:
    put(root / "a.md", data)
    assert folder.read("a.md") == data
    assert folder.swap("b.md", folder.stage("b.md", data), None)
    assert (root / "b.md").read_bytes() == data


@pytest.mark.parametrize("key", KEYS)
def test_what_is_not_there_is_none(folder: DocumentFolder, key: str) -> None:
    assert folder.read(key) is None


def test_nothing_is_known_of_a_folder_that_is_not_there(
    folder: DocumentFolder, root: Path
) -> None:
    put(root / "a.md", b"x")
    staged = folder.stage("a.md", b"y")
    root.rename(root.with_name("unmounted"))
    for attempt in (
        lambda: folder.read("a.md"),
        lambda: folder.stage("a.md", b"x"),
        lambda: folder.is_staged("a.md", staged),
        lambda: folder.unstage("a.md", staged),
        lambda: folder.swap("a.md", staged, b"x"),
        lambda: folder.discard("a.md", "id", b"x"),
        lambda: folder.is_discarded("a.md", "id"),
        lambda: folder.purge_discarded("a.md", "id"),
        folder.marker,
        lambda: folder.mark(ProjectMarker("p", "d")),
    ):
        with pytest.raises(BackendUnavailable, match="is not there"):
            attempt()
    assert not root.exists()
    assert folder.identity() is None


def test_a_folder_is_made_when_it_is_asked_for(root: Path, state: Path) -> None:
    before = os.umask(0)
    try:
        folder = DocumentFolder(root / "deep" / "memory", state)
        folder.create()
        folder.create()
        folder.swap("sub/a.md", folder.stage("sub/a.md", b"x"), None)
    finally:
        os.umask(before)
    for path in (root / "deep", *(root / "deep").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_folder_put_in_its_place_has_another_identity(
    folder: DocumentFolder, root: Path
) -> None:
    before = folder.identity()
    assert before == (root.stat().st_dev, root.stat().st_ino)
    root.rename(root.with_name("moved"))
    root.mkdir()
    assert folder.identity() not in {before, None}


def test_links_and_the_like_are_never_read_replaced_or_deleted(
    folder: DocumentFolder, root: Path, tmp_path: Path
) -> None:
    outside = put(tmp_path / "outside" / "a.md", b"secret")
    (root / "link.md").symlink_to(outside)
    (root / "notes").symlink_to(outside.parent)
    (root / "twin.md").hardlink_to(outside)
    os.mkfifo(root / "pipe.md")
    (root / "folder.md").mkdir()
    for key in ("link.md", "notes/a.md", "twin.md", "pipe.md", "folder.md"):
        staged = folder.stage("a.md", b"mine")
        for attempt in (
            lambda key=key: folder.read(key),
            lambda key=key, staged=staged: folder.swap(key, staged, b"secret"),
            lambda key=key, staged=staged: folder.swap(key, staged, None),
            lambda key=key: folder.discard(key, "id", b"secret"),
        ):
            with pytest.raises(InvalidKey, match=key):
                attempt()
        folder.unstage("a.md", staged)
    with pytest.raises(InvalidKey):
        folder.stage("notes/b.md", b"mine")
    assert [path.name for path in outside.parent.iterdir()] == ["a.md"]
    assert outside.read_bytes() == b"secret"
    assert (root / "link.md").is_symlink()
    assert hidden(root) == []


def test_a_document_too_large_is_neither_read_nor_staged(
    folder: DocumentFolder, root: Path
) -> None:
    with put(root / "a.md", b"").open("r+b") as file:
        file.truncate(MAX_DOCUMENT_BYTES + 1)
    with pytest.raises(TooLarge):
        folder.read("a.md")
    with pytest.raises(TooLarge):
        folder.stage("b.md", b"x" * (MAX_DOCUMENT_BYTES + 1))
    (root / "a.md").write_bytes(b"x" * MAX_DOCUMENT_BYTES)
    assert len(folder.read("a.md") or b"") == MAX_DOCUMENT_BYTES


def test_a_file_where_a_folder_is_wanted_is_refused(folder: DocumentFolder, root: Path) -> None:
    put(root / "sub", b"x")
    assert folder.read("sub/a.md") is None
    with pytest.raises(InvalidKey, match=r"sub/a\.md"):
        folder.stage("sub/a.md", b"x")


# Replacing


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("key", KEYS)
def test_a_staged_text_waits_until_it_is_swapped_in(
    folder: DocumentFolder, root: Path, key: str
) -> None:
    name = folder.stage(key, b"first")
    assert not (root / key).exists()
    assert folder.is_staged(key, name)
    assert folder.swap(key, name, None) == SwapResult()
    assert not folder.is_staged(key, name)
    assert (root / key).read_bytes() == b"first"
    name = folder.stage(key, b"second")
    assert (root / key).read_bytes() == b"first"
    assert folder.is_staged(key, name)
    assert folder.swap(key, name, b"first") == SwapResult()
    assert not folder.is_staged(key, name)
    assert folder.read(key) == b"second"
    assert hidden(root) == []
    assert list(folder.scan().documents) == [key]


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    ("there", "expected"), [(b"typed", b"old"), (b"typed", None), (None, b"old"), (b"", None)]
)
def test_a_document_that_is_not_as_expected_is_left_alone(
    folder: DocumentFolder, root: Path, there: bytes | None, expected: bytes | None
) -> None:
    if there is not None:
        put(root / "a.md", there)
    name = folder.stage("a.md", b"new")
    assert folder.swap("a.md", name, expected) is None
    assert folder.read("a.md") == there
    assert folder.is_staged("a.md", name)
    folder.unstage("a.md", name)
    assert not folder.is_staged("a.md", name)
    assert hidden(root) == []
    folder.unstage("a.md", name)


def test_a_staged_text_that_somebody_removed_is_not_swapped_in(
    folder: DocumentFolder, root: Path
) -> None:
    put(root / "a.md", b"old")
    for key, expected in (("a.md", b"old"), ("b.md", None)):
        name = folder.stage(key, b"new")
        (root / name).unlink()
        assert folder.swap(key, name, expected) is None
        assert folder.read(key) == expected


def test_a_folder_removed_with_the_staged_text_leaves_nothing_to_swap(
    folder: DocumentFolder, root: Path
) -> None:
    name = folder.stage("sub/a.md", b"new")
    (root / "sub" / name).unlink()
    (root / "sub").rmdir()
    assert folder.swap("sub/a.md", name, None) is None
    assert not folder.is_staged("sub/a.md", name)
    folder.unstage("sub/a.md", name)
    assert not (root / "sub").exists()


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640, 0o400])
def test_the_mode_of_the_old_file_stays(folder: DocumentFolder, root: Path, mode: int) -> None:
    put(root / "a.md", b"old").chmod(mode)
    folder.swap("a.md", folder.stage("a.md", b"new"), b"old")
    assert stat.S_IMODE((root / "a.md").stat().st_mode) == mode


def typing_in_place(path: Path) -> None:
    path.write_bytes(b"typed")


def typing_like_an_editor(path: Path) -> None:
    aside = path.with_name("aside")
    aside.write_bytes(b"typed")
    aside.rename(path)


@pytest.mark.parametrize("typing", [typing_in_place, typing_like_an_editor])
def test_what_is_typed_after_the_last_look_is_kept(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch, typing: object
) -> None:
    put(root / "sub" / "a.md", b"old")
    name = folder.stage("sub/a.md", b"new")
    traded = atomic_rename.exchange_files

    def late(descriptor: int, one: str, other: str) -> bool:
        assert callable(typing)
        typing(root / "sub" / "a.md")
        return traded(descriptor, one, other)

    monkeypatch.setattr(folder_module, "exchange_files", late)
    swapped = folder.swap("sub/a.md", name, b"old")
    assert swapped is not None
    assert swapped.typed is not None
    assert swapped.typed.read_bytes() == b"typed"
    assert [(one.path, one.key, one.label) for one in folder.conflicts()] == [
        (swapped.typed, "sub/a.md", "typed")
    ]
    assert folder.read("sub/a.md") == b"new"
    assert not folder.is_staged("sub/a.md", name)
    assert hidden(root) == []


@pytest.mark.parametrize("over", [b"old", None])
def test_what_is_typed_is_kept_also_when_the_swap_is_cut_short(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch, over: bytes | None
) -> None:
    class CutShort(BaseException):
        pass

    path = put(root / "a.md", b"old")

    def cut(descriptor: int, one: str, other: str) -> bool:
        path.write_bytes(b"typed")
        atomic_rename.exchange_files(descriptor, one, other)
        raise CutShort

    name = folder.stage("a.md", b"new", over=over)
    monkeypatch.setattr(folder_module, "exchange_files", cut)
    with pytest.raises(CutShort):
        folder.swap("a.md", name, b"old")
    assert folder.read("a.md") == b"new"
    assert not folder.is_staged("a.md", name)
    folder.unstage("a.md", name)
    assert [copy.path.read_bytes() for copy in folder.conflicts()] == [b"typed"]
    assert hidden(root) == []


def test_what_is_typed_while_the_snapshot_is_taken_is_left_alone(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(root / "a.md", b"old")
    name = folder.stage("a.md", b"new")
    monkeypatch.setattr(atomic_rename, "_system_rename", lambda: None)
    written = os.write

    def slowly(descriptor: int, data: bytes) -> int:
        path.write_bytes(b"typed")
        return written(descriptor, data)

    monkeypatch.setattr(os, "write", slowly)
    assert folder.swap("a.md", name, b"old") is None
    assert folder.read("a.md") == b"typed"
    assert folder.is_staged("a.md", name)
    assert folder.conflicts() == ()


def test_where_names_cannot_be_traded_what_is_typed_in_place_is_kept(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "a.md", b"old")
    os.utime(root / "a.md", (10**9, 10**9))
    name = folder.stage("a.md", b"new")

    renamed = os.rename

    def late(source: str, target: str, **folders: int) -> None:
        if target == "a.md":
            (root / target).write_bytes(b"typed")
        renamed(source, target, **folders)

    monkeypatch.setattr(atomic_rename, "_system_rename", lambda: None)
    monkeypatch.setattr(os, "rename", late)
    swapped = folder.swap("a.md", name, b"old")
    assert swapped is not None
    assert swapped.typed is not None
    assert swapped.typed.read_bytes() == b"typed"
    assert folder.read("a.md") == b"new"


def test_a_typed_text_may_claim_any_time(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "a.md", b"old")
    name = folder.stage("a.md", b"new")
    kept: list[Path] = []
    status = (root / "a.md").stat()
    for moment in (-1e12, 1e18):
        late = os.stat_result((*status[:8], moment, 0))
        kept.append(folder._keep_overtaken("a.md", b"%d" % moment, late))
    assert [one.at.year for one in folder.conflicts()] == [1970, 9999]
    assert len(set(kept)) == 2
    folder.unstage("a.md", name)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("expected", [None, b"old"])
def test_the_new_text_is_durably_in_place_before_its_other_name_goes(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch, expected: bytes | None
) -> None:
    """Otherwise a power loss could leave the old text, and no evidence of that."""
    if expected is not None:
        put(root / "a.md", expected)
    name = folder.stage("a.md", b"new")
    place, unlinked, renamed, synced = root.stat().st_ino, os.unlink, os.rename, os.fsync
    durable: list[bytes] = []

    def syncing(descriptor: int) -> None:
        synced(descriptor)
        if os.fstat(descriptor).st_ino == place:
            durable.append((root / "a.md").read_bytes())

    def unlinking(path: str, *, dir_fd: int | None = None) -> None:
        assert path != name or durable[-1] == b"new"
        unlinked(path, dir_fd=dir_fd)

    def renaming_to(path: str, new: str, **folders: int) -> None:
        assert path != name or new == "a.md" or durable[-1] == b"new"
        renamed(path, new, **folders)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", syncing)
        patch.setattr(os, "unlink", unlinking)
        patch.setattr(os, "rename", renaming_to)
        assert folder.swap("a.md", name, expected) == SwapResult()
    assert durable[-1] == b"new"


@pytest.mark.usefixtures("either_way")
def test_a_file_made_after_the_last_look_is_never_replaced(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = folder.stage("a.md", b"ours")
    placed = atomic_rename.rename_no_replace

    def late(descriptor: int, one: str, other: str) -> bool:
        (root / "a.md").write_bytes(b"theirs")
        return placed(descriptor, one, other)

    monkeypatch.setattr(folder_module, "rename_no_replace", late)
    assert folder.swap("a.md", name, None) is None
    assert folder.read("a.md") == b"theirs"
    assert folder.is_staged("a.md", name)


def test_where_there_are_no_links_either_a_new_document_is_placed_all_the_same(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(atomic_rename, "_system_rename", lambda: None)
    monkeypatch.setattr(os, "link", refused)
    assert folder.swap("a.md", folder.stage("a.md", b"x"), None) == SwapResult()
    assert folder.read("a.md") == b"x"
    descriptor = os.open(root, os.O_RDONLY)
    try:
        put(root / "b.md", b"y")
        assert not atomic_rename.rename_no_replace(descriptor, "b.md", "a.md")
    finally:
        os.close(descriptor)
    assert folder.read("a.md") == b"x"


def test_a_link_put_in_place_after_the_last_look_is_not_written_through(
    folder: DocumentFolder, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = put(tmp_path / "outside.md", b"secret")
    put(root / "a.md", b"old")
    name = folder.stage("a.md", b"new")
    traded = atomic_rename.exchange_files

    def late(descriptor: int, one: str, other: str) -> bool:
        (root / "a.md").unlink()
        (root / "a.md").symlink_to(outside)
        return traded(descriptor, one, other)

    monkeypatch.setattr(folder_module, "exchange_files", late)
    with pytest.raises(InvalidKey):
        folder.swap("a.md", name, b"old")
    assert outside.read_bytes() == b"secret"
    assert folder.read("a.md") == b"new"
    assert not folder.is_staged("a.md", name)
    folder.unstage("a.md", name)


@pytest.mark.parametrize(
    "name",
    ["a.md", "../a.md", ".memplane-new-", f".memplane-new-0-{'0' * 16}/../a.md", ""],
)
def test_only_names_of_staged_texts_are_touched(
    folder: DocumentFolder, root: Path, name: str
) -> None:
    put(root / "a.md", b"x")
    for attempt in (folder.is_staged, folder.unstage):
        with pytest.raises(InvalidKey, match="staged"):
            attempt("b.md", name)
    with pytest.raises(InvalidKey, match="staged"):
        folder.swap("b.md", name, None)
    assert folder.read("a.md") == b"x"


def test_nobody_sweeps_what_is_staged(folder: DocumentFolder, root: Path) -> None:
    put(root / "a.md", b"old")
    names = [folder.stage("a.md", b"%d" % number) for number in range(3)]
    folder.scan()
    folder.read("a.md")
    folder.swap("a.md", names[0], b"old")
    folder.unstage("a.md", names[1])
    assert hidden(root) == [names[2]]
    assert folder.is_staged("a.md", names[2])


# What a kill leaves of a write without a note


class Killed(BaseException):
    """Stands for a kill: nothing is cleared up after it."""


def killed(*_: object, **__: object) -> NoReturn:
    raise Killed


def cut_short(
    folder: DocumentFolder, monkeypatch: pytest.MonkeyPatch, text: bytes, *, over: bytes | None
) -> None:
    """Write a document, and be killed when its text is staged."""
    with monkeypatch.context() as patched:
        patched.setattr(DocumentFolder, "swap", killed)
        with pytest.raises(Killed):
            write_document(folder, "sub/a.md", text, expected=over)


def test_the_next_write_clears_what_a_kill_left(
    folder: DocumentFolder, root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_short(folder, monkeypatch, b"new", over=None)
    put(root / "sub/a.md", b"old")
    cut_short(folder, monkeypatch, b"new", over=b"old")
    (staged,) = (path for path in root.rglob(".*") if path.name.count("-") == 6)
    put(
        staged.with_name(staged.name.replace("new-", "new-0", 1)), b""
    )  # before a word was written
    noted = folder.stage("b.md", b"noted elsewhere")
    assert len(hidden(root)) == 4
    assert write_document(DocumentFolder(root, state), "c.md", b"else", expected=None)
    assert hidden(root) == [noted]
    assert folder.read("sub/a.md") == b"old"
    assert folder.conflicts() == ()


def test_what_a_killed_write_had_replaced_is_kept(
    folder: DocumentFolder, root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "sub/a.md", b"old")
    monkeypatch.setattr(LocalHistory, "move_snapshot_work", killed)
    with pytest.raises(Killed):
        write_document(folder, "sub/a.md", b"new", expected=b"old")
    monkeypatch.undo()
    assert len(hidden(root)) == 1
    later = DocumentFolder(root, state)
    assert write_document(later, "c.md", b"else", expected=None)
    assert hidden(root) == []
    (snapshot,) = later.snapshots("sub/a.md")
    assert later.read_snapshot("sub/a.md", snapshot.name) == b"old"
    assert later.read("sub/a.md") == b"new"


def test_what_another_writes_is_not_cleared(
    folder: DocumentFolder, root: Path, state: Path
) -> None:
    with folder.writing():
        name = folder.stage("a.md", b"mine", noted=False)
        assert write_document(DocumentFolder(root, state), "b.md", b"x", expected=None)
        assert hidden(root) == [name]
        assert folder.swap("a.md", name, None) == SwapResult()
    assert folder.read("a.md") == b"mine"


def test_a_folder_that_knows_no_locks_is_written_all_the_same(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = folder.stage("a.md", b"left", noted=False)

    def refuse(_folder: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert write_document(folder, "b.md", b"x", expected=None)
    assert hidden(root) == [left]


# Deleting


@pytest.mark.parametrize("key", KEYS)
def test_a_discarded_document_is_out_of_sight_and_then_in_the_trash(
    folder: DocumentFolder, root: Path, state: Path, key: str
) -> None:
    put(root / key, b"old")
    assert not folder.is_discarded(key, "id-1")
    assert folder.discard(key, "id-1", b"old")
    assert folder.read(key) is None
    assert folder.is_discarded(key, "id-1")
    assert not folder.is_discarded(key, "id-2")
    assert folder.scan().documents == {}
    for _ in range(2):
        folder.purge_discarded(key, "id-1")
        assert folder.is_discarded(key, "id-1")
        assert hidden(root) == []
        assert [
            path.read_bytes() for path in (state / "trash").rglob("*.md") if path.is_file()
        ] == [b"old"]
    put(root / key, b"again")
    assert folder.discard(key, "id-2", b"again")
    folder.purge_discarded(key, "id-2")
    assert folder.is_discarded(key, "id-1")


@pytest.mark.parametrize("there", [b"typed", None])
def test_a_document_that_is_not_as_expected_is_not_discarded(
    folder: DocumentFolder, root: Path, there: bytes | None
) -> None:
    if there is not None:
        put(root / "sub" / "a.md", there)
    assert not folder.discard("sub/a.md", "id", b"old")
    assert folder.read("sub/a.md") == there
    assert not folder.is_discarded("sub/a.md", "id")
    folder.purge_discarded("sub/a.md", "id")
    assert not folder.is_discarded("sub/a.md", "id")


def late_renames(monkeypatch: pytest.MonkeyPatch, before: object, after: object) -> None:
    """Do something in the moment before and after the first rename."""
    renamed = os.rename

    def late(source: str, target: str, **folders: int) -> None:
        assert callable(before)
        assert callable(after)
        monkeypatch.setattr(os, "rename", renamed)
        before()
        renamed(source, target, **folders)
        after()

    monkeypatch.setattr(os, "rename", late)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("typing", [typing_in_place, typing_like_an_editor])
def test_what_is_typed_while_it_is_discarded_goes_back(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch, typing: object
) -> None:
    path = put(root / "a.md", b"old")
    assert callable(typing)
    late_renames(monkeypatch, lambda: typing(path), lambda: None)
    assert not folder.discard("a.md", "id", b"old")
    assert folder.read("a.md") == b"typed"
    assert not folder.is_discarded("a.md", "id")
    assert hidden(root) == []
    assert folder.conflicts() == ()


def test_what_is_typed_while_it_is_discarded_and_written_anew_is_kept(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(root / "a.md", b"old")
    late_renames(
        monkeypatch, lambda: path.write_bytes(b"typed"), lambda: path.write_bytes(b"anew")
    )
    assert not folder.discard("a.md", "id", b"old")
    assert folder.read("a.md") == b"anew"
    assert not folder.is_discarded("a.md", "id")
    assert [copy.path.read_bytes() for copy in folder.conflicts()] == [b"typed"]
    assert hidden(root) == []


def test_a_document_that_goes_while_it_is_discarded_was_not_discarded(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(root / "a.md", b"old")
    late_renames(monkeypatch, path.unlink, lambda: None)
    assert not folder.discard("a.md", "id", b"old")
    assert not folder.is_discarded("a.md", "id")


def put_on_two_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file go from one folder to another."""
    renamed = os.rename

    def across(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        if not os.path.samestat(os.fstat(src_dir_fd), os.fstat(dst_dir_fd)):
            raise OSError(18, "Invalid cross-device link")
        renamed(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", across)


def test_the_trash_may_be_on_another_disk(
    folder: DocumentFolder, root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "a.md", b"old")
    folder.discard("a.md", "id", b"old")
    put_on_two_disks(monkeypatch)
    folder.purge_discarded("a.md", "id")
    assert hidden(root) == []
    assert folder.is_discarded("a.md", "id")
    assert (state / "trash" / "a.md" / "id.md").read_bytes() == b"old"


def test_what_is_replaced_may_have_to_be_kept_on_another_disk(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "a.md", b"old")
    name = folder.stage("a.md", b"new", over=b"old")
    put_on_two_disks(monkeypatch)
    assert folder.swap("a.md", name, b"old") == SwapResult()
    kept = folder.snapshots("a.md")
    assert [folder.read_snapshot("a.md", one.name) for one in kept] == [b"old"]
    assert hidden(root) == []


def test_a_snapshot_is_for_this_user_alone_and_says_when_its_text_was_replaced(
    folder: DocumentFolder, root: Path, state: Path
) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    os.utime(put(root / "a.md", b"old"), (10**9, 10**9))
    (root / "a.md").chmod(0o644)
    folder.swap("a.md", folder.stage("a.md", b"new", over=b"old"), b"old")
    (kept,) = folder.snapshots("a.md")
    assert kept.at >= before
    assert stat.S_IMODE((state / "snapshots" / "a.md" / kept.name).stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a.b", "x" * 65])
def test_only_names_of_discarded_documents_are_touched(folder: DocumentFolder, name: str) -> None:
    for attempt in (
        lambda: folder.discard("a.md", name, b"x"),
        lambda: folder.is_discarded("a.md", name),
        lambda: folder.purge_discarded("a.md", name),
    ):
        with pytest.raises(InvalidKey, match="discarded"):
            attempt()


# The marker


def test_the_marker_says_whose_folder_it_is(folder: DocumentFolder, root: Path) -> None:
    assert folder.marker() is None
    folder.mark(ProjectMarker("project", "device"))
    assert folder.marker() == ProjectMarker("project", "device")
    folder.mark(ProjectMarker("project", "another"))
    assert folder.marker() == ProjectMarker("project", "another")
    assert [path.name for path in root.iterdir()] == [MARKER_FILE]
    assert stat.S_IMODE((root / MARKER_FILE).stat().st_mode) == 0o600


def test_what_a_later_version_adds_to_the_marker_is_no_damage(
    folder: DocumentFolder, root: Path
) -> None:
    put(root / MARKER_FILE, b'{"device": "d", "project": "p", "more": [1]}')
    assert folder.marker() == ProjectMarker("p", "d")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'"project"',
        b'{"project": "p"}',
        b'{"project": 1, "device": "d"}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
    ],
)
def test_a_damaged_marker_is_not_an_absent_one(
    folder: DocumentFolder, root: Path, data: bytes
) -> None:
    put(root / MARKER_FILE, data)
    with pytest.raises(BackendUnavailable, match="damaged"):
        folder.marker()


def test_a_marker_that_is_a_link_is_not_followed(
    folder: DocumentFolder, root: Path, tmp_path: Path
) -> None:
    (root / MARKER_FILE).symlink_to(put(tmp_path / "theirs", b'{"project": "p", "device": "d"}'))
    with pytest.raises(InvalidKey):
        folder.marker()


# What is kept


def test_a_replaced_text_is_kept_and_can_be_copied_back(
    folder: DocumentFolder, root: Path
) -> None:
    put(root / "sub" / "a.md", b"0")
    for number in range(1, 4):
        folder.swap("sub/a.md", folder.stage("sub/a.md", b"%d" % number), b"%d" % (number - 1))
    kept = folder.snapshots("sub/a.md")
    assert [folder.read_snapshot("sub/a.md", one.name) for one in kept] == [b"2", b"1", b"0"]
    back = folder.read_snapshot("sub/a.md", kept[-1].name)
    assert back is not None
    folder.swap("sub/a.md", folder.stage("sub/a.md", back), b"3")
    assert folder.read("sub/a.md") == b"0"
    assert folder.snapshots("a.md") == ()


def test_hostile_keys_are_refused_by_what_is_kept_too(
    folder: DocumentFolder, tmp_path: Path
) -> None:
    for attempt in (
        lambda: folder.snapshots("../a.md"),
        lambda: folder.read_snapshot("../a.md", "x"),
        lambda: folder.keep_copy("../a.md", b"x", label="x", now=datetime(2026, 1, 1, tzinfo=UTC)),
    ):
        with pytest.raises(InvalidKey):
            attempt()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory", "user"]
