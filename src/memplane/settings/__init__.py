"""Settings: one frozen object, read once by whoever assembles the program.

A setting `section.key` is `section.key` in `config.toml` and `MEMPLANE_SECTION_KEY` in the
environment and in `.env`. Flags win over the environment, it over `.env`, that over `config.toml`.
Both files lie in the home folder and nowhere else: a file in the current directory could belong
to somebody else's project.
"""

from __future__ import annotations

from memplane.settings.sources import (
    default_data_dir,
    find_setting_sources,
    find_unknown_names,
    find_unknown_variables,
    get_environment,
    load_settings,
    load_settings_from_environment,
)
from memplane.settings.table import (
    AzureSettings,
    BlobSettings,
    NamedSetting,
    S3Settings,
    Settings,
    list_settings,
)

__all__ = [
    "AzureSettings",
    "BlobSettings",
    "NamedSetting",
    "S3Settings",
    "Settings",
    "default_data_dir",
    "find_setting_sources",
    "find_unknown_names",
    "find_unknown_variables",
    "get_environment",
    "list_settings",
    "load_settings",
    "load_settings_from_environment",
]
