"""The home folder: private, with one token and at most one owner."""

from __future__ import annotations

import json
import os
import secrets
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memplane.errors import HomeError
from memplane.home import Home, Owner, shorten_socket_path
from memplane.secret import Secret


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def made(home: Path) -> Home:
    one = Home(home)
    one.create()
    return one


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


# The folder


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_home_is_private_whatever_the_umask(home: Path, mask: int) -> None:
    with umask(mask):
        Home(home).create()
    assert mode_of(home) == 0o700


def test_folders_made_on_the_way_cannot_be_changed_by_others(tmp_path: Path) -> None:
    """Whoever may rename the home may put another in its place."""
    with umask(0o000):
        Home(tmp_path / "a" / "b" / "home").create()
    for folder in (tmp_path / "a", tmp_path / "a" / "b"):
        assert mode_of(folder) & 0o022 == 0


def test_creating_it_again_changes_nothing(made: Home) -> None:
    (made.path / "kept").write_text("kept")
    made.create()
    assert (made.path / "kept").read_text() == "kept"


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o770, 0o777, 0o710])
def test_a_home_that_others_can_look_into_is_refused(home: Path, mode: int) -> None:
    home.mkdir()
    home.chmod(mode)
    with pytest.raises(HomeError) as caught:
        Home(home).create()
    assert f"{home} can be read by others (mode {mode:o})" in str(caught.value)
    assert f"chmod 700 {home}" in str(caught.value)
    assert mode_of(home) == mode


def test_a_home_that_is_a_file_is_refused(home: Path) -> None:
    home.write_text("a file")
    with pytest.raises(HomeError, match="cannot be the home"):
        Home(home).create()


def test_a_home_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(HomeError, match=r"cannot be the home.*MEMPLANE_HOME names another"):
        Home(tmp_path / "file" / "home").create()


def test_looking_at_a_home_creates_nothing(home: Path) -> None:
    one = Home(home)
    assert {one.token_file, one.socket, one.spool} == {
        home / "token",
        home / "socket",
        home / "spool",
    }
    assert one.owner() is None
    assert not home.exists()


# The token


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
def test_the_token_is_private_whatever_the_umask(made: Home, mask: int) -> None:
    with umask(mask):
        made.token()
    assert mode_of(made.token_file) == 0o600


def test_the_first_call_makes_a_token_and_the_second_returns_it(made: Home) -> None:
    first = made.token()
    assert len(first.reveal()) >= 43
    assert made.token() == first
    assert Home(made.path).token() == first
    assert made.token_file.read_text() == first.reveal() + "\n"


def test_every_home_has_a_token_of_its_own(tmp_path: Path) -> None:
    tokens = set()
    for name in ("a", "b", "c"):
        one = Home(tmp_path / name)
        one.create()
        tokens.add(one.token())
    assert len(tokens) == 3


def test_a_token_written_by_hand_is_used(made: Home) -> None:
    made.token_file.write_text("  chosen by hand \n")
    made.token_file.chmod(0o400)
    assert made.token().reveal() == "chosen by hand"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o666, 0o610])
def test_a_token_that_others_can_read_is_refused(made: Home, mode: int) -> None:
    made.token()
    made.token_file.chmod(mode)
    with pytest.raises(HomeError) as caught:
        made.token()
    assert f"{made.token_file} can be read by others (mode {mode:o})" in str(caught.value)
    assert "remove the file" in str(caught.value)


def test_no_error_shows_the_token(made: Home) -> None:
    token = made.token().reveal()
    made.token_file.chmod(0o644)
    with pytest.raises(HomeError) as caught:
        made.token()
    assert token not in str(caught.value)


def test_two_who_ask_for_the_first_token_at_once_get_the_same(
    made: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = secrets.token_urlsafe
    others: list[Secret] = []

    def while_another_asks(size: int) -> str:
        monkeypatch.setattr(secrets, "token_urlsafe", really)
        others.append(made.token())
        return really(size)

    monkeypatch.setattr(secrets, "token_urlsafe", while_another_asks)
    ours = made.token()
    assert others == [ours]


def test_after_removing_a_loose_token_there_is_a_new_one(made: Home) -> None:
    before = made.token()
    made.token_file.unlink()
    assert made.token() != before


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_token_that_is_a_link_is_refused(made: Home, tmp_path: Path, *, there: bool) -> None:
    target = tmp_path / "elsewhere"
    if there:
        target.write_text("somebody's token")
        target.chmod(0o600)
    made.token_file.symlink_to(target)
    with pytest.raises(HomeError, match="cannot be read"):
        made.token()
    assert target.exists() is there


def test_an_empty_token_is_refused(made: Home) -> None:
    made.token_file.touch(mode=0o600)
    with pytest.raises(HomeError, match="is empty"):
        made.token()


def test_a_token_that_is_not_text_is_refused(made: Home) -> None:
    made.token_file.write_bytes(b"\xff\xfe\x00")
    made.token_file.chmod(0o600)
    with pytest.raises(HomeError, match=str(made.token_file)):
        made.token()


def test_a_token_that_is_a_folder_is_refused(made: Home) -> None:
    made.token_file.mkdir()
    with pytest.raises(HomeError, match=str(made.token_file)):
        made.token()


def test_a_token_cannot_be_made_where_there_is_no_home(home: Path) -> None:
    with pytest.raises(HomeError, match="cannot be made"):
        Home(home).token()


def test_a_token_cannot_be_made_in_a_home_that_is_a_file(home: Path) -> None:
    home.write_text("a file")
    with pytest.raises(HomeError, match="token cannot be"):
        Home(home).token()


def test_making_a_token_leaves_nothing_else_behind(made: Home) -> None:
    made.token()
    assert [path.name for path in made.path.iterdir()] == ["token"]


# The owner


def test_one_claim_keeps_out_another_in_the_same_process(made: Home) -> None:
    with made.claim() as first, Home(made.path).claim() as second:
        assert first is not None
        assert second is None


def test_a_claim_that_was_refused_does_not_disturb_the_owner(made: Home) -> None:
    with made.claim() as claim:
        assert claim is not None
        claim.announce("http://127.0.0.1:1")
        with made.claim() as second:
            assert second is None
        with made.claim() as third:
            assert third is None
        assert made.owner() == Owner(os.getpid(), "http://127.0.0.1:1")


def test_a_claim_ends_with_its_block(made: Home) -> None:
    for _ in range(3):
        with made.claim() as claim:
            assert claim is not None


def test_a_claim_ends_when_its_block_fails(made: Home) -> None:
    with pytest.raises(RuntimeError), made.claim():
        raise RuntimeError
    assert made.owner() is None
    with made.claim() as claim:
        assert claim is not None


def test_the_owner_announces_its_process_and_address(made: Home) -> None:
    with made.claim() as claim:
        assert claim is not None
        assert made.owner() == Owner(os.getpid(), "")
        claim.announce("http://127.0.0.1:63670")
        assert made.owner() == Owner(os.getpid(), "http://127.0.0.1:63670")
        claim.announce("http://[::1]:1")
        assert made.owner() == Owner(os.getpid(), "http://[::1]:1")
    assert made.owner() is None


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_the_lock_is_private(made: Home, mask: int) -> None:
    with umask(mask), made.claim():
        assert mode_of(made.path / "lock") == 0o600


def test_a_lock_that_is_a_link_is_refused_and_its_target_left_alone(
    made: Home, tmp_path: Path
) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    (made.path / "lock").symlink_to(target)
    with pytest.raises(HomeError, match=r"cannot be opened.*MEMPLANE_HOME"), made.claim():
        pass
    assert target.read_text() == "precious"


def test_a_home_that_is_not_there_cannot_be_claimed(home: Path) -> None:
    with pytest.raises(HomeError, match="cannot be opened"), Home(home).claim():
        pass


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"x"', b'{"pid": 1}', b'{"pid": "x", "address": ""}', b"\xff"],
)
def test_an_announcement_that_makes_no_sense_names_nobody(made: Home, body: bytes) -> None:
    (made.path / "lock").write_bytes(body)
    assert made.owner() is None


HOLD = """
import sys
from pathlib import Path
from memplane.home import Home
with Home(Path(sys.argv[1])).claim() as claim:
    if claim is None:
        print("refused", flush=True)
    else:
        claim.announce("http://127.0.0.1:5")
        print("claimed", flush=True)
        sys.stdin.read()
"""


@contextmanager
def holding(home: Home) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a process that claims the home until its input ends; tell what it said."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_claim_keeps_out_other_processes(made: Home) -> None:
    with made.claim() as claim, holding(made) as (_, answer):
        assert claim is not None
        assert answer == "refused"
        assert made.owner() == Owner(os.getpid(), "")
    with holding(made) as (_, answer):
        assert answer == "claimed"


def test_another_process_keeps_us_out_and_says_who_it_is(made: Home) -> None:
    with holding(made) as (process, answer):
        assert answer == "claimed"
        with made.claim() as claim:
            assert claim is None
        assert made.owner() == Owner(process.pid, "http://127.0.0.1:5")
        process.communicate()
        assert process.returncode == 0
        assert made.owner() is None
        with made.claim() as claim:
            assert claim is not None


def test_a_process_that_is_killed_owns_nothing_any_more(made: Home) -> None:
    with holding(made) as (process, answer):
        assert answer == "claimed"
        process.kill()
        process.wait()
        with made.claim() as claim:
            assert claim is not None
            assert made.owner() == Owner(os.getpid(), "")


TELL_TOKEN = """
import sys
from pathlib import Path
from memplane.home import Home
print(Home(Path(sys.argv[1])).token().reveal())
"""


def test_another_process_sees_the_same_token(made: Home) -> None:
    ours = made.token().reveal()
    ran = subprocess.run(
        [sys.executable, "-c", TELL_TOKEN, str(made.path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == ours


# A name for the socket


def test_a_short_path_is_left_alone() -> None:
    with shorten_socket_path(Path("/tmp/home/socket")) as name:
        assert name == "/tmp/home/socket"


def long_home(tmp_path: Path) -> Home:
    made = Home(tmp_path / ("x" * 100) / ("é" * 60) / "home")
    made.create()
    assert len(os.fsencode(made.socket)) > 200
    return made


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_socket_in_a_home_with_a_very_long_path_can_be_used(tmp_path: Path) -> None:
    made = long_home(tmp_path)
    with (
        socket.socket(socket.AF_UNIX) as server,
        socket.socket(socket.AF_UNIX) as client,
    ):
        with shorten_socket_path(made.socket) as name:
            assert len(os.fsencode(name)) < 100
            server.bind(name)
        server.listen()
        assert stat.S_ISSOCK(made.socket.stat().st_mode)
        with shorten_socket_path(made.socket) as name:
            client.connect(name)
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"hello")
            assert accepted.recv(5) == b"hello"


def descriptors_of(folder: Path) -> int:
    """Count this process's open descriptors of a folder."""
    links = [one for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return sum(os.path.realpath(link) == str(folder) for link in links)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_short_path_lets_go_of_the_folder(tmp_path: Path) -> None:
    made = long_home(tmp_path)
    with shorten_socket_path(made.socket) as name:
        assert Path(name).parent.samefile(made.path)
        assert descriptors_of(made.path) == 1
    assert descriptors_of(made.path) == 0
    with pytest.raises(RuntimeError), shorten_socket_path(made.socket):
        raise RuntimeError
    assert descriptors_of(made.path) == 0


def test_a_long_path_to_no_folder_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(HomeError, match="cannot be opened"),
        shorten_socket_path(tmp_path / ("x" * 150) / "socket"),
    ):
        pass


def test_the_announcement_is_json_that_others_can_read(made: Home) -> None:
    with made.claim() as claim:
        assert claim is not None
        claim.announce("http://127.0.0.1:5")
        body = json.loads((made.path / "lock").read_text())
    assert body == {"pid": os.getpid(), "address": "http://127.0.0.1:5"}
