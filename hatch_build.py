"""Refuse to build a wheel that lacks files which git does not keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODEL = Path("src/memplane/search/embeddings/model")
ASSETS = (
    Path("src/memplane/server/dashboard/static/htmx.min.js"),
    MODEL / "model.onnx",
    MODEL / "vocabulary.txt",
)


class AssetsHook(BuildHookInterface[Any]):
    """Checks the files that `make assets` writes. An editable install may do without them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Stop the build when one is missing or empty."""
        del build_data
        if version == "editable":
            return
        for asset in ASSETS:
            file = Path(self.root) / asset
            if not (file.is_file() and file.stat().st_size):
                self.app.abort(f"{asset} is missing: run `make assets` first, then build again")
