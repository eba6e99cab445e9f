"""What happens while `memplane up` watches a folder does no harm to the rest of it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from memplane.cli.persona_watcher import watch_in_background
from memplane.service.composition import persona
from memplane.settings import load_settings


async def test_a_mistake_of_ours_is_logged_and_nothing_else_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = asyncio.Event()

    async def fail(*_given: Any, **_named: Any) -> None:
        failed.set()
        raise ZeroDivisionError("nobody thought of it")

    monkeypatch.setattr(persona, "watch_persona", fail)
    variables = {"MEMPLANE_PERSONA_WATCH": "true", "MEMPLANE_PERSONA_DIR": str(tmp_path / "m")}
    settings = load_settings({"home": str(tmp_path / "home")}, variables)
    with caplog.at_level(logging.ERROR):
        async with watch_in_background(settings):
            await asyncio.wait_for(failed.wait(), 60)
    assert "documents are not watched any more" in caplog.text
    assert "nobody thought of it" in caplog.text
