"""Writes the generated pages of the documentation: `make docs`. A test compares them."""

from __future__ import annotations

from pathlib import Path

from memplane.settings import NamedSetting, list_settings

SETTINGS_PAGE = Path(__file__).with_name("reference") / "settings.md"

_INTRODUCTION = """\
# Settings

This page is generated from the settings themselves; `make docs` writes it.

A setting can be given in five places. The first one that has it wins:

1. a flag: `memplane --set http.port=7000 status`, or a flag of the command such as `--port`
2. the environment: `MEMPLANE_HTTP_PORT=7000`
3. `.env` in the home folder, with the names of the environment
4. `config.toml` in the home folder: `port = 7000` under `[http]`
5. the default

Switches take `true 1 yes on` and `false 0 no off` in any case; anything else is an error.
Lists are separated by commas, or are lists in `config.toml`.
Secrets are never taken from the command line, where other users could see them.
A name that memplane does not know is an error in `config.toml` and on the command line, and a
finding of `memplane doctor` in the environment.

Older names that are accepted stand beside the new ones; where both are set, the new one wins.

| setting | variable | default | what it is |
|---|---|---|---|
"""


def settings_page() -> str:
    """Describe every setting."""
    return _INTRODUCTION + "".join(map(_row, list_settings()))


def _row(setting: NamedSetting) -> str:
    fallback = [setting.option.fallback] if setting.option.fallback else []
    names = [setting.variable, *setting.option.aliases, *fallback]
    shown = ", ".join(f"`{name}`" for name in names)
    about = setting.option.about + (" A secret." if setting.secret else "")
    return f"| `{setting.name}` | {shown} | {_default(setting)} | {about} |\n"


def _default(setting: NamedSetting) -> str:
    if setting.option.shown_default:
        return setting.option.shown_default
    if isinstance(setting.default, bool):
        return "`true`" if setting.default else "`false`"
    if setting.secret or setting.default in {None, "", ()}:
        return "none"
    return f"`{setting.default}`"


if __name__ == "__main__":
    SETTINGS_PAGE.parent.mkdir(exist_ok=True)
    SETTINGS_PAGE.write_text(settings_page())
    print(f"wrote {SETTINGS_PAGE.name}")
