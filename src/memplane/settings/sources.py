"""Where settings come from: flags, the environment, and two files of the home.

Flags win over the environment, it over `.env`, that over `config.toml`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any, Final, cast

from memplane.errors import SettingsError
from memplane.settings.table import NamedSetting, Settings, list_settings

_VARIABLES_SET_BY_RUN: Final = frozenset({"MEMPLANE_RUN_CONTEXT", "MEMPLANE_RUN_CONTEXT_FILE"})
"""What `memplane run` says to a program, and so to a memplane within it; these are no settings."""


def default_data_dir(home: PurePath, *, windows: bool, local_app_data: str) -> PurePath:
    """Say where the local object store lies when nobody chose a place."""
    if windows and local_app_data:
        return type(home)(local_app_data) / "memplane" / "data"
    return home / "data"


def load_settings_from_environment(flags: Mapping[str, str] | None = None) -> Settings:
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
    texts = _find_texts(flags, environ, dotenv, from_toml, home=home)
    for setting in list_settings():
        if (found := texts.get(setting.name)) is not None:
            values[setting.name] = _value(setting, *found)
    values |= _fallbacks(values, {**dotenv, **environ})
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


def find_setting_sources(flags: Mapping[str, str]) -> dict[str, str]:
    """Say where each setting comes from; those that have their default are left out."""
    home = _home_of(flags, os.environ)
    dotenv = _read_dotenv(home / ".env")
    from_toml = _read_toml(home / "config.toml")
    texts = _find_texts(flags, os.environ, dotenv, from_toml, home=home)
    fallbacks = _fallbacks(texts, {**dotenv, **os.environ})
    named = {one.name: one.option.fallback for one in list_settings() if one.name in fallbacks}
    return {**named, **{name: place for name, (_, place) in texts.items()}}


def _find_texts(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    dotenv: Mapping[str, str],
    from_toml: Mapping[str, str],
    *,
    home: Path,
) -> dict[str, _TextAndPlace]:
    """Return what is said of each setting, and where; the first source that has it wins."""
    found = {
        setting.name: _from_flags(setting, flags)
        or _from_variables(setting, environ, "the environment")
        or _from_variables(setting, dotenv, str(home / ".env"))
        or _from_toml(setting, from_toml, home / "config.toml")
        for setting in list_settings()
    }
    return {name: text for name, text in found.items() if text is not None}


def get_environment() -> Mapping[str, str]:
    """Return the environment, for whoever must know which secrets are in it."""
    return os.environ


def find_unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Name the variables that look like ours and are not, for `memplane doctor`."""
    known = {
        name for setting in list_settings() for name in (setting.variable, *setting.option.aliases)
    } | _VARIABLES_SET_BY_RUN
    return sorted(name for name in environ if name.startswith("MEMPLANE_") and name not in known)


def find_unknown_names(home: Path) -> list[str]:
    """Name what looks like ours and is not, in the environment and in the home's `.env`."""
    return find_unknown_variables({**os.environ, **_read_dotenv(home / ".env")})


def _home_of(flags: Mapping[str, str], environ: Mapping[str, str]) -> Path:
    chosen = flags.get("home") or environ.get("MEMPLANE_HOME") or "~/.memplane"
    try:
        home = Path(chosen).expanduser().absolute()
    except RuntimeError as error:
        raise SettingsError(f"MEMPLANE_HOME: cannot find the user's folder in {chosen}") from error
    if home.exists() and not home.is_dir():
        named = "--home" if flags.get("home") else "MEMPLANE_HOME"
        raise SettingsError(f"{home} cannot be the home: it is no folder. Name one with {named}")
    return home


_TextAndPlace = tuple[str, str]


def _from_flags(setting: NamedSetting, flags: Mapping[str, str]) -> _TextAndPlace | None:
    if setting.name not in flags:
        return None
    if setting.secret:
        raise SettingsError(
            f"{setting.name} is a secret, and other users can see a command line. "
            f"Set {setting.variable} instead"
        )
    return flags[setting.name], f"--set {setting.name}"


def _from_variables(
    setting: NamedSetting, source: Mapping[str, str], place: str
) -> _TextAndPlace | None:
    for variable in (setting.variable, *setting.option.aliases):
        if variable in source:
            return source[variable], f"{variable} in {place}"
    return None


def _from_toml(
    setting: NamedSetting, source: Mapping[str, str], place: Path
) -> _TextAndPlace | None:
    if setting.name not in source:
        return None
    return source[setting.name], f"{setting.name} in {place}"


def _value(setting: NamedSetting, text: str, place: str) -> object:
    try:
        return setting.option.read(text)
    except ValueError as error:
        shown = "" if setting.secret else f" {text!r}:"
        raise SettingsError(f"{place} is{shown} {error}") from error


def _fallbacks(values: Mapping[str, object], source: Mapping[str, str]) -> dict[str, object]:
    """Take what is said by names of other programs, where nobody says it by ours."""
    found: dict[str, object] = {}
    for setting in list_settings():
        option = setting.option
        if option.fallback not in source or values.keys() & {setting.name, *option.before}:
            continue
        with suppress(ValueError):
            found[setting.name] = option.read(source[option.fallback])
    return found


def _refuse_unknown(source: Mapping[str, str], place: str) -> None:
    known = [setting.name for setting in list_settings()]
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
        return dict(_flatten(tomllib.loads(text), path))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error


def _flatten(table: Mapping[str, object], path: Path, prefix: str = "") -> Iterator[_TextAndPlace]:
    for name, value in table.items():
        match value:
            case dict():
                yield from _flatten(cast("dict[str, object]", value), path, f"{prefix}{name}.")
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
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error


def _build(kind: Any, values: Mapping[str, object], prefix: str = "") -> object:
    given: dict[str, object] = {}
    for one in fields(kind):
        if "option" not in one.metadata:
            given[one.name] = _build(one.default_factory, values, f"{prefix}{one.name}.")
        elif prefix + one.name in values:
            given[one.name] = values[prefix + one.name]
    return kind(**given)
