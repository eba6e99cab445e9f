"""No key, wherever it comes from, opens anything outside the folder and our private one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memplane.errors import InvalidKey
from memplane.persona.atomic_rename import exchange_files
from memplane.persona.document_names import explain_invalid_name
from memplane.persona.folder import DocumentFolder

HOSTILE = [
    "../../x",
    "../x.md",
    "../outside/secret.md",
    "/etc/x",
    "/etc/passwd",
    "//etc/x.md",
    "a/../../x",
    "a/../../outside/secret.md",
    "a/./b.md",
    "a//b.md",
    "./a.md",
    "..\\x",
    "..\\x.md",
    "a\\b.md",
    "C:\\x",
    "C:/x.md",
    "c:x.md",
    "\\\\server\\share\\x.md",
    "a\0.md",
    "a.md\0",
    "\0",
    "a\n.md",
    "a\x7f.md",
    "CON",
    "CON.md",
    "nul.md",
    "aux.notes.md",
    "com1.md",
    "LPT9.md",
    "con/a.md",
    ".git/hooks/post-commit",
    ".git/a.md",
    ".git/config",
    "x/",
    "x.md/",
    "x" * 300,
    "x" * 300 + ".md",
    "x/" * 300 + "a.md",
    "a/b/c/d/e.md",
    "e\u0301.md",
    "\u00e9.md",
    "\uff0e\uff0e/x.md",
    "..%2fx.md",
    "%2e%2e/x.md",
    "~/.ssh/authorized_keys",
    "~root/x.md",
    "~/a.md",
    ".mcp.json",
    ".memplane-persona.json",
    ".memplane-new-0.md",
    ".hidden.md",
    "CLAUDE.md",
    "sub/CLAUDE.md",
    "claude.MD",
    "a.md ",
    "a.md.",
    " a.md",
    "a",
    "",
    ".",
    "..",
    "link/secret.md",
    "link.md",
    "a.md:stream",
    "\ud800.md",
    "-rf.md",
]
"""The probes of the promises, and what others have been caught with."""

LINKS = ("link/secret.md", "link.md")
"""Their names are fine; it is the file that is hostile."""

PIECES = st.sampled_from(
    ["..", ".", "/", "\\", "\0", "a", "a.md", ".md", "~", "C:", "link", "link.md", "sub", "secret"]
)
TEXTS = st.one_of(
    st.text(max_size=40),
    st.lists(PIECES, max_size=8).map("".join),
    st.lists(PIECES, max_size=6).map("/".join),
    st.from_regex(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}(/[A-Za-z0-9._-]{1,8}){0,4}\.md", fullmatch=True
    ),
)

_CHILD = """
import json, os, sys
from pathlib import Path

top = Path(sys.argv[1])
root, state = top / "memory", top / "state"
calls, keys = sys.argv[2], json.load(sys.stdin)

if calls == "folder":
    from memplane.errors import StorageError
    from memplane.persona.folder import DocumentFolder

    folder = DocumentFolder(root, state)

    def attempts(key):
        yield lambda: folder.read(key)
        def swapped(expected):
            name = folder.stage(key, b"new")
            try:
                folder.is_staged(key, name)
                folder.swap(key, name, expected)
            finally:
                folder.unstage(key, name)
        yield lambda: swapped(None)
        yield lambda: swapped(b"secret")
        yield lambda: folder.discard(key, "id", b"secret")
        yield lambda: folder.discard(key, "id", b"new")
        yield lambda: folder.is_discarded(key, "id")
        yield lambda: folder.purge_discarded(key, "id")
        yield lambda: folder.snapshots(key)
else:
    class StorageError(Exception):
        pass

    # How it must not be done: look where the path leads, and then open the path.
    def resolved_then_opened(key):
        path = root / key
        if not path.parent.resolve().is_relative_to(root.resolve()):
            raise StorageError(key)
        racing(key)
        path.write_bytes(b"new")

    def racing(key):
        if key == "sub/a.md":
            os.rename(root / "sub", root / "sub.old")
            os.symlink(top / "outside", root / "sub")

    def attempts(key):
        yield lambda: resolved_then_opened(key)

outside, folder_of_next = [], [None]
opened = os.open


def announced(path, flags, mode=0o777, *, dir_fd=None):
    # The audit of `open` does not tell the folder that a path is relative to.
    folder_of_next[0] = dir_fd
    return opened(path, flags, mode, dir_fd=dir_fd)


def audited(event, words):
    if event != "open" or not isinstance(words[0], (str, bytes)):
        return
    folder, folder_of_next[0] = folder_of_next[0], None
    where = os.readlink(f"/proc/self/fd/{folder}") if folder is not None else os.getcwd()
    lexical = os.path.join(where, os.fsdecode(words[0]))
    last = os.path.basename(lexical)
    # Where a link would be followed, it is where it leads that counts.
    follows = not words[2] & os.O_NOFOLLOW
    real = os.path.realpath(lexical) if follows else (
        os.path.join(os.path.realpath(os.path.dirname(lexical)), last)
    )
    if last in ("", ".", "..") or not any(
        real == str(one) or real.startswith(f"{one}/") for one in (root, state)
    ):
        outside.append(real)


def run(key):
    taken = 0
    for attempt in attempts(key):
        try:
            attempt()
            taken += 1
        except (StorageError, OSError, ValueError):
            pass
    return taken


run("warm.md")
os.open = announced
sys.addaudithook(audited)
taken = [key for key in keys if run(key)]
found, outside = outside, []
print(json.dumps({"outside": found, "taken": taken}))
"""


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "top"
    for name in ("memory/sub", "state", "outside", "cwd"):
        (made / name).mkdir(parents=True)
    (made / "outside" / "secret.md").write_bytes(b"secret")
    (made / "memory" / "sub" / "a.md").write_bytes(b"secret")
    (made / "memory" / "link").symlink_to(made / "outside")
    (made / "memory" / "link.md").symlink_to(made / "outside" / "secret.md")
    return made


def outcome(top: Path, calls: str, keys: list[str]) -> dict[str, list[str]]:
    """Try the keys in a process that notes every file it opens."""
    ran = subprocess.run(
        [sys.executable, "-c", _CHILD, str(top), calls],
        input=json.dumps(keys),
        cwd=top / "cwd",
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said: dict[str, list[str]] = json.loads(ran.stdout)
    return said


def untouched(top: Path) -> bool:
    return (
        [path.name for path in (top / "outside").iterdir()] == ["secret.md"]
        and (top / "outside" / "secret.md").read_bytes() == b"secret"
        and sorted(path.name for path in top.iterdir()) == ["cwd", "memory", "outside", "state"]
        and list((top / "cwd").iterdir()) == []
        and all((top / "memory" / name).is_symlink() for name in ("link", "link.md"))
    )


def test_hostile_keys_open_nothing_outside(top: Path) -> None:
    assert len(HOSTILE) >= 60
    assert [key for key in HOSTILE if not explain_invalid_name(key)] == list(LINKS)
    said = outcome(top, "folder", HOSTILE)
    assert said["outside"] == []
    assert set(said["taken"]) <= set(LINKS)
    assert untouched(top)
    assert not list((top / "memory").rglob(".*"))


@pytest.mark.parametrize("examples", [700, pytest.param(2000, marks=pytest.mark.long)])
def test_texts_of_all_kinds_open_nothing_outside(top: Path, examples: int) -> None:
    keys: set[str] = set()

    @settings(
        max_examples=examples,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(TEXTS)
    def collect(text: str) -> None:
        keys.add(text)

    collect()
    said = outcome(top, "folder", sorted(keys))
    assert said["outside"] == []
    assert all(explain_invalid_name(key) is None for key in said["taken"])
    assert len(said["taken"]) > 50
    assert untouched(top)


def test_the_checker_sees_a_path_that_is_resolved_and_then_opened(top: Path) -> None:
    """The control: a link comes between the look and the open, and the checker is not fooled."""
    said = outcome(top, "resolved", ["b.md", "sub/a.md"])
    assert said["outside"] == [str(top / "outside" / "a.md")]
    assert not untouched(top)


@pytest.mark.parametrize("call", ["read", "stage", "swap", "unstage", "discard", "bury"])
def test_a_link_put_in_place_of_a_folder_between_calls_is_refused(top: Path, call: str) -> None:
    folder = DocumentFolder(top / "memory", top / "state")
    name = folder.stage("sub/a.md", b"new")
    bait = {
        name: b"new",
        "a.md": b"secret",
        ".memplane-gone-id": b"secret",
        "secret.md": b"secret",
    }
    for leaf, data in bait.items():
        (top / "outside" / leaf).write_bytes(data)
    (top / "memory" / "sub").rename(top / "memory" / "sub.old")
    (top / "memory" / "sub").symlink_to(top / "outside")
    attempts: dict[str, Callable[[], object]] = {
        "read": lambda: folder.read("sub/a.md"),
        "stage": lambda: folder.stage("sub/a.md", b"newer"),
        "swap": lambda: folder.swap("sub/a.md", name, b"secret"),
        "unstage": lambda: folder.unstage("sub/a.md", name),
        "discard": lambda: folder.discard("sub/a.md", "id", b"secret"),
        "bury": lambda: folder.purge_discarded("sub/a.md", "id"),
    }
    with pytest.raises(InvalidKey, match=r"sub/a\.md"):
        attempts[call]()
    assert {path.name: path.read_bytes() for path in (top / "outside").iterdir()} == bait


def test_a_link_that_comes_and_goes_all_the_time_is_never_followed(top: Path) -> None:
    """A race: somebody trades the folder for a link to elsewhere and back, while we work in it."""
    folder = DocumentFolder(top / "memory", top / "state")
    (top / "memory" / "decoy").symlink_to(top / "outside")
    over = threading.Event()
    memory = os.open(top / "memory", os.O_RDONLY)

    def trade() -> None:
        while not over.is_set():
            assert exchange_files(memory, "sub", "decoy")

    worked = refused = 0
    with ThreadPoolExecutor(1) as pool:
        trading = pool.submit(trade)
        while min(worked, refused) < 50:
            try:
                found = folder.read("sub/a.md")
                name = folder.stage("sub/a.md", b"%d" % worked)
                folder.swap("sub/a.md", name, found)
                folder.unstage("sub/a.md", name)
                worked += 1
            except InvalidKey:
                refused += 1
        over.set()
        trading.result()
    os.close(memory)
    assert untouched(top)
