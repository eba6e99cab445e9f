"""The home folder: where things lie in it, who owns it, and its token."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from memplane.errors import HomeError
from memplane.kit.ids import new_id
from memplane.kit.private_files import make_private_folder, read_private_file
from memplane.secret import Secret

_MAX_SOCKET_PATH_BYTES: Final = 100
_OTHER_HOME_HINT: Final = "--home DIR or MEMPLANE_HOME names another"


class Owner(msgspec.Struct, frozen=True):
    """The process that owns the home; `address` is empty when it does not listen on a port."""

    pid: int
    address: str = ""


class Home(msgspec.Struct, frozen=True):
    """One home folder. Nothing is created before it is needed."""

    path: Path

    @property
    def token_file(self) -> Path:
        """The file that holds this machine's token."""
        return self.path / "token"

    @property
    def tokens_file(self) -> Path:
        """The file that holds the hashes of the tokens that were issued."""
        return self.path / "tokens.json"

    @property
    def socket(self) -> Path:
        """The socket on which the owner answers."""
        return self.path / "socket"

    @property
    def database(self) -> Path:
        """The database of what was learned."""
        return self.path / "memplane.db"

    @property
    def indexes(self) -> Path:
        """Where the text index of the database lies."""
        return self.path / "index"

    @property
    def received(self) -> Path:
        """The ledgers of entries that others recorded."""
        return self.path / "received"

    @property
    def events(self) -> Path:
        """The ledgers of what happened to observations."""
        return self.path / "events"

    @property
    def sessions(self) -> Path:
        """What agents printed while they were run."""
        return self.path / "sessions"

    @property
    def tombstones(self) -> Path:
        """What was forgotten."""
        return self.path / "tombstones"

    @property
    def telemetry_file(self) -> Path:
        """What memory operations told about themselves."""
        return self.path / "logs" / "telemetry.jsonl"

    @property
    def log_file(self) -> Path:
        """What a server in the background says; older files stand beside it."""
        return self.path / "logs" / "memplane.log"

    @property
    def commands_file(self) -> Path:
        """What memory operations of commands told, beside those of whoever serves."""
        return self.path / "commands.jsonl"

    @property
    def spool(self) -> Path:
        """Where short-lived processes leave jobs for the worker."""
        return self.path / "spool"

    def create(self) -> None:
        """Make the folder, for this user alone.

        Raises:
            HomeError: It cannot be made, or others can look into it.
        """
        try:
            make_private_folder(self.path)
            mode = stat.S_IMODE(self.path.stat().st_mode)
        except OSError as error:
            raise HomeError(
                f"{self.path} cannot be the home: {error.strerror}. {_OTHER_HOME_HINT}"
            ) from error
        if not self.path.is_dir():
            raise HomeError(
                f"{self.path} cannot be the home: it is not a folder. {_OTHER_HOME_HINT}"
            )
        if mode & 0o077:
            raise HomeError(
                f"{self.path} can be read by others (mode {mode:o}). "
                f"Make it private: chmod 700 {self.path}"
            )

    def expect(self) -> None:
        """Let whoever only looks know that there is nothing to see.

        Raises:
            HomeError: There is no such folder.
        """
        if not self.path.exists():
            raise HomeError(
                f"there is no home at {self.path} yet. memplane up makes it; --home DIR or "
                "MEMPLANE_HOME names another"
            )

    def token(self) -> Secret:
        """Return this home's token; the first call makes it.

        Raises:
            HomeError: The file cannot be read or made, or others can read it.
        """
        if not self.token_file.is_symlink() and not self.token_file.exists():
            self._make_random(self.token_file)
        return self.existing_token()

    def redaction_key(self) -> bytes:
        """Return the key that markers of secrets are made with; the first call makes it.

        Raises:
            HomeError: The file cannot be read or made, or others can read it.
        """
        path = self.path / "redaction.key"
        if not path.is_symlink() and not path.exists():
            self._make_random(path)
        key = (read_private_file(path) or b"").strip()
        if not key:
            raise HomeError(f"{path} is empty. Remove it and a new one is made")
        return key

    def _make_random(self, path: Path) -> None:
        # Written aside and linked in place: nobody ever reads half of it.
        aside = self.path / f".{path.name}-{new_id()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(aside, flags, 0o600)
            with os.fdopen(descriptor, "w") as handle:
                os.fchmod(descriptor, 0o600)
                handle.write(secrets.token_urlsafe(32) + "\n")
                handle.flush()
                os.fsync(descriptor)
            with suppress(FileExistsError):
                os.link(aside, path)
        except OSError as error:
            raise HomeError(f"{path} cannot be made: {error.strerror}") from error
        finally:
            with suppress(OSError):
                aside.unlink()

    def existing_token(self) -> Secret:
        """Return the token that was made before.

        Raises:
            HomeError: There is none, it cannot be read, or others can read it.
        """
        try:
            descriptor = os.open(self.token_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor) as handle:
                mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
                token = handle.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise HomeError(f"{self.token_file} cannot be read: {error}") from error
        if mode & 0o077:
            raise HomeError(
                f"{self.token_file} can be read by others (mode {mode:o}). Someone may have the "
                "token: remove the file and a new one is made at the next start"
            )
        if not token:
            raise HomeError(f"{self.token_file} is empty. Remove it and a new one is made")
        return Secret(token)

    @contextmanager
    def claim(self) -> Generator[Claim | None]:
        """Own the home while the block runs; None when another process owns it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path / "lock", flags, 0o600)
        except OSError as error:
            raise HomeError(
                f"{self.path}/lock cannot be opened: {error.strerror}. "
                f"Is the home this user's? {_OTHER_HOME_HINT}"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            yield None
            return
        try:
            claim = Claim(descriptor)
            claim.announce("")
            yield claim
        finally:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def server(self) -> Owner | None:
        """Return the process that owns the home and listens on a port; None when none does.

        A process that was killed left its announcement in the file, but not its lock.
        """
        owner = self.owner() if self.is_owned() else None
        return owner if owner is not None and owner.address else None

    def is_owned(self) -> bool:
        """Say whether a process owns the home now."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def owner(self) -> Owner | None:
        """Say who owns the home, as the owner announced it; None when it announced nothing."""
        try:
            body = cast("dict[str, Any]", json.loads((self.path / "lock").read_bytes()))
            return Owner(int(body["pid"]), str(body["address"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


class Claim(msgspec.Struct, frozen=True):
    """The ownership of a home."""

    descriptor: int

    def announce(self, address: str) -> None:
        """Let others know who owns the home and where it listens."""
        body = json.dumps({"pid": os.getpid(), "address": address}).encode()
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, body, 0)


@contextmanager
def shorten_socket_path(path: Path) -> Generator[str]:
    """Give a name short enough for a socket, which the system limits to about 100 bytes.

    Raises:
        HomeError: The path is too long, and this system offers no way around.
    """
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH_BYTES:
        yield str(path)
        return
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HomeError(f"{path.parent} cannot be opened: {error.strerror}") from error
    try:
        around = Path(f"/proc/self/fd/{folder}")
        if not around.exists():
            raise HomeError(f"{path} is too long for a socket. Choose a shorter MEMPLANE_HOME")
        yield f"{around}/{path.name}"
    finally:
        os.close(folder)
