"""200 writes from 4 processes at once: how much the manifest adds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.container import azurite, blob_at, new_container
from bench.network import line_to
from bench.row import Row
from memplane.service.composition.storage import BlobStorage, open_container

PROCESSES = 4
WRITES = 50
MOST = 0.25

WRITER = """
import sys
from pathlib import Path
from memplane import BlobBackend
from memplane.secret import Secret
from memplane.settings import BlobSettings
blob = BlobSettings(connection_string=Secret(sys.argv[1]), container=sys.argv[2])
with BlobBackend(blob, cache=Path(sys.argv[3])) as backend:
    for number in range(int(sys.argv[5])):
        backend.write_if(f"{sys.argv[4]}/{number}.md", b"x", if_absent=True)
"""


def run() -> Iterator[Row]:
    return iter(asyncio.run(measured()))


async def measured() -> list[Row]:
    container = new_container()
    with (
        azurite() as emulator,
        tempfile.TemporaryDirectory() as folder,
        line_to(emulator.port, delay=0) as line,
    ):
        blob = blob_at(line.port, container)
        async with open_container(BlobStorage(blob, Path(folder) / "first")):
            pass
        before = line.requests()
        writers = [
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                WRITER,
                blob.connection_string.reveal(),
                container,
                str(Path(folder) / f"cache{number}"),
                f"w{number}",
                str(WRITES),
                stdout=subprocess.DEVNULL,
            )
            for number in range(PROCESSES)
        ]
        codes = [await writer.wait() for writer in writers]
        assert codes == [0] * PROCESSES
        requests = line.requests() - before
        async with open_container(BlobStorage(blob, Path(folder) / "check")) as store:
            difference = await store.verify()
    writes = PROCESSES * WRITES
    extra = (requests - writes) / writes
    return [
        Row(
            f"requests beside {writes} writes from {PROCESSES} processes",
            f"{extra * 100:.0f} % ({requests - writes} for listing and manifest)",
            f"<= {MOST * 100:.0f} %",
            extra <= MOST,
        ),
        Row(
            "the manifest afterwards agrees with the listing",
            "no" if difference else "yes",
            "yes",
            not difference,
        ),
    ]
