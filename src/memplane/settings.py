"""Settings: one frozen object, read once by whoever assembles the program.

A setting `section.key` is `section.key` in `config.toml` and `MEMPLANE_SECTION_KEY` in the
environment and in `.env`. Flags win over the environment, it over `.env`, that over `config.toml`.
Both files lie in the home folder and nowhere else: a file in the current directory could belong
to somebody else's project.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any, Final, TypeVar, cast

from memplane.errors import SettingsError
from memplane.secret import Secret

_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_UNSET: Final = Path("<follows from the home>")
_FALSE: Final = frozenset({"false", "0", "no", "off", ""})


def boolean(text: str) -> bool:
    """Read a switch: `true 1 yes on`, `false 0 no off` or empty, in any case."""
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("expected true, 1, yes, on, false, 0, no or off")


def whole(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("expected a whole number") from None


def count(text: str) -> int:
    """Read a whole number that is not negative."""
    number = whole(text)
    if number < 0:
        raise ValueError("expected 0 or more")
    return number


def positive(text: str) -> int:
    """Read a whole number above zero."""
    number = whole(text)
    if number < 1:
        raise ValueError("expected 1 or more")
    return number


def port(text: str) -> int:
    """Read a port number; 0 asks for any free one."""
    number = whole(text)
    if not 0 <= number <= 65535:  # noqa: PLR2004 - the range of a port
        raise ValueError("expected a port from 0 to 65535")
    return number


def level(text: str) -> str:
    """Read how much is logged."""
    word = text.strip().lower()
    if word not in {"debug", "info", "warning", "error", "critical"}:
        raise ValueError("expected debug, info, warning, error or critical")
    return word


def segment_size(text: str) -> int:
    """Read a size in bytes; what is not a positive number is the default."""
    try:
        size = int(text)
    except ValueError:
        size = 0
    return size if size > 0 else 268435456


def syncing(text: str) -> str:
    """Read when entries are made durable; `always` is another word for `group`."""
    word = text.strip().lower().replace("always", "group")
    if word not in {"group", "interval", "never"}:
        raise ValueError("expected group, interval or never")
    return word


def file_mode(text: str) -> int:
    """Read permissions in octal, such as 600 or 0660; the owner must be able to read and write."""
    try:
        mode = int(text, 8)
    except ValueError:
        raise ValueError("expected permissions in octal, such as 0660") from None
    if mode & 0o600 != 0o600 or mode & ~0o666:  # noqa: PLR2004 - the bits themselves
        raise ValueError("expected permissions from 0600 to 0666, with no execute bits")
    return mode


def words(text: str) -> tuple[str, ...]:
    """Read a list separated by commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def folder(text: str) -> Path:
    """Read a path; `~` is the user's folder."""
    if not text:
        raise ValueError("expected a path")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError("expected the folder of a user who exists") from None


def optional_path(text: str) -> Path | None:
    """Read a path that may be left out."""
    return folder(text) if text else None


def zone(text: str) -> str:
    """Read the name of an IANA time zone; empty is the system's."""
    if text:
        from zoneinfo import ZoneInfo  # noqa: PLC0415 - rarely needed, and not free

        try:
            ZoneInfo(text)
        except (KeyError, ValueError, OSError):
            raise ValueError("expected an IANA time zone such as Europe/Berlin") from None
    return text


@dataclass(frozen=True, slots=True)
class Option:
    """What is known of one setting besides its value."""

    read: Callable[[str], object]
    about: str
    aliases: tuple[str, ...] = ()
    shown_default: str = ""


_T = TypeVar("_T")


def _option(
    default: _T,
    read: Callable[[str], _T],
    about: str,
    *,
    aliases: tuple[str, ...] = (),
    shown_default: str = "",
) -> _T:
    option = Option(read, about, aliases, shown_default)
    return field(default=default, metadata={"option": option})


@dataclass(frozen=True, slots=True)
class BlobSettings:
    """The container that state moves through."""

    endpoint: str = _option(
        "",
        str,
        "Address of the storage account, such as `https://ACCOUNT.blob.core.windows.net`.",
        aliases=("ENTRACLAW_BLOB_ENDPOINT",),
    )
    container: str = _option(
        "", str, "Name of the container.", aliases=("ENTRACLAW_BLOB_CONTAINER",)
    )
    connection_string: Secret = _option(
        Secret(""),
        Secret,
        "Connection string of the account, instead of an endpoint. "
        "The container is created when it is absent.",
    )
    sas_url: Secret = _option(
        Secret(""), Secret, "Address of the container with a shared access signature."
    )
    ca_file: Path | None = _option(
        None, optional_path, "Certificates to trust for the endpoint. For emulators and tests."
    )
    token: Secret = _option(
        Secret(""), Secret, "A bearer token for the endpoint. For emulators and tests."
    )


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The door that listens."""

    port: int = _option(6367, port, "Port to listen on, on loopback. 0 takes any free one.")
    allowed_hosts: tuple[str, ...] = _option(
        (), words, "Host headers to accept besides loopback's, each with its port."
    )
    requests_per_second: int = _option(
        1000,
        count,
        "Requests that one token may make in a second, and twice as many at once. 0 is no limit.",
    )
    concurrent_requests: int = _option(
        2000, positive, "Requests that are answered at the same time."
    )


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """The record of what happened."""

    dir: Path = _option(
        _UNSET,
        folder,
        "Where ledgers lie, one folder for each agent. In a pod its `.claw-session-history`.",
        aliases=("MEMPLANE_SESSION_HISTORY_DIR", "CLAW_SESSION_HISTORY_DIR"),
        shown_default="`<home>/ledger`",
    )
    max_bytes: int = _option(
        268435456,
        segment_size,
        "Size at which a segment is sealed and the next begins; 0 or less is the default.",
        aliases=("MEMPLANE_SESSION_HISTORY_MAX_BYTES", "CLLAMA_SESSION_HISTORY_MAX_BYTES"),
    )
    fsync: str = _option(
        "group",
        syncing,
        "When entries are made durable: `group`, before each is acknowledged; `interval`, every "
        "100 ms; `never`, when the system likes.",
    )
    mode: int = _option(
        0o600,
        file_mode,
        "Permissions of ledger files, in octal, for set-ups where several users share them.",
        shown_default="`600`",
    )
    queue_bytes: int = _option(
        67108864, whole, "Bytes that may wait for the disk before further turns are refused."
    )
    verbatim: bool = _option(
        default=False,
        read=boolean,
        about="Write entries as they come, with the secrets in them. `memplane status` says so.",
    )


@dataclass(frozen=True, slots=True)
class PersonaSettings:
    """The folder of markdown that follows the agent."""

    sync: bool = _option(
        default=True,
        read=boolean,
        about="`off` quiets the hooks and the sync.",
        aliases=("ENTRACLAW_PERSONA_SYNC",),
    )
    prefix: str = _option("claude_memory", str, "Where persona documents lie in the container.")


@dataclass(frozen=True, slots=True)
class OpsSettings:
    """Operational memory."""

    memory_budget: int = _option(
        2000,
        whole,
        "Tokens that memories may take in a prompt.",
        aliases=("CLAUDEOPS_MEMORY_BUDGET",),
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an operator can choose."""

    home: Path = _option(
        Path("~/.memplane"), folder, "Where memplane keeps its state. Not settable in a file."
    )
    agent: str = _option("", str, "The agent that commands and hooks act for by default.")
    timezone: str = _option(
        "", zone, "IANA time zone that decides what a day is.", shown_default="the system's"
    )
    keep_memory_local: bool = _option(
        default=False,
        read=boolean,
        about="Keep state on this machine, whatever else is set.",
        aliases=("ENTRACLAW_KEEP_MEMORY_LOCAL",),
    )
    strict_cloud: bool = _option(
        default=False, read=boolean, about="Refuse to start with half a cloud configuration."
    )
    data_dir: Path = _option(
        _UNSET,
        folder,
        "The local object store.",
        shown_default="`<home>/data`; on Windows `%LOCALAPPDATA%\\memplane\\data`",
    )
    cache_dir: Path = _option(
        _UNSET, folder, "The mirror of the container.", shown_default="`<home>/cache`"
    )
    state_dir: Path = _option(
        _UNSET, folder, "What sync remembers.", shown_default="`<home>/state`"
    )
    log_level: str = _option(
        "warning", level, "What is logged: `debug`, `info`, `warning`, `error` and above."
    )
    context_root: Path | None = _option(
        None,
        optional_path,
        "Where a pod's compile step left one folder per agent, with the agents' tokens.",
        aliases=("CLAW_CONTEXT_ROOT",),
    )
    admin_token: Secret = _option(
        Secret(""),
        Secret,
        "One more admin's token, besides the home's own.",
        aliases=("CLLAMA_UI_TOKEN",),
    )
    blob: BlobSettings = field(default_factory=BlobSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    persona: PersonaSettings = field(default_factory=PersonaSettings)
    ops: OpsSettings = field(default_factory=OpsSettings)

    def __post_init__(self) -> None:
        """Fill in the places that follow from the home."""
        home = self.home.expanduser().absolute()
        follow = {"home": home, "data_dir": home / "data"}
        follow |= {"cache_dir": home / "cache", "state_dir": home / "state"}
        for name, place in follow.items():
            if name == "home" or getattr(self, name) == _UNSET:
                object.__setattr__(self, name, place)
        if self.ledger.dir == _UNSET:
            object.__setattr__(self, "ledger", replace(self.ledger, dir=home / "ledger"))


@dataclass(frozen=True, slots=True)
class Named:
    """One setting with its name, for loading and for the reference page."""

    name: str
    default: object
    option: Option

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return "MEMPLANE_" + self.name.replace(".", "_").upper()

    @property
    def secret(self) -> bool:
        """Whether its value must not be shown."""
        return isinstance(self.default, Secret)


def all_settings(kind: Any = Settings, prefix: str = "") -> Iterator[Named]:
    """Name every setting there is."""
    for one in fields(kind):
        if (option := one.metadata.get("option")) is not None:
            yield Named(prefix + one.name, one.default, option)
        else:
            yield from all_settings(one.default_factory, f"{prefix}{one.name}.")


def default_data_dir(home: PurePath, *, windows: bool, local_app_data: str) -> PurePath:
    """Say where the local object store lies when nobody chose a place."""
    if windows and local_app_data:
        return type(home)(local_app_data) / "memplane" / "data"
    return home / "data"


def settings_from_environment(flags: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of this process: flags, its environment and the files of its home."""
    return load_settings(flags or {}, os.environ)


def load_settings(flags: Mapping[str, str], environ: Mapping[str, str]) -> Settings:
    """Read settings from every source; flags are keyed by setting name.

    Raises:
        SettingsError: A value cannot be read, or a file or flag names an unknown setting.
    """
    home = _home_of(flags, environ)
    dotenv = _read_dotenv(home / ".env")
    if "MEMPLANE_HOME" in dotenv:
        place = home / ".env"
        raise SettingsError(f"{place} cannot move the home it lies in. Set MEMPLANE_HOME instead")
    from_toml = _read_toml(home / "config.toml")
    values: dict[str, object] = {}
    for setting in all_settings():
        found = (
            _from_flags(setting, flags)
            or _from_variables(setting, environ, "the environment")
            or _from_variables(setting, dotenv, str(home / ".env"))
            or _from_toml(setting, from_toml, home / "config.toml")
        )
        if found is not None:
            values[setting.name] = _value(setting, *found)
    if "home" in from_toml:
        place = home / "config.toml"
        raise SettingsError(f"{place} cannot move the home it lies in. Set MEMPLANE_HOME instead")
    _refuse_unknown(flags, "the command line")
    _refuse_unknown(from_toml, str(home / "config.toml"))
    values["home"] = home
    local_app_data = environ.get("LOCALAPPDATA", "")
    data = default_data_dir(home, windows=sys.platform == "win32", local_app_data=local_app_data)
    values.setdefault("data_dir", Path(data))
    return cast("Settings", _build(Settings, values))


def environment() -> Mapping[str, str]:
    """Return the environment, for whoever must know which secrets are in it."""
    return os.environ


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Name the variables that look like ours and are not, for `memplane doctor`."""
    known = {
        name for setting in all_settings() for name in (setting.variable, *setting.option.aliases)
    }
    return sorted(name for name in environ if name.startswith("MEMPLANE_") and name not in known)


def unknown_names(home: Path) -> list[str]:
    """Name what looks like ours and is not, in the environment and in the home's `.env`."""
    return unknown_variables({**os.environ, **_read_dotenv(home / ".env")})


def _home_of(flags: Mapping[str, str], environ: Mapping[str, str]) -> Path:
    chosen = flags.get("home") or environ.get("MEMPLANE_HOME") or "~/.memplane"
    try:
        return Path(chosen).expanduser().absolute()
    except RuntimeError as error:
        raise SettingsError(f"MEMPLANE_HOME: cannot find the user's folder in {chosen}") from error


_Found = tuple[str, str]


def _from_flags(setting: Named, flags: Mapping[str, str]) -> _Found | None:
    if setting.name not in flags:
        return None
    if setting.secret:
        raise SettingsError(
            f"{setting.name} is a secret, and other users can see a command line. "
            f"Set {setting.variable} instead"
        )
    return flags[setting.name], f"--set {setting.name}"


def _from_variables(setting: Named, source: Mapping[str, str], place: str) -> _Found | None:
    for variable in (setting.variable, *setting.option.aliases):
        if variable in source:
            return source[variable], f"{variable} in {place}"
    return None


def _from_toml(setting: Named, source: Mapping[str, str], place: Path) -> _Found | None:
    if setting.name not in source:
        return None
    return source[setting.name], f"{setting.name} in {place}"


def _value(setting: Named, text: str, place: str) -> object:
    try:
        return setting.option.read(text)
    except ValueError as error:
        shown = "" if setting.secret else f" {text!r}:"
        raise SettingsError(f"{place} is{shown} {error}") from error


def _refuse_unknown(source: Mapping[str, str], place: str) -> None:
    known = [setting.name for setting in all_settings()]
    for name in source:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise SettingsError(f"{place} sets {name}, which memplane does not know.{hint}")


def _read_dotenv(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _text_of(path).splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            found[name.strip()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _read_toml(path: Path) -> dict[str, str]:
    text = _text_of(path)
    if not text:
        return {}
    import tomllib  # noqa: PLC0415 - most homes have no config.toml, and hooks start often

    try:
        return dict(_flat(tomllib.loads(text), path))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error


def _flat(table: Mapping[str, object], path: Path, prefix: str = "") -> Iterator[_Found]:
    for name, value in table.items():
        match value:
            case dict():
                yield from _flat(cast("dict[str, object]", value), path, f"{prefix}{name}.")
            case bool():
                yield prefix + name, "true" if value else "false"
            case str() | int():
                yield prefix + name, str(value)
            case list():
                yield prefix + name, ",".join(str(item) for item in cast("list[object]", value))
            case _:
                raise SettingsError(f"{path}: {prefix}{name} has a type that no setting takes")


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error


def _build(kind: Any, values: Mapping[str, object], prefix: str = "") -> object:
    given: dict[str, object] = {}
    for one in fields(kind):
        if "option" not in one.metadata:
            given[one.name] = _build(one.default_factory, values, f"{prefix}{one.name}.")
        elif prefix + one.name in values:
            given[one.name] = values[prefix + one.name]
    return kind(**given)
