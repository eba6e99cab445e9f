"""The redactors of an installation, which know every secret this process knows."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias

from memplane.auth.token_store import read_token_records
from memplane.errors import MemplaneError
from memplane.home import Home
from memplane.kit.clock import system_clock
from memplane.proxy.provider_config import PROVIDERS_FILE, read_keys
from memplane.redaction.held_secrets import HeldSecrets, IssuedTokens
from memplane.redaction.known_secrets import collect_environment_secrets
from memplane.redaction.redactor import Redactor
from memplane.secret import Secret
from memplane.settings import Settings, get_environment
from memplane.settings.sources import load_settings

_UNSETTLED_NS: Final = 2_000_000_000
"""A file that changed so recently may change again without a different time."""

_Stamp: TypeAlias = tuple[int, int, int, int]


def open_redactor(settings: Settings) -> Redactor:
    """Make the redactor of an installation, which knows every secret this process knows."""
    home = Home(settings.home)
    home.create()
    return _redactor(settings, home.redaction_key())


def log_redactor(settings: Settings) -> Redactor:
    """Make the redactor for what is logged, without touching the home, which may be unusable."""
    return _redactor(settings, secrets.token_bytes())


def _redactor(settings: Settings, key: bytes) -> Redactor:
    known = [*_secrets_in(settings), *collect_environment_secrets(get_environment())]
    return Redactor(key=key, known=known, held=_HeldSecretFiles(settings).read)


def _secrets_in(settings: object) -> Iterator[Secret]:
    """Yield every secret of the settings, however deep it stands."""
    if isinstance(settings, Secret):
        if settings:
            yield settings
    elif is_dataclass(settings):
        for field in fields(settings):
            yield from _secrets_in(getattr(settings, field.name))


class _HeldSecretFiles:
    """Reads the files that hold secrets, again whenever one of them changed.

    What was read once stays known until the process ends. A file that cannot be read adds nothing.
    """

    def __init__(self, settings: Settings) -> None:
        home = Home(settings.home)
        self._home = home
        providers = (settings.proxy.auth_dir or settings.home) / PROVIDERS_FILE
        self._readers: dict[Path, Callable[[Path], HeldSecrets]] = {
            home.token_file: self._read_home_token,
            home.tokens_file: _read_issued_tokens,
            providers: _read_provider_keys,
            settings.home / "config.toml": self._read_settings,
            settings.home / ".env": self._read_settings,
        }
        self._stamps: dict[Path, _Stamp | None] = {}
        self._held = HeldSecrets()
        self._lock = Lock()

    def read(self) -> HeldSecrets:
        """Return all that was held since the start; the same object while nothing changes."""
        with self._lock:
            for path, reader in self._readers.items():
                stamp = _stamp(path)
                if stamp is None or stamp != self._stamps.get(path):
                    self._stamps[path] = _if_settled(stamp)
                    if stamp is not None:
                        self._add(path, reader)
            return self._held

    def _add(self, path: Path, reader: Callable[[Path], HeldSecrets]) -> None:
        try:
            added = reader(path)
        except (MemplaneError, OSError, ValueError):
            return
        held = self._held
        clear = tuple(dict.fromkeys((*held.clear, *added.clear)))
        issued = IssuedTokens(
            held.issued.hashes | added.issued.hashes, held.issued.agents | added.issued.agents
        )
        if (len(clear), issued) != (len(held.clear), held.issued):
            self._held = HeldSecrets(clear, issued)

    def _read_home_token(self, _path: Path) -> HeldSecrets:
        return HeldSecrets((self._home.existing_token(),))

    def _read_settings(self, _path: Path) -> HeldSecrets:
        read = load_settings({"home": str(self._home.path)}, get_environment())
        return HeldSecrets(tuple(_secrets_in(read)))


def _read_provider_keys(path: Path) -> HeldSecrets:
    return HeldSecrets(tuple(read_keys(path)))


def _read_issued_tokens(path: Path) -> HeldSecrets:
    records = read_token_records(path)
    hashes = frozenset(bytes.fromhex(record.sha256) for record in records)
    agents = frozenset(record.agent.encode() for record in records if record.agent is not None)
    return HeldSecrets(issued=IssuedTokens(hashes, agents))


def _stamp(path: Path) -> _Stamp | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino


def _if_settled(stamp: _Stamp | None) -> _Stamp | None:
    """Return a stamp that tells the next change for certain; None when it is too new for that."""
    if stamp is None:
        return None
    age = system_clock().timestamp() * 1e9 - max(stamp[:2])
    return stamp if age > _UNSETTLED_NS else None
