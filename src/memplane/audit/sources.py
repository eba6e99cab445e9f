"""Where an audit's events come from: a log, a pod's proxies and ledgers, memplane's own home.

Reading yields an event, or None for a line that is none. Following hands them on as they come.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Final, TypeAlias

import msgspec

from memplane.audit.events import AuditEvent, format_event_time, read_event, read_tool_calls
from memplane.episodes.ledger_view import MAX_PAGE_ENTRIES, LedgerView
from memplane.errors import InvalidRequest, PodError
from memplane.home import Home
from memplane.integrations.clawdapus.memory_service.service_targets import LedgerPaths
from memplane.kit.line_splitter import MAX_LINE_BYTES, LineSplitter
from memplane.ledger.cursor import BEGINNING
from memplane.ledger.folder import STATE_FOLDER_NAME, list_ledger_agents
from memplane.telemetry import ROTATED_SUFFIX

EventOrNone: TypeAlias = AuditEvent | None
EventHandler: TypeAlias = Callable[[EventOrNone], None]

_CHUNK_BYTES: Final = 1 << 16
_MAX_MESSAGE_CHARS: Final = 300
_MAX_OPEN_ATTEMPTS: Final = 10


# Logs


def read_log_events(
    stream: IO[bytes], *, service: str = "", max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[EventOrNone]:
    """Read the events of a log; `service` is whose log it is, where its lines do not say so."""
    splitter = LineSplitter(max_line_bytes)
    while chunk := stream.read(_CHUNK_BYTES):
        for line in splitter.lines(chunk):
            yield from _event_in(line, service)
    yield from _event_in(splitter.take_rest(), service)


def _event_in(line: bytes | None, service: str = "") -> Iterator[EventOrNone]:
    if line is None:
        yield None
    elif line.strip():
        event = read_event(line)
        if event is not None and service:
            members = {"source_service": service, **event.members}
            event = replace(event, members=members)
        yield event


def read_file_events(path: Path) -> Iterator[EventOrNone]:
    """Read the events of a file.

    Raises:
        InvalidRequest: It cannot be read.
    """
    with _open(path) as file:
        yield from read_log_events(file)


def list_event_files(home: Path, ledgers: Path) -> list[Path]:
    """Name the files in which a home's events are: of what serves it, and of commands."""
    own_home, ledger_home = Home(home), Home(ledgers / STATE_FOLDER_NAME)
    return list(
        dict.fromkeys((own_home.telemetry_file, own_home.commands_file, ledger_home.commands_file))
    )


def read_rotated_events(path: Path) -> Iterator[EventOrNone]:
    """Read the events of a file that is set aside when it is full, oldest first.

    Raises:
        InvalidRequest: It is there and cannot be read.
    """
    with ExitStack() as stack:
        for file in _open_rotated_pair(path, stack):
            yield from read_log_events(file)


def _open_rotated_pair(path: Path, stack: ExitStack) -> list[IO[bytes]]:
    """Open the file that was set aside and the current one, as they were at one moment."""
    aside = path.with_name(path.name + ROTATED_SUFFIX)
    for _ in range(_MAX_OPEN_ATTEMPTS):
        before = _identity(aside)
        files = [_open(file_path) for file_path in (aside, path) if file_path.exists()]
        for file in files:
            stack.enter_context(file)
        if _identity(aside) == before:
            return files
        stack.close()
    raise InvalidRequest(f"{path} is set aside faster than it can be read")


def _identity(path: Path | int) -> tuple[int, int] | None:
    """Tell a file from others; None when there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - also of a descriptor
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from error


# Ledgers


def read_ledger_events(paths: LedgerPaths, since: datetime | None = None) -> Iterator[EventOrNone]:
    """Read the tool calls in ledgers; `since` spares reading older entries."""
    # A page holds what is later than a moment; what happened at it belongs here too.
    after = None if since is None else since - timedelta(microseconds=1)
    for agent in list_ledger_agents(paths.ledgers):
        view, cursor, has_more = LedgerView(paths.folder(agent), paths.tombstones), BEGINNING, True
        while has_more:
            with view.page(cursor=cursor, after=after, limit=MAX_PAGE_ENTRIES) as page:
                for identifier, line in page.with_ids():
                    calls = read_tool_calls(identifier, line)
                    yield from [None] if calls is None else calls
            yield from [None] * page.skipped
            cursor, has_more = page.next, page.has_more


# Docker


class ProxyContainer(msgspec.Struct, frozen=True):
    """A proxy's container, and which service of the pod it is."""

    id: str
    service: str


def find_docker() -> str:
    """Find the `docker` command.

    Raises:
        PodError: It is not there.
    """
    executable = shutil.which("docker")
    if executable is None:
        raise PodError(
            "the docker command is not here, and the proxies' logs are read with it. "
            "Save a log elsewhere and give it with --log FILE"
        )
    return executable


def find_proxy_containers(pod: str, docker: str) -> list[ProxyContainer]:
    """Find the containers of a pod's proxies, running or not, by their services.

    Raises:
        PodError: Docker does not answer.
    """
    arguments = ["ps", "--all", "--no-trunc", "--format", '{{.ID}}\t{{.Label "claw.service"}}']
    for label in (f"claw.pod={pod}", "claw.role=proxy"):
        arguments += ["--filter", f"label={label}"]
    with _run_docker(docker, arguments) as (stdout, _):
        rows = [line.decode("utf-8", "replace").strip().split("\t") for line in stdout]
    containers = [ProxyContainer(row[0], "".join(row[1:])) for row in rows if row[0]]
    return sorted(containers, key=lambda container: (container.service, container.id))


def read_docker_events(
    containers: list[ProxyContainer], docker: str, since: datetime | None = None
) -> Iterator[EventOrNone]:
    """Read what containers printed, on stdout and on stderr.

    Raises:
        PodError: Docker does not answer.
    """
    for container in containers:
        with _run_docker(docker, ["logs", *_since_option(since), container.id]) as (
            stdout,
            stderr,
        ):
            yield from read_log_events(stdout, service=container.service)
            yield from read_log_events(stderr(), service=container.service)


@contextmanager
def _run_docker(
    docker: str, arguments: list[str]
) -> Generator[tuple[IO[bytes], Callable[[], IO[bytes]]]]:
    """Run docker: what it says on stdout, and what it said on stderr when that was read.

    They are kept apart, since a line of one may come in the middle of a line of the other.
    """
    with (
        tempfile.TemporaryFile() as aside,
        subprocess.Popen(  # noqa: S603 - a list of words, and no shell
            [docker, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=aside,
        ) as process,
    ):
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for

        def finish() -> IO[bytes]:
            status = process.wait()
            aside.seek(0)
            if status:
                message = aside.read()[-_MAX_MESSAGE_CHARS:].decode("utf-8", "replace").strip()
                raise PodError(f"docker {arguments[0]} failed: {message or f'exit code {status}'}")
            return aside

        yield process.stdout, finish
        finish()


def _since_option(since: datetime | None) -> list[str]:
    return [] if since is None else ["--since", format_event_time(since)]


# Following


async def follow_file(
    path: Path, handle: EventHandler, *, wait: Callable[[], Awaitable[object]], from_start: bool
) -> None:
    """Show the events that a file gets, for ever; one that is set aside is read to its end."""
    tail = _Tail(path, from_start=from_start)
    try:
        while True:
            for event in tail.read_added():
                handle(event)
            await wait()
    finally:
        tail.close()


class _Tail:
    """What is added to a file, whatever file has its name by then."""

    def __init__(self, path: Path, *, from_start: bool) -> None:
        self._path = path
        self._from_start = from_start
        self._file: IO[bytes] | None = None
        self._splitter = LineSplitter()

    def read_added(self) -> Iterator[EventOrNone]:
        """Yield the events that came since the last call."""
        if self._file is None:
            self._file = self._open()
        while self._file is not None:
            was_replaced = _identity(self._path) != _identity(self._file.fileno())
            yield from self._read_rest(self._file)
            if not was_replaced:
                return
            yield from _event_in(self._splitter.take_rest())
            self.close()
            self._file = self._open()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> IO[bytes] | None:
        # Only what is there at the very start can be old.
        whence = os.SEEK_SET if self._from_start else os.SEEK_END
        self._from_start = True
        if not self._path.exists():
            return None
        file = _open(self._path)
        file.seek(0, whence)
        return file

    def _read_rest(self, file: IO[bytes]) -> Iterator[EventOrNone]:
        if os.fstat(file.fileno()).st_size < file.tell():
            file.seek(0)  # it was emptied in place
        while chunk := file.read(_CHUNK_BYTES):
            for line in self._splitter.lines(chunk):
                yield from _event_in(line)


async def follow_stream(stream: IO[bytes], handle: EventHandler) -> None:
    """Show the events that come through a pipe, until it is closed; of a file, those it has."""
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        for event in read_log_events(stream):
            handle(event)
        return
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), stream
    )
    try:
        await _handle_lines(reader, handle)
    finally:
        transport.close()


async def follow_docker(
    containers: list[ProxyContainer],
    docker: str,
    handle: EventHandler,
    since: datetime | None = None,
) -> None:
    """Show what containers print, from a moment on or from now on, until they stop."""
    tasks = (_follow_container(container, docker, handle, since) for container in containers)
    await asyncio.gather(*tasks)


async def _follow_container(
    container: ProxyContainer, docker: str, handle: EventHandler, since: datetime | None
) -> None:
    start = _since_option(since) or ["--tail", "0"]
    process = await asyncio.create_subprocess_exec(
        docker,
        "logs",
        "--follow",
        *start,
        container.id,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None  # noqa: S101 - pipes were asked for
    assert process.stderr is not None  # noqa: S101
    try:
        await asyncio.gather(
            _handle_lines(process.stdout, handle, container.service),
            _handle_lines(process.stderr, handle, container.service),
        )
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _handle_lines(
    reader: asyncio.StreamReader, handle: EventHandler, service: str = ""
) -> None:
    splitter = LineSplitter()
    while chunk := await reader.read(_CHUNK_BYTES):
        for line in splitter.lines(chunk):
            for event in _event_in(line, service):
                handle(event)
    for event in _event_in(splitter.take_rest(), service):
        handle(event)
