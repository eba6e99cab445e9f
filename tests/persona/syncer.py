"""A process that syncs a folder again and again, until somebody ends it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from memplane.errors import MemplaneError
from memplane.persona.project_match import Project
from memplane.service.composition.persona import open_persona
from memplane.settings import load_settings_from_environment

SYNCS = 5
PAUSE = 0.05


async def main(root: Path) -> None:
    settings = load_settings_from_environment()
    while True:
        try:
            async with open_persona(settings, root, Project("", "demo", "origin")) as engine:
                for _ in range(SYNCS):
                    report = await engine.sync()
                    print(f"synced {len(report.keys)} errors {report.errors}", flush=True)
                    await asyncio.sleep(PAUSE)
        except MemplaneError as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            await asyncio.sleep(PAUSE)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
