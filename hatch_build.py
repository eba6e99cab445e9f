"""Refuse to build a wheel that lacks what the dashboard's pages load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HTMX = Path("src/memplane/server/dashboard/static/htmx.min.js")


class PageAssetsHook(BuildHookInterface[Any]):
    """Checks the files that git does not keep. An editable install may do without them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Stop the build when htmx is missing or empty."""
        del build_data
        file = Path(self.root) / HTMX
        if version != "editable" and not (file.is_file() and file.stat().st_size):
            self.app.abort(f"{HTMX} is missing: run `make assets` first, then build again")
