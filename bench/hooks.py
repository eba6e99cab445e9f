"""What a hook of Claude Code costs: CPU time of its process, and how soon a document is away."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from bench.container import azurite, blob_at
from bench.network import line_to
from bench.row import Row
from memplane.integrations.claude_code.memory_folder import claude_code_memory_dir
from memplane.kit.private_files import make_private_folder
from memplane.service.claude_jobs import start_sessions
from memplane.service.claude_reply import SessionReply
from memplane.service.spool import SpooledJob, list_jobs
from memplane.settings import Settings, load_settings

ROUNDS = 15
DOCUMENTS = 50
DELAY = 0.040
MOST_MS = {"PostToolUse": 150, "SessionEnd": 150, "SessionStart": 250}
MOST_SECONDS = 3.0
MOST_TRIPS = 1.5
DOCUMENT = "---\nname: n\ndescription: d\ntype: user\n---\n"


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        place = HookPlace(Path(folder).resolve())
        for event, most in MOST_MS.items():
            spent = statistics.median(place.cpu_ms(event) for _ in range(ROUNDS))
            yield Row(
                f"CPU of a {event} hook, {DOCUMENTS} documents, median",
                f"{spent:.0f} ms",
                f"<= {most} ms",
                spent <= most,
            )
    with tempfile.TemporaryDirectory() as folder, azurite() as running:
        place = HookPlace(Path(folder).resolve(), connection=running.connection_string)
        seconds = place.seconds_until_pushed()
    yield Row(
        "from a written document to an empty queue, worker cold",
        f"{seconds:.1f} s",
        f"<= {MOST_SECONDS:.0f} s",
        seconds <= MOST_SECONDS,
    )
    with tempfile.TemporaryDirectory() as folder:
        trips = asyncio.run(trips_of_a_start(Path(folder).resolve()))
    yield Row(
        f"start of a session, {DOCUMENTS} unchanged documents, {DELAY * 1000:.0f} ms round trip",
        f"{trips:.2f} round trips",
        f"<= {MOST_TRIPS}",
        trips <= MOST_TRIPS,
    )


class HookPlace:
    """A project with documents, and a home, for which hooks are run as the client runs them."""

    def __init__(self, root: Path, connection: str = "") -> None:
        self.home, self.project = root / "home", root / "project"
        self.project.mkdir()
        self.folder = claude_code_memory_dir(self.project, environ={}, home=root)
        self.folder.mkdir(parents=True)
        for number in range(DOCUMENTS):
            (self.folder / f"user_{number}.md").write_text(DOCUMENT + "text\n" * 100)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "MEMPLANE_HOME": str(self.home),
            "MEMPLANE_BLOB_CONTAINER": "bench",
            "MEMPLANE_CLAUDE_START_MS": "1",
            **(
                {"MEMPLANE_BLOB_CONNECTION_STRING": connection}
                if connection
                else {"MEMPLANE_BLOB_ENDPOINT": "http://127.0.0.1:9/a"}
            ),
        }

    def tell(self, event: str, *options: str) -> None:
        written = {"file_path": str(self.folder / "user_1.md"), "content": "x"}
        payload: Mapping[str, Any] = {
            "session_id": "bench",
            "cwd": str(self.project),
            "hook_event_name": event,
            "source": "startup",
            "tool_name": "Write",
            "tool_input": written,
        }
        program = str(Path(sys.executable).with_name("memplane"))
        subprocess.run(
            [program, "claude", "hook", event, *options],
            input=json.dumps(payload).encode(),
            env=self.environment,
            capture_output=True,
            check=True,
        )

    def cpu_ms(self, event: str) -> float:
        """Run a hook that wakes nobody, and return what its process spent."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.tell(event, "--no-wake")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def seconds_until_pushed(self) -> float:
        began = time.perf_counter()
        self.tell("PostToolUse")
        while list_jobs(self.home / "spool"):
            time.sleep(0.01)
        took = time.perf_counter() - began
        self.end_worker()
        return took

    def end_worker(self) -> None:
        """End the worker that the hook woke, and no other process."""
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = entry.read_bytes().split(b"\0")
                if b"worker" in words and os.fsencode(self.home) in words:
                    os.kill(int(entry.parent.name), 15)


async def trips_of_a_start(root: Path) -> float:
    """Start sessions against an unchanged container with and without a delay, and compare."""
    place = HookPlace(root)
    with azurite() as emulator:
        spent: list[float] = []
        for delay in (DELAY, 0.0):
            with line_to(emulator.port, delay=delay) as line:
                spent.append(await seconds_of_a_start(place, line.port))
    return (spent[0] - spent[1]) / DELAY


async def seconds_of_a_start(place: HookPlace, port: int) -> float:
    home = place.home.with_name(f"home-{port}")
    blob = blob_at(port, f"bench-{port}")
    settings: Settings = replace(load_settings({"home": str(home)}, {}), blob=blob)
    replies = home / "replies"
    make_private_folder(replies)
    reply = replies / "r.json"
    details = {"folder": str(place.folder), "project": str(place.project)}
    details |= {"agent": "a", "session": "s", "reply": str(reply)}
    job = SpooledJob("session-start", details, home / "job")
    await start_sessions(settings, [job])  # the first one publishes everything
    took: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await start_sessions(settings, [job])
        took.append(time.perf_counter() - began)
        assert not msgspec.json.decode(reply.read_bytes(), type=SessionReply).problem
    (place.folder / ".memplane-persona.json").unlink()  # the next container is another one
    return statistics.median(took)
