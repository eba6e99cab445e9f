"""A process that syncs a folder again and again, until somebody ends it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from memplane.assemble.persona import open_persona
from memplane.errors import MemplaneError
from memplane.persona.joining import Project
from memplane.settings import settings_from_environment

SYNCS = 5
PAUSE = 0.05


async def main(root: Path) -> None:
    settings = settings_from_environment()
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
