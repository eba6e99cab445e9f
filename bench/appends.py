"""How many requests a thousand appended lines take, batched and one by one."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.container import azurite, blob_at, cached, new_container
from bench.network import line_to
from bench.row import Row
from memplane.service.composition.storage import BlobStorage, open_container
from memplane.storage.lineage import Stamp

LINES = 1000
LINE = b'{"id":"00000000-0000-4000-8000-000000000000","ts":"2026-03-01T09:30:00.000000Z"}\n'
FEWER = 50


def run() -> Iterator[Row]:
    return iter(asyncio.run(measured()))


async def measured() -> list[Row]:
    with (
        azurite() as emulator,
        tempfile.TemporaryDirectory() as folder,
        line_to(emulator.port, delay=0) as line,
    ):
        batched_blob = blob_at(line.port, new_container())
        async with cached(batched_blob, Path(folder) / "a") as store:
            for number in range(LINES):
                await store.append("log.jsonl", LINE, stamp=Stamp("w", number + 1))
        batched = line.requests()
        single_blob = blob_at(line.port, new_container())
        async with open_container(BlobStorage(single_blob, Path(folder) / "b")) as plain:
            for number in range(LINES):
                await plain.append("log.jsonl", LINE, stamp=Stamp("w", number + 1))
        single = line.requests() - batched
    ratio = single / batched
    return [
        Row(
            f"requests for {LINES} appended lines, batched against one by one",
            f"{ratio:.0f} x fewer ({batched} / {single})",
            f">= {FEWER} x",
            ratio >= FEWER,
        )
    ]
