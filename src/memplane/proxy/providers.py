"""The providers that an operator configured: `providers.json`, and behind it the environment."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from memplane.errors import SettingsError
from memplane.proxy.addresses import base_url
from memplane.proxy.candidate import Auth, Provider
from memplane.proxy.routing import with_version
from memplane.secret import Secret

_MOST_BYTES: Final = 1 << 20
_NEWEST: Final = 2
_FORMATS: Final = frozenset({"openai", "anthropic"})
_ANTHROPIC: Final = "anthropic"

_BASE_URLS: Final[Mapping[str, str]] = {
    "anthropic": "https://api.anthropic.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "google": "https://generativelanguage.googleapis.com/v1beta/openai",
    "ollama": "http://ollama:11434/v1",
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "xai": "https://api.x.ai/v1",
}
# Models of Gemini are known as `google/…` too.
_VARIABLES: Final[Mapping[str, str]] = {
    "anthropic": "ANTHROPIC",
    "gemini": "GEMINI",
    "google": "GEMINI",
    "openai": "OPENAI",
    "openrouter": "OPENROUTER",
    "xai": "XAI",
}
_AUTHS: Final[Mapping[str, Auth]] = {"anthropic": Auth.X_API_KEY, "ollama": Auth.NONE}
# A key that cools down is better than none: its provider may take it again by now.
_COOLING: Final = "cooldown"
_STATES: Final = frozenset({"", "ready", "active", _COOLING})


class _Key(msgspec.Struct):
    id: str = ""
    secret: str = ""
    state: str = ""


class _Entry(msgspec.Struct):
    base_url: str = ""
    api_key: str = ""
    auth: str = ""
    api_format: str = ""
    active_key_id: str = ""
    keys: list[_Key] | None = None


class _File(msgspec.Struct):
    version: int = 1
    providers: dict[str, _Entry] = {}


def read_providers(path: Path | None, environ: Mapping[str, str]) -> Mapping[str, Provider]:
    """Read the providers, by their names.

    What the file says of a provider beats the environment. One that the file names with neither an
    address nor a key has both from there; another one has nothing from there, so that a key only
    goes where it was meant to go.

    Args:
        path: The file; it may be absent, in either sense.
        environ: Variables such as `OPENAI_API_KEY` and `OPENAI_BASE_URL`.

    Raises:
        SettingsError: The file cannot be used, or an address or a key cannot. No complaint repeats
            a key.
    """
    found = {one.name: one for one in _of_environment(environ)}
    for written, entry in _read(path).items():
        name = written.strip().lower()
        if not name or "/" in name:
            raise SettingsError(f"{_what(path)}: a provider's name is empty or has a slash")
        found[name] = _of_entry(name, entry, found.get(name))
    return found


def _of_environment(environ: Mapping[str, str]) -> Iterator[Provider]:
    for name, prefix in _VARIABLES.items():
        key = _key(environ.get(f"{prefix}_API_KEY", ""), f"{prefix}_API_KEY")
        variable = f"{prefix}_BASE_URL"
        written = environ.get(variable, "").strip()
        if key is None and not written:
            continue
        base = written or _BASE_URLS[name]
        yield Provider(
            name,
            with_version(base_url(base, variable)),
            key,
            # An address without a key is a server of one's own.
            Auth.NONE if key is None else _AUTHS.get(name, Auth.BEARER),
            _format("", name, variable),
        )


def _of_entry(name: str, entry: _Entry, behind: Provider | None) -> Provider:
    what = f'providers.json: provider "{name}"'
    written = entry.base_url.strip()
    spoken = _format(entry.api_format, name, what)
    if behind is not None and not (written or entry.api_key or entry.keys):
        base, key = behind.base_url, behind.key
    else:
        base, key = written or _BASE_URLS.get(name, ""), _key(_chosen(entry), what)
    return Provider(
        name,
        base_url(base, f"{what}: base_url"),
        key,
        _auth(entry.auth, name, spoken, what),
        spoken,
    )


def _chosen(entry: _Entry) -> str:
    """Choose the key: the active one, or else the first that can be used."""
    if entry.keys is None:
        return entry.api_key
    usable = [one for one in entry.keys if one.state in _STATES and one.secret.strip()]
    # Sorting keeps the order of keys that are alike.
    usable.sort(key=lambda one: (one.state == _COOLING, one.id != entry.active_key_id))
    return usable[0].secret if usable else ""


def _auth(written: str, name: str, spoken: str, what: str) -> Auth:
    if not written.strip():
        return _AUTHS.get(name, Auth.X_API_KEY if spoken == _ANTHROPIC else Auth.BEARER)
    try:
        return Auth(written.strip().lower())
    except ValueError:
        raise SettingsError(f"{what}: auth is none of {', '.join(Auth)}") from None


def _format(written: str, name: str, what: str) -> str:
    spoken = written.strip().lower() or (_ANTHROPIC if name == _ANTHROPIC else "openai")
    if spoken not in _FORMATS:
        raise SettingsError(f"{what}: api_format is none of {', '.join(sorted(_FORMATS))}")
    return spoken


def _key(text: str, what: str) -> Secret | None:
    key = text.strip()
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise SettingsError(f"{what}: the key holds characters that no key has")
    return Secret(key) if key else None


def _read(path: Path | None) -> Mapping[str, _Entry]:
    if path is None:
        return {}
    what = _what(path)
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST_BYTES:
            raise SettingsError(f"{what} is no regular file of at most {_MOST_BYTES} bytes")
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{what} cannot be read: {error.strerror}") from error
    try:
        file = msgspec.json.decode(data, type=_File)
    except (ValueError, RecursionError) as error:
        complaint = str(error)
    else:
        if file.version > _NEWEST:
            raise SettingsError(f"{what} has version {file.version}, which is not known here")
        return file.providers
    # Not raised from the library's error: that one may hold what the file says.
    raise SettingsError(f"{what} is invalid: {complaint}")


def _what(path: Path | None) -> str:
    return str(path) if path is not None else "providers.json"
