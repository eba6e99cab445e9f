"""Comparing with a golden file, and writing it anew with `make goldens`."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

FOLDER = Path(__file__).parent
_MAX_DIFF_LINES = 60


def check_golden(name: str, text: str) -> None:
    """Compare a text with the golden file of that name; with WRITE_GOLDENS set, write the file."""
    path = FOLDER / name
    if os.environ.get("WRITE_GOLDENS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    if text == expected:
        return
    diff = difflib.unified_diff(
        expected.splitlines(), text.splitlines(), f"{name} (golden)", f"{name} (now)", lineterm=""
    )
    lines = list(diff)
    shown = "\n".join(lines[:_MAX_DIFF_LINES])
    raise AssertionError(
        f"{name} differs from its golden file in {len(lines)} lines of diff. If that is meant, "
        f"`make goldens` writes it; commit it with the change.\n{shown}"
    )
