"""Where this machine keeps its private key: the system's key store, or a private file."""

from __future__ import annotations

from hmac import compare_digest
from pathlib import Path
from typing import Final, Protocol

from memplane.errors import BackendMisconfigured
from memplane.kit.private_files import (
    make_private_folder,
    read_private_file,
    replace_private_file,
)
from memplane.secret import Secret

KEY_ACCOUNT: Final = "blueprint-private-key"
"""The key that is in use."""
NEXT_KEY_ACCOUNT: Final = "blueprint-private-key-next"
"""A key that was made and is not proven yet."""
_SERVICE: Final = "memplane"
_FILE_NOTE: Final = (
    "memplane: the private key of this machine, in a file because there is no key store here.\n"
)
INSTALL_HINT: Final = "pip install 'memplane[azure]'"


class KeyStore(Protocol):
    """Keeps secrets by name. `is_file` when it is the fallback, which status must tell."""

    where: str
    is_file: bool

    def read(self, account: str) -> Secret | None:
        """Return a secret; None when there is none."""
        ...

    def write(self, account: str, secret: Secret) -> None:
        """Keep a secret in place of the one before."""
        ...

    def delete(self, account: str) -> None:
        """Remove a secret; nothing happens when there is none."""
        ...


class FileKeyStore:
    """A file for each secret in the home, mode 0600."""

    is_file = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.where = f"the file {folder / KEY_ACCOUNT}.pem (no key store on this machine)"

    def read(self, account: str) -> Secret | None:
        body = read_private_file(self._path(account))
        return None if body is None else Secret(body.decode().removeprefix(_FILE_NOTE))

    def write(self, account: str, secret: Secret) -> None:
        make_private_folder(self._folder)
        replace_private_file(self._path(account), (_FILE_NOTE + secret.reveal()).encode())

    def delete(self, account: str) -> None:
        self._path(account).unlink(missing_ok=True)

    def _path(self, account: str) -> Path:
        return self._folder / f"{account}.pem"


class SystemKeyStore:
    """The key store of the operating system, through the keyring library."""

    is_file = False

    def __init__(self) -> None:
        self.where = f"the key store of this system (service {_SERVICE})"

    def read(self, account: str) -> Secret | None:
        import keyring  # noqa: PLC0415 - of an extra, and only asked for when a key is wanted
        from keyring.errors import KeyringError  # noqa: PLC0415 - the same

        try:
            found = keyring.get_password(_SERVICE, account)
        except KeyringError as error:
            raise _locked(error) from error
        return None if found is None else Secret(found)

    def write(self, account: str, secret: Secret) -> None:
        import keyring  # noqa: PLC0415 - of an extra, and only asked for when a key is kept
        from keyring.errors import KeyringError  # noqa: PLC0415 - the same

        try:
            keyring.set_password(_SERVICE, account, secret.reveal())
        except KeyringError as error:
            raise _locked(error) from error

    def delete(self, account: str) -> None:
        import keyring  # noqa: PLC0415 - of an extra, and only asked for when a key is removed
        from keyring.errors import KeyringError, PasswordDeleteError  # noqa: PLC0415 - the same

        try:
            keyring.delete_password(_SERVICE, account)
        except PasswordDeleteError:
            return
        except KeyringError as error:
            raise _locked(error) from error


def _locked(error: Exception) -> BackendMisconfigured:
    return BackendMisconfigured(
        f"the key store of this system cannot be used ({type(error).__name__}). Unlock it, and "
        "try again"
    )


def open_key_store(folder: Path) -> KeyStore:
    """Open the store that has this machine's key, or that a new key belongs in.

    A key in the file stays there, also where a key store appears later. `folder` is where the
    file is.

    Raises:
        BackendMisconfigured: The keyring library is not installed.
    """
    file = FileKeyStore(folder)
    if file.read(KEY_ACCOUNT) is not None or not _has_system_store():
        return file
    return SystemKeyStore()


def _has_system_store() -> bool:
    try:
        import keyring  # noqa: PLC0415 - of an extra, and only asked for when a key is wanted
    except ImportError as error:
        raise BackendMisconfigured(
            "the agent's certificate needs a library that is not installed. Install it: "
            f"{INSTALL_HINT}"
        ) from error
    # The library's own measure: what only stands in for a missing key store has 0 or less.
    return float(keyring.get_keyring().priority) > 0


def is_round_trip_possible(store: KeyStore, secret: Secret) -> bool:
    """Write, read and remove a secret, and say whether it came back."""
    account = f"{KEY_ACCOUNT}-check"
    store.write(account, secret)
    try:
        found = store.read(account)
        return found is not None and compare_digest(found.reveal(), secret.reveal())
    finally:
        store.delete(account)
