"""The providers that an operator configured: `providers.json`, and behind it the environment."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from memplane.errors import SettingsError
from memplane.kit.json_values import as_object
from memplane.proxy.address_policy import check_base_url, parse_local_port
from memplane.proxy.provider import AuthScheme, Provider
from memplane.proxy.route_selection import add_version_path
from memplane.secret import Secret

PROVIDERS_FILE: Final = "providers.json"

_T = TypeVar("_T")
_MAX_FILE_BYTES: Final = 1 << 20
_NEWEST_VERSION: Final = 2
_API_FORMATS: Final = frozenset({"openai", "anthropic"})
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
_VARIABLE_PREFIXES: Final[Mapping[str, str]] = {
    "anthropic": "ANTHROPIC",
    "gemini": "GEMINI",
    "google": "GEMINI",
    "openai": "OPENAI",
    "openrouter": "OPENROUTER",
    "xai": "XAI",
}
_DEFAULT_AUTH_SCHEMES: Final[Mapping[str, AuthScheme]] = {
    "anthropic": AuthScheme.X_API_KEY,
    "ollama": AuthScheme.NONE,
}
# A key that cools down is better than none: its provider may take it again by now.
_COOLDOWN_STATE: Final = "cooldown"
_USABLE_KEY_STATES: Final = frozenset({"", "ready", "active", _COOLDOWN_STATE})


class _ConfiguredKey(msgspec.Struct):
    id: str = ""
    secret: str = ""
    state: str = ""


class _ConfiguredProvider(msgspec.Struct):
    base_url: str = ""
    api_key: str = ""
    auth: str = ""
    api_format: str = ""
    active_key_id: str = ""
    keys: list[_ConfiguredKey] | None = None


class _ProvidersFile(msgspec.Struct):
    version: int = 1
    providers: dict[str, _ConfiguredProvider] = {}


def read_providers(
    path: Path | None, environ: Mapping[str, str], *, own_port: int = 0
) -> Mapping[str, Provider]:
    """Read the providers, by their names.

    What the file says of a provider beats the environment. One that the file names with neither an
    address nor a key has both from there; another one has nothing from there, so that a key only
    goes where it was meant to go. An address in the environment that is memplane's own was meant
    for an agent, and does not count.

    Args:
        path: The file; it may be absent, in either sense.
        environ: Variables such as `OPENAI_API_KEY` and `OPENAI_BASE_URL`.
        own_port: Where memplane listens; 0 where that is not known.

    Raises:
        SettingsError: The file cannot be used, or an address or a key cannot. No complaint repeats
            a key.
    """
    found = {one.name: one for one in _read_environment(environ, own_port)}
    for written, entry in _read_file(path, _ProvidersFile).providers.items():
        name = written.strip().lower()
        if not name or "/" in name:
            raise SettingsError(f"{PROVIDERS_FILE}: a provider's name is empty or has a slash")
        found[name] = _make_provider(name, entry, found.get(name), own_port)
    return found


def read_keys(path: Path) -> list[Secret]:
    """Read every key of the file, also those that are not in use.

    Raises:
        SettingsError: The file cannot be read.
    """
    found: list[object] = []
    for entry in as_object(_read_file(path, dict[str, object]).get("providers")).values():
        about = as_object(entry)
        found.append(about.get("api_key"))
        if isinstance(keys := about.get("keys"), list):
            found += [as_object(key).get("secret") for key in cast("list[object]", keys)]
    return [Secret(key.strip()) for key in found if isinstance(key, str) and key.strip()]


def find_config_warnings(
    path: Path | None, environ: Mapping[str, str], *, own_port: int = 0
) -> Iterator[str]:
    """Say what is written there and does not count, as where a name is misspelt.

    Raises:
        SettingsError: The file cannot be used.
    """
    for variable in dict.fromkeys(f"{prefix}_BASE_URL" for prefix in _VARIABLE_PREFIXES.values()):
        if _is_own_address(environ.get(variable, "").strip(), own_port):
            yield f"{variable} is memplane itself, as agents need it; the vendor is asked instead"
    file = _read_file(path, dict[str, object])
    if file and "providers" not in file:
        yield f'{PROVIDERS_FILE} has no member "providers", in which providers are looked for'
    for name, entry in as_object(file.get("providers")).items():
        for member in as_object(entry):
            near = get_close_matches(member, _ConfiguredProvider.__struct_fields__, n=1)
            if near and near[0] != member:
                yield f'{PROVIDERS_FILE}: provider "{name}" has {member}. Did you mean {near[0]}?'


def _is_own_address(written: str, own_port: int) -> bool:
    """Tell whether an address is one that agents are given: by its port, or by its path."""
    port = parse_local_port(written)
    return port is not None and (port == own_port or urlsplit(written).path.startswith("/agent/"))


def _read_environment(environ: Mapping[str, str], own_port: int) -> Iterator[Provider]:
    for name, prefix in _VARIABLE_PREFIXES.items():
        key = _parse_key(environ.get(f"{prefix}_API_KEY", ""), f"{prefix}_API_KEY")
        variable = f"{prefix}_BASE_URL"
        written = environ.get(variable, "").strip()
        written = "" if _is_own_address(written, own_port) else written
        if key is None and not written:
            continue
        base = written or _BASE_URLS[name]
        yield Provider(
            name,
            add_version_path(check_base_url(base, variable)),
            key,
            # An address without a key is a server of one's own.
            AuthScheme.NONE if key is None else _DEFAULT_AUTH_SCHEMES.get(name, AuthScheme.BEARER),
            _parse_format("", name, variable),
        )


def _make_provider(
    name: str, entry: _ConfiguredProvider, behind: Provider | None, own_port: int
) -> Provider:
    what = f'{PROVIDERS_FILE}: provider "{name}"'
    written = entry.base_url.strip()
    spoken = _parse_format(entry.api_format, name, what)
    if behind is not None and not (written or entry.api_key or entry.keys):
        base, key = behind.base_url, behind.key
    else:
        base, key = written or _BASE_URLS.get(name, ""), _parse_key(_choose_key(entry), what)
    return Provider(
        name,
        check_base_url(base, f"{what}: base_url", own_port=own_port),
        key,
        _parse_auth(entry.auth, name, spoken, what),
        spoken,
    )


def _choose_key(entry: _ConfiguredProvider) -> str:
    """Choose the key: the active one, or else the first that can be used."""
    if entry.keys is None:
        return entry.api_key
    usable = [one for one in entry.keys if one.state in _USABLE_KEY_STATES and one.secret.strip()]
    # Sorting keeps the order of keys that are alike.
    usable.sort(key=lambda one: (one.state == _COOLDOWN_STATE, one.id != entry.active_key_id))
    return usable[0].secret if usable else ""


def _parse_auth(written: str, name: str, spoken: str, what: str) -> AuthScheme:
    if not written.strip():
        return _DEFAULT_AUTH_SCHEMES.get(
            name, AuthScheme.X_API_KEY if spoken == _ANTHROPIC else AuthScheme.BEARER
        )
    try:
        return AuthScheme(written.strip().lower())
    except ValueError:
        raise SettingsError(f"{what}: auth is none of {', '.join(AuthScheme)}") from None


def _parse_format(written: str, name: str, what: str) -> str:
    spoken = written.strip().lower() or (_ANTHROPIC if name == _ANTHROPIC else "openai")
    if spoken not in _API_FORMATS:
        raise SettingsError(f"{what}: api_format is none of {', '.join(sorted(_API_FORMATS))}")
    return spoken


def _parse_key(text: str, what: str) -> Secret | None:
    key = text.strip()
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise SettingsError(f"{what}: the key holds characters that no key has")
    return Secret(key) if key else None


def _read_file(path: Path | None, of: type[_T]) -> _T:
    """Read the file; one that is not there says nothing."""
    if path is None:
        return of()
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MAX_FILE_BYTES:
            raise SettingsError(
                f"{PROVIDERS_FILE} is no regular file of at most {_MAX_FILE_BYTES} bytes"
            )
        data = path.read_bytes()
    except FileNotFoundError:
        return of()
    except OSError as error:
        raise SettingsError(f"{PROVIDERS_FILE} cannot be read: {error.strerror}") from error
    try:
        file = msgspec.json.decode(data, type=of)
    except (ValueError, RecursionError) as error:
        complaint = str(error)
    else:
        if isinstance(file, _ProvidersFile) and file.version > _NEWEST_VERSION:
            raise SettingsError(
                f"{PROVIDERS_FILE} has version {file.version}, which is not known here"
            )
        return file
    # Not raised from the library's error: that one may hold what the file says.
    raise SettingsError(f"{PROVIDERS_FILE} is invalid: {complaint}")
